"""Encodings: one vector per feature of all tables, in one space; features that play the same part lie together.

A feature's profile is how it goes with each landmark: with the landmark itself where their table has it, else with the
column of the table that most likely means the same. What no table tells is completed by the few axes that explain
all profiles best, and the coordinates on these axes are the encoding. So a column of a table never seen
before is placed by a least-squares fit of its own coordinates, with everything else frozen.

The first half of the axes is what turns its sign when a feature is turned over, the second what does not.

Axis letters: F features, G landmarks, D axes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.matching import match_portraits
from model.portraits import N_ORDERS, TURNED, Portrait

Floats = NDArray[np.float64]

N_AXES = 24
MOST_LANDMARKS = 128
# A pair less sure than this does not stand for one another; statistics of more rows than this are trusted alike.
LEAST_SURE = 0.3
TRUSTED_ROWS = 300.0
RIDGE = 0.1
N_SWEEPS = 15
# Every pair of tables is matched, up to so many; of wider ones than this only what they share is used.
MOST_PAIRS = 66
MOST_WIDE = 40_000
# How many figures a landmark gives: of what turns with the feature, and of what does not.
N_TURNING, N_STAYING = 2 * N_ORDERS, 2 * N_ORDERS + 1


@dataclass(frozen=True, slots=True)
class Space:
    """What places a profile: landmarks, and axes of what turns (G N_TURNING, D) and of what stays (G N_STAYING, D)."""

    landmarks: tuple[str, ...]
    turning: Floats
    staying: Floats

    @property
    def width(self) -> int:
        """The length of an encoding."""
        return int(self.turning.shape[1] + self.staying.shape[1])


@dataclass(frozen=True, slots=True)
class Profile:
    """How features go with landmarks, (F, G, N_TURNING) and (F, G, N_STAYING), and how far that is known, (F, G)."""

    turning: Floats
    staying: Floats
    known: Floats


Stands = dict[str, tuple[int, int, float]]  # of a landmark: the column that stands for it, its sign, how sure


def turn_over(encodings: Floats) -> Floats:
    """What the encodings (F, 2 D) would be of features turned over."""
    half = encodings.shape[1] // 2
    return np.concatenate([-encodings[:, :half], encodings[:, half:]], axis=1)


def fit_space(portraits: Sequence[Portrait], features: Sequence[str]) -> tuple[Space, Floats]:
    """The space of all features and their encodings in it, (F, 2 D); columns of portraits go by feature names."""
    landmarks = _choose_landmarks(portraits, features)
    total = empty_profile(len(features), len(landmarks))
    place = {name: i for i, name in enumerate(features)}
    for portrait, stands in zip(portraits, stand_ins(portraits, landmarks), strict=True):
        add_profile(total, draw_profile(portrait, landmarks, stands), [place[name] for name in portrait.columns])
    mean = average_profile(total)
    turning = _complete(mean.turning.reshape(len(features), -1), np.repeat(mean.known, N_TURNING, axis=1))
    staying = _complete(mean.staying.reshape(len(features), -1), np.repeat(mean.known, N_STAYING, axis=1))
    return Space(landmarks, turning[1], staying[1]), np.concatenate([turning[0], staying[0]], axis=1)


def place(space: Space, profile: Profile) -> Floats:
    """The encodings of new features, (F, 2 D), all else frozen."""
    mean = average_profile(profile)
    n = len(mean.known)
    halves = [
        _solve(figures.reshape(n, -1), np.repeat(mean.known, size, axis=1), axes)
        for figures, size, axes in (
            (mean.turning, N_TURNING, space.turning),
            (mean.staying, N_STAYING, space.staying),
        )
    ]
    return np.concatenate(halves, axis=1)


def place_portrait(space: Space, portrait: Portrait, others: Sequence[Portrait]) -> Floats:
    """The encodings of one more table's columns, (S, 2 D): the others' columns stand for landmarks that it lacks."""
    stands = _own(portrait, space.landmarks)
    for other in others:
        if len(portrait.columns) * len(other.columns) <= MOST_WIDE:
            pair_up(portrait, other, space.landmarks, (stands, {}))
    return place(space, draw_profile(portrait, space.landmarks, stands))


def empty_profile(n_features: int, n_landmarks: int) -> Profile:
    size = (n_features, n_landmarks)
    return Profile(np.zeros((*size, N_TURNING)), np.zeros((*size, N_STAYING)), np.zeros(size))


def add_profile(total: Profile, one: Profile, at: Sequence[int]) -> None:
    """Add one table's figures, weighed by how far they are known."""
    total.turning[at] += one.turning * one.known[:, :, None]
    total.staying[at] += one.staying * one.known[:, :, None]
    total.known[at] += one.known


def average_profile(total: Profile) -> Profile:
    """The sums of ``add_profile`` as means; what is known in several tables is known no better than well."""
    weight = np.maximum(total.known, 1e-9)[:, :, None]
    return Profile(total.turning / weight, total.staying / weight, np.minimum(total.known, 1.0))


