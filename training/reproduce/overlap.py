"""Several tables as one model: real tables cut into three that overlap in part, ours beside peers.

Each table is cut into three with other rows and 60 % of the columns each. One model of ours is fitted
on all three; a peer has a model per table, or one for their union. Scores are AUROC on held-out rows
of the three tables. In the semi-supervised form 5 % of the training labels are known: ours is fitted
with and without the other rows, peers on the labelled ones.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from model.progress import Progress
from training.figures import Ledger, Record, average, format_table, say_losses
from training.frames import fit_frames
from training.reproduce import Options
from training.reproduce.ours import probability_of
from training.reproduce.overlap_cut import Piece, cut, hide_labels, only_labelled
from training.reproduce.overlap_peers import probabilities
from training.reproduce.overlap_tables import POSITIVE, QUICK, SOURCES, Case, load_case

STUDY = "overlap"
N_SEEDS = 3
# Peers that run in an environment of their own: their figures are recorded beside this file.
RECORDED = Path(__file__).with_name("transtab.json")
MODELS = ("lr", "hgb", "lightgbm", "catboost")
QUICK_MODELS = ("lr", "hgb")
QUICK_EPOCHS = 4.0
FORMS = ("per_table", "union")
# Ours without the rows whose label is hidden.
LABELLED_ONLY = "ours_labelled"
OURS = ("ours", LABELLED_ONLY)
MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Setting:
    """What of the training rows is there: all, some, or all with few labels."""

    name: str
    n_rows: int | None = None
    is_labelled: bool = True

    def cut(self, case: Case, seed: int) -> list[Piece]:
        pieces = cut(case.frame, case.target, seed, n_rows=self.n_rows)
        return pieces if self.is_labelled else hide_labels(pieces, case.target, seed)

    def has(self, method: str) -> bool:
        """Whether a method makes sense here."""
        return method != LABELLED_ONLY or not self.is_labelled


SETTINGS = (Setting("all rows"), Setting("100 rows", n_rows=100), Setting("5 % of labels", is_labelled=False))


@dataclass(frozen=True, slots=True)
class Figure:
    """One method on one cut of one table: the mean AUROC of its three pieces, and what it took."""

    case: str
    seed: int
    method: str
    auroc: float
    seconds: float


def run(options: Options) -> list[Record]:
    """Run the study, print its tables, return its figures."""
    names = QUICK if options.quick else tuple(SOURCES)
    models = QUICK_MODELS if options.quick else MODELS
    seeds = range(options.n_seeds or (1 if options.quick else N_SEEDS))
    progress = Progress(quiet=False)
    progress.start(f"{len(names)} tables, {len(SETTINGS)} settings, {len(seeds)} seed(s)")
    tell = _count_to(len(names) * len(SETTINGS) * len(seeds), progress)
    epochs = QUICK_EPOCHS if options.quick else None
    methods = options.choose(["ours", LABELLED_ONLY, *(f"{model}_{form}" for model in models for form in FORMS)])
    ledger = Ledger(options.ledger)
    figures = {s: list(measure(s, names, seeds, methods, epochs=epochs, ledger=ledger, tell=tell)) for s in SETTINGS}
    progress.close()
    records: list[Record] = []
    for setting, measured in figures.items():
        if not measured:
            continue
        found = summarize(setting, measured) + read_recorded(setting, names)
        print(show(setting, found))
        records += found
    if options.quick:
        print(f"\nQuick: ours was fitted for {QUICK_EPOCHS:g} epochs only, too few to compare.")
    return records


def _count_to(total: int, progress: Progress) -> Callable[[str], None]:
    done = iter(range(1, total + 1))
    return lambda text: progress.update(next(done) / total, text)


def measure(
    setting: Setting,
    names: Sequence[str],
    seeds: Sequence[int],
    methods: Sequence[str],
    *,
    epochs: float | None = None,
    ledger: Ledger,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Figure]:
    """Every method on every cut of every table."""
    for name in names:
        case = load_case(name)
        for seed in seeds:
            pieces = setting.cut(case, seed)
            for method in filter(setting.has, methods):
                key = f"{setting.name}, {name}, {seed}, {method}, {epochs if method in OURS else ''}"
                auroc, seconds = ledger.find(key, partial(_measure, method, pieces, case, seed, epochs))
                yield Figure(name, seed, method, auroc, seconds)
            tell(f"{name}, {setting.name}, seed {seed}")


def _measure(method: str, pieces: list[Piece], case: Case, seed: int, epochs: float | None) -> tuple[float, float]:
    """The mean AUROC of the pieces, and the CPU seconds it took to fit and to ask."""
    started = time.process_time()  # other studies may run beside this one
    answers = _ask(method, pieces, case.target, seed, epochs)
    return _score(pieces, answers, case), time.process_time() - started


def _ask(method: str, pieces: list[Piece], target: str, seed: int, epochs: float | None) -> list[NDArray[np.float64]]:
    """The probability of "yes" for the test rows of each piece."""
    if method != "ours":
        pieces = only_labelled(pieces, target)
    tests = [piece.test for piece in pieces]
    if method not in OURS:
        return probabilities(method, [piece.train for piece in pieces], tests, target)
    frames = {f"piece{i}": piece.train for i, piece in enumerate(pieces)}
    predictor = fit_frames(frames, target=target, seed=seed, held_out=0.0, epochs=epochs)
    return [probability_of(predictor, test, f"piece{i}", target, POSITIVE) for i, test in enumerate(tests)]


def _score(pieces: Sequence[Piece], answers: Sequence[NDArray[np.float64]], case: Case) -> float:
    truths = [piece.test[case.target] == POSITIVE for piece in pieces]
    return float(np.mean([roc_auc_score(truth, answer) for truth, answer in zip(truths, answers, strict=True)]))


def summarize(setting: Setting, figures: Sequence[Figure]) -> list[Record]:
    """A record per table and method over the seeds, and the means over all tables."""
    auroc: dict[tuple[str, str], list[float]] = defaultdict(list)
    overall: dict[tuple[str, int], list[Figure]] = defaultdict(list)
    for figure in figures:
        auroc[figure.case, figure.method].append(figure.auroc)
        overall[figure.method, figure.seed].append(figure)
    records = [average(STUDY, f"{c}, {setting.name}", m, "auroc", values) for (c, m), values in auroc.items()]
    for method in dict.fromkeys(figure.method for figure in figures):
        by_seed = [some for (m, _), some in overall.items() if m == method]
        scores = [float(np.mean([f.auroc for f in some])) for some in by_seed]
        seconds = [float(np.mean([f.seconds for f in some])) for some in by_seed]
        records.append(average(STUDY, f"{MEAN}, {setting.name}", method, "auroc", scores))
        records.append(average(STUDY, f"{MEAN}, {setting.name}", method, "fit_seconds", seconds))
    return records


def read_recorded(setting: Setting, names: Sequence[str], file: Path = RECORDED) -> list[Record]:
    """Figures of peers that were run elsewhere, for the tables of this run; none if there are none."""
    if not file.is_file():
        return []
    cases = {f"{name}, {setting.name}" for name in names}
    found = [Record(**record) for record in json.loads(file.read_text(encoding="utf-8"))]
    found = [replace(r, source="recorded") for r in found if r.case in cases and r.metric == "auroc"]
    means = []
    for method in dict.fromkeys(r.method for r in found):
        values = [r.value for r in found if r.method == method]
        if len(values) == len(names):  # a mean over other tables would not compare
            mean = average(STUDY, f"{MEAN}, {setting.name}", method, "auroc", values)
            seeds = min(r.seeds for r in found if r.method == method)
            means.append(replace(mean, stderr=None, seeds=seeds, source="recorded"))
    return found + means


def show(setting: Setting, records: Sequence[Record]) -> str:
    """A Markdown table, the best of each row in bold, and where ours loses."""
    methods = list(dict.fromkeys(r.method for r in records if r.metric == "auroc"))
    rows: dict[str, dict[str, float]] = defaultdict(dict)
    for record in records:
        if record.metric == "auroc":
            rows[record.case.partition(",")[0]][record.method] = record.value
    rows[MEAN] = rows.pop(MEAN)  # last
    lines = [[name, *(_show_cell(row.get(m), max(row.values())) for m in methods)] for name, row in rows.items()]
    seconds = {r.method: f"{r.value:.1f}" for r in records if r.metric == "fit_seconds"}
    lines.append(["CPU seconds a fit", *(seconds.get(method, "-") for method in methods)])
    recorded = {r.method: f" (recorded, {r.seeds} seed(s))" for r in records if r.source == "recorded"}
    table = format_table(["table", *(m.replace("_", " ") + recorded.get(m, "") for m in methods)], lines)
    return f"\nAUROC, {setting.name}, {records[0].seeds} seed(s)\n\n{table}\n\n{say_losses(rows, OURS)}"


def _show_cell(value: float | None, best: float) -> str:
    if value is None:
        return "-"
    text = f"{value:.3f}"
    return f"**{text}**" if text == f"{best:.3f}" else text
