"""Columns that come beside answers: how sure each is, and the number of a copy."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from model.answers import Prediction
from model.errors import TableError
from service.files.ask import Plan
from service.files.fills import COPY, Added


def sure_columns(plan: Plan, name: str) -> Added:
    """NAME_low and NAME_high, or NAME_probability for levels and categories."""
    feature = plan.features[name]
    if feature.is_continuous:
        return {f"{name}_low": feature, f"{name}_high": feature}
    return {f"{name}_probability": None}


def tell_sure(plan: Plan, name: str, told: Prediction) -> Iterator[tuple[str, Sequence[Any]]]:
    """What stands in these columns, one cell for each answer."""
    cells: list[Any] = [told.probability]
    if told.interval is not None and plan.features[name].is_continuous:
        cells = list(zip(*told.interval, strict=True))
    yield from zip(sure_columns(plan, name), cells, strict=True)


def check_free(added: Collection[str], names: Collection[str]) -> None:
    """Columns that are added must not have the name of another."""
    taken = next((name for name in added if name in names), None)
    if taken is not None:
        what = "the number of each copy goes" if taken == COPY else "answers go"
        raise TableError(f"the file has a column {taken!r} already; rename or remove it: {what} there")
