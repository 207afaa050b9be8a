"""The joint normal law of all features: its dimensions, and what a request's columns are to it.

Numbers enter in units of their spread, and by orders of their normal score, so that what is straight in the law's
dimensions may bend in the numbers; words as one dimension of 0 and 1 each. Axis letters: B rows, S columns,
K values, D dimensions of the law, d those of a request's columns, w those of one feature, P patterns of missing cells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.schema import Schema

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Words of a feature with more values than this do not enter.
MOST_VALUES = 12
# What a dimension is: one of a word's values, from 0 on; a number itself; below it, the orders of the number's normal
# score, the first of them next to it.
PLAIN = -1
N_ORDERS = 2
# No expectation is surer than this, in squared spreads.
LEAST_VARIANCE = 1e-4
# So many floats are kept for each request.
MOST_KEPT = 100_000
# Up to so many patterns of missing cells are worked out one by one, and kept: single rows that arrive together.
MOST_RECALLED = 8
# Patterns of missing cells that are worked out together: the more there are, the less alike they are.
PATTERNS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class NormalLaw:
    """Mean (D,) and covariance (D, D) of all dimensions: dimension i is the number feature ``owner[i]``
    if ``value[i]`` is -1, an order of its normal score if it is less, else whether that feature has this value.
    A feature's dimensions lie side by side, a number's own before its orders.
    """

    owner: Indices
    value: Indices
    mean: Floats
    covariance: Floats

    @classmethod
    def standard(cls, owner: Indices, value: Indices) -> "NormalLaw":
        """A law of independent dimensions."""
        return cls(owner, value, np.zeros(len(owner)), np.eye(len(owner)))


@dataclass(slots=True, eq=False)
class Request:
    """What the columns of a request are to the law: its dimensions ``dims``, the column ``place`` each belongs to,
    owner, mean and value of each (d,), their covariance, and what numbers have at their knots (d, K + 1). ``kept``:
    inverses that were worked out before, by pattern of missing cells, and for single rows Cholesky factors, by the
    dimensions they have.
    """

    dims: Indices
    owner: Indices
    place: Indices
    to_column: Floats  # (d, S)
    mean: Floats
    covariance: Floats
    across: Floats  # (D, d): covariance of all dimensions with these
    value: Indices
    knots: Floats
    n_knots: Indices
    kept: dict[bytes | tuple[int, ...], Floats] = field(default_factory=dict)
    # The same for single rows, as lists; empty until there is one.
    listed: list[tuple[int, int, int, float, list[float]]] = field(default_factory=list)

    def invert(self, patterns: NDArray[np.bool_]) -> Floats:
        """The inverses for patterns (P, d), (P, d, d). A few are kept: most requests look like the one before."""
        if len(patterns) > MOST_RECALLED:
            return invert_seen(self.covariance, patterns)
        return np.stack([self._recall(pattern) for pattern in patterns])

    def _recall(self, pattern: NDArray[np.bool_]) -> Floats:
        key = pattern.tobytes()
        inverse = self.kept.get(key)
        return self._keep(key, invert_one(self.covariance, pattern)) if inverse is None else inverse

    def solve(self, law: NormalLaw, seen: tuple[int, ...], right: Floats) -> Floats:
        """The covariance of the dimensions of the law that a row has, inverted, times ``right`` (n, m)."""
        lapack, factor = solvers(), self.kept.get(seen)
        if factor is not None:
            return np.asarray(lapack.dpotrs(factor, right)[0])
        some = np.asarray(seen)
        covariance = law.covariance.take(some, 0).take(some, 1)
        factor, solution, failed_at = lapack.dposv(covariance, right)
        if failed_at:  # by rounding, where dimensions all but repeat each other
            return np.asarray(np.linalg.solve(covariance, right))
        self._keep(seen, factor)
        return np.asarray(solution)

    def _keep(self, key: bytes | tuple[int, ...], inverse: Floats) -> Floats:
        if len(self.kept) >= max(1, MOST_KEPT // (self.covariance.size or 1)):
            self.kept.clear()  # other threads hold what they use
        self.kept[key] = inverse
        return inverse

    def encode_row(self, row: Sequence[float]) -> "Row":
        """A single row of positions (S,): ``encode`` without an array."""
        seen, cells = [], []
        for dim, place, value, mean, knots in self.listed or self._list():
            at = row[place]
            if isnan(at):
                continue
            if value < 0:
                below = int(at)
                cell = knots[below] + (at - below) * (knots[below + 1] - knots[below])
            else:
                cell = float(at == value)
            seen.append(dim)
            cells.append(cell - mean)
        return Row(self, tuple(seen), cells)

    def _list(self) -> list[tuple[int, int, int, float, list[float]]]:
        """Of each dimension itself, its place, value, mean, and its own knots, with the last one twice."""
        own = [
            [] if value >= 0 else knots[: n_knots + 1].tolist()
            for value, knots, n_knots in zip(self.value, self.knots, self.n_knots, strict=True)
        ]
        parts = (self.dims, self.place, self.value, self.mean)
        self.listed = list(zip(*(part.tolist() for part in parts), own, strict=True))
        return self.listed

    def encode(self, positions: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
        """Cells as deviations from the mean, 0 where missing, and whether there is one, (B, d) each."""
        at = positions[:, self.place].astype(np.float64)
        seen = ~np.isnan(at)
        at = np.where(seen, at, 0.0)
        below = at.astype(np.int64)
        every = np.arange(len(self.dims))
        low = self.knots[every, below]
        numbers = low + (at - below) * (self.knots[every, below + 1] - low)
        cells = np.where(self.value < 0, numbers, at == self.value) - self.mean
        return np.where(seen, cells, 0.0), seen


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The dimensions of the law that a single row has cells of, and those cells, as deviations from the mean."""

    request: Request
    seen: tuple[int, ...]
    cells: list[float]

    def condition(self, law: NormalLaw, holes: Sequence[int], beliefs: Floats | None = None) -> tuple[Floats, Floats]:
        """Of dimensions (n,) that the row lacks: what is expected of them, (n,), and what is in doubt, (n, n).
        ``beliefs`` (F, F): how far cells of the one feature are believed in what they say of the other.
        """
        at, seen = np.asarray(holes), np.asarray(self.seen, dtype=np.int64)
        rows = law.covariance.take(at, 0)
        left = rows.take(at, 1)
        if not self.seen:
            return np.zeros(len(at)), left
        shared = rows.take(seen, 1)  # (n, seen)
        slopes = self.request.solve(law, self.seen, shared.T)
        left = left - shared @ slopes
        if beliefs is not None:
            slopes = slopes * beliefs.take(law.owner.take(at), 0).take(law.owner.take(seen), 1).T
        return np.asarray(self.cells) @ slopes, left


