"""What a fit minimises: every known cell, asked from the others, with some of them hidden.

Axis letters as in model.network: M members, B rows, S columns, K values.
"""

import torch
from torch import Tensor

from model.network import Answer, Layout, hats
from training.settings import FitSettings


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
    """The loss of each known cell, 0 where the truth is missing, (M, B, S)."""
    wanted = hats(truth, layout.word.shape[1])  # (M, B, S, K)
    surprise = -(wanted * answer.logits.log_softmax(-1)).sum(-1)
    if settings.point_weight == 0.0:
        return surprise * settings.bins_weight
    standard = (wanted * layout.standard[columns]).sum(-1)
    error = (answer.point - standard).square() * ~truth.isnan()
    as_number = settings.bins_weight * surprise + settings.point_weight * error
    return torch.where(layout.is_number[columns], as_number, surprise)


def member_losses(losses: Tensor, truth: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean over the known cells, one per member, (M,); ``weights`` is (S,)."""
    known = (~truth.isnan()) * weights
    return (losses * weights).sum((1, 2)) / known.sum((1, 2)).clamp(min=1e-9)


def trivial_answer(layout: Layout, truth: Tensor, columns: Tensor) -> Answer:
    """What one would say without looking: each feature's own distribution and mean."""
    shape = (*truth.shape, layout.word.shape[1])
    logits = layout.log_shares[columns].masked_fill(~layout.real[columns], -1e9).expand(shape)
    return Answer(logits, torch.zeros_like(truth), truth)
