"""Observed cells, checked against the rest of their row: how surprising is each, and what was expected?

Two things speak against a cell: that it lies far out in what the other cells of its row lead to expect, and that
they make its value less probable than it usually is. A value that is rare everywhere has only the first against it, a
usual one in the wrong row both. If the model is right, the share that lies as far out is at most p in a share p of all
sound cells, and a value is 1 / p times less probable than usual in at most a share p of them. The surprise of a cell
is the mean of both on the scale of -ln p: at most about one sound cell in a hundred has 4.6, most have less than 1;
below 0 the row speaks for the value.

A number beyond all that was seen is judged by how far it really lies, and the further it does the rarer it is taken to
be in any row. What lies so far beyond that it can hardly be right is not heard about the other cells of its row, which
it would make look wrong.
Axis letters: B rows, S columns, K values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.answers import FIXED, Prediction, softmax
from model.requests import Cells, Columns, check_interval
from model.runtime import Pause, Predictor
from model.schema import Feature, Link
from model.straying import MEDIANS, stray_from

LEAST_SHARE = 1e-12
# Beyond this it is all the same how far a number lies.
FURTHEST = 1e6
# A number so many times as far from the mean as the furthest that was seen says nothing of the rest of its row.
FURTHEST_HEARD = 1.5


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
    at_least: float = -np.inf,
    pause: Pause | None = None,
) -> tuple[list[Suspect], tuple[str, ...]]:
    """The ``limit`` most surprising cells, most surprising first, and what there is to warn of."""
    check_interval(interval)
    links = predictor.links(table) if links is None else links
    cells = predictor.encode(columns, links, unknown, table)
    heard = _heard(predictor, cells)
    surprise = _measure(predictor, cells, heard, pause)
    order = np.argsort(-surprise, axis=None, kind="stable")[: max(limit, 0)]  # NaN comes last, and is at least nothing
    chosen = [(int(i) // len(cells.names), int(i) % len(cells.names)) for i in order if surprise.flat[i] >= at_least]
    rows = [row for row, _ in chosen]
    told: dict[tuple[int, int], Prediction] = {}
    for column in {column for _, column in chosen}:
        mine = np.asarray([row for row, other in chosen if other == column])
        link, some = links[cells.names[column]], heard.rows(mine)
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
    """The surprise of every cell, (B, S); NaN for cells that are missing or unseen."""
    return _measure(predictor, cells, _heard(predictor, cells), pause)


def _measure(predictor: Predictor, cells: Cells, heard: Cells, pause: Pause | None) -> codec.Floats:
    surprise = np.full(cells.positions.shape, np.nan)
    for column in range(len(cells.names)):
        seen = np.flatnonzero(~np.isnan(cells.positions[:, column]))
        if len(seen):
            surprise[seen, column] = _measure_column(predictor, cells.rows(seen), heard.rows(seen), column, pause)
    return surprise


def _heard(predictor: Predictor, cells: Cells) -> Cells:
    """The cells that can be told from: all but numbers that can hardly be right."""
    if cells.beyond is None:
        return cells
    further = np.stack([_further(predictor, cells, column) for column in range(len(cells.names))], axis=1)
    return replace(cells, positions=np.where(further > FURTHEST_HEARD, np.float32(np.nan), cells.positions))


def _further(predictor: Predictor, cells: Cells, column: int) -> codec.Floats:
    """How many times as far from its mean each number of a column lies as that end of the fitted range, (B,); 1 within
    it, and for words.
    """
    feature = predictor.schema.features[cells.features[column]]
    if cells.beyond is None or not feature.is_number:
        return np.ones(len(cells.positions))
    bins, beyond = feature.knots, cells.beyond[:, column]
    low, high = (max(abs(end - bins.mean), bins.spread) for end in (bins.values[0], bins.values[-1]))
    return np.asarray(1.0 + np.minimum(np.abs(beyond) / np.where(beyond < 0.0, low, high), FURTHEST))


def _measure_column(predictor: Predictor, cells: Cells, heard: Cells, column: int, pause: Pause | None) -> codec.Floats:
    """The surprise of a column's cells (B,), of which none is missing, told from what is ``heard`` of their rows."""
    index = int(cells.features[column])
    feature, calibration = predictor.schema.features[index], predictor.bundle.calibration
    outputs = predictor.ask(heard, [index], pause=pause)
    mass = softmax(outputs["logits"][:, 0, : feature.n_values])
    positions = cells.positions[:, column].astype(np.float64)
    if not feature.is_continuous:
        positions = np.rint(positions)
    here = _around(mass, positions)
    further = _further(predictor, cells, column)
    if calibration is not None and calibration.straying.about[index, MEDIANS]:
        expected = codec.read_point(feature.knots, outputs["point"][:, 0].astype(np.float64))
        with np.errstate(over="ignore"):
            strays = stray_from(feature.knots, mass, expected, _read_values(feature, cells, column))
        share = calibration.straying.share_beyond(index, calibration.group(index, heard.count_observed(index)), strays)
    else:
        share = _share_beyond(feature, mass, positions, here)
        if calibration is not None and feature.is_continuous:
            share = calibration.tail_shares(index, heard.count_observed(index), share)
        share = share / further**2
    chances = np.clip(share, LEAST_SHARE, 1.0) * _lift(feature, here, positions, further)
    surprise: codec.Floats = -0.5 * np.log(chances)
    return surprise


def _read_values(feature: Feature, cells: Cells, column: int) -> codec.Floats:
    """The numbers of a column as they are, (B,), in the feature's unit."""
    values = np.interp(cells.positions[:, column], np.arange(feature.n_values), feature.knots.values)
    return values if cells.beyond is None else values + cells.beyond[:, column]


def _lift(feature: Feature, here: codec.Floats, positions: codec.Floats, further: codec.Floats) -> codec.Floats:
    """How many times as probable as usual its row makes each value: what it has ``here``, around its position, (B,)."""
    usual = np.interp(positions, np.arange(feature.n_values), feature.shares)
    lift: codec.Floats = np.maximum(here, LEAST_SHARE) / np.maximum(usual, LEAST_SHARE)
    # What lies beyond all that was seen is read as the last of it, of which it must not have the credit.
    return np.where(further > 1.0, np.minimum(lift, 1.0) / further**2, lift)


def _around(mass: codec.Floats, positions: codec.Floats) -> codec.Floats:
    """What each distribution (B, K) holds around a position (B,): of the two knots it lies between."""
    rows, below = np.arange(len(mass)), np.floor(positions).astype(np.int64)
    part = positions - below
    above = np.minimum(below + 1, mass.shape[1] - 1)
    held: codec.Floats = (1.0 - part) * mass[rows, below] + part * mass[rows, above]
    return held


def _share_beyond(feature: Feature, mass: codec.Floats, positions: codec.Floats, here: codec.Floats) -> codec.Floats:
    """How much of each row's distribution (B, K) lies as far out as its position (B,), or further: for numbers both
    tails, for categories and levels all values that are no more probable.
    """
    if not feature.is_continuous:
        share: codec.Floats = np.where(mass <= here[:, None] * (1.0 + 1e-9), mass, 0.0).sum(axis=1)
        return share
    at_most, less = codec.read_heights(feature.knots, mass, positions)
    # At the very ends nothing lies further out, but such cells were seen: at least half of what the
    # distribution holds around the cell counts.
    share = np.maximum(2.0 * np.minimum(at_most, 1.0 - less), 0.5 * here)
    return np.minimum(share, 1.0, out=share)
