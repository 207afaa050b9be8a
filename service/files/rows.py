"""Between files and rows of JSON: for callers who send one and want the other."""

import io
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from model.errors import TableError
from service.files.ask import FileAsk, Format
from service.files.course import Sizes
from service.files.work import SIZES, read_columns

Row = dict[str, Any]


def write_rows(rows: list[Row], write_as: Format, names: Sequence[str] | None = None) -> bytes:
    """Rows as a file (columns: ``names``, or all there are); cells of several types cannot be a column."""
    names = list(dict.fromkeys(name for row in rows for name in row)) if names is None else names
    sink = io.BytesIO()
    try:
        _write(pa.table({name: [row.get(name) for row in rows] for name in names}), sink, write_as)
    except (pa.ArrowException, OverflowError, RecursionError) as error:
        raise TableError(
            f"the rows cannot be written as {write_as}: a column has cells of several types, nested or too large"
        ) from error
    return sink.getvalue()


def _write(table: pa.Table, sink: io.BytesIO, write_as: Format) -> None:
    if write_as == "csv":
        pyarrow.csv.write_csv(table, sink)
    elif write_as == "parquet":
        pyarrow.parquet.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)


def read_rows(
    source: Path, read_as: Format, ask: FileAsk, most: int, *, first: int | None = None
) -> tuple[list[Row], tuple[str, ...]]:
    """The known columns of a file as rows of plain cells, and what is to be said of the file. More than ``most``
    rows are refused; only the ``first`` are read if that is asked for.
    """
    rows: list[Row] = []
    warnings: tuple[str, ...] = ()
    sizes = SIZES if first is None else Sizes(rows=min(first, SIZES.rows))
    for piece in read_columns(source, read_as, replace(ask, most_rows=most), sizes=sizes):
        columns = {name: _plain(cells, read_as) for name, cells in piece.columns.items()}
        cells = zip(*columns.values(), strict=True) if columns else repeat((), piece.n_rows)
        rows += [dict(zip(columns, row, strict=True)) for row in cells]
        warnings = piece.warnings
        if first is not None and len(rows) >= first:
            return rows[:first], warnings
    return rows, warnings


def _plain(cells: Any, read_as: Format) -> list[Any]:
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        return [None if np.isnat(cell) else str(cell) for cell in cells]
    plain = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    numbers = [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in plain]
    if read_as != "csv":
        return numbers
    # Text has no types: what is whole was written so.
    return [int(cell) if isinstance(cell, float) and cell.is_integer() else cell for cell in numbers]
