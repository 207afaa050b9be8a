"""Open a CSV or Parquet file as a stream of record batches, with every mistake in words."""

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from model.errors import TableError, list_some
from training.family import TableSpec

# Why a column was not read: the user said so.
IGNORED = "ignored"
PIECE_BYTES = 4 << 20
PIECE_ROWS = 65_536
DELIMITERS = (",", ";", "\t", "|")
PARQUET_SUFFIXES = {".parquet", ".pq"}
CSV_SUFFIXES = {".csv", ".tsv", ".txt"}
# What Arrow says of a row with too many or too few cells.
RAGGED_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


@dataclass(slots=True)
class Pieces:
    """A file that can be streamed again and again; ``schema`` holds the columns to read."""

    spec: TableSpec
    schema: pa.Schema
    delimiter: str | None = None
    header: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    # Every quote of a CSV file has its partner, or else a cell may have swallowed the rows after it.
    odd_quotes: bool = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.delimiter is None:
            yield from self._parquet_batches()
        else:
            yield from self._csv_batches(self.delimiter)

    def _parquet_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            with pa.parquet.ParquetFile(self.spec.path) as file:
                for batch in file.iter_batches(PIECE_ROWS, columns=self.schema.names):
                    yield pa.RecordBatch.from_arrays(
                        [column.cast(self.schema.field(i).type, safe=False) for i, column in enumerate(batch.columns)],
                        schema=self.schema,
                    )
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{_say(self.spec)}: the Parquet file cannot be read: {error}") from error

    def _csv_batches(self, delimiter: str) -> Iterator[pa.RecordBatch]:
        try:
            with pa.csv.open_csv(
                self.spec.path,
                # One thread: only then does Arrow know the number of a ragged row.
                read_options=pa.csv.ReadOptions(
                    block_size=PIECE_BYTES, use_threads=False, column_names=self.header, skip_rows=1
                ),
                # No invalid_row_handler: a thread of Arrow's may outlive the reader, and if it lets go of a Python
                # object while the interpreter ends, the process aborts.
                parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types={name: pa.string() for name in self.schema.names},
                    include_columns=self.schema.names,
                ),
            ) as reader:
                yield from reader
        except pa.ArrowInvalid as error:
            raise TableError(self._explain(error)) from error

    def _explain(self, error: Exception) -> str:
        if ragged := RAGGED_ROW.search(str(error)):
            number, expected, actual = map(int, ragged.groups())  # counted from the header
            return (
                f"{_say(self.spec)}: row {number - 1} has {actual} cells where the header has "
                f"{expected} columns; quote cells that hold the delimiter, or mend the row"
            )
        return f"{_say(self.spec)}: the CSV file cannot be read: {error}"


def open_pieces(spec: TableSpec) -> Pieces:
    """Look at a file's header and say what can be read from it."""
    path = spec.path
    if not path.is_file():
        raise TableError(f"{_say(spec)}: there is no such file")
    if path.stat().st_size == 0:
        raise TableError(f"{_say(spec)}: the file is empty; a header line and some rows are needed")
    if path.suffix in PARQUET_SUFFIXES:
        pieces = _open_parquet(spec)
    elif path.suffix in CSV_SUFFIXES:
        pieces = _open_csv(spec)
    else:
        known = ", ".join(sorted(CSV_SUFFIXES | PARQUET_SUFFIXES))
        raise TableError(f"{_say(spec)}: cannot tell its format from {path.suffix!r}; known are {known}")
    _check_spec(spec, [*pieces.schema.names, *pieces.skipped])
    return pieces


def _say(spec: TableSpec) -> str:
    return f"table {spec.name!r} ({spec.path})"


def _open_parquet(spec: TableSpec) -> Pieces:
    try:
        schema = pa.parquet.read_schema(spec.path)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{_say(spec)}: not a Parquet file: {error}") from error
    _check_names(spec, schema.names)
    pieces = Pieces(spec, pa.schema([]))
    fields = []
    for column in schema:
        kind = _plain_type(column.type)
        reason = _why_skip(spec, column.name) or (f"cannot use cells of type {column.type}" if kind is None else None)
        if reason or kind is None:
            pieces.skipped[column.name] = reason or ""
        else:
            fields.append(pa.field(column.name, kind))
    pieces.schema = pa.schema(fields)
    return pieces


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """The type a Parquet column is read as, or None for nested and binary ones."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return pa.float64()
    if pa.types.is_time(kind) or pa.types.is_null(kind):
        return pa.string()
    return kind if pa.types.is_boolean(kind) or pa.types.is_temporal(kind) else None


def _open_csv(spec: TableSpec) -> Pieces:
    n_quotes = _check_utf8(spec)
    header, delimiter = _read_header(spec)
    _check_names(spec, header)
    # Columns without a name are told apart by their place.
    header = [name or f"(column {i + 1})" for i, name in enumerate(header)]
    skipped = {name: reason for name in header if (reason := _why_skip(spec, name))}
    kept = [pa.field(name, pa.string()) for name in header if name not in skipped]
    return Pieces(spec, pa.schema(kept), delimiter, header, skipped, odd_quotes=n_quotes % 2 == 1)


def _check_utf8(spec: TableSpec) -> int:
    """Arrow would only say that some cell is not UTF-8; say which line. Returns the number of quotes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, n_quotes = 1, 0
    with spec.path.open("rb") as file:
        while block := file.read(PIECE_BYTES):
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                raise TableError(
                    f"{_say(spec)}: line {line} is not UTF-8 (byte 0x{error.object[error.start]:02x}); "
                    f"save the file as UTF-8, e.g. iconv -f LATIN1 -t UTF-8 {spec.path.name}"
                ) from None
            line, n_quotes = line + block.count(b"\n"), n_quotes + block.count(b'"')
    return n_quotes


def _read_header(spec: TableSpec) -> tuple[list[str], str]:
    with spec.path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline()
        delimiter = max(DELIMITERS, key=lambda d: len(next(csv.reader([line], delimiter=d), [])))
        file.seek(0)
        # A quoted name may span lines, so the reader is given the file, not the line.
        header = [name.strip() for name in next(csv.reader(file, delimiter=delimiter), [])]
    if not any(header):
        raise TableError(f"{_say(spec)}: its first line is empty; it must hold the column names")
    return header, delimiter


def _why_skip(spec: TableSpec, name: str) -> str | None:
    if name in spec.ignore:
        return IGNORED
    return "its header is empty" if re.fullmatch(r"\(column \d+\)", name) else None


def _check_names(spec: TableSpec, names: list[str]) -> None:
    if len(names) < 2:
        shown = f"one column, {names[0]!r}" if names else "no columns"
        raise TableError(
            f"{_say(spec)}: it has {shown}; at least two are needed, for one to be predicted from the others"
        )
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise TableError(
            f"{_say(spec)}: column names occur more than once: {list_some([repr(n) for n in twice], ', ')}; "
            "give each column a name of its own"
        )


def _check_spec(spec: TableSpec, names: list[str]) -> None:
    """A column that family.toml speaks of and the file does not have is a typing mistake."""
    said = {*spec.ignore, *spec.rename, *(column for column in spec.missing if column)}
    unknown = sorted(said - set(names) - spec.optional)
    if unknown:
        raise TableError(
            f"{_say(spec)}: family.toml names columns that the file does not have: "
            f"{list_some([repr(n) for n in unknown], ', ')}; it has {list_some([repr(n) for n in names], ', ')}"
        )
