"""How well are holes filled? Ours beside other imputers: same rows, same holes, same run, but for recorded ones,
which may have fewer seeds.

Tables are split; holes are made in both parts; imputers are fitted on the training rows as they then are, and
fill the others. Settings were chosen without the test rows.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from model.progress import Progress
from training.bench.impute.folder import list_tables, load_table
from training.bench.impute.matched import MATCHED
from training.bench.impute.measure import OURS, measure
from training.bench.impute.peers import PEERS
from training.bench.impute.pool import load_pooled
from training.bench.impute.scoring import (
    MEAN,
    METRICS,
    N_SEEDS,
    PATTERNS,
    RECORDED,
    RECORDED_MATCHED,
    STUDY,
    Figures,
    name_case,
)
from training.bench.impute.tables import QUICK, SOURCES, cut_case
from training.bench.tasks import choose_methods
from training.figures import Ledger, Record, average, format_table
from training.parallel import n_cores, work_alone

METHODS = (OURS, *PEERS)
QUICK_METHODS = (OURS, "mean_mode", "iterative_bayesridge")
Task = tuple[str, str, float, int, str, bool, str]


def run(
    quick: bool,
    resume: Path | None = None,
    *,
    matched: bool = False,
    only: Sequence[str] = (),
    data: Path | None = None,
) -> list[Record]:
    """Measure all of it and print a table for each pattern; ``quick``: two tables, one seed, short fits.

    ``resume``: figures are kept there, and a run that was broken off goes on from them. ``matched``: the eight tables
    of ``training.bench.impute.matched``, holes at random. ``only``: these methods. ``data``: the tables of this folder
    instead of ours.
    """
    ledger = Ledger(resume)
    names = _choose_tables(quick, matched, data)
    seeds = range(1 if quick else N_SEEDS)
    patterns = PATTERNS[1:2] if quick else [p for p in PATTERNS if p[0] == "random" or not matched]
    methods = choose_methods(QUICK_METHODS if quick else METHODS, only)
    tasks = [
        (name, pattern, rate, seed, method, quick, "" if data is None else str(data))
        for pattern, rate in patterns
        for method in methods
        for name in names
        for seed in seeds
    ]
    progress = Progress()
    progress.start(f"{len(names)} tables, {len(patterns)} patterns of holes, seeds {', '.join(map(str, seeds))}")
    found: dict[Task, Figures] = {}
    for task, figures in _run_all(tasks, ledger, quick=quick):
        found[task] = figures
        progress.update(len(found) / len(tasks), f"{task[4]}, {task[0]}, {name_case(*task[1:3])}")
    progress.close()
    records: list[Record] = []
    for pattern, rate in patterns:
        some = list(_summarize(found, pattern, rate))
        if not (quick or only or data):
            some += _read_recorded(RECORDED_MATCHED if matched else RECORDED, pattern, rate)
        print(_show(name_case(pattern, rate), some, names))
        records += some
    return records


def _choose_tables(quick: bool, matched: bool, data: Path | None) -> Sequence[str]:
    if data is not None:
        names = list_tables(data)
        return names[: len(QUICK)] if quick else names
    return QUICK if quick else MATCHED if matched else tuple(SOURCES)


def _run_all(tasks: Sequence[Task], ledger: Ledger, *, quick: bool) -> Iterator[tuple[Task, Figures]]:
    """Every task, as it ends, in as many processes as there are cores."""
    if quick:
        yield from ((task, _work(task)) for task in tasks)
        return
    known = {task: ledger.known[key] for task in tasks if (key := str(task)) in ledger.known}
    yield from ((task, Figures(*figures)) for task, figures in known.items())
    with ProcessPoolExecutor(n_cores(), get_context("spawn"), initializer=work_alone) as pool:
        futures = {pool.submit(_work, task): task for task in tasks if task not in known}
        try:
            for future in as_completed(futures):
                ledger.keep(str(futures[future]), astuple(future.result()))
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _work(task: Task) -> Figures:
    name, pattern, rate, seed, method, quick, data = task
    table = load_table(Path(data), name) if data else load_pooled(name)
    return measure(method, cut_case(table, seed, pattern, rate), seed, quick=quick)


def _summarize(found: dict[Task, Figures], pattern: str, rate: float) -> Iterator[Record]:
    """Of each method: the mean over the seeds for each table, and over the tables."""
    by_table: dict[tuple[str, str], list[Figures]] = defaultdict(list)
    by_seed: dict[str, dict[int, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    for (name, of, at, seed, method, *_), figures in sorted(found.items(), key=lambda item: METHODS.index(item[0][4])):
        if (of, at) == (pattern, rate):
            by_table[method, name].append(figures)
            by_seed[method][seed].append(figures)
    case = name_case(pattern, rate)
    for i, metric in enumerate(METRICS):
        for (method, name), some in by_table.items():
            values = [float(astuple(figures)[i]) for figures in some]
            if not np.isnan(values).any():
                yield average(STUDY, f"{name}, {case}", method, metric, values)
        for method, seeds in by_seed.items():
            values = [_known_mean([astuple(figures)[i] for figures in some]) for some in seeds.values()]
            if not np.isnan(values).any():
                yield average(STUDY, f"{MEAN}, {case}", method, metric, values)


def _known_mean(values: Sequence[float]) -> float:
    """The mean over the tables that have such a figure: not every table has words."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _read_recorded(file: Path, pattern: str, rate: float) -> list[Record]:
    if not file.is_file():
        return []
    case = name_case(pattern, rate)
    records = [Record(**raw) for raw in json.loads(file.read_text(encoding="utf-8"))["records"]]
    return [record for record in records if record.case.endswith(f", {case}")]


def _show(case: str, records: Sequence[Record], names: Sequence[str]) -> str:
    """The means, and NRMSE / accuracy of each table, a row for each method."""
    value = {(r.method, r.case.rpartition(", ")[0], r.metric): r for r in records}
    rows = []
    for method in dict.fromkeys(r.method for r in records):
        means = [value.get((method, MEAN, metric)) for metric in ("nrmse", "accuracy")]
        cells = ["" if mean is None else f"{mean.value:.3f}" for mean in means]  # a folder may be without words
        cells += [
            f"{value[method, MEAN, 'fit_seconds'].value:.1f}",
            f"{value[method, MEAN, 'row_milliseconds'].value:.2f}",
        ]
        for name in names:
            both = [value.get((method, name, metric)) for metric in ("nrmse", "accuracy")]
            cells.append(" / ".join(f"{r.value:.3f}" for r in both if r is not None))
        one = value[method, MEAN, "nrmse"]
        mark = "" if one.source == "run" else f" (recorded, {one.seeds} seed(s))"
        rows.append([method + mark, *cells])
    head = ["method", "NRMSE", "accuracy", "fit CPU s", "one row ms", *names]
    return f"\nHoles: {case}. For each table: NRMSE / accuracy.\n\n{format_table(head, rows)}{_show_trust(records)}"


def _show_trust(records: Sequence[Record]) -> str:
    ours = {r.metric: r.value for r in records if r.method == OURS and r.case.startswith(MEAN)}
    if not ours:
        return ""
    return (
        f"\n\nOurs: the 90 % interval covers {100 * ours['coverage']:.1f} % of the cells (its score: "
        f"{ours['interval_score']:.2f} spreads){_show_words(ours)}."
    )


def _show_words(ours: Mapping[str, float]) -> str:
    if "ece" not in ours:
        return ""
    return f"; calibration error of words {ours['ece_before']:.3f} before calibration, {ours['ece']:.3f} after"
