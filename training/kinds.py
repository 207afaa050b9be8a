"""What kind of feature a column is, and which columns are better left out."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from model.errors import TableError, list_some
from model.schema import Kind
from training.reading import RawColumn, is_number

# Whole numbers with at most this many different values are levels of an ordinal.
MOST_LEVELS = 10
# A category keeps at most this many values of its own; the rest become "other".
MOST_CATEGORIES = 64
# Below so many rows, different values in every row prove nothing.
FEW_ROWS = 20
ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|key|index|rowid|rownames?|row_?num(ber)?|unnamed.*)$", re.IGNORECASE)
FREE_TEXT_WORDS = 5.0
# Numbers and dates as people write them, and what is read here.
OTHER_NOTATIONS = {
    re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}( |$)"): "dates must be written as 2020-01-31",
    re.compile(r"[$€£]?\s*[-+]?\d[\d.,' ]*\s*[%$€£]?$"): "numbers must be written as 1234.5",
}
MIN_COVER = 0.3
ONLY_MISSING = "only missing values"


def why_leave_out(table: str, column: RawColumn) -> str | None:
    """Why a column of a table is no feature, in a few words; None if it may be one."""
    known = column.known
    if column.too_many_words:
        return "identifier or free text: over 100,000 different values"
    if not known.any():
        return ONLY_MISSING
    if column.storage == "text":
        _check_strays(table, column)
        return _why_leave_out_words(column, int(known.sum()))
    if column.storage == "number" and _is_row_number(column.name, column.numbers[known]):
        return "identifier: whole numbers that name the rows"
    return None


def _is_row_number(name: str, numbers: NDArray[np.float64]) -> bool:
    """Whether whole numbers only name the rows: called an id, or counting on from 0 or 1 row by row."""
    if len(numbers) < FEW_ROWS or not is_whole(numbers):
        return False
    if ID_NAME.search(name):
        return len(np.unique(numbers)) > 0.5 * len(numbers)
    return numbers[0] in (0.0, 1.0) and bool(np.all(np.diff(numbers) == 1.0))


def _check_strays(table: str, column: RawColumn) -> None:
    """Many numbers and a few words among them are a number column with undeclared codes."""
    strays = [repr(word) for word in column.words if not is_number(word)]
    if len(column.words) > FEW_ROWS and 0 < len(strays) < 0.05 * len(column.words):
        listed = list_some(strays, ", ")
        raise TableError(
            f"table {table!r}, column {column.name!r}: nearly all cells are numbers, but not {listed}; if that means "
            f"missing, say so in family.toml: missing = [{listed}] under [tables.{table}]; else mend or ignore it"
        )


def _why_leave_out_words(column: RawColumn, n_known: int) -> str | None:
    n_words = len(column.words)
    for notation, advice in OTHER_NOTATIONS.items():
        if n_words > MOST_LEVELS and sum(map(bool, map(notation.match, column.words))) > 0.8 * n_words:
            return f"{advice}, not as {column.words[0]!r}"
    if n_known >= FEW_ROWS and n_words > 0.9 * n_known:
        return f"identifier or free text: {n_words:,} different values in {n_known:,} rows"
    if n_words <= MOST_CATEGORIES:
        return None
    length = float(np.mean([word.count(" ") + 1 for word in column.words[:1000]]))
    if length >= FREE_TEXT_WORDS and n_words > 0.3 * n_known:
        return f"free text: {n_words:,} different values of {length:.0f} words on average"
    counts = np.bincount(column.codes[column.codes >= 0])
    cover = np.sort(counts)[::-1][: MOST_CATEGORIES - 1]
    cover = cover[cover > 1].sum() / n_known
    if cover < MIN_COVER:
        return f"{n_words:,} different values, the {MOST_CATEGORIES - 1} most frequent in only {cover:.0%} of the rows"
    return None


def is_whole(numbers: NDArray[np.float64]) -> bool:
    """Whether all numbers are integers."""
    return bool(np.all(numbers == np.floor(numbers)))


def kind_of_numbers(parts: Sequence[NDArray[np.float64]]) -> Kind:
    """Few whole levels over all tables are ordinal, anything else numeric."""
    distinct = np.unique(np.concatenate([np.unique(part[~np.isnan(part)]) for part in parts]))
    return "ordinal" if len(distinct) <= MOST_LEVELS and is_whole(distinct) else "numeric"


def choose_categories(counts: dict[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that get a value of their own, most frequent first, and the rare ones."""
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    if len(ordered) <= MOST_CATEGORIES:
        return tuple(ordered), ()
    kept = [word for word in ordered[: MOST_CATEGORIES - 1] if counts[word] > 1]
    return tuple(kept), tuple(ordered[len(kept) :])
