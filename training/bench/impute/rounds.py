"""Do holes that are filled help to fill each other? Rounds in which every hole is asked again, with the others filled.

Measured on the tables of ``bench impute`` and ``bench impute --matched``, one seed; what serves has no such rounds,
because of what this prints (docs/imputation.md). From the root of the repository:

    python -m training.bench.impute.rounds
"""

import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.runtime import Predictor
from training.bench.impute.matched import MATCHED
from training.bench.impute.measure import TABLE, fit_ours, read_columns
from training.bench.impute.pool import load_pooled
from training.bench.impute.scoring import score
from training.bench.impute.tables import SOURCES, cut_case
from training.figures import format_table
from training.parallel import n_cores, work_alone

N_ROUNDS = 3
RATES = (0.1, 0.5)
Cells = dict[str, NDArray[Any]]


def fill_in_rounds(predictor: Predictor, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows filled from what is observed, then after each further round."""
    columns = {name: np.asarray(cells, dtype=object) for name, cells in read_columns(rows).items()}
    holes = {name: np.flatnonzero(rows[name].isna()) for name in columns}
    filled = _ask(predictor, columns, {})
    yield pd.DataFrame(filled)
    while True:
        filled = {**filled, **{name: _ask_again(predictor, filled, name, where) for name, where in holes.items()}}
        yield pd.DataFrame(filled)


def _ask(predictor: Predictor, columns: Cells, options: dict[str, Any]) -> Cells:
    """The columns with their holes filled."""
    answer = predictor.impute({n: c.tolist() for n, c in columns.items()}, table=TABLE, brief=True, **options)
    filled = {name: cells.copy() for name, cells in columns.items()}
    for name, where in answer.rows.items():
        filled[name][where] = answer.filled[name].values
    return filled


def _ask_again(predictor: Predictor, filled: Cells, name: str, where: NDArray[np.int64]) -> NDArray[Any]:
    """A column whose holes are filled anew from all others as they now are."""
    some = {other: cells[where] for other, cells in filled.items()}
    some[name] = np.full(len(where), None, dtype=object)
    again = filled[name].copy()
    if len(where):
        again[where] = _ask(predictor, some, {"which": [name]})[name]
    return again


def measure(task: tuple[str, float]) -> list[tuple[float, float]]:
    """NRMSE and accuracy of one table after each round."""
    warnings.simplefilter("ignore")
    name, rate = task
    case = cut_case(load_pooled(name), 0, "random", rate)
    rounds = fill_in_rounds(fit_ours(case, 0, quick=False), case.test)
    return [score(case, next(rounds)) for _ in range(N_ROUNDS + 1)]


def main() -> None:
    """Measure all tables and print them, with their means."""
    names = list(dict.fromkeys([*SOURCES, *MATCHED]))
    tasks = [(name, rate) for rate in RATES for name in names]
    with ProcessPoolExecutor(n_cores(), get_context("spawn"), initializer=work_alone) as pool:
        found = np.asarray(list(pool.map(measure, tasks))).reshape(len(RATES), len(names), N_ROUNDS + 1, 2)
    rows = []
    for rate, tables in zip(RATES, found, strict=True):
        for name, figures in (("mean", np.nanmean(tables, axis=0)), *zip(names, tables, strict=True)):
            rows.append([f"{name}, {rate:.0%}", *(f"{nrmse:.3f} / {accuracy:.3f}" for nrmse, accuracy in figures)])
    print(format_table(["table, holes: rounds", *map(str, range(N_ROUNDS + 1))], rows))


if __name__ == "__main__":
    main()
