"""The networks: value embedding + feature encoding, one attention layer, a softmax per question.

Axis letters: M members, B rows, S columns in the row, Q questions (asked features), H heads,
D width, W width of one head (D / H), K values of a feature (padded), F features, V words.

A network answers ``forward(columns, positions, asked)``: which features the columns are (S,),
where their cells sit (M, B, S) with NaN for missing, and which features are asked (Q,).

**One pass for all masks.** The query of an asked feature is ``[MASK]`` + its encoding, whatever the
row holds; its keys are the row's cells, without the asked feature's own cell, and one more: the
masked cell itself. So training, which masks each column in turn, is the same call with
``asked = columns``: S questions in one pass, O(S^2) a row, instead of S passes of O(S^2) each.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.codec import standardize
from model.schema import Schema

# A finite floor, not -inf: a row with nothing present must not softmax to NaN.
CLOSED = -1e9
# The grid of quantile ranks on which all number features share their value embeddings.
N_RANKS = 16


class Answer(NamedTuple):
    """What a network says of each question, before any softmax.

    ``logits`` (M, B, Q, K), -1e9 beyond a feature's own values. ``point`` (M, B, Q): the expected
    value of a number feature, in units of its spread from its mean. ``gates`` (M, H, B, Q, S + 1):
    how much each column is heard; the last is the masked cell itself.
    """

    logits: Tensor
    point: Tensor
    gates: Tensor


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a network; ``n_members`` networks are fitted and run side by side."""

    n_members: int = 4
    n_heads: int = 8
    d_head: int = 8

    @property
    def d_model(self) -> int:
        return self.n_heads * self.d_head


class Layout(nn.Module):
    """What the schema fixes: which word, rank and value each (feature, value) slot holds."""

    word: Tensor
    rank_weights: Tensor
    standard: Tensor
    real: Tensor
    log_shares: Tensor
    heard: Tensor
    is_number: Tensor

    def __init__(self, schema: Schema, heard: NDArray[np.bool_] | None = None) -> None:
        super().__init__()
        n_features, n_values = len(schema.features), schema.n_values
        word = np.full((n_features, n_values), len(schema.words), dtype=np.int64)
        rank_weights = np.zeros((n_features, n_values, N_RANKS), dtype=np.float32)
        standard = np.zeros((n_features, n_values), dtype=np.float32)
        shares = np.zeros((n_features, n_values), dtype=np.float32)
        at = {w: i for i, w in enumerate(schema.words)}
        for f, feature in enumerate(schema.features):
            k = feature.n_values
            shares[f, :k] = feature.shares
            if feature.is_number:
                bins = feature.knots
                rank_weights[f, :k] = _hat_rows(np.asarray(bins.ranks) * (N_RANKS - 1))
                standard[f, :k] = standardize(bins)
            else:
                word[f, :k] = [at[w] for w in feature.words]
        if heard is None:
            heard = np.ones((n_features, n_features), dtype=bool)
        self.register_buffer("word", torch.from_numpy(word))  # (F, K); V where there is no word
        self.register_buffer("rank_weights", torch.from_numpy(rank_weights))  # (F, K, R)
        self.register_buffer("standard", torch.from_numpy(standard))  # (F, K)
        self.register_buffer("real", torch.from_numpy(shares > 0))  # (F, K)
        self.register_buffer("log_shares", torch.from_numpy(np.log(np.maximum(shares, 1e-9))))
        self.register_buffer("is_number", torch.tensor([f.is_number for f in schema.features]))
        # (F, F): whether any training row held both, so that the one can speak of the other.
        self.register_buffer("heard", torch.from_numpy(np.asarray(heard, dtype=bool)))

    def share(self, features: Tensor, word: Tensor, rank: Tensor) -> Tensor:
        """What features share for each of their values: words by string, numbers by rank, (M, S, K, D)."""
        words = word.index_select(1, self.word[features].flatten()).view(len(word), *self.word[features].shape, -1)
        ranks = self.rank_weights[features] @ rank.unsqueeze(1)
        return torch.where(self.is_number[features].view(-1, 1, 1), ranks, words)


