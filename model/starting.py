"""Where new features start beside old ones: at what the old features of their kind have in common.

Features share most of their weights (docs/model.md): what the old ones have in common is what a network would have
begun a new one with, had it been there. Folded tables show it as a mean over features.
Axis letters as in model.extension: M members, F features, n new ones, H heads, W width of a head, K values, R orders.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from model.codec import score_values
from model.folded import Folded
from model.layout import N_ORDERS, ORDER_SCALE
from model.schema import Feature

# Directions in which the rows of a feature hardly differ tell nothing of what its masked cell would have said.
LEAST_SINGULAR = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Weights of n features in H heads to start from.

    Cells, key and value of each: ``constant`` (M, n, H, 2 W), ``orders`` (M, n, R, H, 2 W), ``words``
    (M, n, K, H, 2 W). Questions: ``query`` (M, n, H, W), and ``masked`` (M, n, H, W), the masked cell's own value.
    Output rows: ``head_orders`` (M, n, R, H, W), ``head_words`` (M, n, K, H, W), ``point`` (M, n, H, W).
    """

    constant: Tensor
    orders: Tensor
    words: Tensor
    query: Tensor
    masked: Tensor
    head_orders: Tensor
    head_words: Tensor
    point: Tensor

    def beside(self, other: "Start") -> "Start":
        """The same features in the heads of both."""
        return Start(*(torch.cat([getattr(start, f.name) for start in (self, other)], dim=-2) for f in fields(Start)))


