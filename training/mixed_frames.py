"""Data frames and arrays of mixed types as tables: numbers, dates and words, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.schema import Kind


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """What a column of a caller's frame is: its ``kind``, and for words, which of the caller's values each is."""

    kind: Kind
    values: dict[str, Any] = field(default_factory=dict)

    def read(self, cells: pd.Series) -> pd.Series:
        """The caller's cells as they are fitted and asked."""
        if self.kind == "datetime":
            return pd.Series(pd.to_datetime(cells, utc=True).dt.tz_localize(None).to_numpy())
        if self.kind != "categorical":
            return pd.Series(pd.to_numeric(cells).to_numpy(dtype=np.float64, na_value=np.nan))
        return pd.Series([None if missing else str(cell) for cell, missing in zip(cells, cells.isna(), strict=True)])

    def show(self, answers: Sequence[Any], like: pd.Series) -> Any:
        """Answers as the caller's column has its cells."""
        if self.kind == "datetime":
            dates = pd.to_datetime(pd.Series(answers, dtype=object), utc=True, format="ISO8601")
            zone = getattr(like.dtype, "tz", None)
            return dates.dt.tz_localize(None) if zone is None else dates.dt.tz_convert(zone)
        return answers if self.kind != "categorical" else [self.values[answer] for answer in answers]


def find_form(cells: pd.Series, kind: Kind | None) -> ColumnForm:
    """What a column is, as its type says: text that holds nothing but numbers stays text."""
    if kind is None:
        kind = _kind_of(cells)
    if kind != "categorical":
        return ColumnForm(kind)
    known = cells[cells.notna()]
    return ColumnForm(kind, {str(value): value for value in known.unique()})


def _kind_of(cells: pd.Series) -> Kind:
    if pd.api.types.is_bool_dtype(cells.dtype):
        return "categorical"
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return "numeric"
    if pd.api.types.is_datetime64_any_dtype(cells.dtype):
        return "datetime"
    known = cells[cells.notna()]
    plain = cells.dtype == object and len(known) > 0
    return "numeric" if plain and all(type(cell) in (int, float) for cell in known) else "categorical"


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
            cells = _fill(cells, rows, forms[j].show(values, cells), forms[j].kind)
        filled[j] = cells
    whole = pd.DataFrame(filled, index=frame.index)
    whole.columns = frame.columns
    return whole


def _fill(cells: pd.Series, rows: NDArray[np.int64], values: Any, kind: Kind) -> pd.Series:
    if kind in ("numeric", "ordinal"):
        numbers = pd.to_numeric(cells).to_numpy(dtype=np.float64, na_value=np.nan).copy()
        numbers[rows] = values
        return pd.Series(numbers, index=cells.index)
    filled = cells.copy()
    if kind == "categorical" and not isinstance(cells.dtype, pd.CategoricalDtype):
        filled = filled.astype(object)
    filled.iloc[rows] = values
    return filled if kind == "datetime" or filled.isna().any() else filled.astype(cells.dtype)
