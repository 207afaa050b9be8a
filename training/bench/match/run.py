"""Which columns of two tables mean the same? Ours beside other matchers: same tables, same cuts, same run.

A real table is cut in two by rows. The right part's columns lose their names, but for one, two or three; their values
are kept or re-expressed; the parts are halves at random or differ in distribution. Every matcher knows the shared
columns and that a number is not a word. With ``data``, real families of tables are matched as well.
"""

from collections.abc import Sequence
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from typing import cast

from training.bench.impute.tables import QUICK
from training.bench.match import families, summary
from training.bench.match.cut import APART, FORMS, RE_EXPRESSED, make_cut
from training.bench.match.peers import PEERS
from training.bench.match.scoring import OURS, Method, score, score_signs
from training.bench.match.summary import SHOWN_SHARED, name_case
from training.bench.match.tables import NAMES, load
from training.bench.match.valentine_peers import VALENTINE, list_missing
from training.bench.tasks import Work, leave_out, run_tasks
from training.figures import Ledger, Record

N_SEEDS = 10
N_SHARED = (1, 2, 3)
ENCODINGS = "ours_encodings"
METHODS = (OURS, ENCODINGS, *PEERS, *VALENTINE)
# Without a fit of a model, and without packages that take seconds to import.
QUICK_METHODS = (OURS, *PEERS)


def run(
    quick: bool, *, data: Path | None = None, resume: Path | None = None, only: Sequence[str] | None = None
) -> list[Record]:
    """Measure all of it and print its tables; ``quick``: two small tables, one seed, two shared columns.

    ``data``: a folder of families, see families.py. ``resume``: figures are kept there, and a run that was broken off
    goes on from them. ``only``: some of the methods.
    """
    ledger = Ledger(resume)
    pairs = families.list_pairs(data) if data is not None else []
    methods = _choose_methods(QUICK_METHODS if quick else METHODS, only)
    records = _run_cuts(methods, ledger, quick=quick)
    if data is not None:
        records += _run_families(data, pairs, methods, ledger, quick=quick)
    return records


def work(task: summary.Task) -> list[float]:
    """The figures of one method on one cut of one table."""
    name, form, n_shared, seed, method = task
    cut = make_cut(load(name), form, n_shared, seed)
    figures = score(cut, _find_method(method)(cut.left, cut.right, cut.shared))
    if method == OURS and form.startswith(RE_EXPRESSED):
        from training.bench.match.ours import signs

        figures = replace(figures, sign_accuracy=score_signs(cut, signs(cut.left, cut.right, cut.shared)))
    return [float(figure) for figure in astuple(figures)]


def _run_cuts(methods: Sequence[str], ledger: Ledger, *, quick: bool) -> list[Record]:
    names = QUICK if quick else NAMES
    cases = [
        (form, n_shared)
        for form in FORMS
        for n_shared in N_SHARED
        if n_shared == SHOWN_SHARED or not (quick or form.endswith(APART))
    ]
    tasks = [
        (name, form, n_shared, seed, method)
        for method in methods
        for form, n_shared in cases
        for name in names
        for seed in range(1 if quick else N_SEEDS)
    ]
    what = f"{len(names)} tables, {len(cases)} ways to cut them, {len(methods)} methods"
    found = run_tasks(tasks, cast(Work, work), ledger, quick=quick, what=what)
    records = list(summary.record_cuts({task: found[task] for task in tasks}))
    print(summary.show_means(records, [name_case(*case) for case in cases]))
    for form in FORMS:
        print(summary.show_tables(records, form, names))
    return records


def _run_families(
    folder: Path, pairs: Sequence[tuple[str, str, str]], methods: Sequence[str], ledger: Ledger, *, quick: bool
) -> list[Record]:
    """``quick``: the first pair of tables of each family."""
    chosen = list({family: (family, one, other) for family, one, other in reversed(pairs)}.values()) if quick else pairs
    tasks = [
        (family, one, other, form, method)
        for form, able in families.METHODS.items()
        for method in able
        if method in methods
        for family, one, other in chosen
    ]
    what = f"{len(chosen)} pairs of tables from {len({family for family, _, _ in chosen})} families"
    found = run_tasks(tasks, cast(Work, partial(families.work, folder)), ledger, quick=quick, what=what)
    records = list(summary.record_families({task: found[task] for task in tasks}))
    for form in families.METHODS:
        print(summary.show_families(records, form))
    return records


def _choose_methods(methods: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """Those asked for that can run here; of the others it is said why not."""
    asked = [method for method in methods if only is None or method in only]
    missing = list_missing() if set(asked) & set(VALENTINE) else {}
    return leave_out(asked, missing)


def _find_method(name: str) -> Method:
    if name not in (OURS, ENCODINGS):
        return (PEERS | VALENTINE)[name]
    from training.bench.match import ours

    return ours.score_pairs if name == OURS else ours.encoding_scores
