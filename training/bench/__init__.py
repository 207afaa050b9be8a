"""Comparisons that print what BENCHMARKS.md shows. The product never imports this package."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Record:
    """One figure."""

    study: str
    case: str
    method: str
    metric: str
    value: float
    stderr: float | None = None
    seeds: int = 1
    source: str = "run"


def run_bench(what: str, *, quick: bool, json_file: Path | None, bundle: Path | None = None) -> None:
    """Run one comparison, print its table and, if asked, write its records."""
    from training.bench import parallel, scale, serving, speed

    studies: dict[str, Callable[[bool], list[Record]]] = {
        "speed": speed.run,
        "scale": scale.run,
        "parallel": parallel.run,
        "serving": partial(serving.run, bundle=bundle),
    }
    records = studies[what](quick)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n", encoding="utf-8")
        print(f"wrote {len(records)} figures to {json_file}")
