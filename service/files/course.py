"""One file on its way through: opened, read piece by piece into columns, remarked upon, counted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from model.errors import CellError, CellProblem, TableError
from service.files.arrow_source import ArrowPiece, ArrowSource, ParquetSource
from service.files.ask import FileReport, Format, Plan
from service.files.cells import MOST_FAULTS, Column, read_column
from service.files.csv_source import PIECE_BYTES, PIECE_ROWS, CsvPiece, CsvSource
from service.files.fills import Spelling, learn_spelling
from service.files.notes import UNSEEN, Notes, beyond_range

Source = CsvSource | ParquetSource | ArrowSource
Piece = CsvPiece | ArrowPiece


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is held at a time: bytes of CSV text, and rows."""

    csv_bytes: int = PIECE_BYTES
    rows: int = PIECE_ROWS


def open_source(path: Path, read_as: Format, sizes: Sizes) -> Source:
    """Open a file; its names are read, its rows are not."""
    if read_as == "csv":
        return CsvSource(path, sizes.csv_bytes, sizes.rows)
    return ParquetSource(path, sizes.rows) if read_as == "parquet" else ArrowSource(path, sizes.rows)


@dataclass
class Course:
    """What has been read of a file so far, and what was found and filled on the way."""

    source: Source
    plan: Plan
    most_rows: int | None = None
    notes: Notes = field(default_factory=Notes)
    spellings: dict[str, Spelling] = field(default_factory=dict)
    rows: int = 0
    filled: dict[str, int] = field(default_factory=dict)

    def read(self) -> Iterator[tuple[Piece, dict[str, Column]]]:
        """All pieces, each with the columns that the model knows."""
        for piece in self.source.pieces():
            self.rows += piece.n_rows
            if self.most_rows is not None and self.rows > self.most_rows:
                raise TableError(f"the file has more than {self.most_rows:,} rows; send it in parts")
            columns = self._read_piece(piece)
            yield piece, columns

    def _read_piece(self, piece: Piece) -> dict[str, Column]:
        """Faults of all columns are raised together, by rows of the whole file."""
        columns: dict[str, Column] = {}
        problems: list[CellProblem] = []
        for name in self.plan.read:
            cells = piece.array(self.source.names.index(name))
            link, feature = self.plan.links[name], self.plan.features[name]
            try:
                columns[name] = read_column(cells, feature, link, self.source.spelt)
            except CellError as error:
                problems += [_move(problem, name, piece.first_row) for problem in error.problems]
                continue
            self._remark(name, columns[name], piece.first_row)
        if problems:
            raise CellError(sorted(problems, key=lambda problem: problem.row or 0)[:MOST_FAULTS])
        return columns

    def _remark(self, name: str, column: Column, first_row: int) -> None:
        feature = self.plan.features[name]
        self.notes.add(name, UNSEEN, column.unseen + first_row)
        if len(column.beyond):
            self.notes.add(name, beyond_range(feature, self.plan.links[name]), column.beyond + first_row)
        if feature.kind == "boolean" and name not in self.spellings and (spelling := learn_spelling(column.words)):
            self.spellings[name] = spelling

    def count(self, name: str, n: int) -> None:
        """So many cells of a column were filled."""
        self.filled[name] = self.filled.get(name, 0) + n

    def report(self) -> FileReport:
        filled = {name: n for name, n in self.filled.items() if n}
        return FileReport(self.rows, sum(filled.values()), filled, self.plan.warnings + self.notes.say())


def _move(problem: CellProblem, name: str, first_row: int) -> CellProblem:
    return CellProblem(None if problem.row is None else problem.row + first_row, name, problem.message)
