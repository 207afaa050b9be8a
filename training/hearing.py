"""The network and the linear expert together, as tensors: what a fit sees of them.

Axis letters as in model.network: M members, B rows, S columns, Q questions, K values.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from model.law import Floats, Indices
from model.linear import LinearExpert
from model.network import Answer, MoeNetwork
from model.paper import PaperNetwork
from training.joint_normal import Council


class Heard(NamedTuple):
    """Expected values (M, Q, B), and what is added to the logits (M, Q, K, B)."""

    mean: Tensor
    logits: Tensor


def hear(expert: LinearExpert | None, columns: Tensor, seen: Tensor, asked: Tensor) -> Heard | None:
    """Ask the expert about rows (M, B, S), if there is one."""
    if expert is None:
        return None
    rows = seen.reshape(-1, seen.shape[2]).cpu().numpy()
    told = expert.tell(columns.cpu().numpy(), rows, asked.cpu().numpy())
    return _as_heard(told.mean, told.logits, seen)


def hear_apart(council: Council, columns: Tensor, seen: Tensor, asked: Tensor, folds: Indices) -> Heard:
    """Ask about training rows, each by the expert of its fold; ``folds`` is (M, B)."""
    rows, which = seen.reshape(-1, seen.shape[2]).cpu().numpy(), folds.ravel()
    features, questions = columns.cpu().numpy(), asked.cpu().numpy()
    told = [expert.tell(features, rows[which == fold], questions) for fold, expert in enumerate(council.fold_experts)]
    back = np.argsort(np.argsort(which, kind="stable"), kind="stable")
    mean, logits = (np.concatenate([getattr(one, name) for one in told])[back] for name in ("mean", "logits"))
    return _as_heard(mean, logits, seen)


def _as_heard(mean: Floats, logits: Floats, seen: Tensor) -> Heard:
    m, b, _ = seen.shape
    said, added = (torch.from_numpy(x.astype(np.float32)).to(seen.device) for x in (mean, logits))
    return Heard(said.view(m, b, -1).transpose(1, 2), added.view(m, b, *logits.shape[1:]).permute(0, 2, 3, 1))


def answer_with(
    network: MoeNetwork | PaperNetwork, expert: LinearExpert | None, columns: Tensor, seen: Tensor, asked: Tensor
) -> Answer:
    """What network and expert say together."""
    return answer_after(network, hear(expert, columns, seen, asked), columns, seen, asked)


def answer_after(
    network: MoeNetwork | PaperNetwork, heard: Heard | None, columns: Tensor, seen: Tensor, asked: Tensor
) -> Answer:
    """What the network says with what it has heard of an expert."""
    answer: Answer = network(columns, seen, asked)
    if heard is None or not isinstance(network, MoeNetwork):
        return answer
    return network.follow(answer, asked, *heard)
