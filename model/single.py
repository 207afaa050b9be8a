"""One row, read and answered without arrays where lists do: most requests hold one row and want to be quick.

Gives the very positions and answers that ``model.cells`` and ``model.answers`` give, but only for plain
cells: numbers within the fitted range, words that are known, nulls. At anything else it steps back, and
the general way reads the row, says what is wrong with it, or warns.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.answers import Prediction
from model.calibration import Calibration
from model.cells import show_word
from model.codec import ROUNDING, Axis, axis_of, tails, word_index
from model.requests import Columns
from model.schema import Feature, Link
from model.straying import FAR, LEAST_SPREAD, MIDDLE, moments_of, read_strays

# The pieces of a distribution that nobody will look at.
NO_PIECES = np.empty((1, 0))
NO_PIECES.flags.writeable = False
NO_STRAYS = np.empty(0)
# A cell and its column's link to a position; None: not a plain cell.
Reader = Callable[[Any, Link], float | None]


def make_reader(feature: Feature) -> Reader:
    """How a single plain cell of this feature is read."""
    if feature.kind == "datetime":
        return lambda cell, _: nan if cell is None else None
    return _number_reader(feature) if feature.is_number else _word_reader(feature)


def _number_reader(feature: Feature) -> Reader:
    knots = list(feature.knots.values)
    first, last, top = knots[0], knots[-1], len(knots) - 1

    def read(cell: Any, link: Link) -> float | None:
        if cell is None:
            return nan
        kind = type(cell)
        if (kind is not float and kind is not int) or link.missing:
            return None
        try:
            number = cell * link.scale + link.offset
        except OverflowError:
            return None
        if not first <= number <= last:
            return None
        if number == last:
            return float(top)
        below = bisect_right(knots, number) - 1
        return float((number - knots[below]) / (knots[below + 1] - knots[below]) + below)

    return read


def _word_reader(feature: Feature) -> Reader:
    index = word_index(feature)

    def read(cell: Any, link: Link) -> float | None:
        if cell is None:
            return nan
        return None if type(cell) is not str or link.missing else index.get(cell)

    return read


def read_row(columns: Columns, links: Mapping[str, Link], readers: Mapping[str, Reader]) -> list[float] | None:
    """The positions of a table of one row, or None where the general way has to look at it."""
    positions = []
    for name, cells in columns.items():
        link = links.get(name)
        position = None if link is None else readers[link.feature](cells[0], link)
        if position is None:
            return None
        positions.append(position)
    return positions


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """The answer for one row; ``pieces`` is the probability of each piece or choice."""

    value: Any
    pieces: list[float]
    probability: float | None = None
    median: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Readout:
    """How a feature's answers are read in the unit of one column: numbers between ``lows`` and ``highs``,
    or one of ``choices``. ``steps`` says, for each knot, how much of the mass of the knot before and of its
    own lies below it, in which parts that makes pieces, and whether the knot is an atom. ``asked`` is the question.
    ``about``: whether intervals, and medians, lie about the expected value; ``moments`` of each knot, as
    ``straying.moments_of`` has them.
    """

    feature: Feature
    link: Link
    lows: list[float]
    highs: list[float]
    choices: list[Any]
    points: list[float]
    steps: list[tuple[float, float, tuple[float, ...], bool]]
    asked: NDArray[np.int64]
    calibration: Calibration | None = None
    about: Sequence[bool] = (False, False, False)
    moments: Sequence[Sequence[float]] = ()

    @property
    def index(self) -> int:
        """The number of the feature that is asked."""
        return int(self.asked[0])

    def read(self, logits: list[float], point: float, interval: float | None, n_observed: int) -> RowAnswer:
        """One row's logits (padded or not) and its expected value, in units of the spread, as an answer;
        ``n_observed``: how many cells it was told from.
        """
        del logits[self.feature.n_values :]
        largest = max(logits)
        mass = [exp(logit - largest) for logit in logits]
        total = sum(mass)
        mass = [share / total for share in mass]
        if self.steps:
            return self._read_number(mass, point, interval, n_observed)
        chosen = self._choose(logits)
        return RowAnswer(self.choices[chosen], mass, mass[chosen])

    def _choose(self, logits: list[float]) -> int:
        """The most probable value that may be answered. Not by mass: of choices far behind OTHER all mass may be 0."""
        choices = logits[: self.feature.n_values - self.feature.has_other]
        return choices.index(max(choices))

    def answer_briefly(self, logits: list[float], point: float) -> Prediction:
        """The answer without distribution, median and interval."""
        feature = self.feature
        if feature.kind == "numeric":
            return Prediction(self.link.column, feature.kind, [self._show(self._expect(point))], NO_PIECES)
        del logits[feature.n_values :]
        chosen, largest = self._choose(logits), max(logits)
        probability = exp(logits[chosen] - largest) / sum([exp(logit - largest) for logit in logits])
        value = self._show(feature.knots.values[chosen]) if self.steps else self.choices[chosen]
        return Prediction(self.link.column, feature.kind, [value], NO_PIECES, np.asarray([probability]))

    def answer(self, row: RowAnswer) -> Prediction:
        """The answer for one row in the form that those for many have."""
        return Prediction(
            target=self.link.column,
            kind=self.feature.kind,
            values=[row.value],
            mass=np.asarray([row.pieces]),
            probability=None if row.probability is None else np.asarray([row.probability]),
            median=None if row.median is None else [row.median],
            interval=None if row.interval is None else [row.interval],
            lows=list(self.lows) if self.steps else None,
            highs=list(self.highs) if self.steps else None,
            choices=None if self.steps else list(self.choices),
        )

    def _read_number(self, mass: list[float], point: float, interval: float | None, n_observed: int) -> RowAnswer:
        heights, pieces = self._cumulate(mass)
        bins = self.feature.knots
        value = self._expect(point)
        probability = None
        is_level = self.feature.kind == "ordinal"
        if is_level:
            probability = max(mass)
            level = bins.values[mass.index(probability)]
        about_interval, about_median, _ = self.about
        strays = self._find_strays(n_observed) if about_interval or about_median else NO_STRAYS
        if about_median:
            (median,) = self._read_about(mass, value, (strays.item(MIDDLE),))
        else:
            median = _quantile(self.points, heights, 0.5)
        ends = None
        if interval is not None:
            low, high = (
                self._read_about(mass, value, read_strays(strays, tails(interval)).tolist()) if about_interval
                else self._read_central(heights, n_observed, interval)
            )  # fmt: skip
            if not is_level:
                low, high = min(low, value, median), max(high, value, median)
            ends = (self._show(low), self._show(high)) if self.link.scale > 0 else (self._show(high), self._show(low))
        return RowAnswer(self._show(level if is_level else value), pieces, probability, self._show(median), ends)

    def _find_strays(self, n_observed: int) -> NDArray[np.float64]:
        """How far those that are told like this stray, at all heights."""
        assert self.calibration is not None
        group = self.calibration.group_of_row(self.index, n_observed)
        strays: NDArray[np.float64] = self.calibration.straying.strays[self.index, group]
        return strays

    def _read_about(self, mass: list[float], value: float, strays: Sequence[float]) -> list[float]:
        """The values so far from what is expected, as ``straying.read_about`` has them."""
        spread, values = self._spread(mass), self.feature.knots.values
        return [
            self._near(value + spread * stray) if abs(stray) < FAR else values[0 if stray < 0.0 else -1]
            for stray in strays
        ]

    def _read_central(self, heights: list[float], n_observed: int, interval: float) -> list[float]:
        """The ends of the central part of the distribution that is the interval."""
        if self.calibration is not None:
            interval = float(self.calibration.widths(self.index, np.asarray([n_observed]), interval)[0])
        return [_quantile(self.points, heights, tail) for tail in tails(interval)]

    def _spread(self, mass: list[float]) -> float:
        """The standard deviation of the distribution, as ``straying.read_spread`` has it."""
        mean = square = 0.0
        for share, (of_mean, of_square) in zip(mass, self.moments, strict=True):
            mean += share * of_mean
            square += share * of_square
        return max(sqrt(max(square - mean * mean, 0.0)), LEAST_SPREAD) * self.feature.knots.spread

    def _near(self, number: float) -> float:
        """The number within the fitted range."""
        values = self.feature.knots.values
        return min(max(number, values[0]), values[-1])

    def _expect(self, point: float) -> float:
        """The expected value, as ``codec.read_point`` has it."""
        bins = self.feature.knots
        return self._near(point * bins.spread + bins.mean)

    def _cumulate(self, mass: list[float]) -> tuple[list[float], list[float]]:
        """The distribution function before and after each knot, and the pieces between, as ``codec.Axis`` has them."""
        heights, pieces = [], []
        height = before = 0.0
        for share, (of_before, of_own, parts, is_atom) in zip(mass, self.steps, strict=True):
            step = of_before * before + of_own * share
            for part in parts:
                height += part * step
                heights.append(height)
                pieces.append(part * step)
            if not parts:
                heights.append(height)
            if is_atom:
                height += share
                pieces.append(share)
            heights.append(height)
            before = share
        return heights, pieces if self.link.scale > 0 else pieces[::-1]

    def _show(self, number: float) -> float:
        return (number - self.link.offset) / self.link.scale


def make_readout(feature: Feature, link: Link, index: int, calibration: Calibration | None) -> Readout | None:
    """How single answers about the feature at ``index`` are read; None where the general way has to (dates)."""
    if feature.kind == "datetime":
        return None
    if not feature.is_number:
        words = [show_word(feature, word) for word in feature.words]
        return Readout(feature, link, [], [], words, [], [], np.asarray([index]), calibration)
    axis, atoms = axis_of(feature.knots), feature.knots.atoms
    lows, highs = (((ends - link.offset) / link.scale).tolist() for ends in (axis.lows, axis.highs))
    if link.scale < 0:  # the caller's axis runs the other way
        lows, highs = highs[::-1], lows[::-1]
    last = len(atoms) - 1
    # What no atom holds is spread half to each side, at the ends to the only side.
    to_right = [0.0 if atom or k == last else 1.0 if k == 0 else 0.5 for k, atom in enumerate(atoms)]
    to_left = [0.0 if atom or k == 0 else 1.0 if k == last else 0.5 for k, atom in enumerate(atoms)]
    steps = [(to_right[k - 1] if k else 0.0, to_left[k], _parts_below(axis, k), atoms[k]) for k in range(len(atoms))]
    about = [False] * 3 if calibration is None else calibration.straying.about[index].tolist()
    return Readout(
        feature, link, lows, highs, [], axis.points.tolist(), steps, np.asarray([index]), calibration, about,
        moments_of(feature.knots).tolist(),
    )  # fmt: skip


def _parts_below(axis: Axis, k: int) -> tuple[float, ...]:
    """The parts in which the stretch below a knot is filled; none where nothing ever lies there."""
    if k == 0:
        return ()
    here = (axis.lows >= axis.knots[k - 1]) & (axis.highs <= axis.knots[k]) & (axis.lows < axis.highs)
    return tuple(axis.parts[here].tolist())


def _quantile(points: Sequence[float], heights: Sequence[float], level: float) -> float:
    """Where the distribution function reaches a level, as ``codec.read_quantiles`` has it."""
    at = min(bisect_left(heights, level - ROUNDING), len(points) - 1)
    before = max(at - 1, 0)
    low, high = heights[before], heights[at]
    part = min(max((level - low) / (high - low), 0.0), 1.0) if high > low else 1.0
    return points[before] + part * (points[at] - points[before])
