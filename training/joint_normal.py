"""The joint normal law of all features, by expectation maximisation over rows with holes.

Axis letters: N rows, D dimensions, P patterns of missing cells.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from model.law import MOST_PATTERNS, NormalLaw, dimensions_of, invert_seen
from model.linear import ASKED_KINDS, LinearExpert
from training.tables import Dataset

Floats = NDArray[np.float64]
# Beyond so many dimensions the law costs more than it brings; so many rows teach it all it can learn.
MOST_DIMENSIONS = 160
MOST_ROWS = 4_000
MOST_ROUNDS = 40
LEAST_CHANGE = 2e-3
# So many rows in which no column knows of another: keeps the law proper where rows are few.
PRIOR_ROWS = 1.0
LEAST_VARIANCE = 1e-3
# The share of a column's variance that may lie between tables.
MOST_BETWEEN = 0.25


def fit_expert(dataset: Dataset, seed: int = 0) -> LinearExpert | None:
    """The law of a dataset's training rows; None where there are too few features for one, or too many."""
    if not any(feature.kind in ASKED_KINDS for feature in dataset.schema.features):
        return None
    every = NormalLaw.standard(*dimensions_of(dataset.schema, MOST_DIMENSIONS))
    parts = _gather(dataset, LinearExpert(dataset.schema, every), seed)
    kept = ~np.isin(every.owner, every.owner[_differ(parts)])
    if kept.sum() < 2:
        return None
    mean, covariance = fit_law(np.concatenate(parts)[:, kept])
    return LinearExpert(dataset.schema, NormalLaw(every.owner[kept], every.value[kept], mean, covariance))


def _gather(dataset: Dataset, expert: LinearExpert, seed: int) -> list[Floats]:
    """Training rows of each table in the law's dimensions, NaN where missing, (N, D)."""
    rng = np.random.default_rng(seed)
    n_rows = sum(int((~table.held_out).sum()) for table in dataset.tables)
    share = min(1.0, MOST_ROWS / n_rows)
    parts = []
    for table in dataset.tables:
        pool = rng.permutation(np.flatnonzero(~table.held_out))
        some = pool[: max(1, round(share * len(pool)))]
        parts.append(expert.coordinates(table.columns, table.positions[some]))
    return parts


def _differ(parts: Sequence[Floats]) -> NDArray[np.bool_]:
    """Dimensions whose level differs between tables by more than chance and units explain, (D,): how they
    relate to others then differs too, and no one law holds for all tables.
    """
    rows = np.concatenate(parts)
    means = np.concatenate([np.broadcast_to(_mean(part), part.shape) for part in parts])
    known = ~np.isnan(rows)
    level = _mean(rows)
    between = np.where(known, np.square(means - level), 0.0).sum(axis=0)
    total = np.where(known, np.square(rows - level), 0.0).sum(axis=0)
    return np.asarray(between > MOST_BETWEEN * total)


def _mean(rows: Floats) -> Floats:
    """The mean of each dimension over the rows that know it; 0 where none does."""
    known = ~np.isnan(rows)
    mean: Floats = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return mean


def fit_law(rows: Floats) -> tuple[Floats, Floats]:
    """Mean (D,) and covariance (D, D) of rows (N, D) with NaN for missing."""
    seen = ~np.isnan(rows)
    counts = np.maximum(seen.sum(axis=0), 1)
    filled = np.where(seen, rows, 0.0)
    mean = _mean(rows)
    spread = np.square(np.where(seen, rows - mean, 0.0)).sum(axis=0) / counts
    prior = np.diag(np.maximum(spread, LEAST_VARIANCE))
    covariance = prior
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    which = which.ravel()
    for _ in range(MOST_ROUNDS):
        before = covariance
        deviation = np.where(seen, filled - mean, 0.0)
        complete, doubt = _complete(deviation, patterns, which, covariance)
        shift = complete.mean(axis=0)
        mean = mean + shift
        centred = complete - shift
        covariance = (centred.T @ centred + doubt + PRIOR_ROWS * prior) / (len(rows) + PRIOR_ROWS)
        if np.abs(covariance - before).max() < LEAST_CHANGE:
            break
    return mean, covariance


def _complete(
    deviation: Floats, patterns: NDArray[np.bool_], which: NDArray[np.int64], covariance: Floats
) -> tuple[Floats, Floats]:
    """Rows with what the law expects in their holes, (N, D), and the variance of all that was filled in, (D, D)."""
    order = np.argsort(which, kind="stable")
    complete = np.empty_like(deviation)
    doubt = np.zeros_like(covariance)
    ends = np.searchsorted(which[order], np.arange(len(patterns) + 1))
    for i in range(0, len(patterns), MOST_PATTERNS):
        some = patterns[i : i + MOST_PATTERNS].astype(np.float64)
        gain = invert_seen(covariance, some) @ covariance  # (P, D, D)
        for k, one in enumerate(gain, start=i):
            rows = order[ends[k] : ends[k + 1]]
            complete[rows] = deviation[rows] @ one
        count = np.diff(ends[i : i + len(some) + 1]).astype(np.float64)
        doubt += count.sum() * covariance - covariance @ np.tensordot(count, gain, axes=1)
    return complete, doubt
