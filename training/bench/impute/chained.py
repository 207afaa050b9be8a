"""Chained models for mixed tables: every column from all others, words by classifiers, round after round.

What scikit-learn's ``IterativeImputer`` cannot do: to it a word is a handful of numbers. With forests this is
missForest, with lines and logistic regressions what mice's users mostly choose, without its noise.
Axis letters: N rows, C encoded columns; a word of k values takes k - 1 of them, of 0 and 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression

Floats = NDArray[np.float64]
N_TREES = 50
N_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Span:
    """Where one column of a table stands among the encoded ones."""

    start: int
    width: int
    is_word: bool

    @property
    def at(self) -> slice:
        return slice(self.start, self.start + self.width)


@dataclass(slots=True)
class Chained:
    """Columns with the fewest holes come first. New rows go through all that was fitted, in the same order."""

    spans: Sequence[Span]
    make_regressor: Callable[[], Any]
    make_classifier: Callable[[], Any]
    start: Floats = field(init=False)
    fitted: list[tuple[Span, Any]] = field(init=False)

    def fit(self, table: Floats) -> "Chained":
        """Fit on rows with holes, (N, C)."""
        holes = np.isnan(table)
        self.start, self.fitted = np.nan_to_num(np.nanmean(table, axis=0)), []
        filled = np.where(holes, self.start, table)
        some = [span for span in self.spans if span.width]  # a word that never changes takes no room
        for _ in range(N_ROUNDS):
            for span in sorted(some, key=lambda span: holes[:, span.start].sum()):
                known = ~holes[:, span.start]
                target = _codes(table[known, span.at]) if span.is_word else table[known, span.start]
                if len(np.unique(target)) < 2:
                    continue
                model = self.make_classifier() if span.is_word else self.make_regressor()
                model.fit(np.delete(filled[known], span.at, axis=1), target)
                self.fitted.append((span, model))
                _fill(filled, holes, span, model)
        return self

    def transform(self, table: Floats) -> Floats:
        """Fill other rows."""
        holes = np.isnan(table)
        filled = np.where(holes, self.start, table)
        for span, model in self.fitted:
            _fill(filled, holes, span, model)
        return filled


def _fill(filled: Floats, holes: NDArray[np.bool_], span: Span, model: Any) -> None:
    rows = holes[:, span.start]
    if rows.any():
        said = model.predict(np.delete(filled[rows], span.at, axis=1))
        filled[rows, span.at] = np.eye(span.width + 1)[said][:, 1:] if span.is_word else said[:, None]


def _codes(part: Floats) -> NDArray[np.int64]:
    """Which word each row has: 0 is the one without a column."""
    return np.where(part.any(axis=1), 1 + part.argmax(axis=1), 0)


def chain_forests(seed: int, spans: Sequence[Span]) -> Chained:
    """missForest: as many candidates a split and as small leaves, half its trees, five rounds whatever they bring."""
    n_tried = max(1, int(len(spans) ** 0.5))  # of the table's columns, as there
    return Chained(
        spans,
        lambda: RandomForestRegressor(N_TREES, min_samples_split=6, max_features=n_tried, random_state=seed, n_jobs=1),
        lambda: RandomForestClassifier(N_TREES, max_features=n_tried, random_state=seed, n_jobs=1),
    )


def chain_lines(_: int, spans: Sequence[Span]) -> Chained:
    """Linear and logistic regressions."""
    return Chained(spans, BayesianRidge, lambda: LogisticRegression(max_iter=1000))
