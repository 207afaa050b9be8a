"""Data frames and arrays of mixed types as tables: numbers, dates and words, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.cells import ALWAYS_MISSING
from model.codec import plain_word
from model.schema import OTHER, Kind


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """What a column of a caller's frame is: its ``kind`` and type, and for words, which of the caller's values each
    is. Booleans are words like others. ``is_day``: dates are Python's, without a time.
    """

    kind: Kind
    dtype: Any
    values: dict[str, Any] = field(default_factory=dict)
    is_day: bool = False

    def read(self, cells: pd.Series) -> pd.Series:
        """The caller's cells as they are fitted and asked."""
        if self.kind == "datetime":
            return pd.Series(pd.to_datetime(cells, utc=True).dt.tz_localize(None).to_numpy())
        if self.kind != "categorical":
            return pd.Series(pd.to_numeric(cells).to_numpy(dtype=np.float64, na_value=np.nan))
        return pd.Series(
            [None if no else word_of(cell) for cell, no in zip(cells, cells.isna(), strict=True)], dtype=object
        )

    def fill(self, cells: pd.Series, rows: NDArray[np.int64], answers: Sequence[Any]) -> pd.Series:
        """The caller's cells with answers in some rows, in the column's own type where it can hold them."""
        if self.kind == "datetime":
            return self._fill_dates(cells, rows, answers)
        if self.kind != "categorical":
            numbers = pd.to_numeric(cells).to_numpy(dtype=np.float64, na_value=np.nan).copy()
            numbers[rows] = answers
            filled = pd.Series(numbers, index=cells.index)
            return filled.astype(cells.dtype) if pd.api.types.is_float_dtype(cells.dtype) else filled
        words = cells.astype(object)
        words.iloc[rows] = [self.values.get(word_of(answer), answer) for answer in answers]
        if isinstance(cells.dtype, pd.CategoricalDtype):
            known = cells.cat.categories
            return words.astype(pd.CategoricalDtype([*known, *(w for w in words.dropna().unique() if w not in known)]))
        try:
            return words.astype(self.dtype)
        except (TypeError, ValueError):  # holes that stay, words never seen
            return words

    def _fill_dates(self, cells: pd.Series, rows: NDArray[np.int64], answers: Sequence[Any]) -> pd.Series:
        dates = pd.to_datetime(cells, utc=True).copy()
        dates.iloc[rows] = pd.to_datetime(pd.Index(answers), utc=True, format="ISO8601")
        known = cells[cells.notna()]
        dtype = cells.dtype if len(known) else self.dtype  # empty columns are of any type
        is_day = _are_days(known) if len(known) else self.is_day
        if str(dtype).startswith("date32") or (is_day and pd.api.types.is_object_dtype(dtype)):
            return dates.dt.date.astype(dtype)
        zone = getattr(self.dtype, "tz", None)
        return dates.dt.tz_localize(None) if zone is None else dates.dt.tz_convert(zone)


def word_of(value: Any) -> str:
    """A value as the word it is in a table."""
    return plain_word(str(value).strip())


def name_classes(classes: NDArray[Any]) -> list[str]:
    """What classes are called in the bundle: their own names, if words can tell them apart."""
    words = [word_of(one) for one in classes]
    if len(set(words)) == len(words) and not {OTHER, *ALWAYS_MISSING} & set(words):
        return words
    return [f"class {code}" for code in range(len(classes))]


def find_form(cells: pd.Series, kind: Kind | None) -> ColumnForm:
    """What a column is, as its type says: text that holds nothing but numbers stays text."""
    if kind is None:
        kind = _kind_of(cells)
    known = cells[cells.notna()]
    if kind not in ("categorical", "boolean"):
        return ColumnForm(kind, cells.dtype, is_day=cells.dtype == object and len(known) > 0 and _are_days(known))
    return ColumnForm("categorical", cells.dtype, {word_of(value): value for value in known.unique()})


def _are_days(known: pd.Series) -> bool:
    return all(isinstance(cell, date) and not isinstance(cell, datetime) for cell in known)


def _kind_of(cells: pd.Series) -> Kind:
    if pd.api.types.is_bool_dtype(cells.dtype):
        return "categorical"
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return "numeric"
    if pd.api.types.is_datetime64_any_dtype(cells.dtype):
        return "datetime"
    known = cells[cells.notna()]
    if cells.dtype != object or len(known) == 0:
        return "categorical"
    if all(isinstance(cell, date) for cell in known):
        return "datetime"
    plain = all(isinstance(cell, Real | Decimal) and not isinstance(cell, bool | np.bool_) for cell in known)
    return "numeric" if plain else "categorical"


def as_frame(table: NDArray[Any]) -> pd.DataFrame:
    """An array as a frame of plainly named columns; of an array of objects each column finds its own type."""
    return pd.DataFrame({f"x{j}": table[:, j] for j in range(table.shape[1])})


def table_names(columns: Sequence[Any]) -> list[str]:
    """The caller's names where they can name columns of a table, else plain ones."""
    names = [str(column).strip() for column in columns]
    is_plain = all(isinstance(column, str) for column in columns) and len(set(names)) == len(names) and all(names)
    return names if is_plain else [f"x{j}" for j in range(len(names))]


def fill_frame(
    frame: pd.DataFrame, forms: Sequence[ColumnForm], answers: Mapping[int, tuple[Any, Any]]
) -> pd.DataFrame:
    """The frame with answers put in: for each column by number, which rows, and what they get."""
    filled = {}
    for j in range(frame.shape[1]):
        cells = frame.iloc[:, j]
        if j in answers:
            rows, values = answers[j]
            cells = forms[j].fill(cells, rows, values)
        filled[j] = cells
    whole = pd.DataFrame(filled, index=frame.index)
    whole.columns = frame.columns
    return whole
