"""The networks: value embedding + feature encoding, one attention layer, a softmax per question.

Axis letters: M members, B rows, S columns in the row, Q questions (asked features), H heads,
D width, W width of one head (D / H), K values of a feature (padded), R orders, F features, V words.

A network answers ``forward(columns, positions, asked)``: which features the columns are (S,),
where their cells sit (M, B, S) with NaN for missing, and which features are asked (Q,).

**One pass for all masks.** The query of an asked feature is ``[MASK]`` + its encoding, whatever the
row holds; its keys are the row's cells, without the asked feature's own cell, and one more: the
masked cell itself. So training, which masks each column in turn, is the same call with
``asked = columns``: S questions in one pass, O(S^2) a row, instead of S passes of O(S^2) each.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.attention import CLOSED, attend, open_gates, rows_last, split_heads
from model.layout import N_ORDERS, Layout, hats

# What belongs to one value of one feature alone has the fewest rows to learn from: it moves this much slower, unless
# training.fit says otherwise.
OWN_SCALE = 0.1
# How far the last head closes when a row lacks all it is used to; the others lie between it and none.
MOST_DEMANDING = 20.0
# In a steady member so many of each head's numbers carry the shape of a distribution, the others where it lies.
SHAPE_WIDTH = 1
# Gates start small and values large: evidence of several columns then adds up before it competes.
FIRST_GATE = -2.0
FIRST_VALUE = 3.0
FIRST_KEY = 0.2
# What is kept for each member and not learnt by gradients.
OF_MEMBERS = ("looks", "fixed", "reads", "voices", "hears", "doubts")


class Answer(NamedTuple):
    """What a network says of each question, before any softmax.

    Rows come last: torch is many times faster over long last axes than over a handful of columns or values.
    ``logits`` (M, Q, K, B), -1e9 beyond a feature's own values. ``point`` (M, Q, B): the expected
    value of a number feature, in units of its spread from its mean. ``gates`` (M, H, Q, S + 1, B):
    how much each column is heard; the last is the masked cell itself.
    """

    logits: Tensor
    point: Tensor
    gates: Tensor


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a network; ``n_members`` networks are fitted and run side by side.

    ``half_additive``: the gates of every second member do not look at values. ``half_steady``: of every four members
    the last two move the distribution of some numbers (``MoeNetwork.steadied``) as values say, but keep its shape.
    With both there are four kinds.
    """

    n_members: int = 4
    n_heads: int = 8
    d_head: int = 8
    half_additive: bool = False
    half_steady: bool = False

    @property
    def d_model(self) -> int:
        return self.n_heads * self.d_head

    @property
    def sizes(self) -> dict[str, int]:
        """As a manifest has them: ``heads`` are those of all members."""
        return {"heads": self.n_heads * self.n_members, "width": self.d_model, "members": self.n_members}


