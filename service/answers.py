"""Answers as JSON holds them: lists of plain dictionaries, ready for orjson."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from model.answers import Imputation, Prediction
from model.audit import Suspect
from model.draws import Draws
from model.explain import Experts
from model.schema import Link
from model.single import Readout, RowAnswer

Json = dict[str, Any]


def show_prediction(answer: Prediction, links: Mapping[str, Link], distribution: bool = True) -> list[Json]:
    """One object per row, with its distribution if that is wanted."""
    rows = [{"value": value} for value in answer.values]
    if answer.probability is not None:
        _put(rows, "probability", answer.probability.tolist())
    if answer.median is not None:
        _put(rows, "median", answer.median)
    if answer.interval is not None:
        _put(rows, "interval", answer.interval)
    if distribution:
        _put(rows, "distribution", _distributions(answer))
    if answer.experts is not None:
        _put(rows, "score", answer.experts.score.tolist())
        _put(rows, "base", answer.experts.base.tolist())
        _put(rows, "experts", show_experts(answer.experts, links))
    return rows


def show_row_answer(readout: Readout, answer: RowAnswer, distribution: bool = True) -> Json:
    """The same for a single row."""
    row: Json = {"value": answer.value}
    if answer.probability is not None:
        row["probability"] = answer.probability
    if answer.median is not None:
        row["median"] = answer.median
    if answer.interval is not None:
        row["interval"] = answer.interval
    if not distribution:
        return row
    if readout.lows:
        parts = zip(readout.lows, readout.highs, answer.pieces, strict=True)
        row["distribution"] = [{"low": low, "high": high, "probability": p} for low, high, p in parts]
    else:
        choices = zip(readout.choices, answer.pieces, strict=True)
        row["distribution"] = sorted(({"value": v, "probability": p} for v, p in choices), key=_by_probability)
    return row


def _put(rows: list[Json], key: str, values: Sequence[Any]) -> None:
    for row, value in zip(rows, values, strict=True):
        row[key] = value


def _distributions(answer: Prediction) -> list[list[Json]]:
    mass = answer.mass.tolist()
    if answer.lows is None or answer.highs is None:
        choices = answer.choices or []
        return [
            sorted(({"value": v, "probability": p} for v, p in zip(choices, row, strict=True)), key=_by_probability)
            for row in mass
        ]
    ends = list(zip(answer.lows, answer.highs, strict=True))
    return [
        [{"low": low, "high": high, "probability": p} for (low, high), p in zip(ends, row, strict=True)] for row in mass
    ]


def _by_probability(choice: Json) -> float:
    return -float(choice["probability"])


def show_experts(experts: Experts, links: Mapping[str, Link]) -> list[list[Json]]:
    """The observed columns of each row, those that moved the answer most first."""
    names = [(column, links[column].feature) for column in experts.columns]
    parts = zip(experts.observed.tolist(), experts.weights.tolist(), experts.contributions.tolist(), strict=True)
    return [
        sorted(
            (
                {"feature": feature, "column": column, "weight": weight, "contribution": contribution}
                for (column, feature), seen, weight, contribution in zip(names, *row, strict=True)
                if seen
            ),
            key=lambda expert: -abs(expert["contribution"]),
        )
        for row in parts
    ]


def show_imputation(
    answer: Imputation, rows: Sequence[Json], links: Mapping[str, Link]
) -> tuple[list[Json], list[Json]]:
    """The completed rows, and what was put where, row by row. Observed cells are passed on as they came."""
    completed = [dict(row) for row in rows]
    imputed: list[Json] = []
    for column, where in answer.rows.items():
        filled = answer.filled[column]
        experts = show_experts(filled.experts, links) if filled.experts is not None else None
        probability = repeat(None) if filled.probability is None else filled.probability.tolist()
        cells = zip(where.tolist(), filled.values, probability, filled.interval or repeat(None), strict=False)
        for i, (row, value, p, interval) in enumerate(cells):
            completed[row][column] = value
            cell = {"row": row, "column": column, "value": value, "probability": p, "interval": interval}
            if experts is not None and filled.experts is not None:
                cell |= {"score": float(filled.experts.score[i]), "base": float(filled.experts.base[i])}
                cell["experts"] = experts[i]
            imputed.append(cell)
    imputed.sort(key=lambda cell: cell["row"])
    return completed, imputed


def show_draws(draws: Draws, rows: Sequence[Json], n_draws: int) -> list[list[Json]]:
    """The completed rows, once per draw."""
    copies = [[dict(row) for row in rows] for _ in range(n_draws)]
    for column, where in draws.rows.items():
        for copy, values in zip(copies, draws.values[column], strict=True):
            for row, value in zip(where.tolist(), values, strict=True):
                copy[row][column] = value
    return copies


def show_suspect(suspect: Suspect, links: Mapping[str, Link]) -> Json:
    """A surprising cell, what was expected in its place, and who says so."""
    expected = suspect.expected
    experts = show_experts(expected.experts, links)[0] if expected.experts is not None else []
    return {
        "row": suspect.row,
        "column": suspect.column,
        "value": suspect.value,
        "surprise": suspect.surprise,
        "expected": expected.values[0],
        "interval": expected.interval[0] if expected.interval else None,
        "probability": float(expected.probability[0]) if expected.probability is not None else None,
        "experts": [expert for expert in experts if expert["column"] != suspect.column],
    }
