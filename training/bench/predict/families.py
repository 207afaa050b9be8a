"""Tables of several sources that share a target: one model for all of them.

A folder holds a folder for each family, with its tables as CSV files. Of each table 30 % of the rows are held out; ours
is fitted on the training rows of all tables together, peers on their union. Only the families named here are read:
that a column is worth predicting, and which codes mean something else, is not to be guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from training.bench.impute.tables import clean, split_rows
from training.bench.match.families import read_table
from training.bench.predict.questions import Question, Rows
from training.figures import ComparisonError

YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Family:
    """Tables with one target, a number that is asked for as "is it more than ``above``?".

    ``words``: columns whose numbers are codes of kinds; ``missing``: numbers that mean that a cell is missing.
    """

    tables: tuple[str, ...]
    target: str
    above: float
    words: tuple[str, ...] = ()
    missing: Mapping[str, float] = field(default_factory=dict)


FAMILIES = {
    "heart": Family(
        tables=("cleveland", "hungarian", "switzerland", "va"),
        target="num",
        above=0.0,
        words=("cp", "restecg", "thal"),
        missing={"chol": 0.0},
    ),
}


def list_families(folder: Path) -> list[str]:
    """Those of which the folder has two tables or more."""
    if not folder.is_dir():
        raise ComparisonError(f"--data {folder}: there is no such folder; give the folder above the families")
    found = [name for name in FAMILIES if len(list_tables(folder, name)) > 1]
    if not found:
        wanted = "; ".join(f"{name}/{{{','.join(family.tables)}}}.csv" for name, family in FAMILIES.items())
        raise ComparisonError(f"--data {folder}: no tables there that share a target known here; expected {wanted}")
    return found


def list_tables(folder: Path, name: str) -> list[str]:
    """The tables of a family that are there."""
    return [table for table in FAMILIES[name].tables if (folder / name / f"{table}.csv").is_file()]


def make_family_question(folder: Path, name: str, seed: int) -> Question:
    """All tables of a family, split."""
    family = FAMILIES[name]
    tables = {table: _load(folder / name / f"{table}.csv", family) for table in list_tables(folder, name)}
    rng = np.random.default_rng(seed)
    return Question(family.target, {table: _cut(frame, family.target, rng) for table, frame in tables.items()})


def _load(file: Path, family: Family) -> pd.DataFrame:
    frame = read_table(file)
    if family.target not in frame.columns:
        raise ComparisonError(f"{file}: there is no column {family.target!r}, which is to be predicted")
    frame = frame[frame[family.target].notna()].reset_index(drop=True)
    columns = {str(c): frame[c] for c in frame.columns}
    for column, code in family.missing.items():
        columns[column] = frame[column].where(frame[column] != code)
    for word in family.words:
        columns[word] = pd.Series([None if np.isnan(code) else f"{code:g}" for code in frame[word]], dtype=object)
    is_more = frame[family.target] > family.above
    columns[family.target] = is_more.astype(object).map({True: YES, False: NO}).astype(object)
    return clean(pd.DataFrame(columns))


def _cut(frame: pd.DataFrame, target: str, rng: np.random.Generator) -> Rows:
    """Held out is the same share of either answer: some tables have few of one."""
    train, test = [], []
    for word in (NO, YES):
        of_word = np.flatnonzero(frame[target] == word)
        fitted, asked = split_rows(len(of_word), rng)
        train.append(of_word[fitted])
        test.append(of_word[asked])
    held_out = frame.iloc[np.sort(np.concatenate(test))]
    return Rows(
        train=frame.iloc[np.sort(np.concatenate(train))].reset_index(drop=True),
        test=held_out.drop(columns=target).reset_index(drop=True),
        truth=held_out[target].reset_index(drop=True),
    )
