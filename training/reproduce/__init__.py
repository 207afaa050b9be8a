"""The paper's studies, end to end: ours beside the published figures and beside peers run here.

The product never imports this package. Each study is a module with ``run(options) -> records``; it
prints its own tables as Markdown, as BENCHMARKS.md shows them.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from model.errors import TabglotError
from training.figures import Record, refuse_unread, run_and_write


class StudyError(TabglotError):
    """A study cannot be run as asked."""


@dataclass(frozen=True, slots=True)
class Options:
    """How much of a study to run: ``n_seeds`` of its seeds (None: all), ``quick`` for a small form of it.

    ``small_grids``: choose the settings of scikit-learn's peers over a few, as ``quick`` does too, instead of all
    that the paper tried, which takes hours for the simulated study. ``only``: some of a study's methods (None: all).
    ``ledger``: a file that keeps figures as they are found, for the studies that take hours.
    """

    n_seeds: int | None = None
    quick: bool = False
    small_grids: bool = False
    only: tuple[str, ...] | None = None
    ledger: Path | None = None

    @property
    def published_grids(self) -> bool:
        return not (self.quick or self.small_grids)

    def choose(self, methods: Sequence[str]) -> list[str]:
        """Those of a study's methods that were asked for."""
        unknown = [method for method in self.only or () if method not in methods]
        if unknown:
            raise StudyError(f"no method {', '.join(unknown)} here; there are {', '.join(methods)}")
        return [method for method in methods if self.only is None or method in self.only]


# What only some studies know; the others say so.
KNOWN_TO = {
    "--only": ("simulated", "auto-mpg", "overlap"),
    "--resume": ("simulated", "overlap"),
    "--small-grids": ("simulated", "auto-mpg"),
}


def run_study(study: str, options: Options, json_file: Path | None) -> None:
    """Run one study, print its tables and, if asked, write its records."""
    given = {"--only": options.only, "--resume": options.ledger, "--small-grids": options.small_grids}
    refuse_unread(study, given, KNOWN_TO)
    # Threads that wait by spinning for long lose all they have once a neighbour wants the same cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    run_and_write(partial(_run, study, options), json_file)


def _run(study: str, options: Options) -> list[Record]:
    try:
        run: Callable[[Options], list[Record]] = import_module(f"training.reproduce.{study.replace('-', '_')}").run
        return run(options)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("model", "training"):
            raise
        needed = f"{study} needs the package {error.name!r}: pip install 'tabglot[train,demo,repro]'"
        raise StudyError(needed) from error
