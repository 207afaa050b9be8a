"""The joint normal law of all features: its dimensions, and what a request's columns are to it.

Numbers enter in units of their spread, words as one dimension of 0 and 1 each. Axis letters: B rows, S columns,
K values, D dimensions of the law, d those of a request's columns, P patterns of missing cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.schema import Schema

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Words of a feature with more values than this do not enter.
MOST_VALUES = 12
# No expectation is surer than this, in squared spreads.
LEAST_VARIANCE = 1e-4
# So many floats are kept for each request.
MOST_KEPT = 100_000
# Patterns of missing cells that are worked out together.
MOST_PATTERNS = 512


@dataclass(frozen=True, slots=True, eq=False)
class NormalLaw:
    """Mean (D,) and covariance (D, D) of all dimensions: dimension i is the number feature ``owner[i]``
    if ``value[i]`` is -1, else whether that feature has this value.
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
    mean and value of each (d,), their covariance, and the knots of numbers (d, K + 1). ``kept``: inverses that were
    worked out before, by pattern of missing cells, and for single rows Cholesky factors, by the dimensions they have.
    """

    dims: Indices
    place: Indices
    to_column: Floats  # (d, S)
    mean: Floats
    covariance: Floats
    across: Floats  # (D, d): covariance of all dimensions with these
    value: Indices
    knots: Floats
    kept: dict[bytes | tuple[int, ...], Floats] = field(default_factory=dict)
    # The same for single rows, as lists; empty until there is one.
    listed: list[tuple[int, int, int, float, list[float]]] = field(default_factory=list)

    def recall(self, pattern: NDArray[np.bool_]) -> Floats:
        """The inverse for a single pattern (1, d), kept: most requests look like the one before."""
        key = pattern.tobytes()
        inverse = self.kept.get(key)
        return self._keep(key, invert_one(self.covariance, pattern[0])[None]) if inverse is None else inverse

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
            [] if value >= 0 else knots[: int(knots.searchsorted(knots[-1])) + 2].tolist()
            for value, knots in zip(self.value, self.knots, strict=True)
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


def dimensions_of(schema: Schema, most: int) -> tuple[Indices, Indices]:
    """Owner and value of each dimension; words are left out, those of the most varied features first, where
    there would be more dimensions than ``most``, and everything where the numbers alone are more.
    """
    features = list(enumerate(schema.features))
    pairs = [(i, -1) for i, feature in features if feature.is_number]
    if len(pairs) > most:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    words = [(f.n_values, i) for i, f in features if not f.is_number and f.n_values <= MOST_VALUES]
    for n_values, i in sorted(words):
        if len(pairs) + n_values - 1 <= most:
            # The last value is what is left when it is none of the others.
            pairs += [(i, value) for value in range(n_values - 1)]
    owner, value = np.asarray(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    return owner, value


def invert_seen(covariance: Floats, seen: Floats) -> Floats:
    """The precision of the seen dimensions of each pattern (P, d), zero for all others, (P, d, d)."""
    both = seen[:, :, None] * seen[:, None, :]
    masked = covariance * both
    diagonal = np.arange(seen.shape[1])
    masked[:, diagonal, diagonal] += 1.0 - seen
    inverse: Floats = np.linalg.inv(masked) * both
    return inverse


def invert_one(covariance: Floats, seen: NDArray[np.bool_]) -> Floats:
    """``invert_seen`` for a single pattern (d,)."""
    inverse = np.zeros_like(covariance)
    some = np.flatnonzero(seen)
    both = some[:, None], some
    inverse[both] = np.linalg.inv(covariance[both])
    return inverse


def invert_patterns(covariance: Floats, patterns: NDArray[np.bool_]) -> Floats:
    steps = range(0, len(patterns), MOST_PATTERNS)
    return np.concatenate([invert_seen(covariance, patterns[i : i + MOST_PATTERNS].astype(float)) for i in steps])


def find_patterns(seen: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Indices]:
    """The distinct rows (P, d), and which of them each row is (B,)."""
    if len(seen) == 1 or (seen == seen[:1]).all():
        return seen[:1], np.zeros(len(seen), dtype=np.int64)
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    _, first, which = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
    return seen[first], which.ravel()


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The cells of a request's rows: which ``patterns`` (P, d) of seen dimensions there are, the ``inverses`` of
    their covariance (P, d, d), zero where unseen, which of them each row has (B,), and the cells themselves (B, d).
    """

    request: Request
    patterns: NDArray[np.bool_]
    inverses: Floats
    which: Indices
    cells: Floats

    def apply(self, slopes: Floats) -> Floats:
        """Each row's cells times the slopes (P, n, d) of its pattern, (B, n)."""
        if len(slopes) == 1:
            return np.asarray(self.cells @ slopes[0].T)
        return np.asarray((slopes[self.which] @ self.cells[:, :, None])[:, :, 0])

    def spread(self, values: Floats) -> Floats:
        """What each pattern has, for each row; a single one for all, (B or 1, ...)."""
        return values if len(values) == 1 else values[self.which]

    def split(self, slopes: Floats) -> Floats:
        """What each column adds to ``apply``, (B, n, S)."""
        return np.asarray((self.spread(slopes) * self.cells[:, None, :]) @ self.request.to_column)


