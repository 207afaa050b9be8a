"""The simulated study (section 4): twelve kinds of covariate shift, twenty data sets each.

Run here: our default, the paper's network, the paper's baselines, our default with the unlabelled test rows, and
two limits: what unlimited training data could teach, and what could be known of the test rows at all.
Seeds 0 to 7 served the choice of our settings; the others were left untouched until the end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import numpy as np

from model.progress import Progress
from training.figures import Ledger, Record, average, format_table
from training.parallel import n_cores, work_alone
from training.reproduce import Options
from training.reproduce.arrays import Floats, adapt_side_by_side, ask_side_by_side, fit_side_by_side, to_dataset
from training.reproduce.peers import PEERS, probabilities
from training.reproduce.published import ACCURACY, METHODS, MSE
from training.reproduce.simulated_data import (
    CELLS,
    N_BINS,
    N_COVARIATES,
    N_ROWS,
    Cell,
    Simulated,
    limit_of,
    published_seeds,
    simulate,
)
from training.settings import PRESETS, FitSettings, choose_settings
from training.tables import Dataset

STUDY = "simulated"
METRICS = ("accuracy", "mse", "mse_mean")
N_DEVELOPMENT = 8
QUICK_CELLS = (CELLS[7],)
QUICK_METHODS = ("ours", "paper", "lr", "limit")
Answers = tuple[list[Floats], ...]  # of one or more methods: for each data set p(y | x), (N, K)
Task = tuple[Cell, tuple[str, ...], Sequence[int], Options]
Found = dict[str, dict[str, list[float]]]  # method -> metric -> one value a seed
Scores = Mapping[str, Floats]  # of one method in one cell: metric -> (seeds,)


def run(options: Options) -> list[Record]:
    """Run all cells, print the tables; ``quick``: one cell, one seed, short fits, small grids."""
    seeds = published_seeds()[: options.n_seeds or (1 if options.quick else None)]
    cells = QUICK_CELLS if options.quick else CELLS
    progress = Progress()
    progress.start(f"{len(cells)} cells x {len(seeds)} seeds: {', '.join(map(str, seeds))}")
    ledger = Ledger(options.ledger)
    tasks = {
        _key(cell, methods, some, options): (cell, methods, some, options)
        for methods in _methods(options)
        for some in _fitted_together(methods, seeds)
        for cell in cells
    }
    todo = {key: task for key, task in tasks.items() if key not in ledger.known}
    for done, (key, found) in enumerate(_run_all(todo, quick=options.quick)):
        ledger.keep(key, found)
        cell, methods, *_ = todo[key]
        progress.update((done + 1) / len(todo), f"{cell.name} {methods[0]}")
    figures = _join([(cell, ledger.known[key]) for key, (cell, *_) in tasks.items()])
    progress.close()
    records = [*_published(cells), *_run_records(figures)]
    print(_report(records, figures, cells, len(seeds)))
    return records


def _fitted_together(methods: Sequence[str], seeds: Sequence[int]) -> list[Sequence[int]]:
    """A network learns all seeds side by side; a peer has one at a time, so that a stopped run loses little."""
    return [[seed] for seed in seeds] if methods[0] in PEERS else [seeds]


def _key(cell: Cell, methods: Sequence[str], seeds: Sequence[int], options: Options) -> str:
    """What a figure depends on, but for the code."""
    fit = {"ours": _our_settings, "paper": _paper_settings}.get(methods[0])
    how = fit(options) if fit else ("published grids" if options.published_grids else "small grids")
    which = f"seed {seeds[0]}" if methods[0] in PEERS else len(seeds)
    return f"{cell.name} {methods[0]} {which} {how}"


def _join(parts: Sequence[tuple[Cell, Found]]) -> dict[tuple[str, str], Scores]:
    """The seeds of a method in a cell, one after the other."""
    joined: dict[tuple[str, str], dict[str, list[float]]] = {}
    for cell, found in parts:
        for method, scores in found.items():
            values = joined.setdefault((cell.name, method), {metric: [] for metric in METRICS})
            for metric in METRICS:
                values[metric] += scores[metric]
    return {which: {metric: np.asarray(some) for metric, some in values.items()} for which, values in joined.items()}


def _run_all(todo: Mapping[str, Task], *, quick: bool) -> Iterator[tuple[str, Found]]:
    """Every task, as it ends, in as many processes as there are cores: a fit this small does not use two well."""
    if quick or not todo:
        yield from ((key, _measure(*task)) for key, task in todo.items())
        return
    with ProcessPoolExecutor(n_cores(), get_context("spawn"), initializer=work_alone) as pool:
        futures = {pool.submit(_measure, *task): key for key, task in todo.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # if stopped halfway, what has not begun is left


def _measure(cell: Cell, methods: Sequence[str], seeds: Sequence[int], options: Options) -> Found:
    data = [simulate(cell, seed) for seed in seeds]
    answers = RUNS[tuple(methods)](data, options)
    return {
        method: {metric: values.tolist() for metric, values in score(data, some).items()}
        for method, some in zip(methods, answers, strict=True)
    }


def score(data: Sequence[Simulated], answers: Sequence[Floats]) -> Scores:
    """Accuracy and squared error of the most probable class, and squared error of the posterior mean."""
    rows = []
    for one, p in zip(data, answers, strict=True):
        best, mean = p.argmax(1), p @ np.arange(N_BINS)
        rows.append([(best == one.y_test).mean(), *(np.square(g - one.y_test).mean() for g in (best, mean))])
    return dict(zip(METRICS, np.asarray(rows).T, strict=True))


def _our_settings(options: Options) -> FitSettings:
    settings = choose_settings("moe", N_ROWS, N_ROWS * (N_COVARIATES + 1))
    return replace(settings, epochs=2.0) if options.quick else settings


def _paper_settings(options: Options) -> FitSettings:
    return replace(PRESETS["paper"], epochs=2.0) if options.quick else PRESETS["paper"]


def _ours(data: Sequence[Simulated], options: Options) -> Answers:
    """Without the test rows' covariates, then with them: the second goes on from the first."""
    datasets = _to_datasets(data)
    tests = [one.x_test for one in data]
    fitted = fit_side_by_side(datasets, _our_settings(options), seed=0)
    plain = ask_side_by_side(fitted, tests)
    adapt_side_by_side(fitted, datasets, tests, seed=0)
    return plain, ask_side_by_side(fitted, tests)