class MoeNetwork(nn.Module):
    """The mixture of experts in its linear form: no feed-forward, no normalisation.

    A question's logits are exactly a constant plus one contribution per observed column (see
    docs/model.md). DEVIATION tags mark what goes beyond the paper's form.
    """

    looks: Tensor
    hears: Tensor
    fixed: Tensor
    reads: Tensor
    steadied: Tensor
    voices: Tensor
    doubts: Tensor
    beliefs: Tensor

    def __init__(self, layout: Layout, shape: Shape) -> None:
        super().__init__()
        self.layout = layout
        self.shape = shape
        m, d, h = shape.n_members, shape.d_model, shape.n_heads
        (f, k), v = layout.word.shape, layout.n_words + 1
        self.mask = _normal(m, d, scale=0.3)
        self.encoding = _normal(m, f, d, scale=0.3)
        self.word = _normal(m, v, d, scale=0.3)
        # DEVIATION: numbers share a polynomial of their normal score, not a free vector per bin.
        self.score = _normal(m, N_ORDERS, d, scale=0.3)
        # DEVIATION: a part of each value, a slope and a stretch that belong to the feature alone.
        self.own = _zeros(m, f, k, d)
        self.own_scale = OWN_SCALE
        self.slope = _normal(m, f, d, scale=0.1)
        self.stretch = _zeros(m, f, d)
        self.query = _normal(m, d, d, scale=d**-0.5)
        self.key = _normal(m, d, d, scale=FIRST_KEY * d**-0.5)
        self.value = _normal(m, d, d, scale=FIRST_VALUE * d**-0.5)
        self._tell_members_apart()
        # DEVIATION: a free bias on the gate of each (asked, heard) pair of features, and gates that know
        # which columns a row has: what a column is worth depends on the company it keeps.
        usual_columns = self.layout.company.sum(1).clamp(min=1.0).view(-1, 1)
        demand = torch.linspace(0.0, MOST_DEMANDING, h).view(h, 1, 1) / usual_columns
        self.presence = nn.Parameter(demand.expand(m, h, f, f).clone())
        usual = (self.presence.detach() * self.layout.company).sum(-1, keepdim=True)
        self.pair = nn.Parameter((FIRST_GATE - usual).expand(m, h, f, f).clone())
        self.word_head = _normal(m, v, d, scale=d**-0.5)
        self.score_head = _normal(m, N_ORDERS, d, scale=d**-0.5)
        self.head_stretch = _zeros(m, f, d)
        self.own_head = _zeros(m, f, k, d)
        # DEVIATION: a second output for numbers, the expected value itself.
        self.point_head = _normal(m, f, d, scale=d**-0.5)
        # DEVIATION: how far a linear expert is followed, where there is one: its expected value, its distribution.
        self.lean = nn.Parameter(torch.ones(m, f, 2))

    def _tell_members_apart(self) -> None:
        """What members differ in from the start; none of it is learnt by gradients."""
        m, d, d_head = self.shape.n_members, self.shape.d_model, self.shape.d_head
        n_each = m // self.layout.n_sets
        # DEVIATION: the gates of an additive member know which columns a row has, but not what they hold. Where
        # rows are few, gates that look at values find interactions that are not there.
        looks = _every_second(m, n_each) if self.shape.half_additive else torch.ones(m, 1, 1)
        self.register_buffer("looks", looks)
        # DEVIATION: in a steady member what cells hold reaches only the first order of a number's distribution (where
        # it lies); its shape follows from which columns a row has and how they are heard. Far from the training
        # rows that is the safer guess.
        steady = _last_two_of_four(m, n_each) if self.shape.half_steady else torch.zeros(m, 1, 1)
        tells_shape = (torch.arange(d) % d_head >= d_head - SHAPE_WIDTH).float()
        self.register_buffer("fixed", steady * tells_shape)  # (M, 1, D): what no value of a cell changes
        orders = (torch.arange(N_ORDERS) > 0).view(-1, 1)
        self.register_buffer("reads", 1.0 - steady * torch.where(orders, 1.0 - tells_shape, tells_shape))  # (M, R, D)
        n_features = len(self.layout.word)
        self.register_buffer("steadied", torch.zeros(n_features, dtype=torch.bool))  # the others keep free shapes
        # How loud each member is on each feature; 1 on the mean (training.weighing).
        self.register_buffer("voices", torch.ones(m, n_features))
        self.register_buffer("hears", torch.ones(m, 1, 1))  # 0 for members that do without a linear expert
        # DEVIATION: how much less the shares of a feature's values count, for each part of the gates that is open: not
        # at all where nothing is observed (training.doubting sets it once all else is learnt).
        self.register_buffer("doubts", torch.zeros(m, n_features))
        # DEVIATION: how far what each column says of an asked feature is believed (asked, heard), whatever its gate
        # (training.believing sets it once all else is learnt).
        self.register_buffer("beliefs", torch.ones(n_features, n_features))

    def cell_table(self, columns: Tensor) -> Tensor:
        """What each value looks like as a cell of each column: embedding + encoding, (M, S, K, D)."""
        shared = self.layout.share(columns, self.word, self.score)
        shared = shared * (1.0 + self.stretch.index_select(1, columns).unsqueeze(2))
        standard = self.layout.standard.index_select(1, columns).unsqueeze(-1)
        slope = standard * self.slope.index_select(1, columns).unsqueeze(2)
        return (
            shared
            + self.own_scale * self.layout.trust[columns].unsqueeze(-1) * self.own.index_select(1, columns)
            + slope
            + self.encoding.index_select(1, columns).unsqueeze(2)
        )

    def cell_slots(self, columns: Tensor) -> Tensor:
        """The key and the value of each value of each column, (M, S, K, 2 D)."""
        both = self.cell_table(columns) @ torch.cat([self.gate_key(), self.value], dim=-1).unsqueeze(1)
        if not self.shape.half_steady:
            return both
        keys, values = both.chunk(2, dim=-1)
        same = self.encoding.index_select(1, columns) @ self.value  # whatever the cell holds
        return torch.cat([keys, values + self.fixed.unsqueeze(1) * (same.unsqueeze(2) - values)], dim=-1)

    def masked_cells(self, asked: Tensor) -> Tensor:
        """The cell that stands where a value is asked for: [MASK] + encoding, (M, Q, D)."""
        return self.mask.unsqueeze(1) + self.encoding.index_select(1, asked)

    def head_rows(self, asked: Tensor) -> Tensor:
        """The output rows of each question: K for the logits, one for the point, (M, Q, K + 1, D)."""
        rows = self.layout.share(asked, self.word_head, self.score_head)
        own = self.own_head.index_select(1, asked)
        if self.shape.half_steady:
            is_steady = self.steadied[asked].view(-1, 1, 1)
            rows = torch.where(is_steady, self.layout.share(asked, self.word_head, self.score_head * self.reads), rows)
            own = torch.where(is_steady, own * self.reads[:, -1:].unsqueeze(1), own)
        rows = rows * (1.0 + self.head_stretch.index_select(1, asked).unsqueeze(2))
        rows = rows + self.own_scale * own
        rows = torch.cat([rows, self.point_head.index_select(1, asked).unsqueeze(2)], dim=2)
        return rows * self.voices.index_select(1, asked).view(*rows.shape[:2], 1, 1)

    def doubt_rows(self, asked: Tensor) -> Tensor:
        """What the logits of each value gain with all gates open: more where it is rare, (M, Q, K)."""
        return (self.voices * self.doubts).index_select(1, asked).unsqueeze(2) * self.layout.rarity(asked)

    def gate_key(self) -> Tensor:
        """The key projection, zero for the members whose gates do not look at values, (M, D, D)."""
        return self.key * self.looks

    def pair_bias(self, columns: Tensor, asked: Tensor) -> Tensor:
        """The bias of each gate, (M, H, Q, S)."""
        return self.pair.index_select(2, asked).index_select(3, columns)

    def presence_bias(self, columns: Tensor, asked: Tensor) -> Tensor:
        """How much each column's presence opens all gates of a question, (M, H, Q, S)."""
        heard = self.layout.heard[asked][:, columns] & (columns != asked.unsqueeze(1))
        return self.presence.index_select(2, asked).index_select(3, columns) * heard

    def forward(self, columns: Tensor, positions: Tensor, asked: Tensor) -> Answer:
        n_heads = self.shape.n_heads
        near = hats(positions.transpose(1, 2), self.layout.word.shape[1])  # (M, S, K, B)
        masked = self.masked_cells(asked)
        # A cell is linear in its hats, so keys and values are projected once per slot, not once per cell.
        cells = self.cell_slots(columns).transpose(2, 3) @ near  # (M, S, 2 D, B)
        keys, values = (rows_last(x, n_heads) for x in cells.chunk(2, dim=2))  # (M, H, W, S, B)
        query, own_key, own_value = (
            split_heads(masked @ w, n_heads) for w in (self.query, self.gate_key(), self.value)
        )
        opened = open_gates(self.layout, columns, positions, asked)
        present = (~positions.isnan()).transpose(1, 2).to(positions.dtype)  # (M, S, B)
        company = self.presence_bias(columns, asked) @ present.unsqueeze(1)  # (M, H, Q, B)
        bias = self.pair_bias(columns, asked).unsqueeze(-1) + company.unsqueeze(3)
        # What the masked cell would say alone is taken off, and the feature's own distribution put in
        # its place: with nothing observed the answer is exactly that, whatever was learnt.
        believed = self.beliefs[asked][:, columns] if self.believes else None
        moved, gates = attend(
            query, keys, values, own=(own_key, own_value), bias=bias, opened=opened, believed=believed
        )
        out = self.head_rows(asked) @ moved  # (M, Q, K + 1, B)
        logits = out[:, :, :-1] + self.layout.log_shares.index_select(1, asked).unsqueeze(-1)
        if self.doubts.any():
            heard = 1.0 - gates[:, :, :, -1:].mean(1)  # (M, Q, 1, B)
            logits = logits + self.doubt_rows(asked).unsqueeze(-1) * heard
        real = self.layout.real[asked].unsqueeze(-1)
        return Answer(logits.masked_fill(~real, CLOSED), out[:, :, -1], gates)

    def pick(self, members: Sequence[int]) -> "MoeNetwork":
        """The network of some members alone."""
        some = copy.deepcopy(self)
        some.shape = replace(self.shape, n_members=len(members))
        for weight in some.parameters():
            weight.data = weight.data[list(members)]
        for name in OF_MEMBERS:
            setattr(some, name, getattr(self, name)[list(members)])
        return some

    def mean_lean(self) -> NDArray[np.float64]:
        """How far the members follow a linear expert, on the mean, (F, 2)."""
        lean: NDArray[np.float64] = (self.hears * self.lean.detach()).mean(0).double().cpu().numpy()
        return lean

    @property
    def believes(self) -> bool:
        """Whether some columns are believed more or less than they were in the fit."""
        return bool((self.beliefs != 1.0).any())

    def follow(self, answer: Answer, asked: Tensor, mean: Tensor, logits: Tensor) -> Answer:
        """The answer with what a linear expert says added: to the point (M, Q, B), to the logits (M, Q, K, B)."""
        lean = (self.hears * self.lean.index_select(1, asked)).unsqueeze(-1)  # (M, Q, 2, 1)
        return answer._replace(
            logits=answer.logits + lean[:, :, 1:] * logits, point=answer.point + lean[:, :, 0] * mean
        )


def _normal(*size: int, scale: float) -> nn.Parameter:
    return nn.Parameter(torch.randn(*size) * scale)


def _every_second(n_members: int, n_each: int) -> Tensor:
    """1 for the first, third, ... of each run of ``n_each`` members, 0 for the others, (M, 1, 1)."""
    return (1.0 - torch.arange(n_members) % n_each % 2).view(-1, 1, 1)


def _last_two_of_four(n_members: int, n_each: int) -> Tensor:
    """1 for the third, fourth, seventh, eighth, ... of each run of ``n_each`` members, 0 for the others, (M, 1, 1)."""
    return (torch.arange(n_members) % n_each % 4 >= 2).float().view(-1, 1, 1)


def _zeros(*size: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(*size))
