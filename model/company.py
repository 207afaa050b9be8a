"""How alike columns of two tables go together with others: axis letters as in model.matching."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.portraits import N_ORDERS, TURNED, Portrait

Floats = NDArray[np.float64]
# Statistics that hardly stray from zero in any column tell next to nothing.
LEAST_REAL = 1e-6


class Speaker(NamedTuple):
    """A pair that is known or likely to be the same: column numbers, sign, and how much its word counts."""

    left: int
    right: int
    sign: int
    weight: float


def orient(left: Portrait, a: int, right: Portrait, b: int) -> int | None:
    """Whether two columns that are the same rise together (1) or not (-1); None if that cannot be told.

    Of two words one counts as the lower, whichever: where the other table has it the other way round, the sign turns.
    """
    if left.signed[a] != right.signed[b]:
        return None
    mine, theirs = left.words[a], right.words[b]
    if not left.signed[a] or (mine is None and theirs is None):
        return 1
    common = set(mine or ()) & set(theirs or ())
    if mine is None or theirs is None or not common or len(mine) != len(theirs):
        return None
    word = min(common)
    return 1 if mine.index(word) == theirs.index(word) else -1


def compare_dependence(left: Portrait, right: Portrait, pairs: Sequence[Speaker]) -> tuple[Floats, Floats]:
    """The mean square by which pairs differ in how they go together, less chance, and its weight: (pairs, pairs)."""
    place = [{int(p): k for k, p in enumerate(side.partners)} for side in (left, right)]
    pairs = [pair for pair in pairs if pair.left in place[0] and pair.right in place[1]]
    n = len(pairs)
    mine, theirs = [pair.left for pair in pairs], [pair.right for pair in pairs]
    at = np.ix_(mine, [place[0][a] for a in mine]), np.ix_(theirs, [place[1][b] for b in theirs])
    signs = np.asarray([TURNED if pair.sign < 0 else np.ones(N_ORDERS) for pair in pairs]).reshape(n, N_ORDERS)
    turn = np.einsum("io,pq->ipoq", signs, signs).reshape(n, n, N_ORDERS * N_ORDERS)
    signed = left.signed[mine]
    turn = np.where((signed[:, None] & signed)[:, :, None], turn, 1.0)
    chance = 1.0 / np.maximum(left.known[at[0]], 1.0) + 1.0 / np.maximum(right.known[at[1]], 1.0)
    gap = np.square(left.dependence[at[0]] - turn * right.dependence[at[1]]).mean(axis=2) - chance
    loud = np.asarray([pair.weight for pair in pairs])
    return gap, np.outer(loud, loud) * (1.0 - np.eye(n))


def compare_pairs(x: Floats, y: Floats, doubt: tuple[Floats, Floats], real: Floats, freedom: float) -> Floats:
    """The logarithm of the odds that statistics x and y (..., E) are one and the same seen twice, summed, (...).

    Both are Student's: with a common part of variance ``real`` (..., E) if they are the same, and without if not.
    """
    real = np.maximum(real, LEAST_REAL)
    sx, sy = real + doubt[0], real + doubt[1]
    apart = x * x / sx + y * y / sy
    left_over = 1.0 - real * real / (sx * sy)
    together = (apart - 2.0 * x * y * real / (sx * sy)) / left_over
    odds = -0.5 * np.log(left_over) - (freedom + 2.0) / 2.0 * np.log((freedom + together) / (freedom + apart))
    return np.asarray(odds.sum(axis=-1))
