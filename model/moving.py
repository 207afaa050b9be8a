"""What two tables keep: how many columns have kept their values, and how far the distributions of those have moved.

Both are learnt from the tables themselves: axis letters as in model.matching.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from model.likeness import MOVES, Distances, compare_values, measure_distances, move
from model.pairing import soften
from model.portraits import Portrait

Floats = NDArray[np.float64]
# Rounds in which pairs that are near tell how far columns move, and that tells which pairs are near.
N_ROUNDS = 3
N_KEPT_ROUNDS = 20
# No fewer columns have kept their values than this, and no more.
LEAST_KEPT, MOST_KEPT = 0.02, 0.98
LEAST_ODDS = 1e-300


def weigh_moves(left: Portrait, right: Portrait, shared: Sequence[tuple[int, int]], chance: float) -> Floats:
    """The logarithm of how likely each of ``MOVES`` is, from how far shared columns have moved."""
    logs = np.zeros(len(MOVES))
    for a, b in shared:
        one = measure_distances(left, right, np.asarray([a]), np.asarray([b]), chance=chance)
        if one.numbers.any() or one.words.any():
            logs += np.log(move(one.plain, one.chance))[0, 0]
    return logs


def learn_moves(
    told: Floats, distances: Distances, equal: Floats, feasible: NDArray[np.bool_], first_guess: float
) -> Floats:
    """How likely each of ``MOVES`` is, from what shared columns ``told`` and from how far likely pairs have moved.

    ``equal``: the odds of equal values, (L, R); ``first_guess``: the share of columns that have kept their values.
    """
    can = feasible & (distances.numbers | distances.words)
    seen = np.log(move(distances.plain, distances.chance))  # (L, R, moves)
    moves = _normalize(told)
    for _ in range(N_ROUNDS):
        odds = np.where(can, compare_values(distances, moves).kept * equal, 0.0)
        kept = learn_kept(odds, feasible, first_guess, MOST_KEPT)
        # Any of so many columns may be the one.
        scores = np.log(np.maximum(odds, LEAST_ODDS) * kept / (1.0 - kept) / max(odds.shape[1], 1))
        likely = soften(scores[:, :, None], 1.0, 0.0)  # (L, R, 1)
        moves = _normalize(told + (likely * np.where(can[:, :, None], seen, 0.0)).sum(axis=(0, 1)))
    return moves


def learn_kept(odds: Floats, feasible: NDArray[np.bool_], first_guess: float, most: float) -> float:
    """The share of columns that have kept their values: those to which some column of the other table is near.

    ``odds`` (L, R): how much likelier the values are for the same column. The guess counts as much as one column.
    """
    near = np.where(feasible, odds, 0.0).sum(axis=1) / np.maximum(feasible.sum(axis=1), 1)
    kept = first_guess
    for _ in range(N_KEPT_ROUNDS):
        share = kept * near / (kept * near + 1.0 - kept)
        kept = float(np.clip((share.sum() + first_guess) / (len(share) + 1.0), LEAST_KEPT, most))
    return kept


def _normalize(logs: Floats) -> Floats:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
