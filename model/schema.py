"""What a feature is, and how the columns of a table map onto features.

A **column** belongs to a table; a **feature** is what the model knows. Several columns of
several tables may be one feature, each in its own unit.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

from model.bends import Bend, check_bends
from model.errors import FamilyError

Kind = Literal["numeric", "ordinal", "categorical", "boolean", "datetime"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NUMBER_KINDS: frozenset[Kind] = frozenset({"numeric", "ordinal", "datetime"})

# The word that stands for all rare categories of a feature; shown in distributions, never predicted.
OTHER = "(other)"


@dataclass(frozen=True, slots=True)
class Bins:
    """The knots of a number feature: a cell is read between its two neighbouring knots.

    ``values`` ascend; ``atoms`` marks knots at which many rows sit exactly (ties, levels);
    ``ranks`` is the share of training rows below each knot, in [0, 1]. The network's expected value
    is in units of ``spread`` from ``mean``. ``bends`` tell how rows lie between knots where that is not
    evenly, see model.bends.
    """

    values: tuple[float, ...]
    atoms: tuple[bool, ...]
    ranks: tuple[float, ...]
    mean: float
    spread: float
    bends: tuple[Bend, ...] = ()

    @property
    def edges(self) -> tuple[float, ...]:
        """Where the nearest knot changes: one more than there are knots."""
        v = self.values
        return (v[0], *((a + b) / 2 for a, b in pairwise(v)), v[-1])


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing the model knows: numbers carry ``bins``, the others ``categories``.

    ``rare`` lists training categories too seldom for a value of their own: they are read as
    ``OTHER``. ``date_only`` says that a datetime is given back without a time of day.
    ``shares`` is how often each value occurs in the training rows.
    """

    name: str
    kind: Kind
    bins: Bins | None = None
    categories: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    date_only: bool = False
    shares: tuple[float, ...] = ()

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBER_KINDS

    @property
    def is_continuous(self) -> bool:
        """Whether its values lie on a line: a number that is no level."""
        return self.kind in ("numeric", "datetime")

    @property
    def knots(self) -> Bins:
        """The bins of a number feature."""
        if self.bins is None:
            raise TypeError(f"feature {self.name!r} is {self.kind}: it has no bins")
        return self.bins

    @property
    def has_other(self) -> bool:
        return bool(self.rare)

    @property
    def n_values(self) -> int:
        """How many values the softmax of this feature runs over."""
        return len(self.knots.values) if self.is_number else len(self.categories) + self.has_other

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a category feature, in the order of its values."""
        return (*self.categories, OTHER) if self.has_other else self.categories


@dataclass(frozen=True, slots=True)
class Link:
    """A column of a table and the feature it is: feature value = cell * scale + offset."""

    column: str
    feature: str
    scale: float = 1.0
    offset: float = 0.0
    # Cells that mean missing in this column, beside empty ones.
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table the model was fitted on: its columns, linked to features, and what was left out."""

    name: str
    links: tuple[Link, ...]
    rows: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Schema:
    """All features, in the order of the network's tables, and all tables that map onto them."""

    features: tuple[Feature, ...]
    tables: tuple[Table, ...] = ()

    @cached_property
    def index(self) -> dict[str, int]:
        return {feature.name: i for i, feature in enumerate(self.features)}

    @cached_property
    def by_table(self) -> dict[str, Table]:
        return {table.name: table for table in self.tables}

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All distinct category words of all features, sorted: equal strings share a word."""
        return tuple(sorted({w for f in self.features if not f.is_number for w in f.words}))

    @property
    def n_values(self) -> int:
        """The most values any feature has: the padded width of the network's answers."""
        return max(feature.n_values for feature in self.features)

    def tables_of(self, feature: str) -> tuple[str, ...]:
        return tuple(t.name for t in self.tables if any(k.feature == feature for k in t.links))

    def digest(self) -> str:
        """A fingerprint of the features; model.onnx carries it, so a swapped network is found."""
        text = json.dumps(features_to_json(self.features), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def check_kind(kind: str, where: str) -> Kind:
    """Return ``kind`` as a Kind, or say which ones there are."""
    for known in KINDS:
        if kind == known:
            return known
    raise FamilyError(f"{where}: {kind!r} is no kind; the kinds are {', '.join(KINDS)}")


def features_to_json(features: Iterable[Feature]) -> list[dict[str, Any]]:
    """Features as bundle.json holds them."""
    return [_feature_to_json(feature) for feature in features]


def _feature_to_json(feature: Feature) -> dict[str, Any]:
    out: dict[str, Any] = {"name": feature.name, "kind": feature.kind}
    if feature.bins is not None:
        out["bins"] = {**asdict(feature.bins), "edges": feature.bins.edges}
        if not feature.bins.bends:  # bundles of before have none: their features' fingerprint stays
            del out["bins"]["bends"]
        out["date_only"] = feature.date_only
    else:
        out |= {"categories": feature.categories, "rare": feature.rare}
    out["shares"] = feature.shares
    normal: dict[str, Any] = json.loads(json.dumps(out))  # tuples become lists, as in the file
    return normal


def feature_from_json(raw: Mapping[str, Any]) -> Feature:
    """The inverse of ``features_to_json`` for one feature; raises KeyError, TypeError, ValueError."""
    bins = raw.get("bins")
    return Feature(
        name=str(raw["name"]),
        kind=check_kind(raw["kind"], f"feature {raw['name']!r}"),
        bins=None if bins is None else _bins_from_json(bins),
        categories=tuple(map(str, raw.get("categories", ()))),
        rare=tuple(map(str, raw.get("rare", ()))),
        date_only=bool(raw.get("date_only", False)),
        shares=tuple(map(float, raw["shares"])),
    )


def _bins_from_json(raw: Mapping[str, Any]) -> Bins:
    values = tuple(map(float, raw["values"]))
    bends = tuple((float(value), float(share)) for value, share in raw.get("bends", ()))
    check_bends(bends, values)
    return Bins(
        values=values,
        atoms=tuple(map(bool, raw["atoms"])),
        ranks=tuple(map(float, raw["ranks"])),
        mean=float(raw["mean"]),
        spread=float(raw["spread"]),
        bends=bends,
    )


def table_to_json(table: Table) -> dict[str, Any]:
    """A table as bundle.json holds it."""
    columns = {}
    for link in table.links:
        columns[link.column] = {"feature": link.feature, "scale": link.scale, "offset": link.offset}
        if link.missing:
            columns[link.column]["missing"] = list(link.missing)
    return {"name": table.name, "rows": table.rows, "columns": columns, "left_out": dict(table.left_out)}


def table_from_json(raw: Mapping[str, Any]) -> Table:
    """The inverse of ``table_to_json``."""
    links = tuple(
        Link(
            column=str(column),
            feature=str(spec["feature"]),
            scale=float(spec.get("scale", 1.0)),
            offset=float(spec.get("offset", 0.0)),
            missing=tuple(map(str, spec.get("missing", ()))),
        )
        for column, spec in raw["columns"].items()
    )
    return Table(str(raw["name"]), links, int(raw["rows"]), dict(raw.get("left_out", {})))
