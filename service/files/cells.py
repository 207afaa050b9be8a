"""Columns of a file, as Arrow arrays, to cells that the Predictor takes: vectorised, faults by row."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from model.cells import ALWAYS_MISSING, read_cells
from model.errors import CellError, CellProblem
from model.schema import Feature, Link
from service.files.notes import Rows

# Faults told of one column in one piece; more would only swell the answer.
MOST_FAULTS = 100
NOWHERE: Rows = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Column:
    """Cells as the Predictor takes them, the rows with a category never seen or a number beyond the
    fitted range, and, for categories, the distinct words as they are spelt.
    """

    cells: Sequence[Any] | NDArray[Any]
    unseen: Rows = field(default_factory=lambda: NOWHERE)
    beyond: Rows = field(default_factory=lambda: NOWHERE)
    words: Sequence[Any] = ()


def read_column(cells: pa.Array, feature: Feature, link: Link, spelt: bool) -> Column:
    """Read one column; ``spelt``: its numbers are text. Raises CellError with rows of this piece."""
    if isinstance(cells, pa.ExtensionArray):
        cells = cells.storage
    if cells.null_count == len(cells):  # of whatever type
        cells = pa.nulls(len(cells))
    if not feature.is_number:
        return _read_words(cells, feature, link)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if is_text(cells.type):
        cells = blank(cells, link)
    if feature.kind == "datetime":
        moments = _read_moments(cells, link)
        seconds = moments.astype(np.int64) / 1e6
        seconds[np.isnat(moments)] = np.nan
        # The range of a datetime is that of its seconds.
        reading = read_cells(replace(feature, kind="numeric"), seconds, replace(link, missing=()))
        return Column(moments, beyond=np.flatnonzero(reading.beyond))
    numbers, problems = _read_numbers(cells, link, spelt)
    try:
        reading = read_cells(feature, numbers, link)
    except CellError as error:  # some are infinite
        raise CellError([*problems, *error.problems]) from None
    if problems:
        raise CellError(problems)
    return Column(numbers, beyond=np.flatnonzero(reading.beyond))


def is_text(kind: pa.DataType) -> bool:
    """Whether cells are strings of some kind."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def blank(cells: pa.Array, link: Link) -> pa.Array:
    """Text without white space around it; empty ones and what means missing become null."""
    cells = pc.utf8_trim_whitespace(cells.cast(pa.string()))
    return pc.if_else(pc.is_in(cells, value_set=pa.array([*ALWAYS_MISSING, *link.missing])), None, cells)


def _read_numbers(cells: pa.Array, link: Link, spelt: bool) -> tuple[NDArray[np.float64], Sequence[CellProblem]]:
    """Numbers, NaN where text is none, and what is wrong with that text."""
    kind = cells.type
    if is_text(kind):
        if not spelt and cells.null_count < len(cells):
            raise _faults(cells, cells.is_valid(), link, "expected a number, got {}, which is text")
        parsed, problems = _parse_numbers(cells, link)
        return _to_numpy(parsed), problems
    if pa.types.is_duration(kind):
        micros = cells.cast(pa.duration("us"), safe=False).cast(pa.int64())
        return _to_numpy(pc.divide(micros.cast(pa.float64(), safe=False), 1e6)), ()
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return _to_numpy(cells.cast(pa.float64(), safe=False)), ()
    raise _faults(cells, cells.is_valid(), link, f"expected a number, got {{}}, which is {kind}")


def _parse_numbers(cells: pa.Array, link: Link) -> tuple[pa.Array, Sequence[CellProblem]]:
    try:
        return cells.cast(pa.float64()), ()
    except pa.ArrowInvalid:
        number = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity|nan)$"
        wrong = pc.invert(pc.match_substring_regex(cells, number))
    if pc.any(wrong).as_py():
        problems = _faults(cells, wrong, link, "expected a number, got {}").problems
        return _parse_numbers(pc.if_else(wrong, None, cells), link)[0], problems
    # Some form that Arrow does not know.
    return pa.array([None if cell is None else float(cell) for cell in cells.to_pylist()], pa.float64()), ()


