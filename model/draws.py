"""Several plausible completions of the same rows, for multiple imputation.

Holes are filled one column after the other, each drawn from its distribution given the observed cells and
what was drawn before: so the cells of a copy agree with each other as the model sees it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.answers import n_choices, show_numbers, softmax
from model.cells import show_word
from model.requests import Cells, Columns
from model.runtime import Pause, Predictor
from model.schema import Feature, Link
from model.straying import read_about


@dataclass(frozen=True, slots=True)
class Draws:
    """``rows[name]``: which rows lacked the column; ``values[name]``: what they got, one list per copy."""

    rows: dict[str, NDArray[np.int64]]
    values: dict[str, list[list[Any]]]


def draw_copies(
    predictor: Predictor,
    columns: Columns,
    *,
    n_draws: int,
    seed: int | Sequence[int] = 0,
    table: str | None = None,
    links: Mapping[str, Link] | None = None,
    which: Sequence[str] | None = None,
    unknown: Literal["refuse", "ignore"] = "refuse",
    pause: Pause | None = None,
) -> Draws:
    """Complete the rows ``n_draws`` times; the same seed gives the same copies."""
    links, cells, holes = predictor.find_holes(columns, table=table, links=links, which=which, unknown=unknown)
    rng = np.random.default_rng(seed)
    n_rows = len(cells.positions)
    stacked = _stack(predictor, cells, holes, links, n_draws)
    values: dict[str, list[list[Any]]] = {}
    where = {name: np.flatnonzero(mask) for name, mask in holes.items()}
    names = list(holes)
    for name in (names[i] for i in rng.permutation(len(names))):
        link, column = links[name], stacked.names.index(name)
        feature = predictor.feature_of(link)
        rows = np.concatenate([where[name] + copy * n_rows for copy in range(n_draws)])
        some, index = stacked.rows(rows), predictor.schema.index[feature.name]
        outputs = predictor.ask(some, [index], pause=pause)
        mass = softmax(outputs["logits"][:, 0, : feature.n_values])
        level = rng.random(len(mass))
        if feature.is_number:
            expected = codec.read_point(feature.knots, outputs["point"][:, 0].astype(np.float64))
            numbers = _draw_numbers(predictor, some, index, mass=mass, expected=expected, level=level)
            positions, shown = codec.encode_numbers(feature, numbers), show_numbers(feature, link, numbers)
        else:
            positions, shown = _read_words(feature, mass, level)
        stacked.positions[rows, column] = positions
        step = len(where[name])
        values[name] = [shown[copy * step : (copy + 1) * step] for copy in range(n_draws)]
    return Draws(where, values)


def _stack(
    predictor: Predictor, cells: Cells, holes: Mapping[str, Any], links: Mapping[str, Link], n_draws: int
) -> Cells:
    """The rows once per copy, with a place for every column that will be drawn."""
    absent = tuple(name for name in holes if name not in cells.names)
    names = (*cells.names, *absent)
    features = np.asarray([predictor.schema.index[links[name].feature] for name in names], dtype=np.int64)
    room = np.full((len(cells.positions), len(absent)), np.nan, dtype=np.float32)
    positions = np.tile(np.concatenate([cells.positions, room], axis=1), (n_draws, 1))
    return Cells(names, features, positions, ~np.isnan(positions))


def _draw_numbers(
    predictor: Predictor, cells: Cells, index: int, *, mass: codec.Floats, expected: codec.Floats, level: codec.Floats
) -> codec.Floats:
    """The number at each row's level (B,): about what is expected of it where that can be told, else of its
    distribution (B, K) as it is.
    """
    bins = predictor.schema.features[index].knots
    calibration = predictor.bundle.calibration
    strays = None if calibration is None else calibration.draw_strays(index, cells.count_observed(index), level)
    if strays is not None:
        return read_about(bins, mass, expected, strays[:, None])[:, 0]
    level = predictor.calibrate_levels(cells, index, level)
    return codec.read_quantiles(bins, mass, level[:, None])[:, 0]


def _read_words(feature: Feature, mass: codec.Floats, level: codec.Floats) -> tuple[codec.Positions, list[Any]]:
    """The word at each row's level of its distribution, as a position and as the caller knows it."""
    heights = np.cumsum(mass[:, : n_choices(feature)], axis=1)
    chosen = np.minimum((heights < level[:, None] * heights[:, -1:]).sum(axis=1), heights.shape[1] - 1)
    words = [show_word(feature, word) for word in feature.words]
    return chosen.astype(np.float32), [words[i] for i in chosen]
