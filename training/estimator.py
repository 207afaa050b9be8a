"""Tabglot as scikit-learn estimators: the shipped fit, on data frames of mixed types or arrays.

    imputer = TabglotImputer().fit(train)             # holes welcome, numbers and words together
    filled = imputer.transform(new)                   # new rows, by the kept model
    copies = imputer.sample(new, n_draws=5)           # plausible completions, for multiple imputation
    TabglotClassifier().fit(X, y).predict_proba(new)  # X may have holes; new may have others

``save`` writes the bundle that ``python -m service`` serves.
"""

import re
import shutil
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, RegressorMixin, TransformerMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from model.answers import Prediction
from model.draws import draw_copies
from model.errors import TabglotError
from model.runtime import Predictor
from model.schema import Kind
from training.frames import fit_bundle
from training.mixed_frames import ColumnForm, as_frame, fill_frame, find_form, name_classes, table_names
from training.tables import HELD_OUT_SHARE

TABLE = "table"
TARGET = "target"
# With fewer rows of a class than this none are held out: they could be all.
FEWEST_OF_A_CLASS = 8
Frame = pd.DataFrame | ArrayLike


class _Tabglot(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: reading tables, fitting, and being kept."""

    predictor_: Predictor
    forms_: list[ColumnForm]
    names_: list[str]

    def __init__(
        self, *, kinds: dict[str, Kind] | None = None, epochs: float | None = None, random_state: Any = 0
    ) -> None:
        self.kinds = kinds
        self.epochs = epochs
        self.random_state = random_state

    def save(self, path: Path | str, *, force: bool = False) -> None:
        """Write the bundle, for ``python -m service`` to serve; ``force`` replaces one that is there."""
        check_is_fitted(self)
        target = Path(path)
        if target.exists() and not force:
            raise FileExistsError(f"{target} is there already; force=True replaces it")
        with TemporaryDirectory(dir=target.absolute().parent) as folder:
            aside = Path(folder) / "bundle"
            _write_files(self._files, aside)
            if target.exists():
                shutil.move(target, Path(folder) / "before")
            aside.rename(target)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "predictor_"}  # sessions cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_files" in state:
            self._open()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _read(self, X: Frame, *, reset: bool) -> pd.DataFrame:
        """A checked frame; anything but a frame becomes one of plainly named columns."""
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            check_array(np.zeros((min(1, len(X)), X.shape[1])))  # at least one of each
            for column in X.select_dtypes("number"):
                assert_all_finite(X[column].to_numpy(np.float64, na_value=np.nan), allow_nan=True, input_name="X")
            return X
        return as_frame(validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan"))

    def _fit(
        self,
        frame: pd.DataFrame,
        target: pd.Series | None = None,
        kind: Kind | None = None,
        held_out: float = HELD_OUT_SHARE,
    ) -> None:
        kinds_said = self.kinds or {}
        self._check_settings(kinds_said, frame)
        self.names_ = table_names(list(frame.columns))
        self.forms_ = [find_form(frame.iloc[:, j], kinds_said.get(name)) for j, name in enumerate(frame.columns)]
        table = self._table(frame)
        kinds = {name: form.kind for name, form in zip(self.names_, self.forms_, strict=True)}
        self._target = TARGET
        while self._target in table:  # the caller has a column of that name
            self._target += "_"
        if target is not None and kind is not None:
            table[self._target], kinds[self._target] = target.to_numpy(), kind
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with TemporaryDirectory() as folder:
            bundle = Path(folder) / "bundle"
            named = None if target is None else self._target
            try:
                epochs = None if self.epochs is None else float(self.epochs)
                fit_bundle(
                    {TABLE: table}, bundle, target=named, kinds=kinds, seed=seed, held_out=held_out, epochs=epochs
                )
            except TabglotError as error:
                said = re.sub(r" \(\S+\.parquet\)", "", str(error))  # a file that nobody has seen
                raise ValueError(f"{said} (n_samples = {len(frame)}, n_features = {frame.shape[1]})") from error
            self._files = {file.name: file.read_bytes() for file in bundle.iterdir()}
        self._open()

    def _check_settings(self, kinds: Mapping[str, Kind], frame: pd.DataFrame) -> None:
        """Before a fit, which takes a while."""
        strangers = set(kinds) - set(frame.columns)
        if strangers:
            raise ValueError(f"kinds speaks of columns that X does not have: {sorted(map(str, strangers))}")
        wrong = {column: kind for column, kind in kinds.items() if kind not in get_args(Kind)}
        if wrong:
            raise ValueError(f"kinds are {', '.join(get_args(Kind))}, not {wrong}")
        epochs: Any = self.epochs
        if epochs is not None and not (isinstance(epochs, Real) and 0.0 < float(epochs) < np.inf):
            raise ValueError(f"epochs must be a number that is more than 0, or None, not {epochs!r}")

    def _open(self) -> None:
        with TemporaryDirectory() as folder:
            bundle = Path(folder) / "bundle"
            _write_files(self._files, bundle)
            self.predictor_ = Predictor.load(bundle)

    def _table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame as it is fitted and asked."""
        cells = {}
        for j, (name, form) in enumerate(zip(self.names_, self.forms_, strict=True)):
            try:
                cells[name] = form.read(frame.iloc[:, j])
            except (TypeError, ValueError) as error:
                raise ValueError(f"column {name!r} of kind {form.kind!r} cannot be read: {error}") from error
        return pd.DataFrame(cells)

    def _columns(self, frame: pd.DataFrame) -> dict[str, Any]:
        """The frame as a request, less the columns that are no features."""
        table, known = self._table(frame), self.predictor_.links(TABLE)
        return {
            name: table[name].to_numpy() if form.kind != "categorical" else table[name].tolist()
            for name, form in zip(self.names_, self.forms_, strict=True)
            if name in known
        }


def _write_files(files: dict[str, bytes], folder: Path) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


class TabglotImputer(OneToOneFeatureMixin, TransformerMixin, _Tabglot):  # type: ignore[misc]
    """Fill the holes of tables with numbers, dates and words.

    A frame gives a frame, an array an array. Columns that were constant, or nearly, are filled with their usual value;
    those that had none, and free text, are left. ``kinds`` says what columns are where their types do not:
    "numeric", "ordinal", "categorical", "datetime". ``epochs``: how long is learnt; None chooses.
    """

    def fit(self, X: Frame, y: Any = None) -> Self:  # noqa: ARG002 - as scikit-learn calls it
        """Learn from rows with holes; ``y`` is not looked at."""
        frame = self._read(X, reset=True)
        self._fit(frame)
        known = self.predictor_.links(TABLE)
        self._constants = {}
        for j, name in enumerate(self.names_):
            shares = frame.iloc[:, j].value_counts(normalize=True)
            if name not in known and len(shares) and shares.iloc[0] > 0.5:  # free text has no usual value
                self._constants[j] = shares.index[0]
        return self

    def transform(self, X: Frame) -> Any:
        """The rows with every hole filled by what is expected there."""
        check_is_fitted(self)
        frame = self._read(X, reset=False)
        answer = self.predictor_.impute(self._columns(frame), table=TABLE, brief=True)
        found = {self.names_.index(name): (rows, answer.filled[name].values) for name, rows in answer.rows.items()}
        return self._show(frame, found, X)

    def sample(self, X: Frame, n_draws: int = 5, random_state: int = 0) -> list[Any]:
        """The rows completed several times by draws, as multiple imputation wants them: pool what you estimate
        from each copy by Rubin's rules.
        """
        check_is_fitted(self)
        asked: Any = n_draws
        if not isinstance(asked, Integral) or int(asked) < 1:
            raise ValueError(f"n_draws must be a whole number from 1, not {n_draws!r}")
        frame = self._read(X, reset=False)
        draws = draw_copies(self.predictor_, self._columns(frame), n_draws=int(n_draws), seed=random_state, table=TABLE)
        return [
            self._show(frame, {self.names_.index(n): (rows, draws.values[n][i]) for n, rows in draws.rows.items()}, X)
            for i in range(n_draws)
        ]

    def _show(self, frame: pd.DataFrame, found: dict[int, tuple[Any, Any]], X: Frame) -> Any:
        filled = fill_frame(frame, self.forms_, found)
        for j, value in self._constants.items():
            filled.isetitem(j, filled.iloc[:, j].fillna(value).array)
        return filled if isinstance(X, pd.DataFrame) else filled.to_numpy()


class _Supervised(_Tabglot):
    """A column of its own is the target."""

    def _read_both(self, X: Frame, y: ArrayLike) -> tuple[pd.DataFrame, NDArray[Any]]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        frame = self._read(X, reset=True)
        target = column_or_1d(y, warn=True)
        check_consistent_length(frame, target)
        return frame, target

    def _ask(self, X: Frame, interval: float | None = None) -> Prediction:
        check_is_fitted(self)
        frame = self._read(X, reset=False)
        return self.predictor_.predict(self._columns(frame), self._target, table=TABLE, interval=interval)


class TabglotClassifier(ClassifierMixin, _Supervised):  # type: ignore[misc]
    """Predict a class from whatever cells a row has; ``predict_proba`` is calibrated on held-out rows."""

    classes_: NDArray[Any]

    def fit(self, X: Frame, y: ArrayLike) -> Self:
        """Learn from rows with holes; every row needs its class."""
        frame, classes = self._read_both(X, y)
        assert_all_finite(classes, input_name="y")
        check_classification_targets(classes)
        self.classes_, codes = np.unique(classes, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds 1 class ({self.classes_[0]!r}); at least two classes are needed")
        held_out = 0.0 if np.bincount(codes).min() < FEWEST_OF_A_CLASS else HELD_OUT_SHARE
        words = name_classes(self.classes_)
        self._codes = {word: code for code, word in enumerate(words)}
        self._fit(frame, pd.Series([words[code] for code in codes]), "categorical", held_out)
        return self

    def predict_proba(self, X: Frame) -> NDArray[np.float64]:
        """The probability of each class, (rows, classes)."""
        answer = self._ask(X)
        table = np.zeros((len(answer.values), len(self.classes_)))
        for k, choice in enumerate(answer.choices or []):
            code = self._codes.get(str(choice))
            if code is not None:  # not what stands for rare classes
                table[:, code] = answer.mass[:, k]
        table /= table.sum(axis=1, keepdims=True)
        return table

    def predict(self, X: Frame) -> NDArray[Any]:
        """The most probable class of each row."""
        most_probable = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[most_probable])


class TabglotRegressor(RegressorMixin, _Supervised):  # type: ignore[misc]
    """Predict a number from whatever cells a row has, with an interval on request."""

    def fit(self, X: Frame, y: ArrayLike) -> Self:
        """Learn from rows with holes; every row needs its number."""
        frame, numbers = self._read_both(X, y)
        if numbers.dtype.kind in "mM":
            raise ValueError("y holds dates or durations: turn them into numbers first, such as days since a date")
        target = check_array(numbers, ensure_2d=False, dtype=np.float64, input_name="y")
        self._fit(frame, pd.Series(target), "numeric")
        return self

    def predict(self, X: Frame) -> NDArray[np.float64]:
        """What is expected of each row."""
        return np.asarray(self._ask(X).values, dtype=np.float64)

    def predict_interval(self, X: Frame, coverage: float = 0.9) -> NDArray[np.float64]:
        """Between which numbers so large a share of such rows lies, (rows, 2)."""
        return np.asarray(self._ask(X, coverage).interval, dtype=np.float64)
