"""What is left of a joint normal law where cells are seen, for all rows of a request at once.

Axis letters as in model.law: B rows, S columns, D dimensions of the law, d those of a request's columns, w those of one
feature, P patterns of missing cells; n questions, m of them about a seen number in one pattern.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.law import LEAST_VARIANCE, Floats, Indices, NormalLaw, Request


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
    shared = request.across[at] * known.patterns[:, None, :]  # (P, n, d)
    slopes = shared @ known.inverses
    left = law.covariance[at, at] - (slopes * shared).sum(axis=-1)
    first = request.owner.searchsorted(law.owner[at])
    width = request.owner.searchsorted(law.owner[at], side="right") - first
    for w in set(width.tolist()) - {0}:  # 0: not one of the request's columns
        those = np.flatnonzero(width == w)
        own = first[those, None] + np.arange(w)
        pattern, which = np.nonzero(known.patterns[:, own[:, 0]])  # of a feature's dimensions all are seen, or none
        if len(pattern):
            some = pattern, those[which]
            slopes[some], left[some] = _condition_seen(known, pattern, own[which])
    return slopes, left + LEAST_VARIANCE


def _condition_seen(known: Known, pattern: Indices, own: Indices) -> tuple[Floats, Floats]:
    """Slopes (m, d) and variance (m,) of seen numbers, each in one pattern (m,); their own dimensions (m, w) do not
    count.
    """
    rows = known.inverses[pattern[:, None], own]  # (m, w, d)
    every = np.arange(len(own))[:, None]
    precision = rows[every[:, :, None], np.arange(own.shape[1])[:, None], own[:, None, :]]  # (m, w, w)
    # Without orders a number has one dimension, and a division takes less than an inverse.
    left = 1.0 / precision[:, 0] if own.shape[1] == 1 else _invert_first(precision)  # (m, w)
    slopes: Floats = -(left[:, None, :] @ rows)[:, 0]
    slopes[every, own] = 0.0
    return slopes, left[:, 0]


def _invert_first(matrices: Floats) -> Floats:
    """The first rows of their inverses, (m, w)."""
    return np.asarray(np.linalg.inv(matrices)[:, 0], dtype=np.float64)


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
