"""A folded network with features more: what old ones say of each other is frozen, all else is learnt.

The same computation as model.onnx, in torch, over the tables that a network was folded into (model.folded). New
features get cells, queries and output rows of the form that model.network has: polynomials of the normal score for
numbers, a vector per word.

Each member gets one more head. The output rows of an old feature are tuned to what the old columns could say of it, and
may be as good as deaf where that was nothing: in the new head it listens anew. There old questions do not hear
old columns, so that their answers stay as they were.
Axis letters as in model.network: M members, B rows, S columns, Q questions, H heads, W width of a head, K values,
R orders, F features: O old ones, then n new ones.
"""

import torch
from torch import Tensor, nn

from model.attention import attend
from model.folded import CLOSED, Folded
from model.layout import Layout, hats
from model.network import FIRST_GATE, MOST_DEMANDING, Answer, Shape
from model.starting import Start, unfold_cells, unfold_query, unfold_rows

N_NEW_HEADS = 1


class FeatureParts(nn.Module):
    """Cells, queries and output rows of n features in H heads.

    All weights are how far to go from the start: decay pulls them back to it. ``looks`` (M,): 0 for members whose keys
    are zero, because their gates do not look at values. ``loud`` (n,): factors for the logits.
    """

    looks: Tensor
    loud: Tensor
    scores: Tensor
    trust: Tensor
    real: Tensor
    is_number: Tensor

    def __init__(self, layout: Layout, features: slice, start: Start, looks: Tensor, loud: Tensor) -> None:
        super().__init__()
        self.start = start
        of_layout = {
            "scores": layout.scores[0, features],  # (n, K, R)
            "trust": layout.trust[features],  # (n, K)
            "real": layout.real[features],
            "is_number": layout.is_number[features],  # (n,)
        }
        for name, table in {**of_layout, "looks": looks, "loud": loud}.items():
            self.register_buffer(name, table.clone())
        self.constant = _zeros(start.constant)
        self.orders = _zeros(start.orders)
        self.words = _zeros(start.words)
        self.query = _zeros(start.query)
        self.masked = _zeros(start.masked)
        self.head_orders = _zeros(start.head_orders)
        self.head_words = _zeros(start.head_words)
        self.point = _zeros(start.point)

    def _values(self, orders: Tensor, words: Tensor, known: Tensor) -> Tensor:
        """What features hold for each of their values: numbers by score, words one by one, (M, n, K, H, ...)."""
        numbers = torch.einsum("nkr,mnrhw->mnkhw", self.scores, orders)
        words = known + self.trust[..., None, None] * words
        return torch.where(self.is_number.view(-1, 1, 1, 1), numbers, words)

    def cells(self) -> Tensor:
        """Key and value of each slot, (M, n, K, H, 2 W)."""
        made = self._values(self.start.orders + self.orders, self.words, self.start.words)
        made = made + (self.start.constant + self.constant).unsqueeze(2)
        keys, values = made.chunk(2, dim=-1)
        return torch.cat([keys * self.looks.view(-1, 1, 1, 1, 1), values], dim=-1)

    def queries(self) -> Tensor:
        """What each feature looks for when it is asked, (M, n, H, W)."""
        return self.start.query + self.query

    def rows(self) -> Tensor:
        """Output rows, and what they take off for the masked cell, (M, n, K + 1, H, W + 1)."""
        logits = self._values(self.start.head_orders + self.head_orders, self.head_words, self.start.head_words)
        logits = logits * (self.real * self.loud.unsqueeze(1))[..., None, None]
        point = (self.start.point + self.point) * self.is_number.view(-1, 1, 1)
        rows = torch.cat([logits, point.unsqueeze(2)], dim=2)
        masked = -(rows * (self.start.masked + self.masked).unsqueeze(2)).sum(-1, keepdim=True)
        return torch.cat([rows, masked], dim=-1)