def _choose_landmarks(portraits: Sequence[Portrait], features: Sequence[str]) -> tuple[str, ...]:
    """Features that most tables have come first."""
    counts = dict.fromkeys(features, 0)
    for portrait in portraits:
        for p in portrait.partners:
            counts[portrait.columns[p]] += 1
    order = sorted((name for name in features if counts[name]), key=lambda name: -counts[name])
    return tuple(order[:MOST_LANDMARKS])


def stand_ins(portraits: Sequence[Portrait], landmarks: Sequence[str]) -> list[Stands]:
    """For every table, which of its columns stand for which landmarks."""
    stands: list[Stands] = [_own(portrait, landmarks) for portrait in portraits]
    pairs = [(i, j) for i in range(len(portraits)) for j in range(i)]
    size = [len(portrait.columns) for portrait in portraits]
    for i, j in [(i, j) for i, j in pairs if size[i] * size[j] <= MOST_WIDE][:MOST_PAIRS]:
        pair_up(portraits[i], portraits[j], landmarks, (stands[i], stands[j]))
    return stands


def _own(portrait: Portrait, landmarks: Sequence[str]) -> Stands:
    index = portrait.index
    return {name: (index[name], 1, 1.0) for name in landmarks if name in index}


def pair_up(left: Portrait, right: Portrait, landmarks: Sequence[str], stands: tuple[Stands, Stands]) -> None:
    """Let likely twins in two tables stand for one another."""
    shared = {name: name for name in left.columns if name in right.index}
    wanted = set(landmarks)
    for match in match_portraits(left, right, shared):
        for mine, theirs, portrait, stand in (
            (match.left, match.right, left, stands[0]),
            (match.right, match.left, right, stands[1]),
        ):
            better = stand.get(theirs, (0, 0, 0.0))[2] < match.probability
            if theirs in wanted and match.probability > LEAST_SURE and better:
                stand[theirs] = (portrait.index[mine], match.sign, match.probability)


def draw_profile(portrait: Portrait, landmarks: Sequence[str], stands: Stands) -> Profile:
    """The profile of one table's columns."""
    profile = empty_profile(len(portrait.columns), len(landmarks))
    partner = {int(p): k for k, p in enumerate(portrait.partners)}
    signed = portrait.signed
    for g, name in enumerate(landmarks):
        column, sign, sure = stands.get(name, (-1, 1, 0.0))
        if column not in partner:
            continue
        figures = portrait.dependence[:, partner[column]].reshape(-1, N_ORDERS, N_ORDERS)  # (S, order, order)
        plain = portrait.dependence[:, partner[column], :N_ORDERS]
        if signed[column]:
            turned = figures * (TURNED if sign < 0 else np.ones(N_ORDERS))
            profile.turning[:, g] = np.where(signed[:, None], turned[:, [0, 2]].reshape(len(signed), -1), 0.0)
            profile.staying[:, g, :N_ORDERS] = np.where(signed[:, None], turned[:, 1], 0.0)
            profile.staying[:, g, N_ORDERS:-1] = np.where(signed[:, None], 0.0, plain)
        else:
            profile.staying[:, g, :N_ORDERS] = np.where(signed[:, None], plain, 0.0)
            profile.staying[:, g, N_ORDERS:-1] = np.where(signed[:, None], 0.0, plain)
        profile.staying[:, g, -1] = np.sqrt(np.square(portrait.dependence[:, partner[column]]).sum(axis=1)) / 2
        known = portrait.known[:, partner[column]]
        profile.known[:, g] = sure * known / (known + TRUSTED_ROWS)
        profile.known[column, g] = 0.0
    return profile


def _complete(figures: Floats, known: Floats) -> tuple[Floats, Floats]:
    """Coordinates (F, D) and axes (columns, D), at right angles, that explain what is known of the figures."""
    n_axes = min(N_AXES, *figures.shape)
    _, _, start = np.linalg.svd(figures * (known > 0), full_matrices=False)
    axes = start[:n_axes].T  # (columns, D)
    for _ in range(N_SWEEPS):
        coordinates = _solve(figures, known, axes)
        axes = _solve(figures.T, known.T, coordinates)
        axes, _ = np.linalg.qr(axes)
    coordinates = _solve(figures, known, axes)
    short = ((0, 0), (0, N_AXES - n_axes))
    return np.pad(coordinates, short), np.pad(axes, short)


def _solve(figures: Floats, known: Floats, axes: Floats) -> Floats:
    """Coordinates (rows, D) of each row, least squares over what is known, held near zero where little is."""
    products = np.einsum("fc,cd,ce->fde", known, axes, axes, optimize=True)
    wanted = np.einsum("fc,fc,cd->fd", known, figures, axes, optimize=True)
    ridge = RIDGE * np.eye(axes.shape[1])
    return np.linalg.solve(products + ridge, wanted[:, :, None])[:, :, 0]
