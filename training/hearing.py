"""The network and the linear expert together, as tensors: what a fit sees of them.

Axis letters as in model.network: M members, B rows, S columns, Q questions, K values; N rows of a table.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.law import Indices
from model.linear import LinearExpert
from model.network import Answer, MoeNetwork
from model.paper import PaperNetwork
from training.joint_normal import Council
from training.tables import FitTable

Singles = NDArray[np.float32]


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
    return _as_heard(told.mean.astype(np.float32), told.logits.astype(np.float32), seen)


@dataclass(frozen=True, slots=True, eq=False)
class Audience:
    """The rows of a table, and who tells of each: the law of its fold.

    ``rehearsed``: what is said of all columns of the rows as they are, (N, S) and (N, S, K), and how many cells they
    have, (N,): about half the rows of every step have nothing more hidden, and need not be told of again.
    """

    council: Council
    columns: Indices
    folds: Indices  # (N,)
    rehearsed: tuple[Singles, Singles, Indices] | None = None

    @classmethod
    def of(cls, council: Council, table: FitTable, folds: Indices) -> "Audience":
        """Only rows that are left out in turn are rehearsed: they are few."""
        audience = cls(council, table.columns, folds)
        if table.fold is None:
            return audience
        mean, logits = audience._tell(table.positions, table.columns, folds)
        return cls(council, table.columns, folds, (mean, logits, (~np.isnan(table.positions)).sum(axis=1)))

    def hear(self, seen: Tensor, places: Tensor, rows: Indices) -> Heard:
        """What is said of the columns at ``places`` (Q,) of rows (M, B), of which some cells are seen, (M, B, S)."""
        cells, which, at = seen.reshape(-1, seen.shape[2]).cpu().numpy(), rows.ravel(), places.cpu().numpy()
        asked, folds = self.columns[at], self.folds[which]
        if self.rehearsed is None:
            return _as_heard(*self._tell(cells, asked, folds), seen)
        *rehearsed, n_known = self.rehearsed
        mean, logits = (said[which[:, None], at] for said in rehearsed)
        hidden = np.flatnonzero((~np.isnan(cells)).sum(axis=1) < n_known[which])
        mean[hidden], logits[hidden] = self._tell(cells[hidden], asked, folds[hidden])
        return _as_heard(mean, logits, seen)

    def _tell(self, cells: Singles, asked: Indices, folds: Indices) -> tuple[Singles, Singles]:
        """Expected values (B, Q) and logits (B, Q, K) of rows (B, S), each by the law of its fold (B,)."""
        mean = np.empty((len(cells), len(asked)), dtype=np.float32)
        logits = np.empty((*mean.shape, self.council.expert.n_values), dtype=np.float32)
        for fold, expert in enumerate(self.council.fold_experts):
            of_fold = folds == fold
            told = expert.tell(self.columns, cells[of_fold], asked)
            mean[of_fold], logits[of_fold] = told.mean, told.logits
        return mean, logits


def _as_heard(mean: Singles, logits: Singles, seen: Tensor) -> Heard:
    m, b, _ = seen.shape
    said, added = (torch.from_numpy(x).to(seen.device) for x in (mean, logits))
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
