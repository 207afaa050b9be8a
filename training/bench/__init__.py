"""Comparisons that print what BENCHMARKS.md shows. The product never imports this package."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from training.figures import ComparisonError, Record, write_records


def run_bench(
    what: str,
    *,
    quick: bool,
    json_file: Path | None,
    bundle: Path | None = None,
    resume: Path | None = None,
    data: Path | None = None,
    matched: bool = False,
    only: Sequence[str] = (),
) -> None:
    """Run one comparison, print its table and, if asked, write its records."""
    if what != "impute" and (matched or only):
        raise ComparisonError(f"bench {what} has neither --matched nor --only; bench impute has")
    if matched and quick:
        raise ComparisonError("--quick has tables of its own: leave out --matched, or --quick")
    from training.bench import audit, parallel, pooling, scale, serving, speed
    from training.bench.impute import run as impute
    from training.bench.match import run as match

    studies: dict[str, Callable[[bool], list[Record]]] = {
        "impute": partial(impute.run, resume=resume, matched=matched, only=only),
        "audit": audit.run,
        "pooling": pooling.run,
        "match": partial(match.run, data=data, resume=resume),
        "speed": speed.run,
        "scale": scale.run,
        "parallel": parallel.run,
        "serving": partial(serving.run, bundle=bundle),
    }
    records = studies[what](quick)
    if json_file is not None:
        write_records(records, json_file)
        print(f"wrote {len(records)} figures to {json_file}")
