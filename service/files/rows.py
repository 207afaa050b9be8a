"""Between files and rows of JSON: for callers who send one and want the other."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from model.errors import TableError
from service.files.ask import FileAsk, Format
from service.files.work import read_columns

Row = dict[str, Any]


def write_rows(rows: list[Row], write_as: Format, names: Sequence[str] | None = None) -> bytes:
    """Rows as a file (columns: ``names``, or all there are); cells of several types cannot be a column."""
    names = list(dict.fromkeys(name for row in rows for name in row)) if names is None else names
    try:
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TableError(f"the rows cannot be written as {write_as}: a column has cells of several types") from error
    sink = io.BytesIO()
    if write_as == "csv":
        pyarrow.csv.write_csv(table, sink)
    elif write_as == "parquet":
        pyarrow.parquet.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def read_rows(source: Path, read_as: Format, ask: FileAsk, most: int) -> list[Row]:
    """The known columns of a file as rows of plain cells."""
    rows: list[Row] = []
    for piece in read_columns(source, read_as, ask):
        columns = {name: _plain(cells) for name, cells in piece.columns.items()}
        rows += [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        if len(rows) > most:
            raise TableError(f"the file has more than the {most} rows that one JSON answer may; ask for it as a file")
    return rows


def _plain(cells: Any) -> list[Any]:
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        return [None if np.isnat(cell) else str(cell) for cell in cells]
    plain = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    return [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in plain]
