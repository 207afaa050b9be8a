"""How far off an imputer's numbers are, how often its words are right."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd

from training.bench.impute.tables import Case

STUDY = "impute"
# How holes come about, and how many cells they take.
PATTERNS = (("random", 0.1), ("random", 0.3), ("random", 0.5), ("depending", 0.3))
N_SEEDS = 3
# Peers that run in an environment of their own: their figures are recorded beside this file.
RECORDED = Path(__file__).with_name("recorded.json")
RECORDED_MATCHED = Path(__file__).with_name("recorded_matched.json")
MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one fit: ``nrmse`` and ``accuracy`` are means over the columns; CPU seconds; milliseconds for one row.

    Of ours alone: how many holes the 90 % interval covers, the expected calibration error of the words'
    probabilities, before and after calibration, and the interval's score (Winkler's), in training spreads.
    """

    nrmse: float
    accuracy: float
    fit_seconds: float
    row_milliseconds: float
    coverage: float = np.nan
    ece_before: float = np.nan
    ece: float = np.nan
    interval_score: float = np.nan


METRICS = tuple(field.name for field in fields(Figures))


def name_case(pattern: str, rate: float) -> str:
    return f"{round(100 * rate)} % {'at random' if pattern == 'random' else 'depending on other columns'}"


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
    return _mean(errors), _mean(hits)


def _mean(figures: Sequence[float]) -> float:
    """NaN where there are none: not every table has words, or holes in them."""
    return float(np.mean(figures)) if figures else float("nan")