def condition_numbers(law: NormalLaw, known: Known, at: Indices) -> tuple[Floats, Floats]:
    """Of numbers at dimensions (n,), each given the seen cells but its own: how each of the request's dimensions
    moves what is expected, (P, n, d), and the variance that is left, (P, n).
    """
    request = known.request
    place = request.dims.searchsorted(at)
    own = np.where(np.append(request.dims, -1)[place] == at, place, -1)
    shared = request.across[at] * known.patterns[:, None, :]  # (P, n, d)
    slopes = shared @ known.inverses
    left = law.covariance[at, at] - (slopes * shared).sum(axis=-1)
    there = np.flatnonzero(own >= 0)
    is_seen = known.patterns[:, own[there]]  # (P, n)
    if is_seen.any():
        pattern, question = np.nonzero(is_seen)
        question = there[question]
        dims = own[question]
        rows = known.inverses[pattern, dims]  # (seen, d)
        precision = rows[np.arange(len(rows)), dims]
        rows[np.arange(len(rows)), dims] = 0.0
        slopes[pattern, question] = -rows / precision[:, None]
        left[pattern, question] = 1.0 / precision
    return slopes, left + LEAST_VARIANCE


def condition_word(law: NormalLaw, known: Known, block: slice) -> tuple[Floats, Floats]:
    """Of a word's dimensions, given the seen ones but its own: how each of the request's dimensions moves their
    natural parameter, (P, w, d), and their precision, (P, w, w).
    """
    request, patterns, inverses = known.request, known.patterns, known.inverses
    first, last = request.dims.searchsorted([block.start, block.stop]).tolist()
    own = slice(first, last)
    is_seen = np.asarray(patterns[:, own].any(axis=1))  # of a feature's dimensions all are, or none
    if not is_seen.any():
        return _condition_unseen(law, known, block, slice(None))
    width = block.stop - block.start
    slopes = np.empty((len(patterns), width, len(request.dims)))
    precisions = np.empty((len(patterns), width, width))
    rows = -inverses[is_seen][:, own]  # (P, w, d)
    left = np.asarray(np.linalg.inv(-rows[:, :, own]), dtype=np.float64)
    rows[:, :, own] = 0.0
    precisions[is_seen] = _invert_spread(left)
    slopes[is_seen] = precisions[is_seen] @ left @ rows
    if not is_seen.all():
        rest = np.flatnonzero(~is_seen)
        slopes[rest], precisions[rest] = _condition_unseen(law, known, block, rest)
    return slopes, precisions


def _condition_unseen(law: NormalLaw, known: Known, block: slice, which: slice | Indices) -> tuple[Floats, Floats]:
    """``condition_word`` for those patterns that lack it."""
    shared = known.request.across[block] * known.patterns[which][:, None, :]  # (P, w, d)
    pulls = shared @ known.inverses[which]
    precisions = _invert_spread(law.covariance[block, block] - pulls @ shared.transpose(0, 2, 1))
    return precisions @ pulls, precisions


def _invert_spread(left: Floats) -> Floats:
    """The precision of what is left in doubt, (..., w, w)."""
    if left.shape[-1] == 1:
        return np.asarray(1.0 / (left + LEAST_VARIANCE), dtype=np.float64)
    return np.asarray(np.linalg.inv(left + LEAST_VARIANCE * np.eye(left.shape[-1])), dtype=np.float64)
