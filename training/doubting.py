"""How far the training rows' shares of an ordinal target's levels are believed of rows to come.

Models meet rows from elsewhere, in which levels are seldom as frequent as in the training rows; what columns say of
a level travels better. A share to the power of .85 costs next to nothing where the rows are the same after all.
Axis letters as in model.network: M members, B rows, S columns; L data sets.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from model.codec import Positions
from model.network import MoeNetwork
from training.tables import Dataset, FitTable

# Rows of a table by which to tell how much a network hears of a full one: the fullest, or about as full.
N_ROWS, N_FULLEST = 256, 64
# A member whose gates are shut but for less than this is not made to doubt all the more.
LEAST_HEARD = 0.05


@torch.no_grad()
def doubt_shares(network: MoeNetwork, datasets: Sequence[Dataset], doubt: float) -> None:
    """Draw the shares to even ones, by ``doubt`` in rows that are as full as training rows are, and less in others.

    To be done when all else is learnt: a network that is fitted with other shares learns to undo them.
    """
    first = datasets[0]
    target = first.schema.index.get(first.target or "", -1)
    if not doubt or target < 0 or first.schema.features[target].kind != "ordinal":
        return
    together = zip(*(data.tables for data in datasets), strict=True)
    heard = [_hear(network, tables, target) for tables in together if target in tables[0].columns]
    if heard:
        # The table that tells most: by less, rows that tell more would be doubted more than was asked for.
        network.doubts[:, target] = doubt / torch.stack(heard).amax(0).clamp(min=LEAST_HEARD)


def _hear(network: MoeNetwork, tables: Sequence[FitTable], target: int) -> Tensor:
    """How far each member's gates are open, on the mean over its data set's full rows of a table, (M,)."""
    device = network.doubts.device
    fullest = [_find_fullest(table, target) for table in tables]
    n_rows = min(map(len, fullest))
    rows = torch.from_numpy(np.stack([some[:n_rows] for some in fullest]))  # (L, B, S)
    cells = rows.repeat_interleave(network.shape.n_members // len(tables), 0).to(device)
    columns = torch.from_numpy(tables[0].columns).to(device)
    gates = network(columns, cells, torch.tensor([target], device=device)).gates  # (M, H, 1, S + 1, B)
    heard: Tensor = 1.0 - gates[:, :, 0, -1].mean((1, 2))
    return heard


def _find_fullest(table: FitTable, target: int) -> Positions:
    """Training rows that know most beside the target, the fullest first, (B, S)."""
    rows = table.positions[~table.held_out]
    known = (~np.isnan(rows[:, table.columns != target])).sum(1)
    order = np.argsort(-known, kind="stable")[:N_ROWS]
    fullest: Positions = rows[order[known[order] >= known[order[:N_FULLEST]][-1]]]
    return fullest
