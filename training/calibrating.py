"""Calibrate a fitted model on the rows it left out: how far its probabilities and intervals can be believed.

Every known cell of these rows is asked from the others, as the rows are and with more cells hidden, so that rows
with few known cells are calibrated too. Axis letters: N rows, S columns, K values, T factors tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.answers import softmax
from model.calibration import GROUPS, LEVELS, Calibration, log_shares_of
from model.schema import Feature, Schema
from training.left_out import MOST_HIDDEN, Teller, hide_more
from training.tables import Dataset, FitTable

Floats = NDArray[np.float64]
FACTORS = np.geomspace(0.1, 2.5, 40)
# What all features say together counts as so many rows beside a feature's own.
POOLED_ROWS = 30.0
# Draws are never narrower, or wider, than this, in spreads of the distribution.
MOST_NARROW = (0.2, 1.5)
# How far mean and median of a column may be apart, in its spreads, for it to be drawn about the expected value.
MOST_SKEW = 0.12
# A feature's own rows decide on its intervals from so many on.
FEWEST_ROWS = 30


@dataclass(frozen=True, slots=True)
class _Asked:
    """Cells of one feature: what was said of them (N, K), the value expected, what is true, and the share of
    columns observed, (N,) each.
    """

    logits: Floats
    expected: Floats
    truth: Floats
    observed: Floats


def calibrate(teller: Teller, dataset: Dataset, *, seed: int = 0) -> Calibration | None:
    """Calibrate on the rows left out; None without any. Those who tell must not be calibrated yet."""
    schema = dataset.schema
    company = dataset.company()
    usual = np.maximum((company * (1.0 - np.eye(len(company)))).sum(axis=1), 1.0).astype(np.float64)
    asked: dict[int, list[_Asked]] = {}
    rng = np.random.default_rng(seed)
    for table in dataset.tables:
        for most in MOST_HIDDEN:
            for index, cells in _ask_left_out(teller, schema, table, usual, hide_more(table, most, rng)):
                asked.setdefault(index, []).append(cells)
    if not asked:
        return None
    merged = {
        index: _Asked(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Asked.__slots__))
        for index, parts in asked.items()
    }
    log_shares = log_shares_of(schema)
    words = {i: cells for i, cells in merged.items() if not schema.features[i].is_continuous}
    numbers = {i: cells for i, cells in merged.items() if schema.features[i].is_number}
    temper = _fit_temper(words, schema.features, log_shares)
    parts, spreads = _fit_parts(numbers, schema.features, temper, log_shares)
    return Calibration(temper, usual, parts, spreads, log_shares, _fit_narrow(numbers, schema.features))


def _ask_left_out(
    teller: Teller, schema: Schema, table: FitTable, usual: Floats, seen: codec.Positions
) -> Iterator[tuple[int, _Asked]]:
    """Each column of the table that has known cells, all asked from what is seen of the others."""
    if len(seen) == 0:
        return
    known = ~np.isnan(seen)
    n_seen = known.sum(axis=1)
    for told in teller.tell(table, seen):
        index = int(table.columns[told.column])
        truth = table.truth[told.rows, told.column]
        # Words never seen in training (-1) cannot be told; any number can.
        fair = np.full(len(truth), True) if schema.features[index].is_number else truth >= 0.0
        if fair.any():
            observed = (n_seen - known[:, told.column])[told.rows] / usual[index]
            yield index, _Asked(told.logits[fair], told.point[fair], truth[fair], observed[fair])


def _fit_temper(asked: dict[int, _Asked], features: tuple[Feature, ...], log_shares: Floats) -> Floats:
    """The factor for each feature's logits that makes its held-out cells most probable, (F,)."""
    temper = np.ones(len(features))
    curves = {index: _fit_of(cells, features[index], log_shares[index]) for index, cells in asked.items()}
    if not curves:
        return temper
    pooled = np.mean([curve.mean(axis=0) for curve in curves.values()], axis=0)  # (T,)
    for index, curve in curves.items():
        temper[index] = FACTORS[np.argmax(curve.sum(axis=0) / len(MOST_HIDDEN) + POOLED_ROWS * pooled)]
    return temper


def _fit_of(cells: _Asked, feature: Feature, usual: Floats) -> Floats:
    """The log probability of every cell under every factor, (N, T)."""
    truth = cells.truth
    if feature.is_number:  # levels: the nearest
        truth = np.rint(codec.encode_numbers(feature, truth)).astype(np.float64)
    base = usual[: feature.n_values]
    found = []
    for factor in FACTORS:
        mass = softmax((base + factor * (cells.logits - base)).astype(np.float32))
        found.append(np.log(np.maximum(mass[np.arange(len(mass)), truth.astype(np.int64)], 1e-12)))
    return np.stack(found, axis=1)


