"""Figures of benchmarks and studies: one record each, printed beside each other and written as JSON."""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
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


def refuse_unread(what: str, given: Mapping[str, object], known_to: Mapping[str, Sequence[str]]) -> None:
    """Refuse an option that the chosen comparison does not read; ``known_to``: who reads it."""
    for option, those in known_to.items():
        if given[option] and what not in those:
            does = "does" if len(those) == 1 else "do"
            raise ComparisonError(f"{what} does not have {option}; {' and '.join(those)} {does}")


def run_and_write(work: Callable[[], list[Record]], json_file: Path | None) -> None:
    """Do the work and write its figures; where they cannot be written is told before the work, which may take hours."""
    if json_file is not None:
        _check_place(json_file)
    records = work()
    if json_file is not None:
        write_records(records, json_file)
        print(f"wrote {len(records)} figures to {json_file}")


def _check_place(file: Path) -> None:
    if file.is_dir():
        raise ComparisonError(f"--json {file}: it is a folder; name a file to write the figures to")
    if not file.parent.is_dir():
        raise ComparisonError(f"--json {file}: there is no folder {file.parent}; make it, or name a file elsewhere")
    if not os.access(file.parent, os.W_OK):
        raise ComparisonError(
            f"--json {file}: nothing can be written to the folder {file.parent}; name a file elsewhere"
        )


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


def say_losses(rows: Mapping[str, Mapping[str, float]], ours: Collection[str] = ("ours",)) -> str:
    """Of figures by row and method, more being better: where one that is not ours is better, which and by how much."""
    losses = []
    for name, row in rows.items():
        peers = [method for method in row if method not in ours]
        if not peers or "ours" not in row:
            continue
        best = max(peers, key=lambda method: row[method])
        if row[best] > row["ours"]:
            losses.append(f"{name} (by {row[best] - row['ours']:.3f} to {best.replace('_', ' ')})")
    return f"Ours loses on {', '.join(losses)}." if losses else "Ours loses nowhere."
