"""Comparisons that print what BENCHMARKS.md shows. The product never imports this package."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from training.figures import ComparisonError, Record, refuse_unread, run_and_write

# What only some of them read; the others say so.
KNOWN_TO = {
    "--only": ("bench impute", "bench predict"),
    "--matched": ("bench impute",),
    "--resume": ("bench impute", "bench predict", "bench match"),
    "--data": ("bench impute", "bench predict", "bench match"),
    "--bundle": ("bench serving",),
}


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
    given = {"--only": only, "--matched": matched, "--resume": resume, "--data": data, "--bundle": bundle}
    refuse_unread(f"bench {what}", given, KNOWN_TO)
    if matched and data:
        raise ComparisonError("--matched has tables of its own: leave it out, or --data")
    if matched and quick:
        raise ComparisonError("--quick has tables of its own: leave out --matched, or --quick")
    from training.bench import audit, parallel, pooling, scale, serving, speed
    from training.bench.impute import run as impute
    from training.bench.match import run as match
    from training.bench.predict import run as predict

    studies: dict[str, Callable[[bool], list[Record]]] = {
        "impute": partial(impute.run, resume=resume, matched=matched, only=only, data=data),
        "predict": partial(predict.run, resume=resume, data=data, only=only),
        "audit": audit.run,
        "pooling": pooling.run,
        "match": partial(match.run, data=data, resume=resume),
        "speed": speed.run,
        "scale": scale.run,
        "parallel": parallel.run,
        "serving": partial(serving.run, bundle=bundle),
    }
    run_and_write(partial(studies[what], quick), json_file)