def _fit_parts(
    asked: dict[int, _Asked], features: tuple[Feature, ...], temper: Floats, log_shares: Floats
) -> tuple[Floats, Floats]:
    """The central part of each feature's distributions that makes an interval of each level, and the same for
    draws, (F, G, L) each.
    """
    far: list[dict[int, Floats]] = [{}, {}]
    groups = {}
    for index, told in asked.items():
        base = log_shares[index, : features[index].n_values]
        mass = softmax((base + temper[index] * (told.logits - base)).astype(np.float32))
        far[0][index], far[1][index] = how_far_out(features[index], mass, told.truth)
        groups[index] = np.searchsorted(GROUPS, told.observed, side="right")
    return _by_group(far[0], groups, len(features)), _by_group(far[1], groups, len(features))


def _by_group(far: dict[int, Floats], groups: dict[int, NDArray[np.int64]], n_features: int) -> Floats:
    n_groups = len(GROUPS) + 1
    parts = np.tile(np.asarray(LEVELS), (n_features, n_groups, 1))
    for group in range(n_groups):
        every = [cells[groups[index] == group] for index, cells in far.items()]
        together = np.concatenate(every) if every else np.empty(0)
        for index, cells in far.items():
            own = cells[groups[index] == group]
            own = own if len(own) >= FEWEST_ROWS else cells if len(cells) >= FEWEST_ROWS else together
            parts[index, group] = conformal_levels(own)
    return parts


def _fit_narrow(asked: dict[int, _Asked], features: tuple[Feature, ...]) -> Floats:
    """By how much the truth strays less from what is expected than the distributions say, (F, G).

    Between few knots a distribution is coarse, and so too wide: copies drawn from it would hide how columns hang
    together. 0 for levels, where a value holds a stretch of its own, and for long tails: those are drawn as they are.
    """
    n_groups = len(GROUPS) + 1
    found = {}  # of each feature: squared errors, squared spreads, and rows, in each group, (3, G)
    for index, told in asked.items():
        feature = features[index]
        if not feature.is_continuous or any(feature.knots.atoms) or _is_skewed(feature):
            continue
        strayed = np.square(told.truth - codec.read_point(feature.knots, told.expected))
        _, spread = codec.read_moments(feature.knots, softmax(told.logits.astype(np.float32)))
        groups = np.searchsorted(GROUPS, told.observed, side="right")
        sums = [np.bincount(groups, part, n_groups) for part in (strayed, np.square(spread), np.ones(len(groups)))]
        found[index] = np.stack(sums)
    pooled = np.ones(n_groups)
    for group in range(n_groups):
        known = [sums[0, group] / sums[1, group] for sums in found.values() if sums[1, group] > 0.0]
        pooled[group] = np.mean(known) if known else 1.0
    narrow = np.zeros((len(features), n_groups))
    for index, (strayed, spread, count) in found.items():
        n_rows = count / len(MOST_HIDDEN)  # each is asked so often
        own = np.where(spread > 0.0, strayed / np.where(spread > 0.0, spread, 1.0), pooled)
        ratio = (n_rows * own + POOLED_ROWS * pooled) / (n_rows + POOLED_ROWS)
        narrow[index] = np.clip(np.sqrt(ratio), *MOST_NARROW)
    return narrow


def _is_skewed(feature: Feature) -> bool:
    """Whether a column has a long tail on one side: draws about its expected value would fall out of its range."""
    shares = np.asarray(feature.shares)[None]
    knots = replace(feature.knots, bends=())  # a tail is long where its knots are far apart, however it is filled
    mean, spread = codec.read_moments(knots, shares)
    median = codec.read_quantiles(knots, shares, np.full((1, 1), 0.5))[:, 0]
    return bool(np.abs(mean - median)[0] > MOST_SKEW * spread[0])


def how_far_out(feature: Feature, mass: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """The smallest central part of each distribution (N, K) that holds the truth (N,), 0 the median, 1 all of it;
    and the same for a point drawn from the stretch that the truth holds.
    """
    knots = np.asarray(feature.knots.values)
    positions = codec.encode_numbers(feature, truth).astype(np.float64)
    at_most, less = codec.read_heights(feature.knots, mass, positions)
    part = 1.0 - np.minimum(2.0 * np.minimum(at_most, 1.0 - less), 1.0)
    point = less + np.random.default_rng(0).random(len(truth)) * (at_most - less)
    beyond = (truth < knots[0]) | (truth > knots[-1])
    return (
        np.where(beyond, 1.0, np.clip(part, 0.0, 1.0)),
        np.where(beyond, 1.0, np.clip(np.abs(2.0 * point - 1.0), 0.0, 1.0)),
    )


def conformal_levels(far: Floats) -> Floats:
    """For each level, what at least that share of new cells will not exceed (split conformal), (L,)."""
    if len(far) == 0:
        return np.asarray(LEVELS)
    ranked = np.sort(far)
    ranks = np.ceil((len(far) + 1) * np.asarray(LEVELS)).astype(np.int64)
    levels = np.where(ranks > len(far), 1.0, ranked[np.clip(ranks - 1, 0, len(far) - 1)])
    levels[0], levels[-1] = 0.0, 1.0
    return np.asarray(np.maximum.accumulate(levels))
