"""Read a CSV file in pieces of whole records, knowing the place of every field in its bytes."""

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from model.errors import TableError, list_some
from service.files.tokens import Places, Records, count_lines, gather, inner, scan

PIECE_BYTES = 1 << 20
PIECE_ROWS = 16_384
HEADER_BYTES = 1 << 14
# A record longer than this is taken for a quote that somebody forgot to close.
MOST_RECORD_BYTES = 64 << 20
# Tried on the header; of those that give as many columns the first wins.
DELIMITERS = (b",", b";", b"\t", b"|")


@dataclass(frozen=True, slots=True)
class CsvPiece:
    """Some whole records: their bytes and where the fields are, (rows, columns) each."""

    text: bytes
    starts: Places
    ends: Places
    first_row: int
    done: float

    @property
    def n_rows(self) -> int:
        return len(self.starts)

    def array(self, column: int) -> pa.Array:
        """A column as strings, without the quotes around them."""
        raw = np.frombuffer(self.text, np.uint8)
        starts, ends, quoted = inner(raw, self.starts[:, column], self.ends[:, column])
        return _strings(raw, starts, ends, quoted)

    def quoted(self, column: int, rows: Places) -> NDArray[np.bool_]:
        """Which of some cells are in quotes."""
        raw = np.frombuffer(self.text, np.uint8)
        return inner(raw, self.starts[rows, column], self.ends[rows, column])[2]


def _strings(raw: NDArray[np.uint8], starts: Places, ends: Places, quoted: NDArray[np.bool_]) -> pa.Array:
    data, offsets = gather(raw, starts, ends)
    cells = pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(data))
    if not quoted.any():
        return cells
    return pc.if_else(pa.array(quoted), pc.replace_substring(cells, '""', '"'), cells)


@dataclass
class CsvSource:
    """A CSV file whose header has been read. ``mark`` is its byte order mark, if any, and ``header`` the
    bytes after it, without the line end.
    """

    path: Path
    piece_bytes: int = PIECE_BYTES
    piece_rows: int = PIECE_ROWS
    spelt: bool = True  # numbers and dates come as text
    delimiter: bytes = b","
    mark: bytes = b""
    header: bytes = b""
    names: tuple[str, ...] = ()
    _file: BinaryIO = field(init=False)
    _rest: bytes = b""
    _line: int = 1

    def __post_init__(self) -> None:
        self._size = max(1, self.path.stat().st_size)
        self._file = self.path.open("rb")
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def pieces(self) -> Iterator[CsvPiece]:
        """All records, once. The bytes of all pieces are the bytes of the file after the header."""
        row, used, rest = 0, len(self.mark) + len(self.header), self._rest
        while block := self._file.read(max(self.piece_bytes, len(rest))):
            records = scan(rest := rest + block, self.delimiter, final=False)
            if records.used == 0:
                if len(rest) > MOST_RECORD_BYTES:
                    raise self._fault(rest, records.unclosed or 0, "a record begins that does not end; close its quote")
                continue
            used += records.used
            for piece in self._cut(rest[: records.used], records, row, used / self._size):
                row += piece.n_rows
                yield piece
            self._line += count_lines(rest[: records.used])
            rest = rest[records.used :]
        if rest:
            yield from self._cut(rest, scan(rest, self.delimiter, final=True), row, 1.0)

    def _cut(self, text: bytes, records: Records, row: int, done: float) -> Iterator[CsvPiece]:
        """Pieces of at most so many rows; blank lines go with the row before them."""
        if records.unclosed is not None and records.unclosed < records.used:
            raise self._fault(text, records.unclosed, "a quoted cell begins that never ends; close the quote")
        self._check_text(text)
        starts, ends = self._shape(text, records)
        cuts = [0, *starts[self.piece_rows :: self.piece_rows, 0].tolist(), len(text)]
        for i, (low, high) in enumerate(pairwise(cuts)):
            rows = slice(i * self.piece_rows, (i + 1) * self.piece_rows)
            yield CsvPiece(text[low:high], starts[rows] - low, ends[rows] - low, row + rows.start, done)

    def _shape(self, text: bytes, records: Records) -> tuple[Places, Places]:
        n_columns = len(self.names)
        blank = records.blank
        ragged = np.flatnonzero((records.counts != n_columns) & ~blank)
        if len(ragged):
            first = int(ragged[0])
            at = int(records.starts[records.counts[:first].sum()])
            got = f"expected {n_columns} fields as in the header, got {int(records.counts[first])}"
            raise self._fault(text, at, f"{got}; quote cells that hold the delimiter, or mend the line")
        starts, ends = records.starts, records.ends
        if blank.any():
            keep = np.repeat(~blank, records.counts)
            starts, ends = starts[keep], ends[keep]
        return starts.reshape(-1, n_columns), ends.reshape(-1, n_columns)

    def _check_text(self, text: bytes) -> None:
        try:
            if not text.isascii():
                text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._fault(
                text, error.start, f"not UTF-8 (byte 0x{text[error.start]:02x}); save the file as UTF-8"
            ) from None
        if b"\0" in text:
            raise self._fault(text, text.index(b"\0"), "a NUL byte; save the file as text in UTF-8")

    def _fault(self, text: bytes, at: int, message: str) -> TableError:
        return TableError(f"line {self._line + count_lines(text[:at])} of the CSV file: {message}")

    def _read_header(self) -> None:
        text = self._file.read(len(codecs.BOM_UTF8))
        if text == codecs.BOM_UTF8:
            self.mark, text = text, b""
        records: dict[bytes, Records] = {}
        final = False
        while not final and not any(r.used for r in records.values()) and len(text) <= MOST_RECORD_BYTES:
            block = self._file.read(max(min(self.piece_bytes, HEADER_BYTES), len(text)))
            text, final = text + block, not block
            records = {d: scan(text, d, final) for d in DELIMITERS}
        if not text.strip():
            raise TableError("the CSV file is empty; a header line with the column names is needed")
        self.delimiter = max(DELIMITERS, key=lambda d: records[d].counts[0] if records[d].used else 0)
        found = records[self.delimiter]
        n = int(found.counts[0]) if found.used else 0
        if n == 0 or (found.unclosed is not None and found.unclosed < found.ends[n - 1]):
            raise self._fault(text, found.unclosed or 0, "a quoted column name begins that never ends; close the quote")
        self.header = text[: int(found.ends[n - 1])]
        self._rest = text[len(self.header) :]
        self._check_text(self.header)
        self._line += count_lines(self.header)
        self._take_names(found.starts[:n], found.ends[:n])

    def _take_names(self, starts: Places, ends: Places) -> None:
        raw = np.frombuffer(self.header, np.uint8)
        names = [name.strip() for name in _strings(raw, *inner(raw, starts, ends)).to_pylist()]
        if not any(names):
            raise TableError("the first line of the CSV file is empty; it must hold the column names")
        check_names(names)
        self.names = tuple(names)


def check_names(names: Sequence[str]) -> None:
    """Every column that has a name must have one of its own."""
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        shown = list_some([repr(name) for name in twice], ", ")
        raise TableError(f"column names occur more than once: {shown}; give each column a name of its own")
