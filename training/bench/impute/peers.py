"""Other imputers, each fitted on training rows with holes, then asked to fill other rows.

scikit-learn's know numbers only: a word becomes columns of 0 and 1 (NaN where missing), one less than there are
words, or the regressions would find each from the others and learn nothing; of the filled ones the largest wins.
Those of ``training.bench.impute.chained`` are told which columns are one word.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import BayesianRidge

from training.bench.impute.chained import Span, chain_forests, chain_lines

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted imputer: fills frames of the same columns; ``ready`` gives what fills rows that it has read before,
    so that the imputer alone can be timed.
    """

    fill: Callable[[pd.DataFrame], pd.DataFrame]
    ready: Callable[[pd.DataFrame], Callable[[], object]]


class NumberImputer(Protocol):
    """What scikit-learn's imputers have in common."""

    def fit(self, table: Floats) -> Any: ...
    def transform(self, table: Floats) -> Floats: ...


PEERS: dict[str, Callable[[int, Sequence[Span]], NumberImputer]] = {
    "mean_mode": lambda *_: SimpleImputer(keep_empty_features=True),
    "knn": lambda *_: KNNImputer(n_neighbors=10, weights="distance", keep_empty_features=True),
    "iterative_bayesridge": lambda seed, _: IterativeImputer(
        BayesianRidge(), max_iter=20, random_state=seed, keep_empty_features=True
    ),
    "iterative_forest": lambda seed, _: IterativeImputer(
        RandomForestRegressor(n_estimators=50, min_samples_leaf=3, random_state=seed, n_jobs=1),
        max_iter=5,
        random_state=seed,
        keep_empty_features=True,
    ),
    "chained_linear": chain_lines,
    "missforest": chain_forests,
}


def fit_peer(name: str, train: pd.DataFrame, numbers: Sequence[str], seed: int) -> Fitted:
    """Fit one of ``PEERS``."""
    codec = _Codec(train, numbers)
    imputer = PEERS[name](seed, codec.spans)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its rounds are limited, as said above
        imputer.fit(codec.encode(train))
    return Fitted(
        fill=lambda rows: codec.decode(imputer.transform(codec.encode(rows))),
        ready=lambda rows: partial(imputer.transform, codec.encode(rows)),
    )


def encode_mixed(train: pd.DataFrame, test: pd.DataFrame, numbers: Sequence[str]) -> tuple[Floats, Floats]:
    """Both as complete tables of numbers; holes are the mean of the training rows."""
    codec = _Codec(train, numbers)
    known, asked = codec.encode(train), codec.encode(test)
    mean = np.nanmean(known, axis=0)
    return np.where(np.isnan(known), mean, known), np.where(np.isnan(asked), mean, asked)


class _Codec:
    """Frames to tables of standardised numbers and back; the most frequent word is the one without a column."""

    def __init__(self, train: pd.DataFrame, numbers: Sequence[str]) -> None:
        self.columns = list(train.columns)
        self.mean, self.spread = train[numbers].mean(), train[numbers].std().replace(0.0, 1.0)
        # A word of which nothing is known stays a hole.
        self.words = {c: list(train[c].value_counts().index) or [None] for c in self.columns if c not in set(numbers)}
        widths = [len(self.words[c]) - 1 if c in self.words else 1 for c in self.columns]
        starts = np.cumsum([0, *widths])
        self.spans = [
            Span(int(start), width, c in self.words)
            for c, start, width in zip(self.columns, starts[:-1], widths, strict=True)
        ]

    def encode(self, rows: pd.DataFrame) -> Floats:
        return np.concatenate([self._encode(rows[c]) for c in self.columns], axis=1)

    def _encode(self, cells: pd.Series) -> Floats:
        column = str(cells.name)
        if column not in self.words:
            standard: Floats = ((cells - self.mean[column]) / self.spread[column]).to_numpy()[:, None]
            return standard
        words = np.asarray(self.words[column][1:], dtype=object)
        table: Floats = np.equal.outer(cells.to_numpy(), words).astype(float)
        table[cells.isna()] = np.nan
        return table

    def decode(self, table: Floats) -> pd.DataFrame:
        filled: dict[str, Any] = {}
        for column, span in zip(self.columns, self.spans, strict=True):
            part = table[:, span.at]
            if span.is_word:
                every = np.concatenate([1.0 - part.sum(axis=1, keepdims=True), part], axis=1)
                filled[column] = np.asarray(self.words[column], dtype=object)[every.argmax(axis=1)]
            else:
                filled[column] = part[:, 0] * self.spread[column] + self.mean[column]
        return pd.DataFrame(filled)
