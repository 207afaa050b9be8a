"""Calibrate a fitted model on the rows it left out: how far its probabilities and intervals can be believed.

Every known cell of these rows is asked from the others, as the rows are and with more cells hidden, so that rows
with few known cells are calibrated too. Axis letters: N rows, S columns, K values, T factors tried.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.answers import softmax
from model.calibration import LEVELS, Calibration, log_shares_of
from model.schema import Feature, Schema
from model.straying import no_straying
from training.asked import N_GROUPS, Asked, by_group
from training.left_out import MOST_HIDDEN, Teller, hide_more
from training.straying import fit_straying
from training.tables import Dataset, FitTable

Floats = NDArray[np.float64]
FACTORS = np.geomspace(0.1, 2.5, 40)
# What all features say together counts as so many rows beside a feature's own.
POOLED_ROWS = 30.0


def calibrate(teller: Teller, dataset: Dataset, *, seed: int = 0) -> Calibration | None:
    """Calibrate on the rows left out; None without any. Those who tell must not be calibrated yet."""
    schema = dataset.schema
    company = dataset.company()
    usual = np.maximum((company * (1.0 - np.eye(len(company)))).sum(axis=1), 1.0).astype(np.float64)
    asked: dict[int, list[Asked]] = {}
    rng = np.random.default_rng(seed)
    for table in dataset.tables:
        for most in MOST_HIDDEN:
            for index, cells in _ask_left_out(teller, schema, table, usual, hide_more(table, most, rng)):
                asked.setdefault(index, []).append(cells)
    if not asked:
        return None
    merged = {
        index: Asked(*(np.concatenate([getattr(part, name) for part in parts]) for name in Asked.__slots__))
        for index, parts in asked.items()
    }
    log_shares = log_shares_of(schema)
    words = {i: cells for i, cells in merged.items() if not schema.features[i].is_continuous}
    numbers = {i: cells for i, cells in merged.items() if schema.features[i].is_number}
    temper = _fit_temper(words, schema.features, log_shares)
    parts, spreads = _fit_parts(numbers, schema.features, temper, log_shares)
    drawn = {i: cells for i, cells in numbers.items() if schema.features[i].is_continuous}
    plain = Calibration(temper, usual, parts, spreads, log_shares, no_straying(len(usual), N_GROUPS))
    return replace(plain, straying=fit_straying(drawn, schema.features, plain))


def _ask_left_out(
    teller: Teller, schema: Schema, table: FitTable, usual: Floats, seen: codec.Positions
) -> Iterator[tuple[int, Asked]]:
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
            yield index, Asked(told.logits[fair], told.point[fair], truth[fair], observed[fair])


def _fit_temper(asked: dict[int, Asked], features: tuple[Feature, ...], log_shares: Floats) -> Floats:
    """The factor for each feature's logits that makes its held-out cells most probable, (F,)."""
    temper = np.ones(len(features))
    curves = {index: _fit_of(cells, features[index], log_shares[index]) for index, cells in asked.items()}
    if not curves:
        return temper
    pooled = np.mean([curve.mean(axis=0) for curve in curves.values()], axis=0)  # (T,)
    for index, curve in curves.items():
        temper[index] = FACTORS[np.argmax(curve.sum(axis=0) / len(MOST_HIDDEN) + POOLED_ROWS * pooled)]
    return temper


def _fit_of(cells: Asked, feature: Feature, usual: Floats) -> Floats:
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
    asked: dict[int, Asked], features: tuple[Feature, ...], temper: Floats, log_shares: Floats
) -> tuple[Floats, Floats]:
    """The central part of each feature's distributions that makes an interval of each level, and the same for
    draws, (F, G, L) each.
    """
    far: tuple[dict[int, Floats], dict[int, Floats]] = ({}, {})
    for index, told in asked.items():
        base = log_shares[index, : features[index].n_values]
        mass = softmax((base + temper[index] * (told.logits - base)).astype(np.float32))
        far[0][index], far[1][index] = how_far_out(features[index], mass, told.truth)
    levels = np.tile(np.asarray(LEVELS), (2, len(features), N_GROUPS, 1))
    for parts, found in zip(levels, far, strict=True):
        for index, group, own in by_group(found, asked):
            parts[index, group] = conformal_levels(own)
    return levels[0], levels[1]


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
