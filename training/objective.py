"""What a fit minimises: every known cell, asked from the others, with some of them hidden.

Axis letters as in model.network: M members, B rows, S columns, K values.
"""

import torch
from torch import Tensor

from model.layout import Layout, hats
from model.network import Answer
from training.settings import FitSettings
from training.tables import Dataset


def weigh_columns(columns: Tensor, layout: Layout, dataset: Dataset, settings: FitSettings) -> Tensor:
    """How much each column counts, (S,). Without a target words count more: the law helps them least."""
    if dataset.target is not None:
        return torch.where(columns == dataset.schema.index[dataset.target], settings.target_weight, 1.0)
    return torch.where(layout.is_number.cpu()[columns], 1.0, settings.word_weight)


def hide_cells(truth: Tensor, share: float, most: float, generator: torch.Generator) -> Tensor:
    """Hide more cells in a share of the rows, each row at a rate of its own up to ``most``.

    Every cell is asked anyway; with nothing more hidden that is single masking, and the rows with
    larger holes are what makes any subset of the columns work at serving.
    """
    rows = (*truth.shape[:2], 1)
    rate = torch.rand(rows, generator=generator) * most
    rate = torch.where(torch.rand(rows, generator=generator) < share, rate, 0.0)
    hidden = torch.rand(truth.shape, generator=generator) < rate
    return truth.masked_fill(hidden.to(truth.device), torch.nan)


def cell_losses(answer: Answer, truth: Tensor, layout: Layout, columns: Tensor, settings: FitSettings) -> Tensor:
    """The loss of each known cell, 0 where the truth is missing, (M, S, B)."""
    wanted = hats(truth.transpose(1, 2), layout.word.shape[1])  # (M, S, K, B)
    return wanted_losses(answer, wanted, layout, columns, settings)


def wanted_losses(answer: Answer, wanted: Tensor, layout: Layout, columns: Tensor, settings: FitSettings) -> Tensor:
    """The same for wanted distributions over the values, (M, S, K, B); all zeros where nothing is wanted."""
    surprise = -(wanted * answer.logits.log_softmax(2)).sum(2)
    if settings.point_weight == 0.0:
        return surprise
    standard = (wanted * layout.standard.index_select(1, columns).unsqueeze(-1)).sum(2)
    error = (answer.point - standard).square() * (wanted.sum(2) > 0)
    # The levels of an ordinal are what is asked for; the bins of a number are ours, only its shape.
    bins_weight = torch.where(layout.is_ordinal[columns], 1.0, settings.bins_weight).unsqueeze(-1)
    as_number = bins_weight * surprise + settings.point_weight * error
    return torch.where(layout.is_number[columns].unsqueeze(-1), as_number, surprise)


def member_losses(losses: Tensor, truth: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean over the known cells, one per member, (M,); ``weights`` is (S,)."""
    known = (~truth.isnan()) * weights
    return (losses * weights.unsqueeze(-1)).sum((1, 2)) / known.sum((1, 2)).clamp(min=1e-9)


def trivial_answer(layout: Layout, truth: Tensor, columns: Tensor) -> Answer:
    """What one would say without looking: each feature's own distribution and mean."""
    shares = layout.log_shares.index_select(1, columns).masked_fill(~layout.real[columns], -1e9)  # (L, S, K)
    logits = shares.unsqueeze(-1).expand(len(truth), -1, -1, truth.shape[1])
    return Answer(logits, torch.zeros_like(truth).transpose(1, 2), truth)
