"""The auto-mpg study (section 5): fitted on American cars, asked for the mileage of the others.

The published figure of the paper's network is one seed; here every method that draws numbers runs with 24 (neural
peers with all their epochs, which are recorded, with 10).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from model.progress import Progress
from training.figures import Record, average, format_table
from training.reproduce import Options
from training.reproduce.arrays import Bins, Floats, ask_side_by_side, fit_side_by_side, to_dataset
from training.reproduce.car_table import load_cars
from training.reproduce.neural_peers import load_recorded
from training.reproduce.peers import PEERS, probabilities
from training.reproduce.published import AUTO_MPG
from training.settings import PRESETS, FitSettings, choose_settings

STUDY, CASE = "auto-mpg", "origin 1 -> 2, 3"
N_SEEDS, N_CLASSES = 24, 3
# Seeds fitted in one pass; each pass has a seed of its own for all that is drawn.
IN_ONE_PASS = 12
METRICS = ("accuracy", "mse")
SHOWN = ("accuracy", "accuracy_min", "accuracy_max", "mse", "mse_mean")


def run(options: Options) -> list[Record]:
    """Run every method, print the table; ``quick``: two seeds, short fits, small grids."""
    n_seeds = options.n_seeds or (2 if options.quick else N_SEEDS)
    x, y, x_test, y_test, _ = load_cars()
    progress = Progress()
    progress.start(f"{len(x)} cars to learn from, {len(x_test)} to ask for; {n_seeds} seeds from 0")
    records = [
        Record(STUDY, CASE, method, metric, value, source="published")
        for method, figures in AUTO_MPG.items()
        for metric, value in zip(METRICS, figures, strict=True)
    ]
    # Both ways to stop: the package's own ends some peers long before they have learnt.
    records += load_recorded("default") + load_recorded("full")
    methods = options.choose(("ours", "paper", *PEERS))
    for done, method in enumerate(methods):
        answers = _answers(method, (x, y, x_test), n_seeds, options)
        records += list(_score(method, answers, y_test))
        progress.update((done + 1) / len(methods), method)
    progress.close()
    print(_report(records))
    return records


def _answers(method: str, cars: tuple[Bins, Bins, Bins], n_seeds: int, options: Options) -> list[Floats]:
    x, y, x_test = cars
    if method in PEERS:
        # Logistic regression draws nothing: one seed tells all.
        seeds = range(1 if method == "lr" else n_seeds)
        quick = not options.published_grids
        return [probabilities(method, x, y, x_test, n_classes=N_CLASSES, quick=quick, seed=s) for s in seeds]
    settings = PRESETS["paper"] if method == "paper" else choose_settings("moe", len(x), x.size + len(x))
    if options.quick:
        settings = replace(settings, epochs=3.0)
    return _fit(cars, settings, n_seeds)


def _fit(cars: tuple[Bins, Bins, Bins], settings: FitSettings, n_seeds: int) -> list[Floats]:
    x, y, x_test = cars
    dataset = to_dataset(x, y, [N_CLASSES] * (x.shape[1] + 1))
    answers: list[Floats] = []
    while len(answers) < n_seeds:
        n = min(IN_ONE_PASS, n_seeds - len(answers))
        fitted = fit_side_by_side([dataset] * n, settings, seed=len(answers))
        answers += ask_side_by_side(fitted, [x_test] * n)
    return answers


def _score(method: str, answers: Sequence[Floats], truth: Bins) -> Iterator[Record]:
    guesses = [p.argmax(1) for p in answers]
    accuracy = [float((guess == truth).mean()) for guess in guesses]
    yield average(STUDY, CASE, method, "accuracy", accuracy)
    yield average(STUDY, CASE, method, "mse", [float(np.square(guess - truth).mean()) for guess in guesses])
    means = [float(np.square(p @ np.arange(N_CLASSES) - truth).mean()) for p in answers]
    yield average(STUDY, CASE, method, "mse_mean", means)
    for name, value in (("accuracy_min", min(accuracy)), ("accuracy_max", max(accuracy))):
        yield Record(STUDY, CASE, method, name, value, None, len(accuracy))


def _report(records: Sequence[Record]) -> str:
    """A row for each method, and one more for a recorded peer with all its epochs."""
    published = {(r.method, r.metric): r for r in records if r.source == "published"}
    found = {(r.method, r.case, r.metric): r for r in records if r.source != "published"}
    rows = []
    for method in dict.fromkeys(r.method for r in records):
        for case in dict.fromkeys(c for m, c, _ in found if m == method) or [CASE]:
            cells = [published.get((method, metric)) for metric in METRICS]
            cells += [found.get((method, case, metric)) for metric in SHOWN]
            here = found.get((method, case, "accuracy"))
            about = [str(here.seeds), here.source] if here else ["", ""]
            rows.append([method + (", all epochs" if case == "full" else ""), *map(_show, cells), *about])
    heads = ["method", "accuracy (paper)", "MSE (paper)", "accuracy", "min", "max", "MSE", "MSE of mean", "seeds", ""]
    return "\n" + format_table(heads, rows)


def _show(record: Record | None) -> str:
    if record is None:
        return ""
    return f"{record.value:.3f}" + (f" ± {record.stderr:.3f}" if record.stderr is not None else "")
