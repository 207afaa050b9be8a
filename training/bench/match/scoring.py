"""How many columns find their partner, from a matcher's scores of all pairs."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from training.bench.match.cut import Cut

STUDY = "match"
MEAN = "mean"
OURS = "ours"
# Left table, right table, columns known to be shared -> scores of left (rows) and right columns that are not shared.
Method = Callable[[pd.DataFrame, pd.DataFrame, list[str]], pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Figures:
    """Shares of the columns that are not shared: whose partner in the best one-to-one assignment is the right one,
    and whose best-scoring one is. Of ours alone: of the rightly matched numbers, whose sign is right.
    """

    hit_one_to_one: float
    hit1: float
    sign_accuracy: float = np.nan


METRICS = tuple(field.name for field in fields(Figures))


def score(cut: Cut, scores: pd.DataFrame) -> Figures:
    """Judge the scores of one cut."""
    ruled = rule_out(scores, cut.left, cut.right)
    found = {right: left for left, right, _ in assign(ruled)}
    one_to_one = [found.get(right) == left for right, left in cut.partner.items()]
    first = [_share_of_best(ruled[right], left) for right, left in cut.partner.items()]
    return Figures(float(np.mean(one_to_one)), float(np.mean(first)))


def score_signs(cut: Cut, signs: dict[tuple[str, str], int]) -> float:
    """Of the numbers that are rightly matched, the share whose sign is right; NaN without any."""
    right = [sign == cut.sign[b] for (a, b), sign in signs.items() if b in cut.sign and cut.partner[b] == a]
    return float(np.mean(right)) if right else float("nan")


def rule_out(scores: pd.DataFrame, left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """-inf for pairs that cannot be: a number and a word, but what has two values may be either.

    A score that is not known is as bad as the worst.
    """
    rows, columns = (_kinds(left[scores.index]), _kinds(right[scores.columns]))
    can = (rows[:, None, :] & columns[None, :, :]).any(axis=2)
    values = scores.to_numpy(dtype=float)
    worst = values[np.isfinite(values)].min(initial=0.0)
    values = np.where(np.isfinite(values), values, worst)
    return pd.DataFrame(np.where(can, values, -np.inf), index=scores.index, columns=scores.columns)


def assign(ruled: pd.DataFrame) -> list[tuple[str, str, float]]:
    """The pairs (left, right, score) of the best one-to-one assignment, without those that cannot be."""
    values = ruled.to_numpy()
    can = np.isfinite(values)
    if not can.any():
        return []
    # One pair that cannot be costs more than all others together can gain.
    reach = (values[can].max() - values[can].min() + 1.0) * (max(values.shape) + 1)
    rows, columns = linear_sum_assignment(np.where(can, values, values[can].min() - reach), maximize=True)
    return [
        (str(ruled.index[i]), str(ruled.columns[j]), float(values[i, j]))
        for i, j in zip(rows, columns, strict=True)
        if can[i, j]
    ]


def _share_of_best(scores: pd.Series, left: str) -> float:
    """1 if the partner scores best, and its share of the first place if others score as high: no luck is counted."""
    best = scores == scores.max()
    return float(best[left] / best.sum())


def _kinds(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Of each column whether it may be a number and whether it may be words, (S, 2)."""
    number = np.asarray([frame[c].dtype == float for c in frame.columns])
    either = np.asarray([frame[c].nunique() == 2 for c in frame.columns])
    return np.stack([number | either, ~number | either], axis=1)
