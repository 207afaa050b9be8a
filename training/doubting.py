"""How far the training rows' shares of an ordinal target's levels are believed of rows to come.

Models meet rows from elsewhere, in which levels are seldom as frequent as in the training rows; what columns say of
a level travels better. A share to the power of .85 costs next to nothing where the rows are the same after all.
Axis letters as in model.network: M members, B rows, S columns; L data sets.
"""

from collections.abc import Sequence

import numpy as np
import torch

from model.network import MoeNetwork
from training.tables import Dataset

# Rows of a table by which to tell how much a network usually hears.
N_ROWS = 256
# A member whose gates are shut but for less than this is not made to doubt all the more.
LEAST_HEARD = 0.05


@torch.no_grad()
def doubt_shares(network: MoeNetwork, datasets: Sequence[Dataset], doubt: float) -> None:
    """Draw the shares to even ones by ``doubt`` in rows that are heard as the training rows are, and less in others.

    To be done when all else is learnt: a network that is fitted with other shares learns to undo them.
    """
    first = datasets[0]
    target = first.schema.index.get(first.target or "", -1)
    if not doubt or target < 0 or first.schema.features[target].kind != "ordinal":
        return
    device = network.doubts.device
    heard = []
    for tables in zip(*(data.tables for data in datasets), strict=True):
        if target not in tables[0].columns:
            continue
        rows = np.stack([table.positions[~table.held_out][:N_ROWS] for table in tables])  # (L, B, S)
        cells = torch.from_numpy(rows).repeat_interleave(network.shape.n_members // len(datasets), 0).to(device)
        columns = torch.from_numpy(tables[0].columns).to(device)
        gates = network(columns, cells, torch.tensor([target], device=device)).gates  # (M, H, 1, S + 1, B)
        heard.append(1.0 - gates[:, :, 0, -1].mean(1))  # (M, B)
    network.doubts[:, target] = doubt / torch.cat(heard, dim=1).mean(1).clamp(min=LEAST_HEARD)
