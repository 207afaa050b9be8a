"""Rows that are left out in turn: dealt into folds, each of which some members, and a law, learn nothing from.

Members and laws may be fewer than folds: then folds are taken together, as many for each, called groups. What a law has
not seen is then a group that holds the members' groups which it tells.
Axis letters: N rows, M members.
"""

import numpy as np
from numpy.typing import NDArray

from model.codec import Positions

Indices = NDArray[np.int64]
N_FOLDS = 8
# Laws cost time in every step; a quarter of the rows less does them little harm.
N_LAWS = 4


def deal(positions: Positions, seed: int) -> Indices:
    """Which fold each row (N, S) is in, (N,): rows that know something are dealt out evenly, then the others."""
    order = np.random.default_rng(seed).permutation(len(positions))
    is_empty = np.isnan(positions[order]).all(axis=1)
    fold = np.empty(len(order), dtype=np.int64)
    fold[order[np.argsort(is_empty, kind="stable")]] = np.arange(len(order)) % N_FOLDS
    return fold


def group_rows(fold: Indices, n_groups: int) -> Indices:
    """Which of so many groups of folds each row is in, (N,)."""
    return fold % n_groups


def count_groups(n_members: int) -> int:
    """How many groups so many members leave out in turn."""
    n_groups = min(N_FOLDS, n_members)
    assert n_members % n_groups == 0, "every group needs as many members"
    assert n_groups % N_LAWS == 0, "a law must have seen no row of the groups it tells of"
    return n_groups


def group_members(n_members: int) -> Indices:
    """Which group each member learns nothing from, (M,): for each, members whose gates look at values and members whose
    gates do not, if there are enough.
    """
    n_groups = count_groups(n_members)
    return np.arange(n_members) // min(2, n_members // n_groups) % n_groups
