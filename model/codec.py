"""Cells to positions, and distributions back to values. The same code trains and serves.

Every cell becomes one number, its **position** on the axis of the feature's values: a category
sits at its index, a number between its two neighbouring knots (3.25 is a quarter of the way from
knot 3 to knot 4), a missing cell is NaN. Around a position stand at most two values, weighted by
hats, so a number keeps its resolution although the network only knows a few knots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.bends import fit_bends, straighten
from model.schema import Bins, Feature

Floats = NDArray[np.float64]
Positions = NDArray[np.float32]

N_BINS = 16
LEAST_BINS = 6
ROWS_PER_BIN = 40
# A level that a distribution reaches but for this is reached: rounding must not choose between two atoms.
ROUNDING = 1e-6
# A feature needs a spread even where all its training rows agree.
MIN_SPREAD = 1e-12
MOST_SPREADS = 10.0


def fit_bins(values: Floats, n_bins: int = N_BINS) -> Bins:
    """Place the knots of a number feature on its training values (finite, at least one).

    At most ``n_bins`` distinct values: each is a knot. Otherwise values that hold more than 1/n_bins of
    the rows get a knot of their own, and the rest of the knots sit at quantiles of the other rows.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= n_bins:
        knots, heavy = distinct, distinct
    else:
        n_bins = min(n_bins, max(LEAST_BINS, len(values) // ROWS_PER_BIN))  # a knot needs some rows to learn from
        heavy = _most_frequent(distinct, counts, len(values) / n_bins, n_bins - 2)
        rest = values[~np.isin(values, heavy)]
        knots = np.union1d(heavy, np.quantile(rest, np.linspace(0.0, 1.0, n_bins - len(heavy))))
    below = np.concatenate([[0], np.cumsum(counts)])
    at_most = below[np.searchsorted(distinct, knots, side="right")]
    less = below[np.searchsorted(distinct, knots, side="left")]
    mean, spread = fit_spread(values)
    return Bins(
        bends=fit_bends(values, knots),
        values=tuple(knots.tolist()),
        atoms=tuple(np.isin(knots, heavy).tolist()),
        ranks=tuple(((at_most + less) / (2 * len(values))).tolist()),
        mean=mean,
        spread=spread,
    )


def _most_frequent(distinct: Floats, counts: NDArray[np.int64], more_than: float, most: int) -> Floats:
    order = np.argsort(-counts, kind="stable")[:most]
    return np.sort(distinct[order[counts[order] > more_than]])


def fit_spread(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation without the outer hundredth of the rows on either side.

    A forgotten code for missing such as 99999999 in a few rows must not set the scale of all others.
    """
    largest = float(np.abs(values).max())
    unit = largest if largest > 0.0 else 1.0  # squares of 1e200 would overflow
    low, high = np.quantile(values / unit, [0.01, 0.99])
    inner = np.clip(values / unit, low, high)
    spread = float(inner.std()) or float((values / unit).std())
    return float(inner.mean()) * unit, max(spread * unit, MIN_SPREAD)


def standardize(bins: Bins) -> Floats:
    """The knots in units of the spread from the mean; outliers are kept near, or they would rule the fit."""
    values = (np.asarray(bins.values) - bins.mean) / bins.spread
    return np.clip(values, -MOST_SPREADS, MOST_SPREADS)


def score_values(shares: Floats, n_orders: int) -> Floats:
    """Each value's normal score, and powers of it made independent of one another, (K, n_orders).

    The score is the mean of a standard normal variable over the stretch of ranks that the value holds. The
    columns are orthonormal under the shares; with fewer values than orders, the last ones are zero.
    """
    from scipy.special import ndtri

    ends = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
    density = np.exp(-0.5 * ndtri(np.clip(ends, 1e-12, 1.0 - 1e-12)) ** 2) / np.sqrt(2.0 * np.pi)
    scores = (density[:-1] - density[1:]) / np.maximum(np.diff(ends), 1e-12)
    orders = np.zeros((len(shares), n_orders))
    n = min(n_orders, len(shares) - 1)
    root = np.sqrt(np.diff(ends))[:, None]
    basis, corner = np.linalg.qr(root * scores[:, None] ** np.arange(n + 1))
    orders[:, :n] = (basis * np.sign(np.diag(corner)) / np.maximum(root, 1e-6))[:, 1:]
    return orders


def encode_numbers(feature: Feature, values: Floats) -> Positions:
    """Numbers in the feature's unit to positions; NaN stays NaN, beyond the ends is clamped."""
    knots = np.asarray(feature.knots.values)
    positions = np.interp(values, knots, np.arange(len(knots)))
    if len(knots) == 1:  # np.interp then takes NaN for a number like any other
        positions = np.where(np.isnan(values), np.nan, positions)
    return positions.astype(np.float32)


def encode_words(feature: Feature, words: Sequence[str | None]) -> Positions:
    """Category words to positions; None and words never seen become NaN."""
    index = word_index(feature)
    return np.fromiter(map(index.get, words, repeat(np.nan)), np.float32, count=len(words))  # type: ignore[arg-type]


def word_index(feature: Feature) -> dict[str, float]:
    """Where each word of a category feature sits; rare words share the place of OTHER."""
    index = {word: float(i) for i, word in enumerate(feature.categories)}
    return index | dict.fromkeys(feature.rare, float(len(feature.categories)))


def word_of(cell: float) -> str:
    """A finite number as the word of a category: 4.0 and 4 are one word."""
    return str(int(cell)) if cell == int(cell) else repr(cell)


def plain_word(word: str) -> str:
    """Text as the word of a category: "4.0", as files write whole numbers beside holes, is "4"."""
    head, dot, tail = word.partition(".")
    return head if dot and tail and not tail.strip("0") and head.lstrip("-").isdecimal() else word


def fit_shares(positions: Positions, n_values: int) -> tuple[float, ...]:
    """How often each value occurs, smoothed by half a row so that none is impossible."""
    known = positions[~np.isnan(positions)]
    low = np.floor(known).astype(np.int64)
    part = known - low
    mass = np.full(n_values + 1, 0.5)
    mass += np.bincount(low, 1.0 - part, n_values + 1) + np.bincount(low + 1, part, n_values + 1)
    mass = mass[:n_values]
    return tuple((mass / mass.sum()).tolist())


# Reading a distribution over knots. Axis letters: B rows, K knots, P pieces, L levels.


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """How masses on knots are read, worked out once per feature: all of it is linear in the masses.

    The distribution function stands at ``points`` (H,), two for each knot (before and after a jump) and one
    for each bend, with heights ``mass @ to_heights`` (B, H). An atom's mass is a jump at its knot; that of any other
    knot is spread half to each side (to the only side at the ends), which is what hats do to values between
    knots, and along each side as the bends say. In pieces, from ``lows`` to ``highs`` (P,) with
    ``mass @ to_pieces`` (B, P), an atom is a piece of width 0. ``after`` (K,): where among the points each knot's
    second one stands. ``parts`` (P,): the share of its stretch between knots that each piece is.
    """

    knots: Floats
    points: Floats
    to_heights: Floats
    lows: Floats
    highs: Floats
    to_pieces: Floats
    after: NDArray[np.int64]
    parts: Floats


@lru_cache(maxsize=10_000)
def axis_of(bins: Bins) -> Axis:
    """The axis of a number feature."""
    atoms, knots = np.asarray(bins.atoms), np.asarray(bins.values)
    own = np.eye(len(atoms))
    jump = np.where(atoms, own, 0.0)
    spread = own - jump
    to_left = np.full(len(atoms), 0.5)
    to_left[0], to_left[-1] = 0.0, 1.0
    before = np.zeros_like(spread)
    before[:, 1:] = (spread * (1.0 - to_left))[:, :-1] + (spread * to_left)[:, 1:]
    steps, points, parts, carries, after = [], [], [], [], []
    for k, knot in enumerate(knots):
        # Between two atoms nothing is ever spread, so nothing bends; a knot that is no atom never jumps.
        is_spread = k > 0 and not (atoms[k - 1] and atoms[k])
        stretch = [bend for bend in bins.bends if is_spread and knots[k - 1] < bend[0] < knot]
        shares = np.diff([0.0, *(share for _, share in stretch), 1.0])
        steps += [before[:, k] * share for share in shares] + [jump[:, k]]
        points += [*(value for value, _ in stretch), knot, knot]
        parts += [*shares, 1.0]
        carries += [is_spread] * len(shares) + [bool(atoms[k])]
        after.append(len(points) - 1)
    ends, keep = np.asarray(points), np.asarray(carries)
    lows = np.concatenate([ends[:1], ends[:-1]])
    to_pieces = np.stack(steps, axis=1)
    return Axis(
        knots=knots, points=ends, to_heights=np.cumsum(to_pieces, axis=1), lows=lows[keep], highs=ends[keep],
        to_pieces=to_pieces[:, keep], after=np.asarray(after), parts=np.asarray(parts)[keep],
    )  # fmt: skip


def read_quantiles(bins: Bins, probabilities: Floats, levels: Sequence[float] | Floats) -> Floats:
    """The values below which each of ``levels`` (L,), or (B, L), of a row's distribution lies: (B, L)."""
    axis = axis_of(bins)
    heights = probabilities @ axis.to_heights
    wanted = np.asarray(levels)
    at = np.minimum((heights[:, None, :] < wanted[..., None] - ROUNDING).sum(axis=2), len(axis.points) - 1)  # (B, L)
    before = np.maximum(at - 1, 0)
    rows = np.arange(len(heights))[:, None]
    low, high = heights[rows, before], heights[rows, at]
    part = np.minimum((wanted - low) / np.maximum(high - low, 1e-300), 1.0)
    start = axis.points[before]
    value: Floats = start + np.where(high > low, np.maximum(part, 0.0), 1.0) * (axis.points[at] - start)
    return value


def read_heights(bins: Bins, probabilities: Floats, positions: Floats) -> tuple[Floats, Floats]:
    """How much of each row's distribution lies at or below its position (B,), and how much below it."""
    axis = axis_of(bins)
    heights = probabilities @ axis.to_heights  # (B, H)
    rows = np.arange(len(heights))
    below = np.floor(positions).astype(np.int64)
    after = heights[rows, axis.after[below]]
    # The first point of the next knot; above the last there is none.
    following = heights[rows, np.maximum(axis.after[np.minimum(below + 1, len(axis.knots) - 1)] - 1, axis.after[below])]
    part = _straighten(bins, below, positions - below)
    at_most: Floats = after + part * (following - after)
    less: Floats = np.where(part > 0.0, at_most, heights[rows, axis.after[below] - 1])
    return at_most, less


def _straighten(bins: Bins, below: NDArray[np.int64], part: Floats) -> Floats:
    """Parts of the way from one knot to the next (B,), as shares of what lies between them."""
    knots, straight = bins.values, part.copy()
    for k in sorted({int(np.searchsorted(knots, value)) - 1 for value, _ in bins.bends}):
        here, low, high = below == k, knots[k], knots[k + 1]
        if here.any():
            stretch = [bend for bend in bins.bends if low < bend[0] < high]
            straight[here] = straighten(low + part[here] * (high - low), low, high, stretch)
    return straight


def read_quantile(bins: Bins, probabilities: Floats, level: float) -> Floats:
    """The value below which ``level`` of each row's distribution lies, shape (B,)."""
    return read_quantiles(bins, probabilities, [level])[:, 0]


def tails(width: Any) -> tuple[Any, Any]:
    """The levels between which the central ``width`` of a distribution lies."""
    return (1.0 - width) / 2, (1.0 + width) / 2


def read_point(bins: Bins, point: Floats) -> Floats:
    """The expected value in the feature's unit, kept within the fitted range."""
    value: Floats = np.minimum(np.maximum(point * bins.spread + bins.mean, bins.values[0]), bins.values[-1])
    return value


def read_pieces(bins: Bins, probabilities: Floats) -> tuple[Floats, Floats, Floats]:
    """The distribution in pieces: lows (P,), highs (P,), mass (B, P)."""
    axis = axis_of(bins)
    return axis.lows, axis.highs, probabilities @ axis.to_pieces
