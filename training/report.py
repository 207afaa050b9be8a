"""How good is it, on rows that those who answer have not learnt from: each column asked from all the others."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.answers import n_choices
from model.schema import Feature, Link, Schema
from training.left_out import Teller, Told
from training.tables import Dataset, FitTable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Score:
    """One column's score on left-out rows beside the trivial guess: the table's own mean or most frequent value."""

    table: str
    column: str
    feature: str
    kind: str
    metric: str
    value: float
    trivial: float
    rows: int

    @property
    def wins(self) -> bool:
        return self.value < self.trivial if self.metric == "rmse" else self.value > self.trivial

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score_tables(teller: Teller, dataset: Dataset) -> list[Score]:
    """Score every column of every table on the rows that were left out of it."""
    tables = [table for table in dataset.tables if len(table.truth)]
    return [score for table in tables for score in _score_table(teller, dataset.schema, table)]


def _score_table(teller: Teller, schema: Schema, table: FitTable) -> Iterable[Score]:
    links = {link.feature: link for link in schema.by_table[table.name].links}
    for told in teller.tell(table, table.positions[table.tested]):
        feature = schema.features[table.columns[told.column]]
        training = table.positions[~table.held_out, told.column]
        training = training[~np.isnan(training)]
        if len(training) == 0:
            continue
        metric, value, trivial = _score_column(feature, told, table.truth[told.rows, told.column], training)
        link = links[feature.name]
        unit = _unit(feature, link) if metric == "rmse" else 1.0
        yield Score(
            table=table.name,
            column=link.column,
            feature=feature.name,
            kind=feature.kind,
            metric=metric,
            value=value / unit,
            trivial=trivial / unit,
            rows=len(told.rows),
        )


def _unit(feature: Feature, link: Link) -> float:
    """Errors are told in the column's own unit; those of dates in days."""
    return 86_400.0 if feature.kind == "datetime" else abs(link.scale)


def _score_column(feature: Feature, told: Told, truth: Floats, training: codec.Positions) -> tuple[str, float, float]:
    if feature.is_continuous:
        knots = np.asarray(feature.knots.values)
        seen = np.interp(training, np.arange(len(knots)), knots)
        expected = codec.read_point(feature.knots, told.point)
        return "rmse", _rmse(expected - truth), _rmse(seen.mean() - truth)
    guess = told.logits[:, : n_choices(feature)].argmax(axis=1).astype(np.float64)
    mode = np.full(len(truth), np.bincount(np.rint(training).astype(int)).argmax(), dtype=np.float64)
    if feature.is_number:  # levels
        levels = np.asarray(feature.knots.values)
        guess, mode = levels[guess.astype(int)], levels[mode.astype(int)]
    return "accuracy", float((guess == truth).mean()), float((mode == truth).mean())


def _rmse(errors: Floats) -> float:
    errors = np.abs(errors, dtype=np.float64)
    largest = errors.max(initial=0.0) or 1.0  # squares of 1e200 would overflow
    return float(largest * np.sqrt(np.mean(np.square(errors / largest))))


def format_scores(scores: Sequence[Score]) -> str:
    """The closing table of a fit."""
    heads = ("table", "column", "kind", "rows", "metric", "ours", "trivial", "")
    body = [_row(score) for score in scores]
    widths = [max(len(row[i]) for row in (heads, *body)) for i in range(len(heads))]
    right = {3, 5, 6}
    lines = []
    for row in (heads, *body):
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    won = sum(s.wins for s in scores)
    lines.append(f"better than the trivial guess in {won} of {len(scores)} columns, on rows that were left out")
    return "\n".join(lines)


def _row(s: Score) -> tuple[str, ...]:
    figures = (str(s.rows), s.metric, _show(s.value), _show(s.trivial))
    return (s.table, s.column, s.kind, *figures, "" if s.wins else "not better")


def _show(number: float) -> str:
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    if abs(number) >= 10:
        return f"{number:.1f}"
    return f"{number:.3f}" if abs(number) >= 0.01 or number == 0 else f"{number:.2g}"
