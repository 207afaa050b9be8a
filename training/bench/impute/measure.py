"""One imputer on one table with holes: how far off are its numbers, how often are its words right, how long it took."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from model.schema import Kind
from training.bench.impute.peers import Fitted, fit_peer
from training.bench.impute.tables import Case

OURS = "ours"
TABLE = "table"
QUICK_EPOCHS = 4.0
N_SINGLE = 20


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one fit: ``nrmse`` and ``accuracy`` are means over the columns; CPU seconds; milliseconds for one row."""

    nrmse: float
    accuracy: float
    fit_seconds: float
    row_milliseconds: float


def measure(method: str, case: Case, seed: int, *, quick: bool = False) -> Figures:
    """Fit on the training rows, fill the others."""
    started = time.process_time()
    fitted = fit_ours(case, seed, quick) if method == OURS else fit_peer(method, case.train, case.numbers, seed)
    fit_seconds = time.process_time() - started
    nrmse, accuracy = score(case, fitted.fill(case.test))
    return Figures(nrmse, accuracy, fit_seconds, _time_row(fitted, case.test))


def fit_ours(case: Case, seed: int, quick: bool) -> Fitted:
    """The shipped fit; that numbers are numbers is said to it as it is to the peers."""
    from training.frames import fit_frames

    kinds: Mapping[str, Kind] = dict.fromkeys(case.numbers, "numeric")
    epochs = QUICK_EPOCHS if quick else None
    predictor = fit_frames({TABLE: case.train}, kinds=kinds, seed=seed, epochs=epochs)

    def read(rows: pd.DataFrame) -> dict[str, list[Any]]:
        return {c: rows[c].astype(object).where(rows[c].notna(), None).tolist() for c in rows.columns}

    def fill(rows: pd.DataFrame) -> pd.DataFrame:
        columns = read(rows)
        answer = predictor.impute(columns, table=TABLE)
        filled = {c: np.asarray(cells, dtype=object) for c, cells in columns.items()}
        for column, where in answer.rows.items():
            filled[column][where] = answer.filled[column].values
        return pd.DataFrame(filled)

    return Fitted(fill, ready=lambda rows: partial(predictor.impute, read(rows), table=TABLE))


def score(case: Case, filled: pd.DataFrame) -> tuple[float, float]:
    """Mean over number columns of RMSE / training spread, and mean over word columns of accuracy, at the holes."""
    errors, hits = [], []
    for column, hole in zip(case.truth.columns, case.holes.T, strict=True):
        truth, guess = case.truth[column][hole], filled[column][hole]
        if not hole.any():
            continue
        if column in case.spread.index:
            off = np.sqrt(np.mean(np.square(truth.astype(float) - guess.astype(float))))
            errors.append(float(off / case.spread[column]))
        else:
            hits.append(float((truth == guess).mean()))
    return float(np.mean(errors)), float(np.mean(hits))


def _time_row(fitted: Fitted, rows: pd.DataFrame) -> float:
    """Milliseconds to fill one new row: the median over some rows, each filled for the first time."""
    taken = []
    for i in range(min(N_SINGLE, len(rows))):
        impute = fitted.ready(rows.iloc[i : i + 1].reset_index(drop=True))
        started = time.perf_counter()
        impute()
        taken.append(1e3 * (time.perf_counter() - started))
    return statistics.median(taken)
