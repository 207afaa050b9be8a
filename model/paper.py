"""The reference network of the paper's experiments: one BERT-like layer, for reproduction.

Same call and same axis letters as ``model.network``. With one layer, the answer to a question
depends on the masked cell's own state alone, so only asked cells are carried past the attention.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, layer_norm, relu

from model.attention import CLOSED, attend, open_gates, rows_last, split_heads
from model.layout import Layout, hats
from model.network import Answer, Shape

D_FEED = 5
DROPOUT = 0.1
NORM_EPS = 1e-6


class PaperNetwork(nn.Module):
    """Attention, post-LayerNorm, a small feed-forward, and one dense head shared by all columns.

    Values are words: bin k of any number feature is one word, a category's string another.
    DEVIATION: the softmax runs over the asked feature's own values, not over all words; the same
    thing where all columns have the same bins, as in the paper's studies.
    """

    slot: Tensor

    def __init__(self, layout: Layout, shape: Shape) -> None:
        super().__init__()
        self.layout = layout
        self.shape = shape
        m, d = shape.n_members, shape.d_model
        f, k = layout.word.shape
        bins = torch.arange(k).clamp(max=max(layout.n_bins - 1, 0))
        words = torch.where(layout.is_number.unsqueeze(1), bins, layout.n_bins + layout.word)
        self.register_buffer("slot", words)  # (F, K): the word each value is
        n_words = layout.n_bins + layout.n_words + 1
        self.mask = _uniform(m, d)
        self.encoding = _uniform(m, f, d)
        self.word = _uniform(m, n_words, d)
        self.query, self.key, self.value, self.out = (_dense(m, d, d) for _ in range(4))
        self.feed_in, self.feed_out = _dense(m, d, D_FEED), _dense(m, D_FEED, d)
        self.head = _dense(m, d, n_words)
        self.norm_scale = nn.Parameter(torch.ones(m, 2, 1, 1, d))
        self.norm_shift = nn.Parameter(torch.zeros(m, 2, 1, 1, d))

    def forward(self, columns: Tensor, positions: Tensor, asked: Tensor) -> Answer:
        n_heads = self.shape.n_heads
        near = hats(positions.transpose(1, 2), self.slot.shape[1])  # (M, S, K, B)
        table = self.word[:, self.slot[columns]] + self.encoding[:, columns].unsqueeze(2)  # (M, S, K, D)
        masked = self.mask.unsqueeze(1) + self.encoding[:, asked]  # (M, Q, D)
        cells = (layer(table).transpose(2, 3) @ near for layer in (self.key, self.value))  # (M, S, D, B)
        keys, values = (rows_last(x, n_heads) for x in cells)
        own_key, own_value = (split_heads(layer(masked), n_heads) for layer in (self.key, self.value))
        query = split_heads(self.query(masked), n_heads)
        opened = open_gates(self.layout, columns, positions, asked)
        moved, gates = attend(query, keys, values, own=(own_key, own_value), bias=None, opened=opened)
        mixed = moved.transpose(2, 3) + self.value(masked).unsqueeze(2)  # (M, Q, B, D)
        state = self._norm(0, masked.unsqueeze(2) + self._drop(self.out(mixed)))
        state = self._norm(1, state + self._drop(self.feed_out(relu(self.feed_in(state)))))
        logits = self._read(state, asked)
        return Answer(logits, self._expect(logits, asked), gates)

    def _read(self, state: Tensor, asked: Tensor) -> Tensor:
        """The asked features' own rows of the shared head, (M, Q, K, B)."""
        rows = self.head.weight[:, :, self.slot[asked]].movedim(1, 3)  # (M, Q, K, D)
        bias = self.head.bias.squeeze(1)[:, self.slot[asked]]
        logits = rows @ state.transpose(2, 3) + bias.unsqueeze(-1)
        return logits.masked_fill(~self.layout.real[asked].unsqueeze(-1), CLOSED)

    def _expect(self, logits: Tensor, asked: Tensor) -> Tensor:
        standard = self.layout.standard.index_select(1, asked).unsqueeze(-1)
        return (logits.softmax(2) * standard).sum(2)

    def _norm(self, which: int, x: Tensor) -> Tensor:
        normal = layer_norm(x, x.shape[-1:], eps=NORM_EPS)
        return normal * self.norm_scale[:, which] + self.norm_shift[:, which]

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, DROPOUT, self.training)


class Dense(nn.Module):
    """A dense layer for each member: (M, ..., I) to (M, ..., O)."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)  # (M, I, O)
        self.bias = nn.Parameter(torch.zeros(weight.shape[0], 1, weight.shape[2]))

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        while weight.dim() < x.dim():
            weight, bias = weight.unsqueeze(1), bias.unsqueeze(1)
        return x @ weight + bias


def _dense(m: int, d_in: int, d_out: int) -> Dense:
    # Glorot's uniform start, as the reference network's framework uses.
    bound = (6.0 / (d_in + d_out)) ** 0.5
    return Dense((torch.rand(m, d_in, d_out) * 2 - 1) * bound)


def _uniform(*size: int) -> nn.Parameter:
    return nn.Parameter((torch.rand(*size) * 2 - 1) * 0.05)