class ExtendedNetwork(nn.Module):
    """A network over O old features and, after them, n new ones.

    ``old``: the tables of the old features. ``layout``: of all of them, laid out for the rows that teach. ``starts``:
    of the old features in the new head, of the new ones in all heads. ``loud`` (O,): how much louder old
    features are told in the new head, because calibration will take it back.
    """

    cells: Tensor
    query: Tensor
    rows: Tensor
    pair: Tensor
    presence: Tensor
    heard: Tensor
    beliefs: Tensor

    def __init__(self, old: Folded, layout: Layout, starts: tuple[Start, Start], loud: Tensor) -> None:
        super().__init__()
        self.layout = layout
        m, o, f = old.n_members, old.n_features, len(layout.heard)
        self.n_old = o
        self.shape = Shape(m, old.n_heads // m + N_NEW_HEADS, old.d_head)
        self.register_buffer("cells", unfold_cells(old))  # (M, O, K, H, 2 W), without the new head
        self.register_buffer("query", unfold_query(old))  # (M, O, H, W)
        self.register_buffer("rows", unfold_rows(old))  # (M, O, K + 1, H, W + 1)
        wide = old.add_heads(N_NEW_HEADS)
        for name in ("pair", "presence"):
            table = torch.from_numpy(getattr(wide, name).reshape(m, self.shape.n_heads, o, o))
            self.register_buffer(name, table)  # (M, H, O, O), with the new head
        self.register_buffer("heard", layout.heard & ~torch.eye(f, dtype=torch.bool))  # (F, F)
        self.register_buffer("beliefs", torch.from_numpy(old.grow(f).beliefs))  # (F, F), 1 where new ones take part
        keys = self.cells[..., : old.d_head]
        looks = (keys != 0).flatten(1).any(1).float() if o else torch.ones(m)
        self.old_parts = FeatureParts(layout, slice(None, o), starts[0], looks, loud)
        self.new_parts = FeatureParts(layout, slice(o, None), starts[1], looks, torch.ones(f - o))
        asked_pair, asked_presence = self._start_asked()
        self.asked_pair_bias, self.asked_presence_bias = nn.Parameter(asked_pair), nn.Parameter(asked_presence)
        heard_pair = self._start_heard()
        self.heard_pair_bias, self.heard_presence_bias = nn.Parameter(heard_pair), _zeros(heard_pair)

    def _start_asked(self) -> tuple[Tensor, Tensor]:
        """Gates of new questions, as model.network starts them, (M, H, n, F) twice."""
        company = self.layout.company[self.n_old :]  # (n, F)
        demand = torch.linspace(0.0, MOST_DEMANDING, self.shape.n_heads - N_NEW_HEADS)
        demand = torch.cat([demand, torch.zeros(N_NEW_HEADS)]).view(-1, 1, 1)
        presence = (demand / company.sum(1).clamp(min=1.0).unsqueeze(1)).expand(-1, -1, company.shape[1])  # (H, n, F)
        pair = FIRST_GATE - (presence * company).sum(-1, keepdim=True)
        size = (self.shape.n_members, *presence.shape)
        return pair.expand(size).clone(), presence.expand(size).clone()

    def _start_heard(self) -> Tensor:
        """Gates of old questions to new columns: as open as those to the old ones usually are, (M, H, O, n)."""
        known = self.pair > 0.5 * CLOSED
        usual = torch.where(known, self.pair, 0.0).sum(-1) / known.sum(-1).clamp(min=1)  # (M, H, O)
        usual = torch.where(known.any(-1), usual, FIRST_GATE)
        return usual.unsqueeze(-1).repeat_interleave(len(self.heard) - self.n_old, dim=-1)

    def cell_table(self) -> Tensor:
        """Key and value of each slot, (M, F, K, H, 2 W)."""
        return torch.cat([torch.cat([self.cells, self.old_parts.cells()], dim=3), self.new_parts.cells()], dim=1)

    def query_table(self) -> Tensor:
        """What each feature looks for when it is asked, (M, F, H, W)."""
        return torch.cat([torch.cat([self.query, self.old_parts.queries()], dim=2), self.new_parts.queries()], dim=1)

    def row_table(self) -> Tensor:
        """Output rows of all questions, and what they take off for the masked cell, (M, F, K + 1, H, W + 1)."""
        return torch.cat([torch.cat([self.rows, self.old_parts.rows()], dim=3), self.new_parts.rows()], dim=1)

    def gate_tables(self) -> tuple[Tensor, Tensor]:
        """``pair`` and ``presence`` of all features, as in model.folded, (M, H, F, F) each."""
        heard, asked = self.heard[: self.n_old, self.n_old :], self.heard[self.n_old :]
        pair = _join(
            self.pair,
            self.heard_pair_bias.masked_fill(~heard, CLOSED),
            self.asked_pair_bias.masked_fill(~asked, CLOSED),
        )
        return pair, _join(self.presence, -self.heard_presence_bias * heard, -self.asked_presence_bias * asked)

    def base_table(self) -> Tensor:
        """The answers with nothing observed, (F, K + 1)."""
        shares = self.layout.log_shares[0].masked_fill(~self.layout.real, CLOSED)
        return torch.cat([shares, torch.zeros_like(shares[:, :1])], dim=1)

    def forward(self, columns: Tensor, positions: Tensor, asked: Tensor) -> Answer:
        near = hats(positions.transpose(1, 2), self.layout.word.shape[1])  # (M, S, K, B)
        table = self.cell_table().index_select(1, columns).flatten(3)  # (M, S, K, H 2 W)
        flat = table.transpose(2, 3) @ near  # (M, S, H 2 W, B)
        cells = flat.view(
            *flat.shape[:2], self.shape.n_heads, 2 * self.shape.d_head, flat.shape[3]
        )  # (M, S, H, 2 W, B)
        keys, values = cells.permute(0, 2, 3, 1, 4).chunk(2, dim=2)  # (M, H, W, S, B)
        query = self.query_table().index_select(1, asked).transpose(1, 2) * self.shape.d_head**0.5  # is scaled already
        pair, presence = (gates.index_select(2, asked).index_select(3, columns) for gates in self.gate_tables())
        present = ~positions.isnan().transpose(1, 2)  # (M, S, B)
        # To lower the masked cell's own score is to raise all others.
        company = -presence @ present.to(positions.dtype).unsqueeze(1)  # (M, H, Q, B)
        bias = pair.unsqueeze(-1) + company.unsqueeze(3)
        nothing = torch.zeros_like(query)
        opened = present.unsqueeze(1).expand(-1, len(asked), -1, -1)
        believed = self.beliefs[asked][:, columns]  # (Q, S)
        mixed, gates = attend(query, keys, values, own=(nothing, nothing), bias=bias, opened=opened, believed=believed)
        rows = self.row_table().index_select(1, asked)  # (M, Q, K + 1, H, W + 1)
        heard = (gates[:, :, :, :-1] * believed.unsqueeze(-1)).sum(3).transpose(1, 2)  # (M, Q, H, B)
        out = rows[..., :-1].flatten(3) @ mixed + rows[..., -1] @ heard  # (M, Q, K + 1, B)
        out = out + self.base_table()[asked].unsqueeze(-1)
        return Answer(out[:, :, :-1], out[:, :, -1], gates)

    @torch.no_grad()
    def fold(self) -> Folded:
        """The tables of all features."""
        m = self.shape.n_members
        pair, presence = (table.flatten(0, 1) for table in self.gate_tables())
        return Folded(
            cells=self.cell_table().movedim(0, 2).flatten(2, 3).numpy(),  # (F, K, G, 2 W)
            query=self.query_table().transpose(1, 2).flatten(0, 1).numpy(),  # (G, F, W)
            pair=pair.numpy(),
            presence=presence.numpy(),
            rows=(self.row_table().permute(1, 0, 3, 4, 2).flatten(1, 2) / m).numpy(),  # (F, G, W + 1, K + 1)
            base=self.base_table().numpy(),
            beliefs=self.beliefs.numpy(),
            n_members=m,
        )


def _zeros(like: Tensor) -> nn.Parameter:
    return nn.Parameter(torch.zeros_like(like))


def _join(old: Tensor, heard: Tensor, asked: Tensor) -> Tensor:
    """One table of (asked, heard) from its parts: old and old, old and new, new and any."""
    return torch.cat([torch.cat([old, heard], dim=3), asked], dim=2)