def unfold_cells(folded: Folded) -> Tensor:
    """Key and value of each slot, (M, F, K, H, 2 W)."""
    f, k, heads, width = folded.cells.shape
    m = folded.n_members
    return torch.from_numpy(folded.cells.reshape(f, k, m, heads // m, width).copy()).movedim(2, 0)


def unfold_query(folded: Folded) -> Tensor:
    """What each feature looks for when it is asked, (M, F, H, W)."""
    heads, f, width = folded.query.shape
    m = folded.n_members
    return torch.from_numpy(folded.query.reshape(m, heads // m, f, width).copy()).transpose(1, 2)


def unfold_rows(folded: Folded) -> Tensor:
    """The output rows of each member by itself, (M, F, K + 1, H, W + 1)."""
    f, heads, width, n_rows = folded.rows.shape
    m = folded.n_members
    return torch.from_numpy(folded.rows.reshape(f, m, heads // m, width, n_rows) * m).permute(1, 0, 4, 2, 3)


def start_fresh(n_members: int, n_features: int, n_values: int, *, n_heads: int, d_head: int) -> Start:
    """Features in new heads: they say nothing yet, and listen in random directions."""
    size = (n_members, n_features)
    scale = d_head**-0.5
    return Start(
        constant=torch.zeros(*size, n_heads, 2 * d_head),
        orders=torch.zeros(*size, N_ORDERS, n_heads, 2 * d_head),
        words=torch.zeros(*size, n_values, n_heads, 2 * d_head),
        query=torch.zeros(*size, n_heads, d_head),
        masked=torch.zeros(*size, n_heads, d_head),
        head_orders=scale * torch.randn(*size, N_ORDERS, n_heads, d_head),
        head_words=scale * torch.randn(*size, n_values, n_heads, d_head),
        point=scale * torch.randn(*size, n_heads, d_head),
    )


def start_new(folded: Folded, old: Sequence[Feature], new: Sequence[Feature], n_values: int) -> Start:
    """The ``new`` features in the heads of a network, beside the ``old`` ones that ``folded`` is about."""
    cells, rows = unfold_cells(folded), unfold_rows(folded)
    heads = rows[:, :, :-1, :, :-1]  # (M, F, K, H, W)
    constant = _means(cells, old)  # (M, F, H, 2 W)
    head_orders = _shared_orders(heads, old)  # (M, R, H, W)
    is_number = torch.tensor([feature.is_number for feature in old])
    # Of numbers and of words what is usual for their kind; of all where there is none of the kind.
    usual = [_mean(constant[:, is_number == kind], constant) for kind in (False, True)]
    n = len(new)
    return Start(
        constant=torch.stack([usual[feature.is_number] for feature in new], dim=1),
        orders=_repeat(_shared_orders(cells, old), n),
        words=_known_words(cells - constant.unsqueeze(2), old, new, n_values),
        query=_repeat(unfold_query(folded).mean(1), n),
        masked=_repeat(_masked_values(rows).mean(1), n),
        head_orders=_repeat(head_orders, n),
        head_words=_known_words(heads - _means(heads, old).unsqueeze(2), old, new, n_values),
        point=_repeat(_point_share(rows[:, :, -1, :, :-1], heads, old) * head_orders[:, 0], n),
    )


def _repeat(table: Tensor, n: int) -> Tensor:
    """The same for each of ``n`` features."""
    return table.unsqueeze(1).repeat_interleave(n, dim=1)


def _mean(some: Tensor, every: Tensor) -> Tensor:
    """The mean over features (axis 1), of all of them where there are not some."""
    return some.mean(1) if some.shape[1] else every.mean(1)


def _means(table: Tensor, features: Sequence[Feature]) -> Tensor:
    """The mean over each feature's values as often as they occur, (M, F, K, ...) to (M, F, ...)."""
    shares = np.zeros(table.shape[1:3])
    for i, feature in enumerate(features):
        shares[i, : feature.n_values] = feature.shares
    return torch.einsum("mfkhw,fk->mfhw", table, torch.from_numpy(shares).float())


def _orders(feature: Feature) -> Tensor:
    """What finds the coefficient of each order in a number feature's values, (K, R)."""
    shares = np.asarray(feature.shares)
    # The orders are orthonormal under the shares; each counts less than the one before (model.layout).
    orders = shares[:, None] * score_values(shares, N_ORDERS) / ORDER_SCALE ** np.arange(N_ORDERS)
    return torch.from_numpy(orders).float()


def _shared_orders(table: Tensor, features: Sequence[Feature]) -> Tensor:
    """The polynomial that number features have in common, (M, F, K, ...) to (M, R, ...)."""
    total, count = torch.zeros(len(table), N_ORDERS, *table.shape[3:]), torch.zeros(N_ORDERS, 1, 1)
    for i, feature in enumerate(features):
        if feature.is_number:
            total += torch.einsum("mkhw,kr->mrhw", table[:, i, : feature.n_values], _orders(feature))
            count += (torch.arange(N_ORDERS) < feature.n_values - 1).view(-1, 1, 1)
    return total / count.clamp(min=1.0)


def _point_share(points: Tensor, heads: Tensor, features: Sequence[Feature]) -> Tensor:
    """How far the rows of expected values (M, F, H, W) go along with the first order of the logits, (M, 1, 1)."""
    numbers = [(i, feature) for i, feature in enumerate(features) if feature.is_number]
    if not numbers:
        return torch.ones(len(heads), 1, 1)
    first = [torch.einsum("mkhw,k->mhw", heads[:, i, : f.n_values], _orders(f)[:, 0]) for i, f in numbers]
    straight = torch.stack(first, dim=1)  # (M, numbers, H, W)
    along = (points[:, [i for i, _ in numbers]] * straight).sum((1, 2, 3))
    return (along / straight.square().sum((1, 2, 3)).clamp(min=1e-9)).view(-1, 1, 1)


def _masked_values(rows: Tensor) -> Tensor:
    """What each masked cell would say, (M, F, H, W), by what the rows (M, F, K + 1, H, W + 1) take off for it."""
    by_head = rows.transpose(2, 3)  # (M, F, H, K + 1, W + 1)
    inverse: Tensor = torch.linalg.pinv(by_head[..., :-1], rtol=LEAST_SINGULAR)
    return -(inverse @ by_head[..., -1:]).squeeze(-1)


def _known_words(table: Tensor, old: Sequence[Feature], new: Sequence[Feature], n_values: int) -> Tensor:
    """What old features hold for the words that new ones have too, 0 for all others, (M, n, K, ...)."""
    found: dict[str, list[Tensor]] = {}
    for i, feature in enumerate(old):
        for k, word in enumerate(() if feature.is_number else feature.words):
            found.setdefault(word, []).append(table[:, i, k])
    start = torch.zeros(len(table), len(new), n_values, *table.shape[3:])
    for i, feature in enumerate(new):
        for k, word in enumerate(() if feature.is_number else feature.words):
            if word in found:
                start[:, i, k] = torch.stack(found[word]).mean(0)
    return start
