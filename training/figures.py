"""Figures of benchmarks and studies: one record each, printed beside each other and written as JSON."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from model.errors import TabglotError


class LedgerError(TabglotError):
    """A file of figures cannot be used."""


class ComparisonError(TabglotError):
    """A comparison cannot be made as asked."""


@dataclass(frozen=True, slots=True)
class Record:
    """One figure; ``source`` is "run", "recorded" (run once, elsewhere) or "published" (the paper's)."""

    study: str
    case: str
    method: str
    metric: str
    value: float
    stderr: float | None = None
    seeds: int = 1
    source: str = "run"


def average(study: str, case: str, method: str, metric: str, values: Sequence[float]) -> Record:
    """The mean over seeds, with its standard error."""
    spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return Record(study, case, method, metric, float(np.mean(values)), spread, len(values))


def write_records(records: Sequence[Record], file: Path) -> None:
    """Write the figures as a JSON list: aside, then renamed, so that a file is never half there."""
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    aside.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n", encoding="utf-8")
    aside.replace(file)


class Ledger:
    """Figures of a long run, kept line by line as they are found: a run that was broken off goes on from there.

    Several runs may share a file. It does not know the code that made a figure: start anew after changing it.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.known: dict[str, Any] = {}
        if file is None:
            return
        try:
            with file.open("a+b") as lines:
                lines.seek(0)
                whole, _, cut_short = lines.read().rpartition(b"\n")
                if cut_short and not whole:
                    raise ValueError("not a single line of figures")
                self.known = {key: figures for line in whole.splitlines() for key, figures in json.loads(line).items()}
                # Only now that it is known to be a ledger may anything of it be dropped.
                if cut_short:
                    lines.truncate(len(whole) + 1)
        except OSError as error:
            raise LedgerError(f"--resume {file}: it cannot be used: {error.strerror}") from error
        except (ValueError, AttributeError) as error:
            raise LedgerError(f"--resume {file}: it holds something else than figures of a study") from error

    def find(self, key: str, work: Callable[[], Any]) -> Any:
        """The figures under a key; they are worked out, and kept, if they are not there yet."""
        if key not in self.known:
            self.keep(key, work())
        return self.known[key]

    def keep(self, key: str, figures: Any) -> None:
        """Keep figures under a key."""
        self.known[key] = figures
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({key: figures}) + "\n")


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return "\n".join([line(head), line(rule), *map(line, rows)])