def _paper(data: Sequence[Simulated], options: Options) -> Answers:
    fitted = fit_side_by_side(_to_datasets(data), _paper_settings(options), seed=0)
    return (ask_side_by_side(fitted, [one.x_test for one in data]),)


def _to_datasets(data: Sequence[Simulated]) -> list[Dataset]:
    return [to_dataset(one.x, one.y, [N_BINS] * (N_COVARIATES + 1)) for one in data]


def _peer(data: Sequence[Simulated], options: Options, *, name: str) -> Answers:
    quick = not options.published_grids
    fit = partial(probabilities, name, n_classes=N_BINS, quick=quick, seed=0)
    return ([fit(one.x, one.y, one.x_test) for one in data],)


def _limits(data: Sequence[Simulated], _: Options) -> Answers:
    return [limit_of(one, one.cell.corr) for one in data], [limit_of(one, 1.0 - one.cell.corr) for one in data]


# Methods that are run together.
RUNS: Mapping[tuple[str, ...], Callable[[Sequence[Simulated], Options], Answers]] = {
    ("ours", "ours_unlabelled"): _ours,
    ("paper",): _paper,
    **{(name,): partial(_peer, name=name) for name in PEERS},
    ("limit", "limit_test_law"): _limits,
}


def _methods(options: Options) -> list[tuple[str, ...]]:
    """The groups that hold a chosen method; the quick form leaves out what is slow even with small grids."""
    groups = [methods for methods in RUNS if not options.quick or methods[0] in QUICK_METHODS]
    chosen = set(options.choose([method for methods in groups for method in methods]))
    return [methods for methods in groups if not chosen.isdisjoint(methods)]


def _published(cells: Sequence[Cell]) -> Iterator[Record]:
    for metric, table in (("accuracy", ACCURACY), ("mse", MSE)):
        for cell in cells:
            for method, value in zip(METHODS, table[cell.name], strict=True):
                yield Record(STUDY, cell.name, method, metric, value, None, 20, "published")


