"""Are swapped cells found? The audit beside a z-score in each column and an isolation forest over rows.

In a table 2 % of the cells are given the value of another row, in training and test rows alike: nobody has clean
data. Every known cell of the test rows is scored; told is the AUROC of the score for being swapped. A z-score sees
only the column, an isolation forest only the row, whose cells then all get its score.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score

from model.audit import measure as measure_surprise
from model.progress import Progress
from model.schema import Kind
from training.bench.impute.measure import QUICK_EPOCHS, TABLE, read_columns
from training.bench.impute.peers import encode_mixed
from training.bench.impute.tables import QUICK, SOURCES, TEST_SHARE, load_table
from training.figures import Record, average, format_table
from training.parallel import n_cores, work_alone

Floats = NDArray[np.float64]
Task = tuple[str, int, str, bool]
STUDY = "audit"
SHARE = 0.02
N_SEEDS = 3
MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Case:
    """Training rows, test rows, and which cells of the latter were swapped, (test rows, S)."""

    train: pd.DataFrame
    test: pd.DataFrame
    swapped: NDArray[np.bool_]

    @property
    def numbers(self) -> list[str]:
        return [str(column) for column in self.train.select_dtypes("number").columns]


def run(quick: bool) -> list[Record]:
    """Measure and print one table; ``quick``: two tables, one seed, short fits."""
    names = QUICK if quick else tuple(SOURCES)
    seeds = range(1 if quick else N_SEEDS)
    tasks = [(name, seed, method, quick) for name in names for seed in seeds for method in METHODS]
    progress = Progress()
    progress.start(f"{len(names)} tables, seeds {', '.join(map(str, seeds))}, {SHARE:.0%} of the cells swapped")
    found: dict[Task, float] = {}
    with ProcessPoolExecutor(n_cores(), get_context("spawn"), initializer=work_alone) as pool:
        futures = {pool.submit(work, task): task for task in tasks}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            progress.update(len(found) / len(tasks), ", ".join(map(str, futures[future][:3])))
    progress.close()
    records = [
        average(STUDY, name, method, "auroc", [found[name, seed, method, quick] for seed in seeds])
        for method in METHODS
        for name in names
    ]
    for method in METHODS:
        means = [float(np.mean([found[name, seed, method, quick] for name in names])) for seed in seeds]
        records.append(average(STUDY, MEAN, method, "auroc", means))
    print(_show(records, names))
    return records


def _show(records: Sequence[Record], names: Sequence[str]) -> str:
    value = {(record.method, record.case): record.value for record in records}
    rows = [[method, *(f"{value[method, case]:.3f}" for case in (MEAN, *names))] for method in METHODS]
    return f"\nAUROC for finding the swapped cells.\n\n{format_table(['method', MEAN, *names], rows)}"


def work(task: Task) -> float:
    """One method on one table."""
    name, seed, method, quick = task
    case = make_case(name, seed)
    known = case.test.notna().to_numpy()
    return float(roc_auc_score(case.swapped[known], METHODS[method](case, seed, quick)[known]))


def make_case(name: str, seed: int) -> Case:
    """Split a table, and give 2 % of its cells the value of another row."""
    frame = load_table(name)
    rng = np.random.default_rng([seed, 41])
    test = rng.permutation(len(frame))[: round(TEST_SHARE * len(frame))]
    is_test = np.isin(np.arange(len(frame)), test)
    chosen = rng.random(frame.shape) < SHARE
    swapped = np.zeros(frame.shape, dtype=bool)
    dirty = {}
    for j, column in enumerate(frame.columns):
        cells = frame[column].to_numpy(copy=True)
        known = np.flatnonzero(frame[column].notna())
        rows = np.flatnonzero(chosen[:, j] & frame[column].notna().to_numpy())
        other = frame[column].to_numpy()[rng.choice(known, len(rows))]
        swapped[rows, j] = other != cells[rows]  # the same value again is no error
        cells[rows] = other
        dirty[column] = cells
    table = pd.DataFrame(dirty)
    train, held = (table[rows].reset_index(drop=True) for rows in (~is_test, is_test))
    return Case(train, held, swapped[is_test])


def score_ours(case: Case, seed: int, quick: bool) -> Floats:
    """The surprise of each cell, given all others of its row."""
    from training.frames import fit_frames

    kinds: dict[str, Kind] = dict.fromkeys(case.numbers, "numeric")
    predictor = fit_frames({TABLE: case.train}, kinds=kinds, seed=seed, epochs=QUICK_EPOCHS if quick else None)
    cells = predictor.encode(read_columns(case.test), predictor.links(TABLE))
    # What cannot be told (a word never seen) is as little suspect as can be.
    return np.nan_to_num(measure_surprise(predictor, cells), nan=-np.log(1e12))


def score_columns(case: Case, seed: int, quick: bool) -> Floats:  # noqa: ARG001 - one form for all
    """How far out each cell lies in its column: numbers in spreads, words by how rare they are, as far out as that."""
    scores = np.zeros(case.test.shape)
    for j, column in enumerate(case.test.columns):
        cells, train = case.test[column], case.train[column]
        if column in case.numbers:
            scores[:, j] = ((cells - train.mean()) / train.std()).abs()
        else:
            shares = cells.map(train.value_counts(normalize=True)).astype(float).fillna(1.0 / len(train))
            scores[:, j] = norm.isf(0.5 * shares.to_numpy())
    return scores


def score_rows(case: Case, seed: int, quick: bool) -> Floats:  # noqa: ARG001 - one form for all
    """How lonely each row is: the same for all its cells."""
    train, test = encode_mixed(case.train, case.test, case.numbers)
    forest = IsolationForest(n_estimators=300, random_state=seed).fit(train)
    lonely = -forest.score_samples(test)
    return np.repeat(lonely[:, None], case.test.shape[1], axis=1)


def score_forests(case: Case, seed: int, quick: bool) -> Floats:
    """How far each cell lies from what a random forest per column makes of the rest of the row.

    Numbers: the residual in spreads of the residuals that trees have on rows they were not grown on. Words: by how
    likely the forest finds them, as far out as that.
    """
    scores = np.zeros(case.test.shape)
    for j, column in enumerate(case.test.columns):
        others = [name for name in case.numbers if name != column]
        train, test = encode_mixed(case.train.drop(columns=column), case.test.drop(columns=column), others)
        grown, cells = case.train[column].notna().to_numpy(), case.test[column]
        form = RandomForestRegressor if column in case.numbers else RandomForestClassifier
        forest = form(10 if quick else 100, min_samples_leaf=3, oob_score=not quick, random_state=seed)
        forest.fit(train[grown], case.train[column][grown])
        if column in case.numbers:
            fitted = forest.predict(train[grown]) if quick else forest.oob_prediction_
            spread = float((case.train[column][grown] - fitted).std())
            scores[:, j] = np.abs(cells - forest.predict(test)) / max(spread, 1e-12)
        else:
            place = {word: k for k, word in enumerate(forest.classes_)}
            odds = np.c_[forest.predict_proba(test), np.zeros(len(test))]  # the last: words never seen
            likely = odds[np.arange(len(test)), [place.get(cell, -1) for cell in cells]]
            scores[:, j] = norm.isf(0.5 * np.maximum(likely, 1e-4))
    return scores


METHODS: dict[str, Callable[[Case, int, bool], Floats]] = {
    "ours": score_ours,
    "column_forests": score_forests,
    "z_score": score_columns,
    "isolation_forest": score_rows,
}
