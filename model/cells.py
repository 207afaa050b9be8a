"""Raw cells, as they come from JSON or a file, to positions: strict about types, clear about faults."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.errors import CellError, CellProblem
from model.schema import OTHER, Feature, Link

# Texts that mean missing in any table. "None" is left a word: tables use it as a level.
ALWAYS_MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL")
NUMBER_TYPES = {int, float, type(None)}
WORD_TYPES = {str, type(None)}
TRUE_WORDS = {"true", "yes", "y", "t", "1"}
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
FALSE_WORDS = {"false", "no", "n", "f", "0"}
INFINITE = "not a finite number"


@dataclass(frozen=True, slots=True)
class Reading:
    """A column read, (B,) each: where its cells sit, whether there was one, and how far it lies above the fitted range,
    in the feature's unit, less than 0 if below. A cell that was given but has no position is a category never seen.
    """

    positions: codec.Positions
    given: NDArray[np.bool_]
    beyond: codec.Floats


def read_cells(feature: Feature, cells: Sequence[Any] | NDArray[Any], link: Link) -> Reading:
    """Read one column; raises CellError naming every row that does not fit."""
    if not feature.is_number:
        return _read_category(feature, cells, link)
    with np.errstate(over="ignore"):
        numbers = _read_numbers(feature, cells, link) * link.scale + link.offset
    knots = feature.knots.values
    # A hair beyond the ends is rounding of a unit, not a new value.
    slack = 1e-6 * max(knots[-1] - knots[0], codec.MIN_SPREAD)
    out = np.fmax(numbers - knots[-1], 0.0) + np.fmin(numbers - knots[0], 0.0)  # missing cells: 0
    beyond = np.where(np.abs(out) > slack, out, 0.0)
    return Reading(codec.encode_numbers(feature, numbers), ~np.isnan(numbers), beyond)


def _read_category(feature: Feature, cells: Sequence[Any] | NDArray[Any], link: Link) -> Reading:
    words: Sequence[str | None] = cells  # type: ignore[assignment]
    if not link.missing and set(map(type, cells)) <= WORD_TYPES:
        positions = codec.encode_words(feature, words)
        given = np.fromiter((word is not None for word in words), bool, count=len(words))
        if not np.isnan(positions[given]).any():
            return Reading(positions, given, np.zeros(len(words)))
    words = _read_words(feature, cells, link)  # cells that are no plain words: look at each
    given = np.fromiter((word is not None for word in words), bool, count=len(words))
    return Reading(codec.encode_words(feature, words), given, np.zeros(len(words)))


def _read_numbers(feature: Feature, cells: Sequence[Any] | NDArray[Any], link: Link) -> codec.Floats:
    """Cells that are no numbers and numbers that are infinite are raised together."""
    is_datetime = feature.kind == "datetime"
    problems: list[CellProblem] = []
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiu" and not is_datetime:
        numbers = cells.astype(np.float64)
    elif isinstance(cells, np.ndarray) and cells.dtype.kind == "M" and is_datetime:
        numbers = np.where(np.isnat(cells), np.nan, cells.astype("datetime64[us]").astype(np.int64) / 1e6)
    elif not is_datetime and set(map(type, cells)) <= NUMBER_TYPES:
        try:
            numbers = np.asarray(cells, dtype=np.float64)
        except OverflowError:
            numbers, problems = _read_one_by_one(feature, cells, link)
    else:
        numbers, problems = _read_one_by_one(feature, cells, link)
    for code in link.missing:
        number = _as_number(code)
        if number is not None and not is_datetime:
            numbers = np.where(numbers == number, np.nan, numbers)
    problems += [CellProblem(int(row), link.column, INFINITE) for row in np.flatnonzero(np.isinf(numbers))]
    if problems:
        raise CellError(sorted(problems, key=lambda problem: problem.row or 0))
    return numbers


def _read_one_by_one(
    feature: Feature, cells: Sequence[Any] | NDArray[Any], link: Link
) -> tuple[codec.Floats, list[CellProblem]]:
    """The slow path: datetimes, and columns in which some cell is at fault (it then is NaN)."""
    numbers = np.full(len(cells), np.nan)
    problems: list[CellProblem] = []
    for row, cell in enumerate(cells):
        if cell is None or (isinstance(cell, str) and _is_blank(cell, feature, link)):
            continue
        try:
            numbers[row] = _seconds(cell) if feature.kind == "datetime" else _number(cell)
        except (ValueError, TypeError, OverflowError) as error:
            problems.append(CellProblem(row, link.column, str(error)))
    return numbers, problems


def _is_blank(cell: str, feature: Feature, link: Link) -> bool:
    """Text that means missing. Where numbers belong any other text is at fault, even an empty one."""
    text = cell.strip()
    return text in link.missing or (feature.kind == "datetime" and text in ALWAYS_MISSING)


def _number(cell: Any) -> float:
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, int | float | np.integer | np.floating):
        hint = ", which is text" if isinstance(cell, str) else ""
        raise TypeError(f"expected a number, got {_show(cell)}{hint}")
    try:
        return float(cell)
    except OverflowError:
        raise ValueError(INFINITE) from None


def _seconds(cell: Any) -> float:
    """A date or time as seconds since 1970; without a zone it is UTC."""
    if isinstance(cell, np.datetime64):
        return math.nan if np.isnat(cell) else float(cell.astype("datetime64[us]").astype(np.int64)) / 1e6
    if isinstance(cell, str):
        try:
            cell = datetime.fromisoformat(cell.strip())
        except ValueError:
            raise ValueError(f"expected an ISO 8601 date or time, got {_show(cell)}") from None
    if isinstance(cell, date) and not isinstance(cell, datetime):
        cell = datetime(cell.year, cell.month, cell.day)
    if isinstance(cell, float) and math.isnan(cell):
        return math.nan
    if not isinstance(cell, datetime):
        raise TypeError(f"expected an ISO 8601 date or time, got {_show(cell)}")
    return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp()


def _read_words(feature: Feature, cells: Sequence[Any] | NDArray[Any], link: Link) -> list[str | None]:
    words: list[str | None] = []
    problems = []
    for row, cell in enumerate(cells):
        try:
            word = _word(cell)
            missing = word is None or word in link.missing or word in ALWAYS_MISSING
            word = None if missing or word is None else _known_word(feature, word)
        except (TypeError, ValueError) as error:
            problems.append(CellProblem(row, link.column, str(error)))
            word = None
        words.append(word)
    if problems:
        raise CellError(problems)
    return words


def _known_word(feature: Feature, word: str) -> str:
    if feature.kind == "boolean":
        return boolean_word(word)
    return word if word in feature.categories else codec.plain_word(word)


def _word(cell: Any) -> str | None:
    if isinstance(cell, str):
        return cell.strip() or None
    if cell is None:
        return None
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if not isinstance(cell, float | np.floating):
        raise TypeError(f"expected a string, a number or null, got {_show(cell)}")
    if math.isinf(cell):
        raise ValueError(INFINITE)
    return None if math.isnan(cell) else codec.word_of(float(cell))


def boolean_word(word: str) -> str:
    """Either true or false, however it is spelt."""
    low = word.lower()
    if low in TRUE_WORDS or low in FALSE_WORDS:
        return "true" if low in TRUE_WORDS else "false"
    raise ValueError(f"expected true or false (or yes, no, 1, 0), got {_show(word)}")


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _show(cell: Any) -> str:
    if isinstance(cell, list | dict):  # may be nested without end
        return "a list" if isinstance(cell, list) else "an object"
    text = repr(cell)
    return text if len(text) <= 40 else f"{text[:37]}..."


def show_value(feature: Feature, number: float) -> float | str:
    """A number feature's value as the caller knows it: datetimes as ISO 8601 text."""
    if feature.kind != "datetime":
        return number
    moment = datetime.fromtimestamp(round(number), UTC)
    return moment.date().isoformat() if feature.date_only else moment.replace(tzinfo=None).isoformat()


def show_word(feature: Feature, word: str) -> str | bool | int:
    """A category as the caller knows it: booleans as such, whole numbers as numbers."""
    if feature.kind == "boolean":
        return word == "true"
    return int(word) if word != OTHER and all(map(WHOLE.fullmatch, feature.categories)) else word
