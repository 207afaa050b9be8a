"""How well is one named column predicted? Ours beside other methods: same rows, same holes, same run.

Tables are split; ours is fitted with its target named, peers with their library's own settings; then the target of the
other rows is asked for. With ``data``, tables of several sources that share a target are asked for as well, with one
model for all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from functools import partial
from itertools import chain
from pathlib import Path
from typing import cast

from training.bench.impute.measure import OURS
from training.bench.impute.tables import QUICK
from training.bench.predict.families import list_families, list_tables, make_family_question
from training.bench.predict.measure import METRICS, Figures, measure
from training.bench.predict.peers import PEERS, list_missing
from training.bench.predict.questions import PATTERNS, TARGETS, asks_word, make_question
from training.bench.predict.summary import NUMBERS, STUDY, WORDS, Measured, record_all, show
from training.bench.tasks import Work, choose_methods, leave_out, run_tasks
from training.figures import Ledger, Record

N_SEEDS = 3
# Families are of small tables, some with a handful of one answer: few splits tell little, and a fit takes seconds.
N_FAMILY_SEEDS = 10
METHODS = (OURS, *PEERS)
QUICK_METHODS = (OURS, "mean_mode", "lr", "hgb")
TOGETHER = "one model"
KINDS = {"numbers": NUMBERS, "words": WORDS}
# Study (a ledger may be shared), pattern, table, seed, method, and whether it is the small form.
Task = tuple[str, str, str, int, str, int]


def run(quick: bool, *, resume: Path | None = None, data: Path | None = None, only: Sequence[str] = ()) -> list[Record]:
    """Measure all of it and print a table for each pattern and kind; ``quick``: two tables, one seed, short fits.

    ``resume``: figures are kept there, and a run that was broken off goes on from them. ``data``: a folder of families,
    see families.py. ``only``: these methods.
    """
    ledger = Ledger(resume)
    families = list_families(data) if data is not None else []
    methods = leave_out(choose_methods(QUICK_METHODS if quick else METHODS, only), list_missing())
    records = _run_tables(methods, ledger, quick=quick)
    if data is not None:
        records += _run_families(data, families, methods, ledger, quick=quick)
    return records


def work(task: Task) -> list[float]:
    """The figures of one method on one table."""
    _, pattern, name, seed, method, quick = task
    return _flatten(measure(method, make_question(name, seed, pattern), seed, quick=bool(quick)))


def work_family(folder: Path, task: Task) -> list[float]:
    """The figures of one method on every table of a family, one after another."""
    _, _, name, seed, method, quick = task
    return _flatten(measure(method, make_family_question(folder, name, seed), seed, quick=bool(quick)))


def _run_tables(methods: Sequence[str], ledger: Ledger, *, quick: bool) -> list[Record]:
    names = QUICK if quick else tuple(TARGETS)
    tasks = list(_list_tasks(list(PATTERNS), names, methods, N_SEEDS, quick=quick))
    what = f"{len(names)} tables, {len(PATTERNS)} patterns, {len(methods)} methods"
    found = run_tasks(tasks, cast(Work, work), ledger, quick=quick, what=what)
    records: list[Record] = []
    for pattern in PATTERNS:
        for kind, metrics in KINDS.items():
            measured = {
                (method, name, seed): Figures(*found[task])
                for task in tasks
                for _, of, name, seed, method, _ in [task]
                if of == pattern and asks_word(name) == (kind == "words")
            }
            records += _tell(f"Targets: {kind}, {pattern}", measured, f"mean of {kind}", pattern, metrics)
    return records


def _run_families(
    folder: Path, families: Sequence[str], methods: Sequence[str], ledger: Ledger, *, quick: bool
) -> list[Record]:
    records: list[Record] = []
    for family in families:
        tasks = list(_list_tasks([TOGETHER], [family], methods, N_FAMILY_SEEDS, quick=quick))
        tables = list_tables(folder, family)
        what = f"{family}: {len(tables)} tables, {len(methods)} methods"
        found = run_tasks(tasks, cast(Work, partial(work_family, folder)), ledger, quick=quick, what=what)
        measured = {
            (method, f"{family}/{table}", seed): Figures(*found[task][i * len(METRICS) : (i + 1) * len(METRICS)])
            for task in tasks
            for _, _, _, seed, method, _ in [task]
            for i, table in enumerate(tables)
        }
        records += _tell(f"{family}: one model for all tables", measured, f"mean of {family}", TOGETHER, WORDS)
    return records


def _list_tasks(
    patterns: Sequence[str], names: Sequence[str], methods: Sequence[str], n_seeds: int, *, quick: bool
) -> Iterator[Task]:
    for pattern in patterns:
        for method in methods:
            for name in names:
                for seed in range(1 if quick else n_seeds):
                    yield STUDY, pattern, name, seed, method, int(quick)


def _tell(title: str, measured: Measured, mean: str, case: str, metrics: Sequence[str]) -> list[Record]:
    """The records of one group of tables, printed."""
    records = list(record_all(measured, mean, case))
    print(show(title, records, mean, metrics))
    return records


def _flatten(figures: Sequence[Figures]) -> list[float]:
    return list(chain.from_iterable(map(astuple, figures)))
