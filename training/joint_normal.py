"""The joint normal law of all features, by expectation maximisation over rows with holes.

Axis letters: N rows, D dimensions, P patterns of missing cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.law import PLAIN, Indices, NormalLaw, dimensions_of, invert_blocks
from model.linear import ASKED_KINDS, LinearExpert
from training.folds import N_LAWS, group_rows
from training.tables import MOST_FOLDED_ROWS, Dataset, FitTable

Floats = NDArray[np.float64]
# Beyond so many dimensions the law costs more than it brings; so many rows teach it all it can learn.
MOST_DIMENSIONS = 160
# With orders of normal scores they are fewer: what bends has to be found in few rows.
MOST_WITH_ORDERS, ROWS_PER_DIMENSION = 100, 6
MOST_ROWS = MOST_FOLDED_ROWS  # where rows are left out in turn, there are laws that did without them
MOST_ROUNDS = 40
LEAST_CHANGE = 2e-3
# So many rows in which no dimension knows of another: keeps the law proper where rows are few. Words take more of them:
# they are many dimensions with few rows each, of which a law is soon surer than it should be.
PRIOR_ROWS, WORD_PRIOR_ROWS = 1.0, 10.0
LEAST_VARIANCE = 1e-3
# The share of a column's variance that may lie between tables.
MOST_BETWEEN = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Council:
    """The law of all training rows, and one for each fold of them that has not seen that fold: in rows that a law was
    fitted to, what it says looks better than it is, and a network would learn to rely on it.

    ``folds``: of each table, which fold a row belongs to, (N,). With a single fold all rows are told of by the one law.
    """

    expert: LinearExpert
    fold_experts: Sequence[LinearExpert]
    folds: Sequence[Indices]


def fit_council(dataset: Dataset, seed: int = 0) -> Council | None:
    """The laws of a dataset; None where there are too few features for one, or too many.

    Where a target is named, or rows are many, there is a single fold (docs/model.md says why).
    """
    if not any(feature.kind in ASKED_KINDS for feature in dataset.schema.features):
        return None
    room = room_for_orders(_count_rows(dataset)) if dataset.target is None else 0
    every = NormalLaw.standard(*dimensions_of(dataset.schema, MOST_DIMENSIONS, room))
    n_folds = N_LAWS if dataset.target is None and _count_rows(dataset) <= MOST_ROWS else 1
    folds = [
        _deal(table, n_folds, seed + i) if table.fold is None else group_rows(table.fold, n_folds)
        for i, table in enumerate(dataset.tables)
    ]
    rows, fold_of = _gather(dataset, LinearExpert(dataset.schema, every), folds, seed)
    kept = _stay(every, _differ(rows))
    if len(np.unique(every.owner[kept])) < 2:
        return None
    together, where = np.concatenate(rows)[:, kept], np.concatenate(fold_of)
    owner, value = every.owner[kept], every.value[kept]
    prior_rows = prior_rows_of(value, dataset.target)

    def expert_of(some: Floats) -> LinearExpert:
        return LinearExpert(dataset.schema, NormalLaw(owner, value, *fit_law(some, prior_rows)))

    expert = expert_of(together)
    # Each from the start: from where all rows lead to, what only the fold's own rows know would never be forgotten.
    apart = [expert_of(together[where != fold]) for fold in range(n_folds)] if n_folds > 1 else [expert]
    return Council(expert, apart, folds)


def room_for_orders(n_rows: int) -> int:
    """How many dimensions there may be for orders of normal scores to enter."""
    return min(MOST_WITH_ORDERS, n_rows // ROWS_PER_DIMENSION)


def prior_rows_of(value: Indices, target: str | None) -> Floats:
    """How many rows of the prior each dimension takes, (D,): as before where a target is named."""
    return np.where((value == PLAIN) | (target is not None), PRIOR_ROWS, WORD_PRIOR_ROWS)


def _count_rows(dataset: Dataset) -> int:
    return sum(int((~table.held_out).sum()) for table in dataset.tables)


def _deal(table: FitTable, n_folds: int, seed: int) -> Indices:
    """Which fold each row belongs to, (N,), where some are held out for good; the folds are of training rows, and as
    large as each other.
    """
    training = np.random.default_rng(seed).permutation(np.flatnonzero(~table.held_out))
    folds = np.zeros(len(table.held_out), dtype=np.int64)
    folds[training] = np.arange(len(training)) % n_folds
    return folds


def _gather(
    dataset: Dataset, expert: LinearExpert, folds: Sequence[Indices], seed: int
) -> tuple[list[Floats], list[Indices]]:
    """Training rows of each table in the law's dimensions, NaN where missing, (N, D), and the fold of each, (N,)."""
    rng = np.random.default_rng(seed)
    share = min(1.0, MOST_ROWS / _count_rows(dataset))
    rows, fold_of = [], []
    for table, fold in zip(dataset.tables, folds, strict=True):
        pool = rng.permutation(np.flatnonzero(~table.held_out))
        some = pool[: max(1, round(share * len(pool)))]
        rows.append(expert.coordinates(table.columns, table.positions[some]))
        fold_of.append(fold[some])
    return rows, fold_of