def _hat_rows(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(1.0 - np.abs(positions[:, None] - np.arange(N_RANKS)), 0.0, 1.0)


def hats(positions: Tensor, n_values: int) -> Tensor:
    """Weights of the values around each position, (..., K); zeros where missing."""
    steps = torch.arange(n_values, device=positions.device, dtype=positions.dtype)
    # A missing cell sits far from every value: NaN itself would poison the whole row.
    return (1.0 - (positions.nan_to_num(nan=-9.0).unsqueeze(-1) - steps).abs()).clamp(min=0.0)


def open_gates(layout: Layout, columns: Tensor, positions: Tensor, asked: Tensor) -> Tensor:
    """Which cells each question may hear, (M, B, Q, S): those present, but for the asked one's own."""
    others = columns != asked.unsqueeze(1)  # (Q, S)
    allowed = others & layout.heard[asked][:, columns]
    return allowed & ~positions.isnan().unsqueeze(-2)


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(M, ..., D) to (M, H, ..., W)."""
    return x.view(*x.shape[:-1], n_heads, -1).movedim(-2, 1)


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    own: tuple[Tensor, Tensor],
    bias: Tensor | None,
    opened: Tensor,
) -> tuple[Tensor, Tensor]:
    """Attention of Q masked cells over the row's S cells and, each, over itself.

    Shape: query (M, H, Q, W); keys, values (M, H, S, B, W); own key and value of the masked cells
    (M, H, Q, W); bias (M, H, Q, S); opened (M, B, Q, S). Returns the mixed values (M, H, Q, B, W) and
    the gates (M, H, B, Q, S + 1), which add up to one.
    """
    query = query * query.shape[-1] ** -0.5
    scores = query.unsqueeze(2) @ keys.permute(0, 1, 3, 4, 2)  # (M, H, B, Q, S)
    if bias is not None:
        scores = scores + bias.unsqueeze(2)
    scores = scores.masked_fill(~opened.unsqueeze(1), CLOSED)
    own_key, own_value = own
    own_score = (query * own_key).sum(-1, keepdim=True).unsqueeze(2)  # (M, H, 1, Q, 1)
    gates = torch.cat([scores, own_score.expand(*scores.shape[:-1], 1)], dim=-1).softmax(-1)
    mixed = gates[..., :-1] @ values.transpose(2, 3) + gates[..., -1:] * own_value.unsqueeze(2)
    return mixed.transpose(2, 3), gates


class MoeNetwork(nn.Module):
    """The mixture of experts in its linear form: no feed-forward, no normalisation.

    A question's logits are exactly a constant plus one contribution per observed column (see
    docs/model.md). DEVIATION tags mark what goes beyond the paper's form.
    """

    def __init__(self, schema: Schema, shape: Shape, heard: NDArray[np.bool_] | None = None) -> None:
        super().__init__()
        self.layout = Layout(schema, heard)
        self.shape = shape
        m, d = shape.n_members, shape.d_model
        f, k, v = len(schema.features), schema.n_values, len(schema.words) + 1
        self.mask = _normal(m, d, scale=0.3)
        self.encoding = _normal(m, f, d, scale=0.3)
        self.word = _normal(m, v, d, scale=0.3)
        self.rank = _normal(m, N_RANKS, d, scale=0.3)
        # DEVIATION: a part of each value, a slope and a stretch that belong to the feature alone.
        self.own = _zeros(m, f, k, d)
        self.slope = _normal(m, f, d, scale=0.1)
        self.stretch = _zeros(m, f, d)
        self.query, self.key, self.value = (_normal(m, d, d, scale=d**-0.5) for _ in range(3))
        # DEVIATION: a free bias on the gate of each (asked, heard) pair of features.
        self.pair = _zeros(m, shape.n_heads, f, f)
        self.word_head = _normal(m, v, d, scale=d**-0.5)
        self.rank_head = _normal(m, N_RANKS, d, scale=d**-0.5)
        self.own_head = _zeros(m, f, k, d)
        # DEVIATION: a second output for numbers, the expected value itself.
        self.point_head = _normal(m, f, d, scale=d**-0.5)

    def cell_table(self, columns: Tensor) -> Tensor:
        """What each value looks like as a cell of each column: embedding + encoding, (M, S, K, D)."""
        shared = self.layout.share(columns, self.word, self.rank)
        shared = shared * (1.0 + self.stretch.index_select(1, columns).unsqueeze(2))
        slope = self.layout.standard[columns].unsqueeze(-1) * self.slope.index_select(1, columns).unsqueeze(2)
        return shared + self.own.index_select(1, columns) + slope + self.encoding.index_select(1, columns).unsqueeze(2)

    def masked_cells(self, asked: Tensor) -> Tensor:
        """The cell that stands where a value is asked for: [MASK] + encoding, (M, Q, D)."""
        return self.mask.unsqueeze(1) + self.encoding.index_select(1, asked)

    def head_rows(self, asked: Tensor) -> Tensor:
        """The output rows of each question: K for the logits, one for the point, (M, Q, K + 1, D)."""
        rows = self.layout.share(asked, self.word_head, self.rank_head) + self.own_head.index_select(1, asked)
        return torch.cat([rows, self.point_head.index_select(1, asked).unsqueeze(2)], dim=2)

    def pair_bias(self, columns: Tensor, asked: Tensor) -> Tensor:
        """The bias of each gate, (M, H, Q, S)."""
        return self.pair.index_select(2, asked).index_select(3, columns)

    def forward(self, columns: Tensor, positions: Tensor, asked: Tensor) -> Answer:
        n_heads = self.shape.n_heads
        near = hats(positions, self.layout.word.shape[1]).transpose(1, 2)  # (M, S, B, K)
        table = self.cell_table(columns)
        masked = self.masked_cells(asked)
        # A cell is linear in its hats, so keys and values are projected once per slot, not once per cell.
        both = table @ torch.cat([self.key, self.value], dim=-1).unsqueeze(1)
        keys, values = (split_heads(x, n_heads) for x in (near @ both).chunk(2, dim=-1))
        query, own_key, own_value = (split_heads(masked @ w, n_heads) for w in (self.query, self.key, self.value))
        opened = open_gates(self.layout, columns, positions, asked)
        bias = self.pair_bias(columns, asked)
        mixed, gates = attend(query, keys, values, own=(own_key, own_value), bias=bias, opened=opened)
        # What the masked cell would say alone is taken off, and the feature's own distribution put in
        # its place: with nothing observed the answer is exactly that, whatever was learnt.
        moved = (mixed - own_value.unsqueeze(3)).permute(0, 2, 3, 1, 4).flatten(-2)  # (M, Q, B, D)
        out = (moved @ self.head_rows(asked).transpose(2, 3)).transpose(1, 2)  # (M, B, Q, K + 1)
        logits = out[..., :-1] + self.layout.log_shares[asked]
        return Answer(logits.masked_fill(~self.layout.real[asked], CLOSED), out[..., -1], gates)


def _normal(*size: int, scale: float) -> nn.Parameter:
    return nn.Parameter(torch.randn(*size) * scale)


def _zeros(*size: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(*size))
