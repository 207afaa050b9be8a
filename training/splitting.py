"""Which rows of a table each member learns from, and by which it is checked."""

import numpy as np
from numpy.typing import NDArray

from model.errors import TableError
from training.folds import count_groups, group_members, group_rows
from training.settings import FitSettings
from training.tables import FitTable

# Enough validation rows per table to tell a better network from a worse one, and no more than so many
# gates a head: wide tables are dear.
MOST_VALIDATION = 2048
MOST_GATES = 500_000


def split_rows(
    table: FitTable, settings: FitSettings, n_members: int, *, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Of each member, the rows it learns from and those it is checked by."""
    pool = _pool(table, seed)
    most = min(MOST_VALIDATION, max(32, MOST_GATES // len(table.columns) ** 2))
    if table.fold is None:
        n_validation = min(most, max(1, int(len(pool) * settings.validation_share)))
        # Member m is checked by the m-th stretch of the shuffled rows and trains on all the others.
        rolled = [np.roll(pool, -m * n_validation) for m in range(n_members)]
        return [(rows[n_validation:], rows[:n_validation]) for rows in rolled]
    group = group_rows(table.fold[pool], count_groups(n_members))
    splits = [(pool[group != own], pool[group == own][:most]) for own in group_members(n_members)]
    # In a table of few rows that know anything a group may have none of them.
    return [(training, validation if len(validation) else pool[:1]) for training, validation in splits]


def _pool(table: FitTable, seed: int) -> NDArray[np.int64]:
    """The rows a table can be fitted on, in random order."""
    some_known = ~np.isnan(table.positions).all(axis=1)
    pool = np.random.default_rng(seed).permutation(np.flatnonzero(~table.held_out & some_known))
    if len(pool) < 2:
        raise TableError(f"table {table.name!r}: all of its training rows are empty")
    return pool
