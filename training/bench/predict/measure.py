"""One method on one question: how far off its numbers are, how often its words are right, how long it takes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from model.schema import Kind
from training.bench.impute.measure import OURS, QUICK_EPOCHS, read_columns
from training.bench.predict.peers import Answer, Fitted, fit_peer
from training.bench.predict.questions import Question, Rows
from training.bench.timing import time_row

INTERVAL = 0.9


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one table: RMSE over the training rows' spread, or the share of right words and the AUROC of their
    probabilities; of ours, how many numbers the 90 % interval holds. CPU seconds of the fit; milliseconds for one row.
    """

    nrmse: float = np.nan
    accuracy: float = np.nan
    auroc: float = np.nan
    coverage: float = np.nan
    fit_seconds: float = np.nan
    row_milliseconds: float = np.nan


METRICS = tuple(field.name for field in fields(Figures))


def measure(method: str, question: Question, seed: int, *, quick: bool = False) -> list[Figures]:
    """Fit once on the training rows of all tables, and ask for the others of each."""
    started = time.process_time()
    fitted = fit_ours(question, seed, quick=quick) if method == OURS else fit_peer(method, question, seed)
    fit_seconds = time.process_time() - started
    found = []
    for table, rows in question.tables.items():
        scores = score(rows, fitted.answer(table, rows.test), question.target)
        found.append(Figures(*scores, fit_seconds, time_row(partial(fitted.ready, table), rows.test)))
    return found


def fit_ours(question: Question, seed: int, *, quick: bool = False) -> Fitted:
    """The shipped fit with its target named; that numbers are numbers is said to it as it is to the peers."""
    from training.frames import fit_frames

    kinds: Mapping[str, Kind] = dict.fromkeys(question.numbers, "numeric")
    frames = {table: rows.train for table, rows in question.tables.items()}
    epochs = QUICK_EPOCHS if quick else None
    predictor = fit_frames(frames, target=question.target, kinds=kinds, seed=seed, epochs=epochs)

    def answer(table: str, rows: pd.DataFrame) -> Answer:
        told = predictor.predict(read_columns(rows), question.target, table=table, interval=INTERVAL)
        if told.choices is None:
            return Answer(np.asarray(told.values, dtype=float), interval=np.asarray(told.interval, dtype=float))
        probabilities = pd.DataFrame(told.mass[:, : len(told.choices)], columns=told.choices)
        return Answer(np.asarray(told.values, dtype=object), probabilities)

    def ready(table: str, rows: pd.DataFrame) -> Callable[[], object]:
        return partial(predictor.predict, read_columns(rows), question.target, table=table)

    return Fitted(answer, ready)


def score(rows: Rows, answer: Answer, target: str) -> tuple[float, float, float, float]:
    """NRMSE, accuracy, AUROC and coverage, as far as there are such."""
    truth = rows.truth.to_numpy()
    if answer.probabilities is not None:
        right = float((answer.values == truth).mean())
        return np.nan, right, one_against_rest(truth, answer.probabilities), np.nan
    off = float(np.sqrt(np.mean(np.square(answer.values - truth))) / rows.train[target].std())
    if answer.interval is None:
        return off, np.nan, np.nan, np.nan
    low, high = answer.interval.T
    return off, np.nan, np.nan, float(((low <= truth) & (truth <= high)).mean())


def one_against_rest(truth: NDArray[np.object_], probabilities: pd.DataFrame) -> float:
    """The mean AUROC of every word against all others; of two words that is the AUROC of either."""
    unknown = np.zeros(len(truth))  # of a word that no training row has
    each = [roc_auc_score(truth == word, probabilities.get(word, unknown)) for word in np.unique(truth)]
    return float(np.mean(each))
