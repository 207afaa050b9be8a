"""Our own matcher in the form of the peers: two frames in, a score for every pair of columns out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from model.linking import fit_space, turn_over
from model.matching import DEFAULT, Match, Task, match_portraits
from model.portraits import Portrait, Sample, draw_portrait

# From so sure on two columns are said to be the same.
LEAST_SURE = 0.5


def score_pairs(left: pd.DataFrame, right: pd.DataFrame, shared: Sequence[str]) -> pd.DataFrame:
    """The summed evidence for every pair of columns that are not shared."""
    task = Task(draw_frame(left), draw_frame(right), {name: name for name in shared}, DEFAULT)
    total = task.add_up(task.solve()).max(axis=2)
    return pd.DataFrame(
        np.where(task.feasible, total, -np.inf),
        index=[task.left.columns[i] for i in task.rows],
        columns=[task.right.columns[j] for j in task.columns],
    )


def encoding_scores(left: pd.DataFrame, right: pd.DataFrame, shared: Sequence[str]) -> pd.DataFrame:
    """The cosine of the columns' encodings, as they are or turned over."""
    mine, theirs = draw_frame(left), draw_frame(right)
    # Other columns of the two frames may bear the same name by chance.
    own = replace(mine, columns=tuple(c if c in shared else f"left.{c}" for c in mine.columns))
    names = list(dict.fromkeys([*own.columns, *theirs.columns]))
    _, encodings = fit_space([own, theirs], names)
    unit = encodings / np.maximum(np.linalg.norm(encodings, axis=1, keepdims=True), 1e-12)
    rows = [c for c in mine.columns if c not in shared]
    columns = [c for c in theirs.columns if c not in shared]
    a, b = unit[[names.index(f"left.{c}") for c in rows]], unit[[names.index(c) for c in columns]]
    cosines = np.maximum(a @ b.T, turn_over(a) @ b.T)
    signed = mine.signed[[mine.index[c] for c in rows]][:, None] == theirs.signed[[theirs.index[c] for c in columns]]
    return pd.DataFrame(np.where(signed, cosines, -np.inf), index=rows, columns=columns)


def rank_pairs(left: pd.DataFrame, right: pd.DataFrame, *, names: bool) -> list[tuple[str, str, float]]:
    """All one-to-one pairs of two tables, surest first: left, right, how sure. With names, the same name is the same
    column, as it is when a table is placed.
    """
    mine, theirs = draw_frame(left), draw_frame(right)
    same = [c for c in mine.columns if names and c in theirs.index]
    shared = [c for c in same if mine.signed[mine.index[c]] == theirs.signed[theirs.index[c]]]
    found = match_portraits(mine, theirs, {c: c for c in shared}, read_names=names)
    return [*((c, c, 1.0) for c in shared), *((m.left, m.right, m.probability) for m in found)]


def signs(left: pd.DataFrame, right: pd.DataFrame, shared: Sequence[str]) -> dict[tuple[str, str], int]:
    """Of every pair of numbers whether the one rises (1) or falls (-1) with the other."""
    return {(m.left, m.right): m.sign for m in _match(left, right, shared, names=False)}


def _match(left: pd.DataFrame, right: pd.DataFrame, shared: Sequence[str], names: bool) -> list[Match]:
    return match_portraits(draw_frame(left), draw_frame(right), {name: name for name in shared}, read_names=names)


def draw_frame(frame: pd.DataFrame) -> Portrait:
    """The portrait of a frame: columns of floats are numbers, all others words."""
    return draw_portrait({name: _sample(frame[name]) for name in frame.columns})


def _sample(column: "pd.Series[float]") -> Sample:
    if pd.api.types.is_numeric_dtype(column):
        return Sample(np.asarray(column, dtype=np.float64))
    codes, words = pd.factorize(column)
    return Sample(np.where(codes < 0, np.nan, codes), tuple(map(str, words)))
