"""One imputer on one table with holes; of ours also how far its intervals and probabilities can be trusted."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from model.bundle import Bundle
from model.folded import read_folded
from model.graphs import write_folded
from model.linear import LinearExpert
from model.runtime import Predictor
from model.schema import Kind
from training.bench.impute.peers import Fitted, fit_peer
from training.bench.impute.scoring import Figures, score
from training.bench.impute.tables import Case, hide
from training.bench.timing import time_row

OURS = "ours"
TABLE = "table"
QUICK_EPOCHS = 4.0


def measure(method: str, case: Case, seed: int, *, quick: bool = False) -> Figures:
    """Fit on the training rows, fill the others."""
    started = time.process_time()
    if method != OURS:
        fitted, trust = fit_peer(method, case.train, case.numbers, seed), None
    else:
        predictor = fit_ours(case, seed, quick)
        fitted, trust = wrap(predictor), predictor
    fit_seconds = time.process_time() - started
    nrmse, accuracy = score(case, fitted.fill(case.test))
    trusted = measure_trust(trust, case) if trust is not None else ()
    return Figures(nrmse, accuracy, fit_seconds, time_row(fitted.ready, case.test), *trusted)


def fit_ours(case: Case, seed: int, quick: bool) -> Predictor:
    """The shipped fit; that numbers are numbers is said to it as it is to the peers."""
    from training.frames import fit_frames

    kinds: Mapping[str, Kind] = dict.fromkeys(case.numbers, "numeric")
    return fit_frames({TABLE: case.train}, kinds=kinds, seed=seed, epochs=QUICK_EPOCHS if quick else None)


def read_columns(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """A frame as requests have it."""
    return {c: rows[c].astype(object).where(rows[c].notna(), None).tolist() for c in rows.columns}


def wrap(predictor: Predictor) -> Fitted:
    """Our predictor as an imputer like the others."""

    def fill(rows: pd.DataFrame) -> pd.DataFrame:
        columns = read_columns(rows)
        answer = predictor.impute(columns, table=TABLE, brief=True)
        filled = {c: np.asarray(cells, dtype=object) for c, cells in columns.items()}
        for column, where in answer.rows.items():
            filled[column][where] = answer.filled[column].values
        return pd.DataFrame(filled)

    return Fitted(fill, ready=lambda rows: partial(predictor.impute, read_columns(rows), table=TABLE, brief=True))


def measure_trust(predictor: Predictor, case: Case) -> tuple[float, float, float, float]:
    """Coverage of the 90 % interval, the calibration error before and after calibration, and the interval's score: its
    width and, for what it does not hold, how far off that lies, 20 times. In the test rows with the holes that they
    have, and with others.
    """
    plain = Predictor(_as_fitted(predictor.bundle))
    covered: list[bool] = []
    scores: list[float] = []
    sure: list[list[tuple[float, bool]]] = [[], []]
    for holes in (case.holes, *case.more):
        rows = read_columns(hide(case.truth, holes))
        for which, (model, interval) in enumerate(((plain, None), (predictor, 0.9))):
            answer = model.impute(rows, table=TABLE, interval=interval)
            for j, column in enumerate(case.truth.columns):
                if column not in answer.rows:
                    continue
                where, filled = answer.rows[column], answer.filled[column]
                truth = case.truth[column].to_numpy()[where]
                hidden = holes[where, j]
                if filled.interval is not None:
                    low, high = np.asarray(filled.interval, dtype=float).T
                    covered += ((low <= truth) & (truth <= high))[hidden].tolist()
                    missed = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
                    scores += ((high - low + 20.0 * missed)[hidden] / case.spread[column]).tolist()
                elif filled.probability is not None:
                    right = np.asarray(filled.values, dtype=object) == truth
                    sure[which] += list(zip(filled.probability[hidden].tolist(), right[hidden].tolist(), strict=True))
    before, after = (expected_calibration_error(some) for some in sure)
    return float(np.mean(covered)), before, after, float(np.mean(scores))


def _as_fitted(bundle: Bundle) -> Bundle:
    """The bundle without all that left-out rows say of it."""
    folded, expert = read_folded(bundle.network), bundle.expert
    alike = replace(folded, beliefs=np.ones_like(folded.beliefs))
    if expert is not None:
        expert = LinearExpert(bundle.schema, expert.law, expert.lean)
    content = write_folded(alike, bundle.schema.digest())
    return replace(bundle, network=content, expert=expert, calibration=None)


def expected_calibration_error(sure: Sequence[tuple[float, bool]], n_bins: int = 10) -> float:
    """How far probability and frequency are apart, on the average over equally wide bins of probability."""
    if not sure:
        return float("nan")
    told, right = np.asarray(sure, dtype=float).T
    bins = np.minimum((told * n_bins).astype(int), n_bins - 1)
    gaps = [abs(told[bins == b].sum() - right[bins == b].sum()) for b in range(n_bins)]
    return float(sum(gaps) / len(told))
