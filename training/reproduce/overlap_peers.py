"""Peers for overlapping tables: a model for each table, or one for their union with cells missing.

All have their library's own settings, one thread, and a fixed seed. Columns of numbers are numbers,
all others categories; where a library knows missing cells and categories, it is given them as they are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from training.reproduce.overlap_tables import POSITIVE

Probabilities = NDArray[np.float64]
Ask = Callable[[pd.DataFrame], Probabilities]
Labels = NDArray[np.bool_]
MISSING = "(missing)"


def probabilities(
    name: str, trains: Sequence[pd.DataFrame], tests: Sequence[pd.DataFrame], target: str
) -> list[Probabilities]:
    """The probability of "yes" for the test rows of each table; ``name`` is such as "lr_union"."""
    model, _, form = name.partition("_")
    if form == "per_table":
        return [_fit(model, train, target)(test) for train, test in zip(trains, tests, strict=True)]
    ask = _fit(model, pd.concat(trains, ignore_index=True), target)
    return [ask(test) for test in tests]


def _fit(model: str, train: pd.DataFrame, target: str) -> Ask:
    """Fit one model; it can be asked about frames that lack some of its columns."""
    labels = (train[target] == POSITIVE).to_numpy()
    features = train.drop(columns=target)
    if labels.all() or not labels.any():  # one class alone teaches nothing
        return lambda rows: np.full(len(rows), float(labels[0]))
    ask = FITS[model](features, labels)
    return lambda rows: ask(rows.reindex(columns=features.columns))


def _fit_lr(features: pd.DataFrame, labels: Labels) -> Ask:
    words = list_words(features)
    numbers = [c for c in features.columns if c not in words]
    number_steps = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), StandardScaler()
    )
    prepare = make_column_transformer((number_steps, numbers), (OneHotEncoder(handle_unknown="ignore"), words))
    model = make_pipeline(prepare, LogisticRegression(max_iter=5000))
    model.fit(fill_words(features, words), labels)
    return lambda rows: _positive(model.predict_proba(fill_words(rows, words)))


def _fit_hgb(features: pd.DataFrame, labels: Labels) -> Ask:
    prepare = as_categories(features)
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    model.fit(prepare(features), labels)
    return lambda rows: _positive(model.predict_proba(prepare(rows)))


def _fit_lightgbm(features: pd.DataFrame, labels: Labels) -> Ask:
    from lightgbm import LGBMClassifier

    prepare = as_categories(features)
    model = LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)
    model.fit(prepare(features), labels)
    return lambda rows: _positive(model.predict_proba(prepare(rows)))


def _fit_catboost(features: pd.DataFrame, labels: Labels) -> Ask:
    from catboost import CatBoostClassifier

    words = list_words(features)
    model = CatBoostClassifier(
        cat_features=words, thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
    )
    model.fit(fill_words(features, words), labels.astype(int))
    return lambda rows: _positive(model.predict_proba(fill_words(rows, words)))


FITS: dict[str, Callable[[pd.DataFrame, Labels], Ask]] = {
    "lr": _fit_lr,
    "hgb": _fit_hgb,
    "lightgbm": _fit_lightgbm,
    "catboost": _fit_catboost,
}


def list_words(features: pd.DataFrame) -> list[str]:
    """The columns that hold categories."""
    return [c for c in features.columns if not pd.api.types.is_numeric_dtype(features[c])]


def fill_words(rows: pd.DataFrame, words: Sequence[str]) -> pd.DataFrame:
    """A level of its own for missing categories; numbers as floats, so that they may be missing."""
    return pd.DataFrame(
        {c: rows[c].astype(object).fillna(MISSING) if c in words else rows[c].astype(float) for c in rows.columns}
    )


def as_categories(features: pd.DataFrame) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Categories as pandas has them, with the levels of the training rows; others become missing."""
    levels = {c: sorted(features[c].dropna().unique()) for c in list_words(features)}

    def prepare(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {
                c: pd.Categorical(rows[c].where(rows[c].isin(levels[c])), categories=levels[c])
                if c in levels
                else rows[c].astype(float)
                for c in rows.columns
            },
            index=rows.index,
        )

    return prepare


def _positive(answer: Any) -> Probabilities:
    """The second column of (rows, classes): that of True."""
    return np.asarray(answer, dtype=np.float64)[:, 1]
