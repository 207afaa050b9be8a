"""Gradient boosting of classes on one-hot levels, for cross-validation: all trees of a stage grow at once.

A study fits boosting hundreds of times for each data set, only to choose a setting. scikit-learn sorts the rows by
every one-hot column in every node; here a node's residuals are summed per column, for all classes together, and
only where a split found its level: its sister has what is left of the parent's sums.
The trees are the same ones, but where two splits are exactly as good: scikit-learn draws, here the first one wins.

Axis letters: N rows, T test rows, F features, K classes, C one-hot columns, M nodes of all trees at a depth.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.answers import softmax

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PURE = np.finfo(np.float64).eps  # a node of at most this variance is not split, as in scikit-learn
FLAT = 1e-150  # a leaf of at most this curvature says nothing


def boost_in_stages(
    x: Ints, y: Ints, x_test: Ints, *, learning_rate: float, max_depth: int, n_estimators: int
) -> Iterator[Ints]:
    """The classes that 1, 2, .. stages of boosting on ``x`` (N, F) guess for ``x_test``; at least three classes."""
    classes, codes = np.unique(y, return_inverse=True)
    n_train, n_classes = len(x), len(classes)
    if n_classes < 3:
        raise ValueError(f"{n_classes} classes: boosting two takes one tree a stage, which is not this code")
    columns, splittable = _one_hot_columns(x, x_test)  # (N + T, F), (C,)
    is_set = np.zeros((len(columns), len(splittable) + 1), dtype=np.bool_)  # the last column is never set
    np.put_along_axis(is_set, columns, values=True, axis=1)
    truth = np.eye(n_classes)[codes]  # (N, K)
    scores = np.tile(np.log(truth.mean(0)), (len(columns), 1))  # (N + T, K)
    n_leaves = n_classes << max_depth
    for _ in range(n_estimators):
        p = softmax(scores[:n_train])
        residuals = truth - p
        leaf = _grow(columns[:n_train], is_set, splittable, residuals, max_depth)  # (N + T, K)
        in_train = leaf[:n_train].ravel()
        slope = np.bincount(in_train, residuals.ravel(), n_leaves) * (n_classes - 1) / n_classes
        curvature = np.bincount(in_train, (p * (1 - p)).ravel(), n_leaves)
        step = np.divide(slope, curvature, out=np.zeros(n_leaves), where=curvature > FLAT)
        scores += learning_rate * step.take(leaf)
        yield classes[scores[n_train:].argmax(1)]


def _one_hot_columns(x: Ints, x_test: Ints) -> tuple[Ints, Bools]:
    """Which column of a one-hot encoding each cell sets, and which columns can be split on.

    The first level of a feature has no column of its own (``drop="first"``), and a level that only the test rows
    have sets none: both are what the other levels are split from.
    """
    columns, splittable = [], []
    start = 0
    for level, asked in zip(x.T, x_test.T, strict=True):
        known = np.unique(level)
        cells = np.concatenate([level, asked])
        place = np.minimum(np.searchsorted(known, cells), len(known) - 1)
        columns.append(start + np.where(known[place] == cells, place, 0))
        splittable.append(np.arange(len(known)) > 0)
        start += len(known)
    return np.stack(columns, axis=1), np.concatenate(splittable)


def _grow(columns: Ints, is_set: Bools, splittable: Bools, residuals: Floats, max_depth: int) -> Ints:
    """Grow a regression tree on each column of the residuals (N, K); the leaf of every row, (N + T, K).

    Nodes are numbered through the trees: the children of node m are 2 m and, where the split's level is, 2 m + 1.
    """
    n_train, n_classes = residuals.shape
    n_columns = len(splittable)
    squares = np.square(residuals).ravel()
    row_starts = np.arange(len(is_set))[:, None] * is_set.shape[1]
    node = np.tile(np.arange(n_classes), (len(is_set), 1))  # (N + T, K)
    sums = residuals.T @ is_set[:n_train, :n_columns].astype(np.float64)  # (M, C), as are the counts
    counts = np.tile(is_set[:n_train, :n_columns].sum(0, dtype=np.float64), (n_classes, 1))
    first = int(columns[:, 0].max()) + 1  # the first feature's columns: every row sets one of them
    for depth in range(max_depth):
        total, size = sums[:, :first].sum(1), counts[:, :first].sum(1)
        best = _best_split(sums, counts, total, size, splittable)
        of_nodes = np.bincount(node[:n_train].ravel(), squares, len(best))
        size = np.maximum(size, 1)
        best[of_nodes / size - np.square(total / size) <= PURE] = n_columns
        found = is_set.take(row_starts + best.take(node))  # (N + T, K)
        if depth + 1 < max_depth:
            rows, trees = found[:n_train].nonzero()
            cells = (node[rows, trees][:, None] * n_columns + columns[rows]).ravel()
            weights = np.repeat(residuals[rows, trees], columns.shape[1])
            sums = _with_sisters(sums, np.bincount(cells, weights, sums.size).reshape(sums.shape))
            counts = _with_sisters(counts, np.bincount(cells, minlength=counts.size).reshape(counts.shape))
        node = 2 * node + found
    return node


def _best_split(sums: Floats, counts: Floats, total: Floats, size: Floats, splittable: Bools) -> Ints:
    """The column whose split lowers the squared error of a node most, C where none parts its rows; (M,)."""
    others = size[:, None] - counts
    apart = (counts > 0) & (others > 0) & splittable
    gain = np.square(sums) / np.maximum(counts, 1) + np.square(total[:, None] - sums) / np.maximum(others, 1)
    best = np.where(apart, gain, -np.inf).argmax(1)
    return np.where(apart.any(1), best, len(splittable))


def _with_sisters(parents: Floats, found: NDArray[Any]) -> Floats:
    """The sums of all children, (2 M, C), from those of the parents and of the children that a split found."""
    return np.stack([parents - found, found], axis=1).reshape(-1, parents.shape[1])
