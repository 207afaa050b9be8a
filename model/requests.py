"""What is checked of a request before the network is asked, and what is said of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.cells import Reading, show_value
from model.codec import Floats, Positions
from model.errors import MOST_LISTED, AskError, CellError, CellProblem, list_some
from model.schema import Feature, Link

# Of names that nobody knows no more than so many are told.
MOST_TOLD = 100

# A single row, which lacks a cell.
THE_ROW = np.ones(1, dtype=bool)
THE_ROW.flags.writeable = False

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Cells:
    """A request, read: which features its columns are (S,), where its cells sit and whether there was
    one, (B, S) each. A cell that was given but has no position is a category never seen. ``beyond``: how far cells lie
    above the fitted range, as ``Reading`` has it; None where none does.
    """

    names: tuple[str, ...]
    features: NDArray[np.int64]
    positions: Positions
    given: NDArray[np.bool_]
    warnings: tuple[str, ...] = ()
    beyond: Floats | None = None

    @classmethod
    def of(cls, features: NDArray[np.int64], positions: Positions) -> "Cells":
        """Cells that are positions already."""
        return cls((), features, positions, ~np.isnan(positions))

    @classmethod
    def read(
        cls, names: Sequence[str], features: NDArray[np.int64], n_rows: int, readings: Sequence[Reading],
        warnings: Sequence[str],
    ) -> "Cells":  # fmt: skip
        """Columns that were read one by one, side by side."""
        positions = np.empty((n_rows, len(names)), np.float32)
        given = np.empty((n_rows, len(names)), dtype=bool)
        beyond = np.zeros((n_rows, len(names))) if any(reading.beyond.any() for reading in readings) else None
        for j, reading in enumerate(readings):
            positions[:, j], given[:, j] = reading.positions, reading.given
            if beyond is not None:
                beyond[:, j] = reading.beyond
        return cls(tuple(names), features, positions, given, tuple(warnings), beyond)

    def count_observed(self, asked: int) -> NDArray[np.int64]:
        """How many cells of each row, but for the asked feature's own, can be told from, (B,)."""
        others = np.flatnonzero(self.features != asked)
        return np.asarray((~np.isnan(self.positions[:, others])).sum(axis=1))

    def count_in_row(self, asked: int) -> int:
        """``count_observed`` for the first row, quicker."""
        return count_observed(self.features.tolist(), self.positions[0].tolist(), asked)

    def find_holes(self, wanted: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
        """For each wanted column that has one, which rows lack a cell of it, (B,)."""
        if len(self.given) == 0:
            return {}
        if len(self.given) == 1:
            has_cell = dict(zip(self.names, self.given[0].tolist(), strict=True))
            return {name: THE_ROW for name in wanted if not has_cell.get(name, False)}
        lacking = ~self.given
        has_hole = dict(zip(self.names, np.asarray(lacking.any(axis=0)).tolist(), strict=True))
        place = {name: j for j, name in enumerate(self.names)}
        everywhere = np.ones(len(lacking), dtype=bool)
        return {
            name: lacking[:, place[name]] if name in place else everywhere
            for name in wanted
            if has_hole.get(name, True)
        }

    def rows(self, rows: NDArray[np.int64] | slice) -> "Cells":
        beyond = None if self.beyond is None else self.beyond[rows]
        return replace(self, positions=self.positions[rows], given=self.given[rows], beyond=beyond)


def count_observed(columns: Sequence[int], positions: Sequence[float], asked: int) -> int:
    """How many cells of a row are there, but for those of the asked feature itself."""
    cells = zip(columns, positions, strict=True)
    return sum(position == position and feature != asked for feature, position in cells)  # noqa: PLR0124 - NaN


def check_lengths(columns: Columns) -> int:
    """All columns must have one cell per row; returns the number of rows."""
    lengths: dict[str, int] = {}
    for name, cells in columns.items():
        if type(cells) is list:  # by far the most frequent
            lengths[name] = len(cells)
            continue
        if isinstance(cells, str) or not hasattr(cells, "__len__") or getattr(cells, "ndim", 1) != 1:
            raise CellError([CellProblem(None, name, "expected a list of cells, one per row")])
        lengths[name] = len(cells)
    if len(set(lengths.values())) > 1:
        shown = list_some([f"{name!r} has {n}" for name, n in lengths.items()], ", ")
        raise AskError(f"all columns must have one cell per row, but {shown}")
    return next(iter(lengths.values()), 0)


def check_interval(interval: float | None) -> None:
    """An interval holds more than nothing and less than all."""
    if interval is not None and not (isinstance(interval, int | float) and 0.0 < interval < 1.0):
        raise AskError(f"interval must be a number between 0 and 1, such as 0.9, not {interval!r}")


def warn_of(link: Link, feature: Feature, reading: Reading) -> list[str]:
    """What of a column could not be taken as it is."""
    warnings = []
    unseen = np.flatnonzero(reading.given & np.isnan(reading.positions))
    if len(unseen):
        warnings.append(f"column {link.column!r}: categories never seen, read as missing, in {_rows(unseen)}")
    beyond = np.flatnonzero(reading.beyond)
    if len(beyond):
        ends = (feature.knots.values[0], feature.knots.values[-1])
        low, high = sorted((end - link.offset) / link.scale for end in ends)
        shown = [show_value(feature, end) if feature.kind == "datetime" else f"{end:g}" for end in (low, high)]
        range_ = f"the fitted range {shown[0]} to {shown[1]}"
        warnings.append(f"column {link.column!r}: outside {range_}, clamped, in {_rows(beyond)}")
    return warnings


def _rows(rows: NDArray[np.int64]) -> str:
    shown = ", ".join(map(str, rows[:MOST_LISTED].tolist()))
    more = f", and {len(rows) - MOST_LISTED} more" if len(rows) > MOST_LISTED else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def tell_strangers(names: Sequence[str], known: Mapping[str, object]) -> list[tuple[str, str]]:
    """What is said of names that nobody knows: the nearest known one, for as many as anybody will read."""
    told = [(name, f"there is no such column{nearest(name, known)}") for name in names[:MOST_LISTED]]
    return told + [(name, "there is no such column") for name in names[MOST_LISTED:MOST_TOLD]]


def nearest(name: str, known: Mapping[str, object]) -> str:
    """The end of a message about an unknown name: the nearest known one (best of all: the same but for case), or some
    of them.
    """
    low = {other.lower(): other for other in known}
    near = [low[name.lower()]] if name.lower() in low else get_close_matches(name, list(known), n=1, cutoff=0.5)
    near = near or [low[match] for match in get_close_matches(name.lower(), list(low), n=1, cutoff=0.5)]
    return f"; did you mean {near[0]!r}?" if near else f"; known are {list_some([repr(n) for n in known], ', ')}"
