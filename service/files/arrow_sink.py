"""Write record batches to Parquet, an Arrow stream or CSV; every column keeps its type."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from model.errors import TableError
from service.files.arrow_source import ArrowPiece
from service.files.ask import Format, Plan
from service.files.cells import Column
from service.files.course import Source
from service.files.csv_source import CsvPiece, CsvSource
from service.files.fills import COPY, PLAIN, Added, Answers, natural_type, put, to_array
from service.files.notes import Rows

# Row groups stay as they were, but no more than this is held in memory for one.
MOST_HELD_BYTES = 64 << 20


class ArrowSink:
    """Puts answers into the record batches of the source."""

    def __init__(
        self, path: Path, write_as: Format, source: Source, plan: Plan, added: Added, *, numbered: bool = False
    ) -> None:
        self._plan, self._added, self._write_as = plan, added, write_as
        self._n_own = len(source.names)
        self._fields = _plan_schema(source, plan, added)
        self._schema = self._fields.insert(0, pa.field(COPY, pa.int64())) if numbered else self._fields
        self._held: list[pa.RecordBatch] = []
        self._n_held = 0
        try:
            self._writer = _open_writer(path, write_as, self._schema, getattr(source, "codecs", {}))
        except pa.ArrowException as error:
            raise TableError(f"the columns cannot be written as {write_as}: {error}") from error

    def write(self, piece: CsvPiece | ArrowPiece, answers: Answers) -> dict[str, Rows]:
        """Returns, by column, the rows whose answers its type cannot hold: they stay as they were."""
        arrays: list[pa.Array] = []
        misfits: dict[str, Rows] = {}
        if answers.copy is not None:
            arrays.append(pa.array(np.full(piece.n_rows, answers.copy), pa.int64()))
        for j, field in enumerate(self._fields):
            if j >= self._n_own:
                arrays.append(self._added_cells(field, answers, piece.n_rows))
                continue
            cells = _own_cells(piece, j, field.type, answers.columns.get(field.name))
            if field.name in answers.filled:
                cells, misfits[field.name] = self._fill(cells, field, answers)
            arrays.append(cells)
        try:
            self._put_out(pa.RecordBatch.from_arrays(arrays, schema=self._schema), getattr(piece, "last", False))
        except pa.ArrowException as error:
            raise TableError(f"the rows cannot be written as {self._write_as}: {error}") from error
        return misfits

    def _fill(self, cells: pa.Array, field: pa.Field, answers: Answers) -> tuple[pa.Array, Rows]:
        rows, values = answers.filled[field.name]
        spelling = answers.spellings.get(field.name, PLAIN)
        new = to_array(values, self._plan.features[field.name], field.type, spelling)
        fits = new.is_valid().to_numpy(zero_copy_only=False)
        return put(cells, rows[fits], new.filter(pa.array(fits))), rows[~fits]

    def _added_cells(self, field: pa.Field, answers: Answers, n_rows: int) -> pa.Array:
        if field.name in answers.added:
            return self._as_array(field, answers.added[field.name])
        rows, values = answers.rows_beside(field.name)
        return put(pa.nulls(n_rows, field.type), rows, self._as_array(field, values))

    def _as_array(self, field: pa.Field, values: Sequence[Any]) -> pa.Array:
        feature = self._added[field.name]
        return pa.array(np.asarray(values), field.type) if feature is None else to_array(values, feature, field.type)

    def _put_out(self, batch: pa.RecordBatch, last: bool) -> None:
        if self._write_as != "parquet":
            self._writer.write_batch(_flatten(batch) if self._write_as == "csv" else batch)
            return
        self._held.append(batch)
        self._n_held += batch.nbytes
        if last or self._n_held > MOST_HELD_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held)
            self._writer.write_table(table, row_group_size=max(1, len(table)))
            self._held, self._n_held = [], 0

    def close(self) -> None:
        try:
            self._flush()
        finally:
            self._writer.close()


def _own_cells(piece: CsvPiece | ArrowPiece, column: int, kind: pa.DataType, read: Column | None) -> pa.Array:
    """A column of the source in the type it is written in."""
    if isinstance(piece, CsvPiece) and pa.types.is_floating(kind) and read is not None:
        return pa.array(read.cells, kind, from_pandas=True)
    cells = piece.array(column)
    if isinstance(piece, CsvPiece):
        return pc.if_else(pc.equal(cells, ""), None, cells)
    return pa.nulls(len(cells), kind) if pa.types.is_null(cells.type) else cells


def _plan_schema(source: Source, plan: Plan, added: Added) -> pa.Schema:
    if isinstance(source, CsvSource):
        names = [name or f"(column {j + 1})" for j, name in enumerate(source.names)]
        schema = pa.schema([pa.field(name, _csv_type(plan, name)) for name in names])
    else:
        schema = source.schema
        for j, field in enumerate(schema):
            if pa.types.is_null(field.type) and field.name in plan.wanted:
                schema = schema.set(j, field.with_type(natural_type(plan.features[field.name])))
    for name, feature in added.items():
        kind = pa.float64() if feature is None else natural_type(feature)
        if isinstance(source, CsvSource) and not pa.types.is_floating(kind):
            kind = pa.string()  # as all else that comes from text
        schema = schema.append(pa.field(name, kind))
    return schema


def _csv_type(plan: Plan, name: str) -> pa.DataType:
    is_number = name in plan.read and plan.features[name].kind in ("numeric", "ordinal")
    return pa.float64() if is_number else pa.string()


def _open_writer(path: Path, write_as: Format, schema: pa.Schema, codecs: Mapping[str, str]) -> Any:
    if write_as == "arrow":
        return pa.ipc.new_stream(str(path), schema)
    if write_as == "csv":
        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        if nested:
            said = f"column {nested[0]!r}: {schema.field(nested[0]).type} cannot be written as CSV"
            raise TableError(f"{said}; ask for Parquet or Arrow")
        return pa.csv.CSVWriter(str(path), pa.schema([(field.name, _flat_type(field.type)) for field in schema]))
    first = next(iter(codecs.values()), "SNAPPY")
    # A compression for each leaf of the schema: added columns are compressed like the first.
    added = {field.name: first for field in schema if field.name not in codecs and not pa.types.is_nested(field.type)}
    return pa.parquet.ParquetWriter(str(path), schema, compression={**codecs, **added}, version="2.6")


def _flat_type(kind: pa.DataType) -> pa.DataType:
    """A type that Arrow's CSV writer knows."""
    if isinstance(kind, pa.BaseExtensionType):
        return _flat_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _flat_type(kind.value_type)
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind) or pa.types.is_string_view(kind):
        return pa.string() if pa.types.is_string_view(kind) else pa.float64()
    return kind


def _flatten(batch: pa.RecordBatch) -> pa.RecordBatch:
    names, columns = batch.schema.names, []
    for cells in batch.columns:
        plain = cells.storage if isinstance(cells, pa.ExtensionArray) else cells
        columns.append(plain.cast(_flat_type(cells.type)))
    return pa.RecordBatch.from_arrays(columns, names)
