"""Read CSV and Parquet files in pieces into compact columns.

A file is read twice: once to learn what each text column holds (numbers, dates, booleans or words)
and how many rows there are, once to keep it: 8 bytes for a number, 4 for a word, whatever the file
spends on them. Only one piece of the file is in memory at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from model.cells import ALWAYS_MISSING
from model.errors import TableError
from training.family import TableSpec
from training.pieces import Pieces, open_pieces

Storage = Literal["number", "datetime", "boolean", "text"]

# What a text column may turn out to be; tried in this order, the first that fits every cell wins.
CANDIDATES: tuple[Storage, ...] = ("boolean", "number", "datetime")
# A text column with more words than this is no category; its cells are not kept.
MOST_WORDS = 100_000
BOOLEAN_WORDS = pa.array(["true", "false"])
# The end of a time that names its zone.
ZONE = r":.*(Z|[+-]\d\d:?\d\d)$"


@dataclass(slots=True)
class RawColumn:
    """A column as read. Numbers and datetimes (seconds since 1970, UTC) are in ``numbers``, NaN for
    missing; words are in ``codes`` (-1 for missing), indices into ``words``.
    """

    name: str
    storage: Storage
    numbers: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    codes: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    words: list[str] = field(default_factory=list)
    too_many_words: bool = False

    @property
    def known(self) -> NDArray[np.bool_]:
        return self.codes >= 0 if self.storage in ("text", "boolean") else ~np.isnan(self.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """A table as read: ``n_rows`` rows of ``columns``; ``skipped`` says why others were not read."""

    spec: TableSpec
    n_rows: int
    columns: tuple[RawColumn, ...]
    skipped: dict[str, str]


def read_table(
    spec: TableSpec, max_rows: int | None = None, seed: int = 0, as_text: frozenset[str] = frozenset()
) -> RawTable:
    """Read one file; with ``max_rows``, a random sample of its rows, in their order.

    Columns named in ``as_text`` keep their text as it is: "01234" is then no number.
    """
    pieces = open_pieces(spec)
    storages, n_rows = _scan(spec, pieces, as_text)
    keep = _sample(n_rows, max_rows, seed)
    columns = _collect(spec, pieces, storages, keep)
    return RawTable(spec, int(keep.sum()) if keep is not None else n_rows, columns, pieces.skipped)


def _sample(n_rows: int, max_rows: int | None, seed: int) -> NDArray[np.bool_] | None:
    if max_rows is None or max_rows >= n_rows:
        return None
    keep = np.zeros(n_rows, dtype=bool)
    keep[np.random.default_rng(seed).choice(n_rows, max_rows, replace=False)] = True
    return keep


def _scan(spec: TableSpec, pieces: Pieces, as_text: frozenset[str]) -> tuple[dict[str, Storage], int]:
    """What each column holds, and the number of rows."""
    possible = {field.name: _storages_of(field.type, field.name in as_text) for field in pieces.schema}
    n_rows = 0
    last = None
    for piece in pieces.batches():
        n_rows += len(piece)
        last = piece if len(piece) else last
        for name, left in possible.items():
            if len(left) > 1:
                cells = blank(piece.column(name), spec.codes_of(name))
                possible[name] = [s for s in left if s == "text" or _fits(cells, s)]
    if n_rows == 0:
        raise TableError(f"table {spec.name!r} ({spec.path}): it has a header but no rows")
    if pieces.odd_quotes and last is not None:
        _check_last_row(spec, last, n_rows)
    return {name: left[0] for name, left in possible.items()}, n_rows


def _check_last_row(spec: TableSpec, last: pa.RecordBatch, n_rows: int) -> None:
    """A quote that is never closed swallows all rows after it, and Arrow does not mind."""
    cells = last.slice(len(last) - 1).to_pylist()[0]
    if any("\n" in str(cell) for cell in cells.values()):
        where = f"table {spec.name!r} ({spec.path}), row {n_rows}"
        raise TableError(f"{where}: a quoted cell begins there that never ends; close the quote")


def _storages_of(kind: pa.DataType, as_text: bool) -> list[Storage]:
    if as_text and pa.types.is_string(kind):
        return ["text"]
    if pa.types.is_boolean(kind):
        return ["boolean"]
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return ["datetime"]
    return [*CANDIDATES, "text"] if pa.types.is_string(kind) else ["number"]


def _fits(cells: pa.Array, storage: Storage) -> bool:
    try:
        convert(cells, storage)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def blank(cells: pa.Array, codes: Sequence[str]) -> pa.Array:
    """Text cells without white space around them; empty ones and the given codes become null."""
    if not pa.types.is_string(cells.type):
        return cells
    cells = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(cells, value_set=pa.array([*ALWAYS_MISSING, *codes])), None, cells)


def convert(cells: pa.Array, storage: Storage) -> pa.Array:
    """Cells as float64, as seconds since 1970 or as booleans; raises ArrowInvalid where one is not."""
    if storage == "boolean":
        return _to_boolean(cells)
    if storage == "datetime":
        return _to_seconds(cells)
    if pa.types.is_duration(cells.type):
        micros = pc.cast(pc.cast(cells, pa.duration("us"), safe=False), pa.int64())
        return pc.divide(pc.cast(micros, pa.float64(), safe=False), 1e6)
    return pc.cast(cells, pa.float64(), safe=False)


def _to_boolean(cells: pa.Array) -> pa.Array:
    if pa.types.is_boolean(cells.type):
        return cells
    low = pc.utf8_lower(cells)
    if not pc.all(pc.is_in(low.drop_null(), value_set=BOOLEAN_WORDS)).as_py():
        raise pa.ArrowInvalid("not a boolean")
    return pc.equal(low, "true")


def _to_seconds(cells: pa.Array) -> pa.Array:
    if pa.types.is_string(cells.type):
        cells = _to_time(cells)
    kind = pa.timestamp("us", tz=getattr(cells.type, "tz", None))
    micros = pc.cast(pc.cast(cells, kind, safe=False), pa.int64())
    return pc.divide(pc.cast(micros, pa.float64(), safe=False), 1e6)


def _to_time(cells: pa.Array) -> pa.Array:
    """ISO 8601 text as timestamps; a time without a zone is UTC."""
    try:
        return pc.cast(cells, pa.timestamp("us"))
    except pa.ArrowInvalid:
        # Arrow wants a zone in all cells or in none.
        dated = pc.if_else(
            pc.greater(pc.utf8_length(cells), 10), cells, pc.binary_join_element_wise(cells, "00:00", " ")
        )
        with_zone = pc.binary_join_element_wise(dated, "Z", "")
        zoned = pc.if_else(pc.match_substring_regex(cells, ZONE), dated, with_zone)
        return pc.cast(zoned, pa.timestamp("us", tz="UTC"))


def _collect(
    spec: TableSpec, pieces: Pieces, storages: dict[str, Storage], keep: NDArray[np.bool_] | None
) -> tuple[RawColumn, ...]:
    collectors = [_Collector(spec, name, storage) for name, storage in storages.items()]
    start = 0
    for piece in pieces.batches():
        rows = None if keep is None else pa.array(keep[start : start + len(piece)])
        for collector in collectors:
            collector.add(piece.column(collector.column.name), rows, start)
        start += len(piece)
    return tuple(collector.finish() for collector in collectors)


class _Collector:
    """Gathers one column, piece by piece."""

    def __init__(self, spec: TableSpec, name: str, storage: Storage) -> None:
        self.spec = spec
        self.column = RawColumn(name, storage)
        self.codes = spec.codes_of(name)
        self.number_codes = [float(c) for c in self.codes if is_number(c)]
        self.parts: list[NDArray[np.float64] | NDArray[np.int32]] = []
        self.index: dict[str, int] = {}

    def add(self, cells: pa.Array, rows: pa.Array | None, start: int) -> None:
        cells = blank(cells, self.codes)
        if self.column.storage == "text":
            self._add_words(cells if rows is None else cells.filter(rows))
        elif self.column.storage == "boolean":
            truths = convert(cells if rows is None else cells.filter(rows), "boolean")
            self.parts.append(pc.fill_null(pc.cast(truths, pa.int32()), -1).to_numpy(zero_copy_only=False))
        else:
            numbers = convert(cells, self.column.storage)
            values = pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False)
            values = self._check(values, start)
            self.parts.append(values if rows is None else values[rows.to_numpy(zero_copy_only=False)])

    def _check(self, values: NDArray[np.float64], start: int) -> NDArray[np.float64]:
        if self.number_codes and self.column.storage == "number":
            values = np.where(np.isin(values, self.number_codes), np.nan, values)
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            raise TableError(
                f"table {self.spec.name!r}, row {start + int(infinite[0]) + 1}, column {self.column.name!r}: "
                f"{values[infinite[0]]} is not a finite number; mend the file, or, if it stands for a missing "
                f'value, list it in family.toml: missing = ["{values[infinite[0]]}"]'
            )
        return values

    def _add_words(self, cells: pa.Array) -> None:
        if self.column.too_many_words:
            return
        coded = cells.dictionary_encode()
        place = self.index
        moved = [place.setdefault(word, len(place)) for word in coded.dictionary.to_pylist()]
        codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        # The appended -1 is where a missing cell's index -1 points to.
        self.parts.append(np.asarray([*moved, -1], np.int32)[codes])
        if len(place) > MOST_WORDS:
            self.column.too_many_words, self.parts, self.index = True, [], {}

    def finish(self) -> RawColumn:
        if self.column.storage in ("text", "boolean"):
            self.column.codes = np.concatenate([np.empty(0, np.int32), *self.parts]).astype(np.int32)
            self.column.words = ["false", "true"] if self.column.storage == "boolean" else list(self.index)
        else:
            self.column.numbers = np.concatenate(self.parts).astype(np.float64)
        self.parts = []
        return self.column


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
