"""Figures of benchmarks and studies: one record each, printed beside each other and written as JSON."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np


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


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return "\n".join([line(head), line(rule), *map(line, rows)])