def _run_records(figures: Mapping[tuple[str, str], Scores]) -> Iterator[Record]:
    for (cell, method), scores in figures.items():
        for metric, values in scores.items():
            yield average(STUDY, cell, method, metric, values.tolist())
    for method in dict.fromkeys(method for _, method in figures):
        for metric in METRICS:
            over_cells = np.mean([s[metric] for (_, m), s in figures.items() if m == method], axis=0)
            yield average(STUDY, "mean", method, metric, over_cells.tolist())


def _report(
    records: Sequence[Record], figures: Mapping[tuple[str, str], Scores], cells: Sequence[Cell], n_seeds: int
) -> str:
    parts = []
    for metric in METRICS:
        found = {(r.case, r.method, r.source): r.value for r in records if r.metric == metric}
        heads = list(dict.fromkeys((r.method, r.source) for r in records if r.metric == metric))
        rows = [[cell.name, *(_show(found.get((cell.name, *head))) for head in heads)] for cell in cells]
        means = [np.mean([found[cell.name, *head] for cell in cells]) for head in heads]
        rows.append(["mean", *(_show(float(mean)) for mean in means)])
        names = [f"{method} (paper)" if source == "published" else method for method, source in heads]
        parts.append(f"\n{TITLES[metric]}, {n_seeds} seed(s)\n\n{format_table(['causes, noise, corr', *names], rows)}")
    comparison = _compare(figures, cells) if (cells[0].name, "ours") in figures else ()
    return "\n".join([*parts, "", *comparison])


TITLES = {
    "accuracy": "Accuracy of the most probable class",
    "mse": "Mean squared error of the most probable class",
    "mse_mean": "Mean squared error of the posterior mean",
}


def _show(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _count_lower(ours: Floats, published: Floats, cells: Sequence[Cell]) -> str:
    """In how many cells ours is lower, and the others by name."""
    others = [
        f"{cell.name} ({mine:.2f}, published {theirs:.2f})"
        for cell, mine, theirs in zip(cells, ours, published, strict=True)
        if mine >= theirs
    ]
    lower = f"lower in {len(cells) - len(others)} of {len(cells)} cells"
    return f"{lower}, not in {', '.join(others)}" if others else lower


def _compare(figures: Mapping[tuple[str, str], Scores], cells: Sequence[Cell]) -> Iterator[str]:
    """Ours less the published network: the mean over the cells, with the standard error over our data sets."""
    ours = {
        metric: np.stack([figures[cell.name, "ours"][metric] for cell in cells]) for metric in METRICS
    }  # (cells, seeds)
    atn = np.asarray([ACCURACY[cell.name][-1] for cell in cells])
    best = np.asarray([max(ACCURACY[cell.name]) for cell in cells])
    mse = np.asarray([MSE[cell.name][-1] for cell in cells])
    gain = (ours["accuracy"] - atn[:, None]).mean(0)
    error = f" ± {gain.std(ddof=1) / len(gain) ** 0.5:.4f}" if len(gain) > 1 else ""
    yield f"ours less the published network, mean accuracy: {gain.mean():+.4f}{error}"
    if len(gain) > N_DEVELOPMENT:
        late = gain[N_DEVELOPMENT:]
        yield (
            f"  on the {len(late)} seeds not used for choosing settings: {late.mean():+.4f}"
            " (the published figures are of all 20)"
        )
    ratio = ours["mse"].mean(1) / mse
    yield f"mean squared error over the published network's: {ours['mse'].mean() / mse.mean():.3f}"
    yield f"  by cell at most {ratio.max():.3f}"
    for metric, decision in (("mse", "most probable class"), ("mse_mean", "posterior mean")):
        yield f"  {decision}: {_count_lower(ours[metric].mean(1), mse, cells)}"
    behind = ours["accuracy"].mean(1) - best
    worst = int(behind.argmin())
    yield f"largest lag behind the best published column: {behind[worst]:+.3f} ({cells[worst].name})"
    if (cells[0].name, "limit") not in figures:
        return
    adapted, limit = (np.mean([figures[c.name, m]["accuracy"] for c in cells]) for m in ("ours_unlabelled", "limit"))
    yield f"with the test rows' covariates: mean accuracy {adapted:.4f}; unlimited training data alone: {limit:.4f}"
