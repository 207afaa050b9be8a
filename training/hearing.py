"""The network and the linear expert together, as tensors: what a fit sees of them.

Axis letters as in model.network: M members, B rows, S columns, Q questions, K values.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from model.linear import LinearExpert
from model.network import Answer, MoeNetwork
from model.paper import PaperNetwork


class Heard(NamedTuple):
    """Expected values (M, Q, B), and what is added to the logits (M, Q, K, B)."""

    mean: Tensor
    logits: Tensor


def hear(expert: LinearExpert | None, columns: Tensor, seen: Tensor, asked: Tensor) -> Heard | None:
    """Ask the expert about rows (M, B, S), if there is one."""
    if expert is None:
        return None
    m, b, s = seen.shape
    told = expert.tell(columns.cpu().numpy(), seen.reshape(-1, s).cpu().numpy(), asked.cpu().numpy())
    mean, logits = (torch.from_numpy(x.astype(np.float32)).to(seen.device) for x in (told.mean, told.logits))
    return Heard(mean.view(m, b, -1).transpose(1, 2), logits.view(m, b, len(asked), -1).permute(0, 2, 3, 1))


def answer_with(
    network: MoeNetwork | PaperNetwork,
    expert: LinearExpert | None,
    columns: Tensor,
    seen: Tensor,
    asked: Tensor,
    *,
    heard: Heard | None = None,
) -> Answer:
    """What network and expert say together; ``heard``, if the expert was asked before."""
    answer: Answer = network(columns, seen, asked)
    heard = heard or hear(expert, columns, seen, asked)
    if heard is None or not isinstance(network, MoeNetwork):
        return answer
    return network.follow(answer, asked, *heard)
