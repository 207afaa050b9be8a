"""The paper's baselines: scikit-learn's classifiers on one-hot features, chosen by cross-validation.

Axis letters: N rows, F features, K classes. Everything runs on one core.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid, StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from training.reproduce.boosting import boost_in_stages

PEERS = ("lr", "rf", "gb", "mlp")

Grid = Mapping[str, Sequence[Any]]
Setting = Mapping[str, Any]
TREES = "classify__n_estimators"

# The paper's grid for mlp also has learning_rate constant|adaptive. The solver (adam, the default) does not
# read it, so that it would only fit every setting twice.
PUBLISHED: Mapping[str, Grid] = {
    "lr": {},
    "rf": {"criterion": ["gini", "entropy"], "n_estimators": [50, 100, 200], "max_depth": [1, 3, None]},
    "gb": {"learning_rate": [0.01, 0.1, 1.0], "n_estimators": [50, 100, 200], "max_depth": [1, 3, 5]},
    "mlp": {"hidden_layer_sizes": [(50,), (100,), (100, 50)], "alpha": [1e-4, 1e-3, 1e-2]},
}

QUICK: Mapping[str, Grid] = {
    "lr": {},
    "rf": {"n_estimators": [50], "max_depth": [3, None]},
    "gb": {"learning_rate": [0.1], "n_estimators": [50], "max_depth": [1, 3]},
    "mlp": {"hidden_layer_sizes": [(50,)], "alpha": [1e-2]},
}


@dataclass(frozen=True, slots=True)
class Classifier:
    """A fitted peer; ``settings`` are those that cross-validation chose."""

    pipeline: Pipeline
    settings: Setting

    @property
    def classes(self) -> NDArray[np.int64]:
        """The classes seen in training, in the order of the probabilities."""
        return np.asarray(self.pipeline.classes_, dtype=np.int64)

    def predict_proba(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probabilities of ``classes``, (N, K)."""
        with quiet():
            return np.asarray(self.pipeline.predict_proba(x), dtype=np.float64)


def fit_peer(name: str, x: NDArray[np.int64], y: NDArray[np.int64], *, quick: bool, seed: int) -> Classifier:
    """Fit one of PEERS on bins (N, F), with the setting of its grid that is most accurate over five folds."""
    pipeline, settings = prepare(name, (QUICK if quick else PUBLISHED)[name], seed)
    with quiet():
        # argmax: the first of the most accurate settings, as GridSearchCV has it.
        best = settings[0 if len(settings) == 1 else int(cross_validate(pipeline, settings, x, y).argmax())]
        pipeline.set_params(**best).fit(x, y)
    return Classifier(pipeline, {key.removeprefix("classify__"): value for key, value in best.items()})


def prepare(name: str, grid: Grid, seed: int) -> tuple[Pipeline, list[Setting]]:
    """A peer that is yet to be fitted, and the settings of its grid."""
    # Within the pipeline, the encoder of a fold knows only the levels of that fold's training rows.
    encoder = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)
    pipeline = Pipeline([("encode", encoder), ("classify", _estimator(name, seed))])
    return pipeline, list(ParameterGrid({f"classify__{key}": values for key, values in grid.items()}))


def probabilities(
    name: str,
    x: NDArray[np.int64],
    y: NDArray[np.int64],
    x_test: NDArray[np.int64],
    *,
    n_classes: int,
    quick: bool,
    seed: int,
) -> NDArray[np.float64]:
    """Fit a peer and ask it for the test rows, (N, n_classes); a class that training lacks gets zero."""
    peer = fit_peer(name, x, y, quick=quick, seed=seed)
    answer = np.zeros((len(x_test), n_classes))
    answer[:, peer.classes] = peer.predict_proba(x_test)
    return answer


def _estimator(name: str, seed: int) -> Any:
    if name == "lr":
        return LogisticRegression(max_iter=2000, random_state=seed)
    if name == "rf":
        return RandomForestClassifier(n_jobs=1, random_state=seed)
    if name == "gb":
        return GradientBoostingClassifier(random_state=seed)
    return MLPClassifier(learning_rate_init=0.01, max_iter=2000, random_state=seed)


def cross_validate(
    pipeline: Pipeline, settings: Sequence[Setting], x: NDArray[np.int64], y: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The accuracy of each setting, the mean of five folds: what GridSearchCV finds, in a third of the fits.

    A forest or boosting of 50 trees is the beginning of one of 200 with the same seed, so settings that differ
    in their number of trees alone share one fit. Boosting is fitted a dozen times faster than by scikit-learn, whose
    trees it grows but for splits that are exactly as good; the setting that is chosen is fitted by scikit-learn.
    """
    accuracy = np.zeros((5, len(settings)))
    for fold, (train, test) in enumerate(StratifiedKFold(5).split(x, y)):
        for alike in _alike_but_for_trees(settings):
            largest = max((settings[i] for i in alike), key=_n_trees)
            guesses = _guess_in_stages(clone(pipeline).set_params(**largest), x[train], y[train], x[test])
            for i in alike:
                accuracy[fold, i] = (guesses[_n_trees(settings[i])] == y[test]).mean()
    return np.asarray(accuracy.mean(0), dtype=np.float64)


def _alike_but_for_trees(settings: Sequence[Setting]) -> list[list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for i, setting in enumerate(settings):
        groups[repr({key: value for key, value in setting.items() if key != TREES})].append(i)
    return list(groups.values())


def _n_trees(setting: Setting) -> int:
    return int(setting.get(TREES, 0))


def _guess_in_stages(
    pipeline: Pipeline, x: NDArray[np.int64], y: NDArray[np.int64], x_test: NDArray[np.int64]
) -> dict[int, NDArray[np.int64]]:
    """Fit, and ask the first 1, 2, .. trees for the test rows; by their number, 0: a model without trees."""
    classifier = pipeline[-1]
    if isinstance(classifier, GradientBoostingClassifier) and len(np.unique(y)) > 2:
        how = {key: getattr(classifier, key) for key in ("learning_rate", "max_depth", "n_estimators")}
        return dict(enumerate(boost_in_stages(x, y, x_test, **how), start=1))
    pipeline.fit(x, y)
    features = pipeline[:-1].transform(x_test)
    if isinstance(classifier, GradientBoostingClassifier):
        return dict(enumerate(classifier.staged_predict(features), start=1))
    if isinstance(classifier, RandomForestClassifier):
        shares = np.cumsum([tree.predict_proba(features) for tree in classifier.estimators_], axis=0)  # (trees, N, K)
        return dict(enumerate(classifier.classes_[shares.argmax(axis=2)], start=1))
    return {0: classifier.predict(features)}


@contextmanager
def quiet() -> Iterator[None]:
    """Silence two things we chose: to stop at max_iter, and to read a level never seen as the first one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        yield
