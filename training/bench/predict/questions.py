"""What is asked: one column of a table, from the others. The tables are the imputation bench's and some of its pool."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from training.bench.impute.pool import load_pooled
from training.bench.impute.tables import HOLES, hide, split_rows

TABLE = "table"
# Of each table the column that one would want to know; chosen before any figure was seen. The imputation bench's eight,
# and four of its pool, so that words are asked for as often as numbers.
TARGETS = {
    "auto": "mpg",
    "college": "Outstate",
    "cps1985": "wage",
    "credit": "Balance",
    "diamonds": "price",
    "wage": "wage",
    "breast_cancer": "diagnosis",
    "penguins": "species",
    "BEPS": "vote",
    "hpc_data": "class",
    "SwissLabor": "participation",
    "TravelMode": "choice",
}
# How many cells of the other columns are hidden, in training and test rows.
PATTERNS = {"complete": 0.0, "30 % holes": 0.3}


@dataclass(frozen=True, slots=True)
class Rows:
    """Of one table: rows to be fitted on, with the target; rows to be asked, without it; and what it is in those."""

    train: pd.DataFrame
    test: pd.DataFrame
    truth: pd.Series


@dataclass(frozen=True, slots=True)
class Question:
    """One column to predict, of one table or of several that share it."""

    target: str
    tables: dict[str, Rows]

    @property
    def is_word(self) -> bool:
        return not any(pd.api.types.is_numeric_dtype(rows.truth) for rows in self.tables.values())

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers, the target among them if it is one."""
        every = (rows.train.select_dtypes("number").columns for rows in self.tables.values())
        return list(dict.fromkeys(column for columns in every for column in columns))


def asks_word(name: str) -> bool:
    """Whether the target of a table is a word."""
    return not pd.api.types.is_numeric_dtype(load_pooled(name)[TARGETS[name]])


def make_question(name: str, seed: int, pattern: str) -> Question:
    """One of the tables, split; the rows of a split are the same in each pattern."""
    return Question(TARGETS[name], {TABLE: cut_rows(load_pooled(name), TARGETS[name], seed, PATTERNS[pattern])})


def cut_rows(frame: pd.DataFrame, target: str, seed: int, rate: float) -> Rows:
    """Split the rows that know the target, and hide cells of the other columns at a rate."""
    frame = frame[frame[target].notna()].reset_index(drop=True)
    rng = np.random.default_rng(seed)
    train, test = split_rows(len(frame), rng)
    holes, _ = HOLES["random"](frame, rate, rng)
    holes[:, frame.columns.get_loc(target)] = False
    seen = hide(frame, holes)
    return Rows(
        train=seen.iloc[train].reset_index(drop=True),
        test=seen.iloc[test].drop(columns=target).reset_index(drop=True),
        truth=frame[target].iloc[test].reset_index(drop=True),
    )
