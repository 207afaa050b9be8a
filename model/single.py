"""One row, read without arrays: what a single request holds costs a few microseconds this way.

Gives the very positions that ``model.cells`` gives, but only for plain cells: numbers within the fitted
range, words that are known, nulls. At anything else it steps back, and the general way reads the row,
says what is wrong with it, or warns.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from math import nan
from typing import Any

from model.codec import word_index
from model.requests import Columns
from model.schema import Feature, Link

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
