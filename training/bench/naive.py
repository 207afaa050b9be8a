"""Masked training as the reference does it: one masked copy of the row per column, each through the layer.

The yardstick for the one pass of ``model.network``: the same numbers at O(S^3) a row.
Axis letters as there; N = B * S masked copies.
"""

import torch
from torch import Tensor

from model.attention import CLOSED
from model.layout import hats
from model.network import MoeNetwork


def naive_logits(network: MoeNetwork, columns: Tensor, positions: Tensor) -> Tensor:
    """The logits of every column of every row, each asked from a masked copy, (M, S, K, B)."""
    m, b, s = positions.shape
    cells = _masked_copies(network, columns, positions)  # (M, N, S, D)
    query, key = (_heads(cells @ w.unsqueeze(1), network) for w in (network.query, network.gate_key()))
    value = _heads(_values(network, columns, cells), network)
    scores = query @ key.transpose(-1, -2) * network.shape.d_head**-0.5  # (M, H, N, S, S)
    scores = scores + _gate_bias(network, columns, positions)
    scores = scores.masked_fill(~_open(network, columns, positions).unsqueeze(1), CLOSED)
    mixed = (scores.softmax(-1) @ value).permute(0, 2, 3, 1, 4).flatten(-2)  # (M, N, S, D)
    state = mixed.reshape(m, b, s, s, -1).diagonal(dim1=2, dim2=3)  # (M, B, D, S): at the masked cell
    state = state - (network.masked_cells(columns) @ network.value).transpose(1, 2).unsqueeze(1)
    rows = network.head_rows(columns)[:, :, :-1]
    logits = torch.einsum("mbdq,mqkd->mqkb", state, rows) + network.layout.log_shares[:, columns].unsqueeze(-1)
    return logits.masked_fill(~network.layout.real[columns].unsqueeze(-1), CLOSED)


def _masked_copies(network: MoeNetwork, columns: Tensor, positions: Tensor) -> Tensor:
    m, b, s = positions.shape
    near = hats(positions.transpose(1, 2), network.layout.word.shape[1]).transpose(2, 3)  # (M, S, B, K)
    cells = (near @ network.cell_table(columns)).transpose(1, 2)  # (M, B, S, D)
    is_asked = torch.eye(s, dtype=torch.bool).unsqueeze(-1)
    copies = torch.where(is_asked, network.masked_cells(columns)[:, None, None], cells.unsqueeze(2))
    return copies.reshape(m, b * s, s, -1)


def _values(network: MoeNetwork, columns: Tensor, copies: Tensor) -> Tensor:
    """What each cell of each copy says, (M, N, S, D): in steady members in part whatever the cell holds."""
    n, s = copies.shape[1:3]
    values = copies @ network.value.unsqueeze(1)
    same = (network.encoding[:, columns] @ network.value).unsqueeze(1)  # (M, 1, S, D)
    is_asked = torch.eye(s, dtype=torch.bool).repeat(n // s, 1).unsqueeze(-1)  # (N, S, 1)
    return torch.where(is_asked, values, values + network.fixed.unsqueeze(1) * (same - values))


def _heads(x: Tensor, network: MoeNetwork) -> Tensor:
    return x.view(*x.shape[:-1], network.shape.n_heads, -1).permute(0, 3, 1, 2, 4)  # (M, H, N, S, W)


def _gate_bias(network: MoeNetwork, columns: Tensor, positions: Tensor) -> Tensor:
    """The pairs' biases and what the row's other cells add to them, (M, H, N, S, S); none towards itself."""
    s = positions.shape[2]
    own = torch.eye(s, dtype=torch.bool)
    present = (~positions.isnan()).to(positions.dtype)  # (M, B, S)
    company = torch.einsum("mhqs,mbs->mhbq", network.presence_bias(columns, columns), present)
    bias = network.pair_bias(columns, columns).unsqueeze(2) + company.unsqueeze(-1)  # (M, H, B, S, S)
    return bias.masked_fill(own, 0.0).repeat_interleave(s, dim=2)


def _open(network: MoeNetwork, columns: Tensor, positions: Tensor) -> Tensor:
    """(M, N, S, S): keys that are present or masked, and heard by the query's feature."""
    m, b, s = positions.shape
    own = torch.eye(s, dtype=torch.bool)
    present = (~positions.isnan()).unsqueeze(2) | own  # (M, B, copy, key)
    heard = network.layout.heard[columns][:, columns] | own
    return (present.unsqueeze(3) & heard).reshape(m, b * s, s, s)
