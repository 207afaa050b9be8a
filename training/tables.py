"""Join the columns of several tables into features, and turn every cell into its position."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.errors import FamilyError, TableError, list_some
from model.schema import Feature, Link, Schema, Table
from training.family import Family, TableSpec, Unit
from training.features import Source, encode_source, fit_feature, infer_kind
from training.folds import deal
from training.kinds import ONLY_MISSING, why_leave_out
from training.pieces import IGNORED
from training.reading import RawTable, read_table

MIN_ROWS = 8
HELD_OUT_SHARE = 0.15
MOST_HELD_OUT = 20_000
# Up to so many rows and cells, rows may be left out in turn: dealt into folds, all of them teach, and all of them test.
MOST_FOLDED_ROWS, MOST_FOLDED_CELLS = 4_000, 200_000


@dataclass(frozen=True, slots=True)
class FitTable:
    """A table ready to be fitted: N rows of S columns.

    ``columns`` (S,): which feature each column is. ``positions`` (N, S): where its cells sit, NaN
    for missing. ``held_out`` (N,): rows that no part of the fit may learn from. ``fold`` (N,), where rows are
    left out in turn instead: which fold each is in; some of the members learn nothing from it. ``truth``
    (rows left out for good or in turn, S): their numbers as they are, beyond the fitted range too; the index of their
    words, -1 for words never seen in training; NaN for missing.
    """

    name: str
    columns: NDArray[np.int64]
    positions: codec.Positions
    held_out: NDArray[np.bool_]
    truth: NDArray[np.float64]
    fold: NDArray[np.int64] | None = None

    @property
    def tested(self) -> NDArray[np.bool_]:
        """(N,): the rows of which somebody can tell who has not learnt from them."""
        return self.held_out if self.fold is None else np.ones_like(self.held_out)


@dataclass(frozen=True, slots=True)
class Dataset:
    """All tables of a family over one schema."""

    name: str
    schema: Schema
    tables: tuple[FitTable, ...]
    target: str | None = None

    @property
    def n_rows(self) -> int:
        return sum(len(table.positions) for table in self.tables)

    @property
    def n_held_out(self) -> int:
        return sum(int(table.held_out.sum()) for table in self.tables)

    @property
    def is_folded(self) -> bool:
        """Whether rows are left out in turn, and none for good."""
        return all(table.fold is not None for table in self.tables)

    @property
    def n_cells(self) -> int:
        return sum(table.positions.size for table in self.tables)

    def n_known(self) -> NDArray[np.float32]:
        """(F,): how many training rows know each feature."""
        counts = np.zeros(len(self.schema.features), dtype=np.float32)
        for table in self.tables:
            counts[table.columns] += (~np.isnan(table.positions[~table.held_out])).sum(axis=0)
        return counts

    def company(self) -> NDArray[np.float32]:
        """(F, F): of the training rows that know the one feature, the share that knows the other as well."""
        both = np.zeros((len(self.schema.features),) * 2, dtype=np.float32)
        for table in self.tables:
            known = (~np.isnan(table.positions[~table.held_out])).astype(np.float32)
            both[np.ix_(table.columns, table.columns)] += known.T @ known
        return (both / np.maximum(np.diag(both)[:, None], 1.0)).astype(np.float32)


def load_family(
    family: Family,
    *,
    max_rows: int | None = None,
    seed: int = 0,
    held_out: float = HELD_OUT_SHARE,
    in_turn: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Dataset:
    """Read all tables of a family and encode them; ``say`` is told what is left out and why.

    ``held_out``: the share of each table's rows that nothing is learnt from, for honest scores; 0 for none.
    ``in_turn``: where no target is named and rows are few, none is held out for good, whatever ``held_out`` is, but
    each is left out by some members.
    """
    raws = [read_table(spec, max_rows, seed, _categories_of(family, spec)) for spec in family.tables]
    return build_dataset(family, raws, seed=seed, held_out=held_out, in_turn=in_turn, say=say)


def _categories_of(family: Family, spec: TableSpec) -> frozenset[str]:
    """Columns that family.toml says are categories: their text is taken as it stands."""
    features = {feature for feature, kind in family.kinds.items() if kind == "categorical"}
    columns = {column for column, feature in spec.rename.items() if feature in features}
    return frozenset(columns | (features - set(spec.rename)))


def build_dataset(
    family: Family,
    raws: Sequence[RawTable],
    *,
    seed: int = 0,
    held_out: float = HELD_OUT_SHARE,
    in_turn: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Dataset:
    """Decide the features, fit their codecs on training rows, encode every row; options as of ``load_family``."""
    in_turn = in_turn and family.target is None and _can_be_folded(raws)
    held = [_hold_out(raw, 0.0 if in_turn else held_out, seed, i) for i, raw in enumerate(raws)]
    left_out = [dict(raw.skipped) for raw in raws]
    groups = _group(family, raws, held, left_out)
    features = {}
    for name, sources in groups.items():
        kind = family.kinds.get(name) or infer_kind(name, sources)
        feature = fit_feature(name, kind, sources)
        if feature.n_values < 2:
            for source in sources:
                left_out[raws.index(source.table)][source.column.name] = "constant in the training rows"
        else:
            features[name] = feature
    for raw, out in zip(raws, left_out, strict=True):
        for column, reason in out.items():
            if reason != IGNORED:
                say(f"{raw.spec.name}: {column!r} left out ({reason})")
    _check_named(family, features, left_out)
    schema = Schema(tuple(features.values()))
    tables = tuple(
        _encode(raw, groups, schema, rows, out, fold_seed=seed + i if in_turn else None)
        for i, (raw, rows, out) in enumerate(zip(raws, held, left_out, strict=True))
    )
    links = tuple(_link(raw, groups, schema, out) for raw, out in zip(raws, left_out, strict=True))
    return Dataset(family.name, replace(schema, tables=links), tables, family.target)


def _can_be_folded(raws: Sequence[RawTable]) -> bool:
    n_cells = sum(raw.n_rows * len(raw.columns) for raw in raws)
    return sum(raw.n_rows for raw in raws) <= MOST_FOLDED_ROWS and n_cells <= MOST_FOLDED_CELLS


def _hold_out(raw: RawTable, share: float, seed: int, index: int) -> NDArray[np.bool_]:
    if raw.n_rows < MIN_ROWS:
        raise TableError(f"table {raw.spec.name!r}: {raw.n_rows} rows to fit on; at least {MIN_ROWS} are needed")
    held = np.zeros(raw.n_rows, dtype=bool)
    n = min(MOST_HELD_OUT, max(1, round(share * raw.n_rows))) if share > 0.0 else 0
    held[np.random.default_rng([seed, index]).permutation(raw.n_rows)[:n]] = True
    return held


def _group(
    family: Family, raws: Sequence[RawTable], held_out: Sequence[NDArray[np.bool_]], left_out: list[dict[str, str]]
) -> dict[str, list[Source]]:
    """The columns of each feature, over all tables, in the order in which features first appear."""
    groups: dict[str, list[Source]] = {}
    for raw, held, out in zip(raws, held_out, left_out, strict=True):
        for column in raw.columns:
            feature = raw.spec.rename.get(column.name, column.name)
            if feature not in family.kinds:
                reason = why_leave_out(raw.spec.name, column)
            else:
                reason = None if column.known.any() else ONLY_MISSING
            if reason:
                out[column.name] = reason
                continue
            source = Source(raw, column, raw.spec.units.get(feature, Unit()), ~held)
            _check_alone(feature, source, groups.get(feature, []))
            groups.setdefault(feature, []).append(source)
    return groups


def _check_alone(feature: str, source: Source, others: Sequence[Source]) -> None:
    for other in others:
        if other.table is source.table:
            raise FamilyError(
                f"table {source.table.spec.name!r}: columns {other.column.name!r} and {source.column.name!r} are both "
                f"the feature {feature!r}; rename one of them, or ignore it, in family.toml"
            )


def _encode(
    raw: RawTable,
    groups: Mapping[str, Sequence[Source]],
    schema: Schema,
    held_out: NDArray[np.bool_],
    left_out: Mapping[str, str],
    *,
    fold_seed: int | None,
) -> FitTable:
    """``fold_seed``: rows are left out in turn, dealt with this seed."""
    mine = [(schema.index[name], s) for name in schema.index for s in groups[name] if s.table is raw]
    if len(mine) < 2:
        reasons = list_some([f"{column!r} is left out ({reason})" for column, reason in left_out.items()])
        raise TableError(
            f"table {raw.spec.name!r}: {len(mine)} usable column(s); at least two are needed, for one to be "
            f"predicted from the others; {reasons}"
        )
    positions = np.empty((raw.n_rows, len(mine)), dtype=np.float32)
    is_tested = held_out if fold_seed is None else np.ones_like(held_out)
    truth = np.empty((int(is_tested.sum()), len(mine)))
    for j, (index, source) in enumerate(mine):
        feature = schema.features[index]
        positions[:, j] = encode_source(source, feature)
        tested = positions[is_tested, j].astype(np.float64)
        unseen = np.isnan(tested) & source.column.known[is_tested]
        truth[:, j] = source.numbers()[is_tested] if feature.is_number else np.where(unseen, -1.0, tested)
    fold = None if fold_seed is None else deal(positions, fold_seed)
    return FitTable(raw.spec.name, np.asarray([i for i, _ in mine]), positions, held_out, truth, fold)


def _link(raw: RawTable, groups: Mapping[str, Sequence[Source]], schema: Schema, left_out: Mapping[str, str]) -> Table:
    links = [
        Link(s.column.name, name, s.unit.scale, s.unit.offset, raw.spec.codes_of(s.column.name))
        for name in schema.index
        for s in groups[name]
        if s.table is raw
    ]
    # A column that is empty here and known elsewhere taught nothing, but can be filled.
    for column in (c.name for c in raw.columns if left_out.get(c.name) == ONLY_MISSING):
        feature = raw.spec.rename.get(column, column)
        if feature in schema.index:
            unit = raw.spec.units.get(feature, Unit())
            links.append(Link(column, feature, unit.scale, unit.offset, raw.spec.codes_of(column)))
    return Table(raw.spec.name, tuple(links), raw.n_rows, left_out)


def _check_named(family: Family, features: Mapping[str, Feature], left_out: Sequence[Mapping[str, str]]) -> None:
    """What family.toml says of features must be about features that there are, or could have been."""
    dropped: dict[str, str] = {}
    for spec, out in zip(family.tables, left_out, strict=True):
        dropped |= {spec.rename.get(column, column): reason for column, reason in out.items()}
    if family.target is not None and family.target not in features and family.target in dropped:
        raise FamilyError(f"the target {family.target!r} is no feature: it is left out ({dropped[family.target]})")
    said = {*family.kinds, *([family.target] if family.target else [])}
    said |= {feature for spec in family.tables for feature in spec.units}
    unknown = sorted(said - set(features) - set(dropped))
    if unknown:
        raise FamilyError(
            f"family {family.name!r} speaks of features that no table has: "
            f"{list_some([repr(n) for n in unknown], ', ')}; "
            f"the features are {list_some([repr(n) for n in features], ', ')}"
        )