@cache
def solvers() -> Any:
    """LAPACK itself, for small symmetric systems: numpy's way to it takes longer than the work. A heavy import."""
    from scipy.linalg import lapack

    return lapack


def dimensions_of(schema: Schema, most: int, most_with_orders: int = 0) -> tuple[Indices, Indices]:
    """Owner and value of each dimension; words are left out, those of the most varied features first, where
    there would be more dimensions than ``most``, and everything where the numbers alone are more. Orders of the normal
    score enter, each of all numbers or of none, where there are no more than ``most_with_orders`` with them.
    """
    features = schema.features
    values = {i: [PLAIN] for i, feature in enumerate(features) if feature.is_number}
    if len(values) > most:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    bent = [i for i in values if features[i].n_values > 2]  # two values lie on a line
    n_dims = len(values)
    for n_values, i in sorted((f.n_values, i) for i, f in enumerate(features) if not f.is_number):
        if n_values <= MOST_VALUES and n_dims + n_values - 1 <= most:
            # The last value is what is left when it is none of the others.
            values[i] = list(range(n_values - 1))
            n_dims += n_values - 1
    for order in range(1, N_ORDERS + 1):
        if n_dims + len(bent) <= most_with_orders:
            n_dims += len(bent)
            for i in bent:
                values[i].append(PLAIN - order)
    pairs = [(i, value) for i in sorted(values) for value in values[i]]
    owner, value = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    return owner, value


def invert_seen(covariance: Floats, seen: NDArray[np.bool_]) -> Floats:
    """The precision of the seen dimensions of each pattern (P, d), zero for all others, (P, d, d).

    Where more is seen than missing, it is the precision of all less what the missing ones make of it: only as many
    dimensions have to be inverted as are seen, or missing, whichever are fewer.
    """
    n_patterns, d = seen.shape
    inverses = np.zeros((n_patterns, d, d))
    is_few = 2 * seen.sum(axis=1) <= d
    for block in invert_blocks(covariance, seen, np.flatnonzero(is_few)):
        which, at = block.patterns[:, None, None], block.at
        inverses[which, at[:, :, None], at[:, None, :]] = block.inverses
    if not is_few.all():
        precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        for block in invert_blocks(precision, ~seen, np.flatnonzero(~is_few)):
            there = seen[block.patterns]
            across = np.where(there[:, None, :], precision[block.at], 0.0)  # (p, k, d)
            own = np.where(there[:, :, None] & there[:, None, :], precision, 0.0)
            inverses[block.patterns] = own - across.transpose(0, 2, 1) @ (block.inverses @ across)
    return inverses


class Block(NamedTuple):
    """Some ``patterns`` (p,), the dimensions ``at`` (p, k) chosen in each, and the inverse of the matrix there,
    (p, k, k). Where a pattern has fewer than k, others stand in ``at``, and the inverse is zero there.
    """

    patterns: Indices
    at: Indices
    inverses: Floats


def invert_blocks(matrix: Floats, chosen: NDArray[np.bool_], patterns: Indices) -> Iterator[Block]:
    """Parts of a matrix (d, d), inverted: for some ``patterns`` the rows and columns ``chosen`` (P, d) by them. Those
    with about as many are worked out together.
    """
    n_chosen = chosen[patterns].sum(axis=1)
    ordered = patterns[np.argsort(n_chosen, kind="stable")]
    for i in range(0, len(ordered), PATTERNS_AT_ONCE):
        some = ordered[i : i + PATTERNS_AT_ONCE]
        k = int(chosen[some[-1]].sum())
        at = np.argsort(~chosen[some], axis=1, kind="stable")[:, :k]  # (p, k)
        own = np.take_along_axis(chosen[some], at, axis=1)
        both = own[:, :, None] & own[:, None, :]
        part = np.where(both, matrix[at[:, :, None], at[:, None, :]], np.eye(k))
        yield Block(some, at, np.where(both, np.linalg.inv(part), 0.0))


def invert_one(covariance: Floats, seen: NDArray[np.bool_]) -> Floats:
    """``invert_seen`` for a single pattern (d,)."""
    inverse = np.zeros_like(covariance)
    some = np.flatnonzero(seen)
    both = some[:, None], some
    inverse[both] = np.linalg.inv(covariance[both])
    return inverse


def find_patterns(seen: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Indices]:
    """The distinct rows (P, d), and which of them each row is (B,)."""
    if len(seen) == 1 or (seen == seen[:1]).all():
        return seen[:1], np.zeros(len(seen), dtype=np.int64)
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    _, first, which = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
    return seen[first], which.ravel()
