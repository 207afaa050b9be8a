"""Other methods, each with its library's own settings, one thread and a fixed seed.

Linear models and forests get numbers standardised, words as columns of 0 and 1, and holes filled with the mean or the
most frequent word; where a library knows missing cells and categories, it is given them as they are. Of several tables
they get the union of all rows, with cells missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from training.bench.predict.questions import Question
from training.reproduce.overlap_peers import as_categories, fill_words, list_words

Prepare = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Of each row the value; of words also the probabilities of all, of ours the 90 % interval of a number."""

    values: NDArray[Any]
    probabilities: pd.DataFrame | None = None
    interval: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Fitted:
    """What answers rows of a table that is named; ``ready`` gives what answers rows that it has read before, so that
    the model alone can be timed.
    """

    answer: Callable[[str, pd.DataFrame], Answer]
    ready: Callable[[str, pd.DataFrame], Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Peer:
    """How rows are prepared, as learned from the training rows; the model for words or numbers; what it needs."""

    learn: Callable[[pd.DataFrame], Prepare]
    make: Callable[[bool, int, list[str]], Any]
    package: str = "sklearn"


def fit_peer(name: str, question: Question, seed: int) -> Fitted:
    """Fit one of ``PEERS`` on all training rows."""
    train = pd.concat([rows.train for rows in question.tables.values()], ignore_index=True)
    features = train.drop(columns=question.target)
    prepare = PEERS[name].learn(features)
    model = PEERS[name].make(question.is_word, seed, list_words(features))
    model.fit(prepare(features), train[question.target].to_numpy())
    ask = model.predict_proba if question.is_word else model.predict

    def read(rows: pd.DataFrame) -> Any:
        return prepare(rows.reindex(columns=features.columns))

    def answer(_: str, rows: pd.DataFrame) -> Answer:
        told = np.asarray(ask(read(rows)), dtype=np.float64)
        if not question.is_word:
            return Answer(told)
        return Answer(np.asarray(model.classes_)[told.argmax(axis=1)], pd.DataFrame(told, columns=model.classes_))

    return Fitted(answer, ready=lambda _, rows: partial(ask, read(rows)))


def list_missing() -> dict[str, str]:
    """The methods that cannot run here, and what they need."""
    return {name: f"pip install {peer.package}" for name, peer in PEERS.items() if find_spec(peer.package) is None}


def _standardise(features: pd.DataFrame) -> Prepare:
    words = list_words(features)
    numbers = [c for c in features.columns if c not in words]
    of_numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    of_words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    encoder = make_column_transformer((of_numbers, numbers), (of_words, words), sparse_threshold=0.0)
    encoder.fit(_as_nan(features, words))
    return lambda rows: encoder.transform(_as_nan(rows, words))


def _as_nan(rows: pd.DataFrame, words: list[str]) -> pd.DataFrame:
    """Missing words as the imputer knows them."""
    return rows.assign(**{c: rows[c].astype(object).where(rows[c].notna(), np.nan) for c in words})


def _learn_levels(features: pd.DataFrame) -> Prepare:
    """Columns get plain names: LightGBM takes no others."""
    prepare = as_categories(features)
    return lambda rows: prepare(rows).set_axis([f"c{j}" for j in range(features.shape[1])], axis=1)


def _fill_words(features: pd.DataFrame) -> Prepare:
    return partial(fill_words, words=list_words(features))


def _mean_mode(is_word: bool, *_: Any) -> Any:
    return DummyClassifier(strategy="prior") if is_word else DummyRegressor()


def _line(is_word: bool, *_: Any) -> Any:
    return LogisticRegression(max_iter=5000) if is_word else RidgeCV()


def _forest(is_word: bool, seed: int, *_: Any) -> Any:
    return (RandomForestClassifier if is_word else RandomForestRegressor)(n_jobs=1, random_state=seed)


def _hgb(is_word: bool, seed: int, *_: Any) -> Any:
    make = HistGradientBoostingClassifier if is_word else HistGradientBoostingRegressor
    return make(categorical_features="from_dtype", random_state=seed)


def _lightgbm(is_word: bool, seed: int, *_: Any) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMClassifier if is_word else LGBMRegressor)(n_jobs=1, verbose=-1, random_state=seed)


def _catboost(is_word: bool, seed: int, words: list[str]) -> Any:
    from catboost import CatBoostClassifier, CatBoostRegressor

    make = CatBoostClassifier if is_word else CatBoostRegressor
    return make(cat_features=words, thread_count=1, random_seed=seed, verbose=False, allow_writing_files=False)


PEERS = {
    "mean_mode": Peer(_standardise, _mean_mode),
    "lr": Peer(_standardise, _line),
    "rf": Peer(_standardise, _forest),
    "hgb": Peer(_learn_levels, _hgb),
    "lightgbm": Peer(_learn_levels, _lightgbm, "lightgbm"),
    "catboost": Peer(_fill_words, _catboost, "catboost"),
}
