"""Read Parquet files and Arrow streams in pieces of record batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from model.errors import TableError
from service.files.csv_source import PIECE_ROWS, check_names

# What Arrow raises over a file that is torn, altered or no such file; names need not be UTF-8 either.
FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class ArrowPiece:
    """Some rows; ``last`` says that a row group of the file ends with them."""

    batch: pa.RecordBatch
    first_row: int
    done: float
    last: bool

    @property
    def n_rows(self) -> int:
        return len(self.batch)

    def array(self, column: int) -> pa.Array:
        return self.batch.column(column)


class ParquetSource:
    """A Parquet file, read batch by batch within its row groups."""

    spelt = False

    def __init__(self, path: Path, piece_rows: int = PIECE_ROWS) -> None:
        try:
            self._file = pa.parquet.ParquetFile(path)
            self.schema: pa.Schema = self._file.schema_arrow
            self.names = tuple(self.schema.names)
        except FAULTS as error:
            raise TableError(f"not a Parquet file: {error}") from error
        self._piece_rows = piece_rows
        try:
            check_names(self.names)
            self._later = self._read()
            self._first = next(self._later, None)
        except TableError:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    @property
    def codecs(self) -> dict[str, str]:
        """How each column is compressed, by its path."""
        # Only once some rows were read: asked for a codec that does not exist, Arrow ends the process.
        if self._first is None:
            return {}
        meta = self._file.metadata
        columns = [meta.row_group(0).column(j) for j in range(meta.num_columns)]
        plain = {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4"}
        try:
            return {c.path_in_schema: plain.get(c.compression, c.compression) for c in columns}
        except UnicodeDecodeError as error:
            raise TableError(f"a column name of the Parquet file is not UTF-8: {error}") from error

    def pieces(self) -> Iterator[ArrowPiece]:
        if self._first is not None:
            yield self._first
        yield from self._later

    def _read(self) -> Iterator[ArrowPiece]:
        row, n_rows = 0, max(1, self._file.metadata.num_rows)
        try:
            for group in range(self._file.num_row_groups):
                end = row + self._file.metadata.row_group(group).num_rows
                for batch in self._file.iter_batches(self._piece_rows, row_groups=[group], use_threads=False):
                    batch.validate(full=True)  # words by numbers that do not exist, say
                    yield ArrowPiece(batch, row, (row + len(batch)) / n_rows, row + len(batch) == end)
                    row += len(batch)
        except FAULTS as error:
            raise TableError(f"the Parquet file cannot be read: {error}") from error


class ArrowSource:
    """An Arrow stream (or an Arrow file, which is read the same), batch by batch."""

    spelt = False

    def __init__(self, path: Path, piece_rows: int = PIECE_ROWS) -> None:
        self._size = max(1, path.stat().st_size)
        self._file = pa.OSFile(str(path), "rb")
        self._piece_rows = piece_rows
        try:
            self._batches = self._open()
            self.schema: pa.Schema = self._reader.schema
            self.names = tuple(self.schema.names)
            check_names(self.names)
        except FAULTS as error:
            self.close()
            raise TableError(f"not an Arrow stream: {error}") from error
        except TableError:
            self.close()
            raise

    def _open(self) -> Iterator[pa.RecordBatch]:
        is_file = self._file.read(6) == b"ARROW1"
        self._file.seek(0)
        self._reader: Any = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(self._file)
        if is_file:
            return (self._reader.get_batch(i) for i in range(self._reader.num_record_batches))
        return iter(self._reader)

    def close(self) -> None:
        self._file.close()

    def pieces(self) -> Iterator[ArrowPiece]:
        row = 0
        try:
            for batch in self._batches:
                batch.validate(full=True)  # or offsets that lie would be followed out of memory
                done = min(1.0, self._file.tell() / self._size)
                for start in range(0, len(batch), self._piece_rows):
                    part = batch.slice(start, self._piece_rows)
                    yield ArrowPiece(part, row, done, start + len(part) == len(batch))
                    row += len(part)
        except FAULTS as error:
            raise TableError(f"the Arrow stream cannot be read: {error}") from error
