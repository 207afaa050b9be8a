"""Observed cells, checked against the rest of their row: how surprising is each, and what was expected?

The surprise of a cell is -ln p, p being the share of the cell's own distribution (given all other cells of
the row) that lies as far out or further: for numbers both tails, for categories and levels all values that
are no more probable. 0 is just what was expected; 4.6 happens once in a hundred cells.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.answers import FIXED, Prediction, softmax
from model.requests import Cells, Columns, check_interval
from model.runtime import Pause, Predictor
from model.schema import Feature, Link

LEAST_SHARE = 1e-12


@dataclass(frozen=True, slots=True)
class Suspect:
    """A cell and what the rest of its row says: ``expected`` answers one row."""

    row: int
    column: str
    value: Any
    surprise: float
    expected: Prediction


def audit(
    predictor: Predictor,
    columns: Columns,
    *,
    table: str | None = None,
    links: Mapping[str, Link] | None = None,
    interval: float = 0.9,
    unknown: Literal["refuse", "ignore"] = "refuse",
    limit: int = 100,
    at_least: float = 0.0,
    pause: Pause | None = None,
) -> tuple[list[Suspect], tuple[str, ...]]:
    """The ``limit`` most surprising cells, most surprising first, and what there is to warn of."""
    check_interval(interval)
    links = predictor.links(table) if links is None else links
    cells = predictor.encode(columns, links, unknown, table)
    surprise = measure(predictor, cells, pause)
    order = np.argsort(-surprise, axis=None, kind="stable")[: max(limit, 0)]
    chosen = [(int(i) // len(cells.names), int(i) % len(cells.names)) for i in order if surprise.flat[i] >= at_least]
    rows = [row for row, _ in chosen]
    told: dict[tuple[int, int], Prediction] = {}
    for column in {column for _, column in chosen}:
        mine = np.asarray([row for row, other in chosen if other == column])
        link, some = links[cells.names[column]], cells.rows(mine)
        explain = predictor.bundle.is_additive
        outputs = predictor.ask(some, [int(cells.features[column])], explain=explain, pause=pause)
        for i, row in enumerate(mine.tolist()):
            told[row, column] = predictor.read(
                _one_row(outputs, i), link, some.rows(np.asarray([i])), interval, explain
            )
    suspects = [
        Suspect(row, cells.names[j], columns[cells.names[j]][row], float(surprise[row, j]), told[row, j])
        for row, (_, j) in zip(rows, chosen, strict=True)
    ]
    return suspects, cells.warnings


def _one_row(outputs: Mapping[str, NDArray[np.float32]], row: int) -> dict[str, NDArray[np.float32]]:
    return {name: output if name in FIXED else output[row : row + 1] for name, output in outputs.items()}


def measure(predictor: Predictor, cells: Cells, pause: Pause | None = None) -> codec.Floats:
    """The surprise of every cell, (B, S); cells that are missing or unseen have -1."""
    surprise = np.full(cells.positions.shape, -1.0)
    for column, index in enumerate(cells.features.tolist()):
        seen = np.flatnonzero(~np.isnan(cells.positions[:, column]))
        if len(seen):
            feature = predictor.schema.features[index]
            some = cells.rows(seen)
            outputs = predictor.ask(some, [index], pause=pause)
            mass = softmax(outputs["logits"][:, 0, : feature.n_values])
            share = _share_beyond(feature, mass, cells.positions[seen, column].astype(np.float64))
            calibration = predictor.bundle.calibration
            if calibration is not None and feature.kind in ("numeric", "datetime"):
                share = calibration.tail_shares(index, some.count_observed(index), share)
            surprise[seen, column] = -np.log(np.clip(share, LEAST_SHARE, 1.0))
    return surprise


def _share_beyond(feature: Feature, mass: codec.Floats, positions: codec.Floats) -> codec.Floats:
    """How much of each row's distribution (B, K) lies as far out as its position (B,), or further."""
    rows = np.arange(len(mass))
    if feature.kind not in ("numeric", "datetime"):
        own = mass[rows, np.rint(positions).astype(np.int64)]
        share: codec.Floats = np.where(mass <= own[:, None] * (1.0 + 1e-9), mass, 0.0).sum(axis=1)
        return share
    at_most, less = codec.read_heights(feature.knots, mass, positions)
    below = np.floor(positions).astype(np.int64)
    part = positions - below
    # At the very ends nothing lies further out, but such cells were seen: at least half of what the
    # distribution holds around the cell counts.
    above = np.minimum(below + 1, mass.shape[1] - 1)
    around = (1.0 - part) * mass[rows, below] + part * mass[rows, above]
    share = np.maximum(2.0 * np.minimum(at_most, 1.0 - less), 0.5 * around)
    return np.minimum(share, 1.0, out=share)
