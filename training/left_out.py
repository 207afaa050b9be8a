"""What is said of rows by somebody who has not learnt from them: of rows held out for good by the whole model, of rows
left out in turn by the members, and the law, that did without them.

Axis letters: N rows left out, B rows of a piece, S columns, K values, G folds, M members.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.codec import Positions
from model.network import Answer, MoeNetwork
from model.requests import Cells
from model.runtime import Predictor
from training.fit import Fitted, Network, folds_of_members
from training.hearing import Heard, hear
from training.joint_normal import Council
from training.tables import N_FOLDS, FitTable

Floats = NDArray[np.float64]
# Rows are asked about in pieces of about this many gates.
MOST_GATES = 20_000_000


class Told(NamedTuple):
    """Of column ``column`` of a table, what was said of those left-out rows (n,) whose cell is known: ``logits``
    (n, K) and the expected value, ``point`` (n,).
    """

    column: int
    rows: NDArray[np.int64]
    logits: Floats
    point: Floats


# Asked about a table, with what may be seen of its left-out rows, (N, S).
Teller = Callable[[FitTable, Positions], Iterator[Told]]


def tell_held_out(predictor: Predictor) -> Teller:
    """The whole model tells: nothing of it has learnt from the rows."""

    def tell(table: FitTable, seen: Positions) -> Iterator[Told]:
        for j, index in enumerate(table.columns.tolist()):
            rows = _known(table, j)
            if len(rows):
                outputs = predictor.ask(Cells.of(table.columns, seen[rows]), [index])
                logits = outputs["logits"][:, 0, : predictor.schema.features[index].n_values]
                yield Told(j, rows, logits.astype(np.float64), outputs["point"][:, 0].astype(np.float64))

    return tell


def tell_in_turn(fitted: Fitted) -> Teller:
    """Of each row those members tell that have not learnt from its fold. They are some of those that will answer:
    what is found so is, if anything, worse than what is served.
    """

    def tell(table: FitTable, seen: Positions) -> Iterator[Told]:
        logits, point = _ask_members(fitted.network, fitted.council, table, seen)
        real = fitted.network.layout.real.sum(1).tolist()
        for j, index in enumerate(table.columns.tolist()):
            rows = _known(table, j)
            if len(rows):
                yield Told(j, rows, logits[rows, j, : real[index]], point[rows, j])

    return tell


def _known(table: FitTable, column: int) -> NDArray[np.int64]:
    return np.flatnonzero(~np.isnan(table.truth[:, column]))


def _ask_members(network: Network, council: Council | None, table: FitTable, seen: Positions) -> tuple[Floats, Floats]:
    """Every cell from what is seen of the others in its row: logits (N, S, K) and expected values (N, S)."""
    assert table.fold is not None
    folds = [np.flatnonzero(table.fold == fold) for fold in range(N_FOLDS)]
    shape = (*seen.shape, network.layout.word.shape[1])
    logits, point = np.zeros(shape), np.zeros(shape[:2])
    n_gates = network.shape.n_members * network.shape.n_heads * len(table.columns) ** 2
    step = max(1, MOST_GATES // n_gates)
    for i in range(0, max(map(len, folds)), step):
        pieces = [rows[i : i + step] for rows in folds]
        n_rows = max(map(len, pieces))
        # Folds differ by a row: an empty one stands where there is none, and is not looked at.
        cells = np.full((N_FOLDS, n_rows, seen.shape[1]), np.nan, dtype=np.float32)
        for fold, rows in enumerate(pieces):
            cells[fold, : len(rows)] = seen[rows]
        answer = _ask_folds(network, council, torch.from_numpy(table.columns), torch.from_numpy(cells))
        for fold, rows in enumerate(pieces):
            logits[rows] = answer.logits[fold, :, :, : len(rows)].permute(2, 0, 1).cpu().numpy()
            point[rows] = answer.point[fold, :, : len(rows)].T.cpu().numpy()
    return logits, point


@torch.no_grad()
def _ask_folds(network: Network, council: Council | None, columns: Tensor, cells: Tensor) -> Answer:
    """Rows of each fold (G, B, S), asked of the members that learn nothing from it; their mean, G in the place of M."""
    device = network.layout.word.device
    columns, cells = columns.to(device), cells.to(device)
    own = torch.from_numpy(folds_of_members(network.shape.n_members)).to(device)
    answer: Answer = network(columns, cells[own], columns)
    if council is not None and isinstance(network, MoeNetwork):
        heard = [hear(law, columns, cells[fold : fold + 1], columns) for fold, law in enumerate(council.fold_experts)]
        mean, logits = (torch.cat(parts)[own] for parts in zip(*(one for one in heard if one), strict=True))
        answer = network.follow(answer, columns, *Heard(mean, logits))
    return Answer(*(torch.stack([part[own == fold].mean(0) for fold in range(N_FOLDS)]) for part in answer))
