"""What is asked of a file, and what came of it. No pyarrow here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from model.errors import CellError, CellProblem
from model.requests import nearest, tell_strangers
from model.runtime import Predictor
from model.schema import Feature, Link

Format = Literal["csv", "parquet", "arrow"]


@dataclass(frozen=True)
class FileAsk:
    """``links`` says what the file's column names mean; ``columns`` which to fill (default: all of the
    table's, or, without a table, those of the file that are known). Unless ``append``, none is added to the file.
    ``to_ignore`` is how the caller asks to pass over columns nobody knows.
    """

    predictor: Predictor
    links: Mapping[str, Link]
    table: str | None = None
    columns: tuple[str, ...] | None = None
    unknown: Literal["refuse", "ignore"] = "refuse"
    interval: float | None = None
    most_rows: int | None = None
    append: bool = True
    to_ignore: str = "unknown=ignore"


@dataclass(frozen=True)
class FileReport:
    """How many rows there were, how many cells were filled, and in which columns."""

    rows: int
    filled: int
    columns: Mapping[str, int]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a file's columns are: ``read`` are evidence, ``wanted`` get their holes filled, and those
    of them that the file lacks are ``appended``. Column names are the file's own.
    """

    links: dict[str, Link]
    features: dict[str, Feature]
    read: tuple[str, ...]
    wanted: tuple[str, ...] = ()
    appended: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_impute(ask: FileAsk, names: Sequence[str]) -> Plan:
    """Which columns of a file are evidence and which are to be filled."""
    if ask.columns is not None:
        wanted = tuple(dict.fromkeys(ask.columns))
    elif ask.table is not None:
        wanted = tuple(ask.links)
    else:
        wanted = tuple(name for name in names if name in ask.links)
    if not ask.append:
        wanted = tuple(name for name in wanted if name in names)
    plan = _plan(ask, names, wanted)
    return replace(plan, wanted=wanted, appended=tuple(name for name in wanted if name not in names))


def plan_predict(ask: FileAsk, names: Sequence[str], target: str, *, convert: bool = False) -> Plan:
    """The same for one target; its own cells are read only to ``convert`` them to another format."""
    plan = _plan(ask, names, (target,))
    return plan if convert else replace(plan, read=tuple(name for name in plan.read if name != target))


def plan_read(ask: FileAsk, names: Sequence[str]) -> Plan:
    """The same for a file that is only read."""
    return _plan(ask, names, ())


def _plan(ask: FileAsk, names: Sequence[str], asked: tuple[str, ...]) -> Plan:
    links = {**ask.links, **{name: _resolve(ask, name) for name in asked}}
    warnings = _meet_unknown(ask, [name for name in names if name and name not in links], names)
    schema = ask.predictor.schema
    features = {name: schema.features[schema.index[link.feature]] for name, link in links.items()}
    return Plan(links, features, tuple(name for name in names if name in links), warnings=warnings)


def _resolve(ask: FileAsk, name: str) -> Link:
    if name in ask.links:
        return ask.links[name]
    if name in ask.predictor.schema.index:
        return Link(name, name)
    raise CellError([CellProblem(None, name, f"there is no such column{nearest(name, ask.links)}")])


def _meet_unknown(ask: FileAsk, strangers: list[str], names: Sequence[str]) -> tuple[str, ...]:
    """Columns nobody knows: refused, or named in a warning. Those left out of the fit pass."""
    tables = ask.predictor.schema.by_table
    left_out = tables[ask.table].left_out if ask.table in tables else {}
    strangers = [name for name in strangers if name not in left_out]
    said = dict(tell_strangers(strangers, ask.links))
    if strangers and ask.unknown == "refuse":
        hint = "; is the first line of the file a header?" if len(strangers) == len(names) else ""
        way_out = f" ({ask.to_ignore} passes over columns nobody knows)"
        raise CellError([CellProblem(None, name, message) for name, message in said.items()], hint + way_out)
    return tuple(f"column {name!r} ignored: {message}" for name, message in said.items())
