"""Attention of masked cells over a row: what both networks have in common. Axis letters as in model.network."""

import torch
from torch import Tensor

from model.layout import Layout

# A finite floor, not -inf: a row with nothing present must not softmax to NaN.
CLOSED = -1e9


def open_gates(layout: Layout, columns: Tensor, positions: Tensor, asked: Tensor) -> Tensor:
    """Which cells each question may hear, (M, Q, S, B): those present, but for the asked one's own."""
    others = columns != asked.unsqueeze(1)  # (Q, S)
    allowed = others & layout.heard[asked][:, columns]
    return allowed.unsqueeze(-1) & ~positions.isnan().transpose(1, 2).unsqueeze(1)


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(M, ..., D) to (M, H, ..., W)."""
    return x.view(*x.shape[:-1], n_heads, -1).movedim(-2, 1)


def rows_last(x: Tensor, n_heads: int) -> Tensor:
    """(M, S, D, B) to (M, H, W, S, B)."""
    m, s, d, b = x.shape
    return x.reshape(m, s, n_heads, d // n_heads, b).permute(0, 2, 3, 1, 4)


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    own: tuple[Tensor, Tensor],
    bias: Tensor | None,
    opened: Tensor,
    believed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of Q masked cells over the row's S cells and, each, over itself.

    Shape: query (M, H, Q, W); keys, values (M, H, W, S, B); own key and value of the masked cells
    (M, H, Q, W); bias (M, H, Q, S, 1 or B); opened (M, Q, S, B); believed (Q, S): how far each column is, if not
    fully. Returns what is mixed, less what each masked cell would say alone, (M, Q, D, B), and the gates
    (M, H, Q, S + 1, B), which add up to one.
    """
    m, h, q, w = query.shape
    n_columns, n_rows = keys.shape[-2:]
    query = query * w**-0.5
    scores = (query @ keys.reshape(m, h, w, -1)).view(m, h, q, n_columns, n_rows)
    if bias is not None:
        scores = scores + bias
    scores = scores.masked_fill(~opened.unsqueeze(1), CLOSED)
    own_key, own_value = own
    own_score = (query * own_key).sum(-1)[..., None, None]  # (M, H, Q, 1, 1)
    gates = torch.cat([scores, own_score.expand(m, h, q, 1, n_rows)], dim=3).softmax(3)
    heard = gates[:, :, :, :-1] if believed is None else gates[:, :, :, :-1] * believed.unsqueeze(-1)
    mixed = heard.permute(0, 1, 4, 2, 3) @ values.permute(0, 1, 4, 3, 2)  # (M, H, B, Q, W)
    moved = mixed.permute(0, 3, 1, 4, 2) - (heard.sum(3, keepdim=True) * own_value.unsqueeze(-1)).transpose(1, 2)
    return moved.reshape(m, q, h * w, n_rows), gates