def _stay(law: NormalLaw, differs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Dimensions that stay, (D,): all of a feature go where it differs itself, its orders where one of them does."""
    is_order = law.value < PLAIN
    gone, gone_orders = (np.isin(law.owner, law.owner[differs & some]) for some in (~is_order, is_order))
    return ~gone & ~(is_order & gone_orders)


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


def fit_law(rows: Floats, prior_rows: Floats | float = PRIOR_ROWS) -> tuple[Floats, Floats]:
    """Mean (D,) and covariance (D, D) of rows (N, D) with NaN for missing; ``prior_rows``: of each dimension, (D,), or
    of all.
    """
    seen = ~np.isnan(rows)
    counts = np.maximum(seen.sum(axis=0), 1)
    filled = np.where(seen, rows, 0.0)
    mean = _mean(rows)
    spread = np.square(np.where(seen, rows - mean, 0.0)).sum(axis=0) / counts
    prior = np.maximum(spread, LEAST_VARIANCE)
    covariance = np.diag(prior)
    n_rows = len(rows) + np.broadcast_to(prior_rows, len(prior))
    weights = np.sqrt(np.outer(n_rows, n_rows))
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    which = which.ravel()
    for _ in range(MOST_ROUNDS):
        before = covariance
        deviation = np.where(seen, filled - mean, 0.0)
        complete, doubt = _complete(deviation, patterns, which, covariance)
        shift = complete.mean(axis=0)
        mean = mean + shift
        centred = complete - shift
        covariance = (centred.T @ centred + doubt + np.diag(prior_rows * prior)) / weights
        if np.abs(covariance - before).max() < LEAST_CHANGE:
            break
    return mean, covariance


def _complete(
    deviation: Floats, patterns: NDArray[np.bool_], which: NDArray[np.int64], covariance: Floats
) -> tuple[Floats, Floats]:
    """Rows with what the law expects in their holes, (N, D), and the variance of all that was filled in, (D, D).

    ``patterns`` (P, D): what is seen, and ``which`` of them each row has, (N,). Of a row's holes the law expects their
    covariance, given the rest, times what the rest asks of them, the precision's rows: only holes have to be inverted.
    """
    precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    asked = -deviation @ precision  # (N, D)
    complete, doubt = deviation.copy(), np.zeros(covariance.size)
    n_rows = np.bincount(which, minlength=len(patterns))
    order, ends = np.argsort(which, kind="stable"), np.concatenate([[0], np.cumsum(n_rows)])
    for block in invert_blocks(precision, ~patterns, np.arange(len(patterns))):
        # Pattern by pattern: where many rows share one, an inverse for each row would not fit into memory.
        for p, at, inverse in zip(block.patterns.tolist(), block.at, block.inverses, strict=True):
            holes = order[ends[p] : ends[p + 1], None], at
            complete[holes] += asked[holes] @ inverse
        both = block.at[:, :, None] * len(covariance) + block.at[:, None, :]
        left = block.inverses * n_rows[block.patterns, None, None]
        doubt += np.bincount(both.ravel(), left.ravel(), minlength=covariance.size)
    return complete, doubt.reshape(covariance.shape)