def _read_moments(cells: pa.Array, link: Link) -> NDArray[np.datetime64]:
    kind = cells.type
    if pa.types.is_null(kind):
        return np.full(len(cells), np.datetime64("NaT", "us"))
    if is_text(kind):
        try:
            cells = cells.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:  # a zone, or a form that Arrow does not know
            return _parse_moments(cells, link)
    elif pa.types.is_floating(kind) and pc.all(pc.is_nan(cells)).as_py() in (True, None):
        return np.full(len(cells), np.datetime64("NaT", "us"))
    elif not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise _faults(cells, cells.is_valid(), link, f"expected an ISO 8601 date or time, got {{}}, which is {kind}")
    micros = cells.cast(pa.timestamp("us", getattr(cells.type, "tz", None)), safe=False).cast(pa.int64())
    gaps = micros.is_null().to_numpy(zero_copy_only=False)
    moments: NDArray[np.datetime64] = micros.fill_null(0).to_numpy(zero_copy_only=False).astype("datetime64[us]")
    moments[gaps] = np.datetime64("NaT")
    return moments


def _parse_moments(cells: pa.Array, link: Link) -> NDArray[np.datetime64]:
    coded = cells.dictionary_encode()
    moments: list[datetime | None] = []
    wrong = []
    for i, word in enumerate(coded.dictionary.to_pylist()):
        try:
            moment = datetime.fromisoformat(word)
            moments.append(moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment)
        except (ValueError, OverflowError):
            wrong.append(i)
    if wrong:
        at_fault = pc.is_in(coded.indices, value_set=pa.array(wrong, coded.indices.type))
        raise _faults(cells, at_fault, link, "expected an ISO 8601 date or time, got {}")
    codes: Rows = coded.indices.fill_null(len(moments)).to_numpy(zero_copy_only=False)
    distinct: NDArray[np.datetime64] = np.array([*moments, None], "datetime64[us]")
    return distinct[codes]


def _read_words(cells: pa.Array, feature: Feature, link: Link) -> Column:
    """Look at each distinct word once, then at rows by number."""
    if is_text(cells.type):
        cells = cells.cast(pa.string())
    elif pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.float64(), safe=False)
    elif pa.types.is_nested(cells.type):
        raise _faults(
            cells, cells.is_valid(), link, f"expected a word, a number or null, got {{}}, which is {cells.type}"
        )
    coded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
    words: list[Any] = coded.dictionary.to_pylist()
    codes = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False).astype(np.int64)
    try:
        reading = read_cells(feature, words, link)
    except CellError as error:
        raise CellError(_spread(error, codes)) from None
    # As the model spells them, where it knows them: it then need not look at each cell again.
    known = [
        (feature.words[int(place)] if place < len(feature.categories) else word) if there else None
        for word, place, there in zip(words, reading.positions.tolist(), reading.given.tolist(), strict=True)
    ]
    unseen = np.append(reading.given & np.isnan(reading.positions), False)
    taken: list[Any] = np.array([*known, None], dtype=object)[codes].tolist()
    return Column(taken, unseen=np.flatnonzero(unseen[codes]), words=words)


def _spread(error: CellError, codes: Rows) -> list[CellProblem]:
    """Faults of distinct words as faults of the rows that hold them."""
    message = {problem.row: problem.message for problem in error.problems if problem.row is not None}
    rows = np.flatnonzero(np.isin(codes, list(message)))[:MOST_FAULTS]
    return [CellProblem(int(row), error.problems[0].column, message[int(codes[row])]) for row in rows]


def _faults(cells: pa.Array, wrong: pa.Array, link: Link, message: str) -> CellError:
    rows = np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False))[:MOST_FAULTS]
    shown = [repr(cell) for cell in cells.take(pa.array(rows)).to_pylist()]
    texts = [message.format(text if len(text) <= 40 else f"{text[:37]}...") for text in shown]
    return CellError([CellProblem(int(row), link.column, text) for row, text in zip(rows, texts, strict=True)])


def _to_numpy(numbers: pa.Array) -> NDArray[np.float64]:
    values: NDArray[np.float64] = numbers.fill_null(np.nan).to_numpy(zero_copy_only=False)
    return values
