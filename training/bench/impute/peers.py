"""Other imputers, each fitted on training rows with holes, then asked to fill other rows.

scikit-learn's know numbers only: words become one column of 0 and 1 each (NaN where missing), and of the
filled ones the largest wins.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import BayesianRidge

Fill = Callable[[pd.DataFrame], pd.DataFrame]
Floats = NDArray[np.float64]


class NumberImputer(Protocol):
    """What scikit-learn's imputers have in common."""

    def fit(self, table: Floats) -> Any: ...
    def transform(self, table: Floats) -> Floats: ...


def fit_peer(name: str, train: pd.DataFrame, numbers: Sequence[str], seed: int) -> Fill:
    """Fit one of ``PEERS``; it fills frames of the same columns."""
    codec = _Codec(train, numbers)
    imputer = PEERS[name](seed)
    imputer.fit(codec.encode(train))
    return lambda rows: codec.decode(imputer.transform(codec.encode(rows)))


class _MeanOrMode:
    """The mean of a number, and, through the largest share, the most frequent word."""

    def __init__(self) -> None:
        self.imputer = SimpleImputer(keep_empty_features=True)

    def fit(self, table: Floats) -> Any:
        return self.imputer.fit(table)

    def transform(self, table: Floats) -> Floats:
        return np.asarray(self.imputer.transform(table))


PEERS: dict[str, Callable[[int], NumberImputer]] = {
    "mean_mode": lambda _: _MeanOrMode(),
    "knn": lambda _: KNNImputer(n_neighbors=10, weights="distance", keep_empty_features=True),
    "iterative_bayesridge": lambda seed: IterativeImputer(
        BayesianRidge(), max_iter=20, random_state=seed, keep_empty_features=True
    ),
    "iterative_forest": lambda seed: IterativeImputer(
        RandomForestRegressor(n_estimators=40, min_samples_leaf=3, random_state=seed, n_jobs=1),
        max_iter=5,
        random_state=seed,
        keep_empty_features=True,
    ),
}


class _Codec:
    """Frames to tables of standardised numbers and back."""

    def __init__(self, train: pd.DataFrame, numbers: Sequence[str]) -> None:
        self.columns = list(train.columns)
        self.mean, self.spread = train[numbers].mean(), train[numbers].std().replace(0.0, 1.0)
        self.words = {c: sorted(train[c].dropna().unique()) for c in self.columns if c not in set(numbers)}

    def encode(self, rows: pd.DataFrame) -> Floats:
        return np.concatenate([self._encode(rows[c]) for c in self.columns], axis=1)

    def _encode(self, cells: pd.Series) -> Floats:
        column = str(cells.name)
        if column not in self.words:
            standard: Floats = ((cells - self.mean[column]) / self.spread[column]).to_numpy()[:, None]
            return standard
        words = np.asarray(self.words[column], dtype=object)
        table: Floats = np.equal.outer(cells.to_numpy(), words).astype(float)
        table[cells.isna()] = np.nan
        return table

    def decode(self, table: Floats) -> pd.DataFrame:
        filled: dict[str, Any] = {}
        start = 0
        for column in self.columns:
            if column in self.words:
                words = np.asarray(self.words[column], dtype=object)
                part = table[:, start : start + len(words)]
                filled[column] = words[part.argmax(axis=1)]
                start += len(words)
            else:
                filled[column] = table[:, start] * self.spread[column] + self.mean[column]
                start += 1
        return pd.DataFrame(filled)
