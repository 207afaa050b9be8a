"""The paper's baselines: scikit-learn's classifiers on one-hot features, chosen by cross-validation.

Axis letters: N rows, F features, K classes. Everything runs on one core.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

PEERS = ("lr", "rf", "gb", "mlp")

Grid = Mapping[str, Sequence[Any]]

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
    settings: Mapping[str, Any]

    @property
    def classes(self) -> NDArray[np.int64]:
        """The classes seen in training, in the order of the probabilities."""
        return np.asarray(self.pipeline.classes_, dtype=np.int64)

    def predict_proba(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probabilities of ``classes``, (N, K)."""
        with _quiet():
            return np.asarray(self.pipeline.predict_proba(x), dtype=np.float64)


def fit_peer(name: str, x: NDArray[np.int64], y: NDArray[np.int64], *, quick: bool, seed: int) -> Classifier:
    """Fit one of PEERS on bins (N, F), with the setting of its grid that is most accurate over five folds."""
    grid = (QUICK if quick else PUBLISHED)[name]
    # Within the pipeline, the encoder of a fold knows only the levels of that fold's training rows.
    encoder = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)
    pipeline = Pipeline([("encode", encoder), ("classify", _estimator(name, seed))])
    settings = list(ParameterGrid({f"classify__{key}": values for key, values in grid.items()}))
    with _quiet():
        best = settings[0] if len(settings) == 1 else _choose(pipeline, settings, x, y)
        pipeline.set_params(**best).fit(x, y)
    return Classifier(pipeline, {key.removeprefix("classify__"): value for key, value in best.items()})


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


def _choose(
    pipeline: Pipeline, settings: Sequence[Mapping[str, Any]], x: NDArray[np.int64], y: NDArray[np.int64]
) -> dict[str, Any]:
    grid = [{key: [value] for key, value in setting.items()} for setting in settings]
    search = GridSearchCV(pipeline, grid, scoring="accuracy", cv=StratifiedKFold(5), n_jobs=1, refit=False)
    return dict(search.fit(x, y).best_params_)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence two things we chose: to stop at max_iter, and to read a level never seen as the first one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        yield
