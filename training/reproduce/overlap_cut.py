"""Cut one table into three with disjoint rows and partly overlapping columns."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

N_PIECES = 3
COLUMN_SHARE = 0.6
TRAIN_SHARE = 0.7
LABEL_SHARE = 0.05
LEAST_LABELS = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """One of the three tables: rows to fit on and rows to be asked about, with the same columns."""

    train: pd.DataFrame
    test: pd.DataFrame


def cut(frame: pd.DataFrame, target: str, seed: int, *, n_rows: int | None = None) -> list[Piece]:
    """Three tables: other rows each, 60 % of the columns each, and the target in all.

    ``n_rows`` leaves only so many training rows a table; columns and test rows stay the same.
    """
    rng = np.random.default_rng([seed, 0])
    columns = _draw_columns([c for c in frame.columns if c != target], rng)
    fewer = np.random.default_rng([seed, 1])
    pieces = []
    for rows, some in zip(_deal_rows(frame[target], rng), columns, strict=True):
        part = frame.loc[rows, [*some, target]]
        train = _draw_rows(part[target], round(TRAIN_SHARE * len(part)), rng)
        test = part.index.difference(train)
        if n_rows is not None and n_rows < len(train):
            train = _draw_rows(part.loc[train, target], n_rows, fewer)
        pieces.append(Piece(part.loc[train], part.loc[test]))
    return pieces


def hide_labels(pieces: list[Piece], target: str, seed: int) -> list[Piece]:
    """Keep 5 % of the training labels, at least ten a table and one of each class; the others are null."""
    rng = np.random.default_rng([seed, 2])
    hidden = []
    for piece in pieces:
        n = max(LEAST_LABELS, round(LABEL_SHARE * len(piece.train)))
        kept = _draw_rows(piece.train[target], n, rng)
        train = piece.train.copy()
        train.loc[train.index.difference(kept), target] = None
        hidden.append(Piece(train, piece.test))
    return hidden


def only_labelled(pieces: list[Piece], target: str) -> list[Piece]:
    """The same tables without the training rows whose label is hidden."""
    return [Piece(piece.train.dropna(subset=[target]), piece.test) for piece in pieces]


def _draw_columns(names: list[str], rng: np.random.Generator) -> list[list[str]]:
    """Three random sets of 60 % of the columns, drawn again until each column is in one; in the table's order."""
    n = round(COLUMN_SHARE * len(names))
    while True:
        drawn = [set(rng.permutation(names)[:n]) for _ in range(N_PIECES)]
        if len(set.union(*drawn)) == len(names):
            return [[name for name in names if name in some] for some in drawn]


def _deal_rows(labels: "pd.Series[str]", rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Deal all rows to the three tables, each class evenly."""
    shuffled = labels.iloc[rng.permutation(len(labels))]
    ordered = shuffled.sort_values(kind="stable").index.to_numpy()
    return [np.sort(ordered[i::N_PIECES]) for i in range(N_PIECES)]


def _draw_rows(labels: "pd.Series[str]", n: int, rng: np.random.Generator) -> "pd.Index[int]":
    """``n`` rows (or one more for rounding) with the classes in proportion, and no class left out."""
    drawn: list[int] = []
    for _, rows in labels.groupby(labels):
        n_class = max(1, round(n * len(rows) / len(labels)))
        drawn += rng.permutation(rows.index.to_numpy())[:n_class].tolist()
    return pd.Index(sorted(drawn))
