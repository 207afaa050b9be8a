"""CSV to CSV: every byte as it was, but for the cells that were missing and the columns added."""

import re
from pathlib import Path

import numpy as np

from service.files.ask import Plan
from service.files.csv_source import CsvPiece, CsvSource
from service.files.fills import PLAIN, Added, Answers, show_numbers, to_texts
from service.files.notes import Rows
from service.files.tokens import Places, splice


class CsvSink:
    """Splices answers into the bytes of the source."""

    def __init__(self, path: Path, source: CsvSource, plan: Plan, added: Added) -> None:
        self._names, self._features, self._added = source.names, plan.features, added
        self._delimiter = source.delimiter.decode()
        self._unsafe = re.compile(f'[{re.escape(self._delimiter)}"\r\n]|^\\s|\\s$').search
        header = "".join(self._delimiter + self._quote(name) for name in added)
        self._file = path.open("wb")
        self._file.write(source.mark + source.header + header.encode())

    def write(self, piece: CsvPiece, answers: Answers) -> dict[str, Rows]:
        """Text holds any answer: no row is ever returned as one that could not be filled."""
        starts: list[Places] = [np.empty(0, np.int64)]
        ends: list[Places] = [np.empty(0, np.int64)]
        texts: list[bytes] = []
        for name, (rows, values) in answers.filled.items():
            j = self._names.index(name)
            shown = to_texts(values, self._features[name], answers.spellings.get(name, PLAIN))
            quoted = piece.quoted(j, rows).tolist()
            if not self._features[name].is_number or any(quoted):
                shown = [self._quote(text, always) for text, always in zip(shown, quoted, strict=True)]
            texts += map(str.encode, shown)
            starts.append(piece.starts[rows, j])
            ends.append(piece.ends[rows, j])
        if answers.added:  # after the fills: the last cell of a row comes before what is added to it
            texts += self._tails(answers)
            starts.append(piece.ends[:, -1])
            ends.append(piece.ends[:, -1])
        self._file.write(splice(piece.text, np.concatenate(starts), np.concatenate(ends), texts))
        return {}

    def _tails(self, answers: Answers) -> list[bytes]:
        """What is added at the end of each row."""
        columns = []
        for name, values in answers.added.items():
            feature = self._added[name]
            texts = show_numbers(np.asarray(values)) if feature is None else to_texts(values, feature)
            is_safe = feature is None or feature.is_number
            columns.append(texts if is_safe else [self._quote(text) for text in texts])
        return [(self._delimiter + self._delimiter.join(row)).encode() for row in zip(*columns, strict=True)]

    def _quote(self, text: str, always: bool = False) -> str:
        return '"' + text.replace('"', '""') + '"' if always or self._unsafe(text) else text

    def close(self) -> None:
        self._file.close()
