"""CSV to CSV: every byte as it was, but for the cells that were missing and the columns added."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from service.files.ask import Plan
from service.files.csv_source import CsvPiece, CsvSource
from service.files.fills import COPY, PLAIN, Added, Answers, show_numbers, to_texts
from service.files.notes import Rows
from service.files.tokens import Places, splice

LINE_END = re.compile(rb"\A(\r\n|\r|\n)")


class CsvSink:
    """Splices answers into the bytes of the source."""

    def __init__(self, path: Path, source: CsvSource, plan: Plan, added: Added, *, numbered: bool = False) -> None:
        self._names, self._features, self._added = source.names, plan.features, added
        self._delimiter = source.delimiter.decode()
        self._unsafe = re.compile(f'[{re.escape(self._delimiter)}"\r\n]|^\\s|\\s$').search
        first = COPY + self._delimiter if numbered else ""
        header = "".join(self._delimiter + self._quote(name) for name in added)
        self._file = path.open("wb")
        self._file.write(source.mark + first.encode() + source.header + header.encode())
        self._copy: int | None = None
        self._ended = False  # whether the last line has its end

    def write(self, piece: CsvPiece, answers: Answers) -> dict[str, Rows]:
        """Text holds any answer: no row is ever returned as one that could not be filled."""
        starts: list[Places] = [np.empty(0, np.int64)]
        ends: list[Places] = [np.empty(0, np.int64)]
        texts: list[bytes] = []
        if answers.copy is not None:  # before the fills: it comes before the first cell of a row
            texts += [f"{answers.copy}{self._delimiter}".encode()] * piece.n_rows
            starts.append(piece.starts[:, 0])
            ends.append(piece.starts[:, 0])
        for name, (rows, values) in answers.filled.items():
            j = self._names.index(name)
            shown = to_texts(values, self._features[name], answers.spellings.get(name, PLAIN))
            quoted = piece.quoted(j, rows).tolist()
            if not self._features[name].is_number or any(quoted):
                shown = [self._quote(text, always) for text, always in zip(shown, quoted, strict=True)]
            texts += map(str.encode, shown)
            starts.append(piece.starts[rows, j])
            ends.append(piece.ends[rows, j])
        if self._added:  # after the fills: the last cell of a row comes before what is added to it
            texts += self._tails(answers, piece.n_rows)
            starts.append(piece.ends[:, -1])
            ends.append(piece.ends[:, -1])
        self._put_out(splice(piece.text, np.concatenate(starts), np.concatenate(ends), texts), answers.copy)
        return {}

    def _put_out(self, text: bytes, copy: int | None) -> None:
        """A copy begins with the end of the header's line; where the copy before has ended its last, one is enough."""
        if copy != self._copy and self._ended:
            text = LINE_END.sub(b"", text, count=1)
        self._copy = copy
        self._ended = text.endswith((b"\n", b"\r")) if text else self._ended
        self._file.write(text)

    def _tails(self, answers: Answers, n_rows: int) -> list[bytes]:
        """What is added at the end of each row."""
        columns = [self._added_cells(name, answers, n_rows) for name in self._added]
        return [(self._delimiter + self._delimiter.join(row)).encode() for row in zip(*columns, strict=True)]

    def _added_cells(self, name: str, answers: Answers, n_rows: int) -> list[str]:
        if name in answers.added:
            return self._show(name, answers.added[name])
        cells = [""] * n_rows
        rows, values = answers.rows_beside(name)
        for row, text in zip(rows.tolist(), self._show(name, values), strict=True):
            cells[row] = text
        return cells

    def _show(self, name: str, values: Sequence[Any]) -> list[str]:
        feature = self._added[name]
        texts = show_numbers(np.asarray(values, np.float64)) if feature is None else to_texts(values, feature)
        return texts if feature is None or feature.is_number else [self._quote(text) for text in texts]

    def _quote(self, text: str, always: bool = False) -> str:
        return '"' + text.replace('"', '""') + '"' if always or self._unsafe(text) else text

    def close(self) -> None:
        self._file.close()
