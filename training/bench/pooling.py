"""Do intervals that are pooled over drawn copies hold? Ours beside draws of scikit-learn's chained regressions.

Simulated tables, so that the truth is known: y = a - b/2 + noise is estimated from copies of a table with holes. ``a``
is missing more often the higher y is, as seen through a fourth column z; b and y are missing at random. Between a and b
lies a straight line, which is what chained regressions assume, or a parabola, which is not. For comparison: what the
tables say without holes, and what their complete rows alone say.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - it switches the next import on
from sklearn.impute import IterativeImputer

from model.progress import Progress
from training.bench.impute.measure import QUICK_EPOCHS
from training.estimator import TabglotImputer
from training.figures import Record, average, format_table
from training.parallel import n_cores, work_alone
from training.pooling import pool

Floats = NDArray[np.float64]
Task = tuple[str, int, str, bool]
STUDY = "pooling"
TRUTH = np.asarray([0.0, 1.0, -0.5])  # of y: what is constant, and the coefficients of a and b
N_ROWS, N_TABLES, N_COPIES = 500, 40, 20
COVERAGE = 0.95
LAWS: dict[str, Callable[[Floats], Floats]] = {
    "straight": lambda a: 0.6 * a,
    "bent": lambda a: 0.6 * (a**2 - 1.0) / 2.0**0.5,
}


def run(quick: bool) -> list[Record]:
    """Measure and print one table; ``quick``: two tables of each law, short fits, few copies."""
    seeds = range(2 if quick else N_TABLES)
    tasks = [(law, seed, method, quick) for law in LAWS for seed in seeds for method in METHODS]
    progress = Progress()
    progress.start(f"{len(seeds)} tables of {N_ROWS} rows for each of {len(LAWS)} laws, seeds 0 to {seeds[-1]}")
    found: dict[Task, Floats] = {}
    with ProcessPoolExecutor(n_cores(), get_context("spawn"), initializer=work_alone) as processes:
        futures = {processes.submit(work, task): task for task in tasks}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            progress.update(len(found) / len(tasks), ", ".join(map(str, futures[future][:3])))
    progress.close()
    records = [
        record
        for law in LAWS
        for method in METHODS
        for record in _summarize(law, method, np.stack([found[law, seed, method, quick] for seed in seeds]))
    ]
    print(_show(records))
    return records


def _summarize(law: str, method: str, found: Floats) -> list[Record]:
    """Of all tables (N, 3, C): how many intervals hold, how far off estimates are on the mean (the worst
    coefficient), how wide intervals are.
    """
    estimate, low, high = found.transpose(1, 0, 2)
    holds = ((low < TRUTH) & (high > TRUTH)).mean(axis=1)
    off = (estimate - TRUTH).T
    worst = off[np.abs(off.mean(axis=1)).argmax()]
    figures = {"coverage": holds, "bias": worst, "width": (high - low).mean(axis=1)}
    return [average(STUDY, law, method, metric, values.tolist()) for metric, values in figures.items()]


def _show(records: Sequence[Record]) -> str:
    value = {(record.case, record.method, record.metric): record.value for record in records}
    rows = [
        [
            f"{law}: {method}",
            f"{100 * value[law, method, 'coverage']:.1f} %",
            f"{value[law, method, 'bias']:+.3f}",
            f"{value[law, method, 'width']:.3f}",
        ]
        for law in LAWS
        for method in METHODS
    ]
    head = ["law: method", f"{COVERAGE:.0%} intervals that hold", "largest bias", "mean width"]
    return f"\nCoefficients of y on a and b, three in each table.\n\n{format_table(head, rows)}"


def work(task: Task) -> Floats:
    """What one method says of one table: the estimate of each coefficient, and the ends of its interval, (3, C)."""
    law, seed, method, quick = task
    return METHODS[method](*make_table(law, seed), seed, quick)


def make_table(law: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table, and the same with holes."""
    rng = np.random.default_rng([2, seed])
    a, noise = rng.normal(size=(2, N_ROWS))
    b = LAWS[law](a) + 0.8 * noise
    y = TRUTH[0] + TRUTH[1] * a + TRUTH[2] * b + rng.normal(size=N_ROWS)
    whole = pd.DataFrame({"a": a, "b": b, "y": y, "z": y + rng.normal(size=N_ROWS)})
    rows = whole.copy()
    rows.loc[rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(0.9 - 1.2 * rows["z"])), "a"] = np.nan
    rows.loc[rng.random(N_ROWS) < 0.25, "b"] = np.nan
    rows.loc[rng.random(N_ROWS) < 0.2, "y"] = np.nan
    return whole, rows


def regress(rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Coefficients of y on a and b, and their squared standard errors."""
    x = np.column_stack([np.ones(len(rows)), rows["a"], rows["b"]])
    y = rows["y"].to_numpy(dtype=float)
    inverse = np.linalg.inv(x.T @ x)
    coefficients = inverse @ x.T @ y
    noise = np.square(y - x @ coefficients).sum() / (len(y) - len(TRUTH))
    return coefficients, noise * np.diag(inverse)


def pool_copies(copies: Sequence[pd.DataFrame]) -> Floats:
    """The coefficients pooled by Rubin's rules, with their intervals."""
    estimates, variances = np.stack([regress(copy) for copy in copies], axis=1)
    freedom = len(copies[0]) - len(TRUTH)
    pooled = [pool(estimates[:, k].tolist(), variances[:, k].tolist(), freedom) for k in range(len(TRUTH))]
    return np.asarray([(one.estimate, *one.interval(COVERAGE)) for one in pooled]).T


def _read(rows: pd.DataFrame) -> Floats:
    """The coefficients of one table without holes, with their intervals."""
    return pool_copies([rows, rows])  # copies that agree leave what one table says


def ask_ours(_: pd.DataFrame, rows: pd.DataFrame, seed: int, quick: bool) -> Floats:
    """Copies drawn by the shipped fit."""
    imputer = TabglotImputer(random_state=seed, epochs=QUICK_EPOCHS if quick else None).fit(rows)
    return pool_copies(imputer.sample(rows, n_draws=2 if quick else N_COPIES))


def ask_chained(_: pd.DataFrame, rows: pd.DataFrame, seed: int, quick: bool) -> Floats:
    """Copies drawn by chained Bayesian regressions, each from a chain of its own."""
    copies = []
    for copy in range(2 if quick else N_COPIES):
        chain = IterativeImputer(sample_posterior=True, random_state=seed * N_COPIES + copy)
        copies.append(pd.DataFrame(chain.fit_transform(rows), columns=rows.columns))
    return pool_copies(copies)


METHODS: dict[str, Callable[[pd.DataFrame, pd.DataFrame, int, bool], Floats]] = {
    "ours": ask_ours,
    "iterative_bayesridge": ask_chained,
    "complete_rows": lambda _whole, rows, _seed, _quick: _read(rows.dropna()),
    "without_holes": lambda whole, _rows, _seed, _quick: _read(whole),
}
