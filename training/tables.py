"""Join the columns of several tables into features, and turn every cell into its position."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.errors import FamilyError, TableError, list_some
from model.schema import NUMBER_KINDS, Feature, Kind, Link, Schema, Table
from training.family import Family, Unit
from training.kinds import choose_categories, kind_of_numbers, why_leave_out
from training.pieces import IGNORED
from training.reading import RawColumn, RawTable, read_table

MIN_ROWS = 8
HELD_OUT_SHARE = 0.15
MOST_HELD_OUT = 20_000
# Rare categories are listed in the bundle, so that they are told from words never seen.
MOST_RARE = 10_000
BOOLEAN_WORDS = {"true": "true", "yes": "true", "y": "true", "t": "true", "1": "true"} | {
    "false": "false", "no": "false", "n": "false", "f": "false", "0": "false",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FitTable:
    """A table ready to be fitted: N rows of S columns.

    ``columns`` (S,): which feature each column is. ``positions`` (N, S): where its cells sit, NaN
    for missing. ``held_out`` (N,): rows that no part of the fit may learn from.
    """

    name: str
    columns: NDArray[np.int64]
    positions: codec.Positions
    held_out: NDArray[np.bool_]


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

    def heard(self) -> NDArray[np.bool_]:
        """(F, F): whether any training row knows both features, so that one can tell of the other."""
        both = np.zeros((len(self.schema.features),) * 2, dtype=bool)
        for table in self.tables:
            known = (~np.isnan(table.positions[~table.held_out])).astype(np.float32)
            both[np.ix_(table.columns, table.columns)] |= (known.T @ known) > 0
        return both


@dataclass(frozen=True, slots=True)
class _Source:
    """One column of one table that is to become a feature."""

    table: RawTable
    column: RawColumn
    unit: Unit
    training: NDArray[np.bool_]

    @property
    def where(self) -> str:
        return f"table {self.table.spec.name!r} column {self.column.name!r}"

    def numbers(self) -> NDArray[np.float64]:
        return self.column.numbers * self.unit.scale + self.unit.offset


def load_family(
    family: Family, *, max_rows: int | None = None, seed: int = 0, say: Callable[[str], None] = lambda _: None
) -> Dataset:
    """Read all tables of a family and encode them; ``say`` is told what is left out and why."""
    raws = [read_table(spec, max_rows, seed) for spec in family.tables]
    return build_dataset(family, raws, seed=seed, say=say)


def build_dataset(
    family: Family, raws: Sequence[RawTable], *, seed: int = 0, say: Callable[[str], None] = lambda _: None
) -> Dataset:
    """Decide the features, fit their codecs on training rows, encode every row."""
    held_out = [_hold_out(raw, seed, i) for i, raw in enumerate(raws)]
    left_out = [dict(raw.skipped) for raw in raws]
    groups = _group(family, raws, held_out, left_out)
    features = {}
    for name, sources in groups.items():
        kind = family.kinds.get(name) or _infer_kind(name, sources)
        feature = _fit_feature(name, kind, sources)
        if feature.n_values < 2:
            for source in sources:
                left_out[raws.index(source.table)][source.column.name] = "constant: the same value in every row"
        else:
            features[name] = feature
    _check_named(family, features, left_out)
    schema = Schema(tuple(features.values()))
    tables = tuple(_encode(raw, groups, schema, held) for raw, held in zip(raws, held_out, strict=True))
    for raw, out in zip(raws, left_out, strict=True):
        for column, reason in out.items():
            if reason != IGNORED:
                say(f"{raw.spec.name}: {column!r} left out ({reason})")
    links = tuple(_link(raw, groups, schema, out) for raw, out in zip(raws, left_out, strict=True))
    return Dataset(family.name, replace(schema, tables=links), tables, family.target)


def _hold_out(raw: RawTable, seed: int, index: int) -> NDArray[np.bool_]:
    if raw.n_rows < MIN_ROWS:
        raise TableError(f"table {raw.spec.name!r}: it has {raw.n_rows} rows; at least {MIN_ROWS} are needed")
    held = np.zeros(raw.n_rows, dtype=bool)
    n = min(MOST_HELD_OUT, max(1, round(HELD_OUT_SHARE * raw.n_rows)))
    held[np.random.default_rng([seed, index]).permutation(raw.n_rows)[:n]] = True
    return held


def _group(
    family: Family, raws: Sequence[RawTable], held_out: Sequence[NDArray[np.bool_]], left_out: list[dict[str, str]]
) -> dict[str, list[_Source]]:
    """The columns of each feature, over all tables, in the order in which features first appear."""
    groups: dict[str, list[_Source]] = {}
    for raw, held, out in zip(raws, held_out, left_out, strict=True):
        for column in raw.columns:
            feature = raw.spec.rename.get(column.name, column.name)
            reason = why_leave_out(column)
            if reason and (feature not in family.kinds or not column.known.any()):
                out[column.name] = reason
                continue
            source = _Source(raw, column, raw.spec.units.get(feature, Unit()), ~held)
            _check_alone(feature, source, groups.get(feature, []))
            groups.setdefault(feature, []).append(source)
    return groups


def _check_alone(feature: str, source: _Source, others: Sequence[_Source]) -> None:
    for other in others:
        if other.table is source.table:
            raise FamilyError(
                f"table {source.table.spec.name!r}: columns {other.column.name!r} and {source.column.name!r} are both "
                f"the feature {feature!r}; rename one of them, or ignore it, in family.toml"
            )


def _infer_kind(name: str, sources: Sequence[_Source]) -> Kind:
    first = sources[0]
    for other in sources[1:]:
        if other.column.storage != first.column.storage:
            raise FamilyError(_say_clash(name, first, other))
    for source in sources:
        if source.unit != Unit() and source.column.storage != "number":
            raise FamilyError(f"{source.where}: it has a unit in family.toml, but it holds {_example(source.column)}")
    match first.column.storage:
        case "number":
            return kind_of_numbers([source.numbers() for source in sources])
        case "text":
            return "categorical"
        case storage:
            return storage


def _say_clash(name: str, one: _Source, two: _Source) -> str:
    return (
        f"feature {name!r} is {one.column.storage} in table {one.table.spec.name!r} ({_example(one.column)}) but "
        f"{two.column.storage} in table {two.table.spec.name!r} ({_example(two.column)}); in family.toml keep them apart "
        f'with rename = {{ {two.column.name} = "{name}_{two.table.spec.name}" }} under [tables.{two.table.spec.name}], '
        f"list codes for missing cells there, or read both as words with {name} = \"categorical\" under [kinds]"
    )


def _example(column: RawColumn) -> str:
    """A cell that shows what the column holds: for text, one that is no number."""
    if column.storage in ("text", "boolean"):
        strange = [word for word in column.words if not word.replace(".", "", 1).lstrip("-").isdigit()]
        return f"e.g. {(strange or column.words)[0]!r}"
    return f"e.g. {column.numbers[column.known][0]:g}"


def _fit_feature(name: str, kind: Kind, sources: Sequence[_Source]) -> Feature:
    if kind in NUMBER_KINDS:
        return _fit_numbers(name, kind, sources)
    counts: dict[str, int] = {}
    for source in sources:
        words, codes = _words(source, kind)
        seen = codes[source.training & (codes >= 0)]
        for word, count in zip(words, np.bincount(seen, minlength=len(words)).tolist(), strict=True):
            if count:
                counts[word] = counts.get(word, 0) + count
    categories, rare = choose_categories(counts)
    if kind == "boolean" and len(counts) == 2:
        categories = ("false", "true")
    return _with_shares(Feature(name, kind, categories=categories, rare=rare[:MOST_RARE]), sources)


def _fit_numbers(name: str, kind: Kind, sources: Sequence[_Source]) -> Feature:
    for source in sources:
        if source.column.storage not in ("number", "datetime"):
            raise FamilyError(
                f"feature {name!r} should be {kind}, but {source.where} holds text ({_example(source.column)}); "
                "list codes that mean missing under missing, or change its kind in family.toml"
            )
    parts = [source.numbers()[source.training] for source in sources]
    values = np.concatenate([part[~np.isnan(part)] for part in parts])
    if len(values) == 0:
        values = np.zeros(1)
    bins = codec.fit_bins(values, 64 if kind == "ordinal" else codec.N_BINS)
    date_only = kind == "datetime" and bool(np.all(values % 86_400 == 0))
    return _with_shares(Feature(name, kind, bins, date_only=date_only), sources)


def _with_shares(feature: Feature, sources: Sequence[_Source]) -> Feature:
    positions = np.concatenate([_positions(source, feature)[source.training] for source in sources])
    return replace(feature, shares=codec.fit_shares(positions, max(1, feature.n_values)))


def _words(source: _Source, kind: Kind) -> tuple[list[str], NDArray[np.int64]]:
    """A column as words and codes (N,), indices into the words, -1 for missing."""
    column = source.column
    if column.storage in ("text", "boolean"):
        words, codes = column.words, column.codes.astype(np.int64)
    else:
        distinct, codes = np.unique(column.numbers, return_inverse=True)
        words = [codec.word_of(float(number)) for number in distinct if not np.isnan(number)]
        codes = np.where(column.known, codes, -1)
    if kind == "boolean":
        words = [_boolean_word(word, source) for word in words]
    return words, codes


def _boolean_word(word: str, source: _Source) -> str:
    try:
        return BOOLEAN_WORDS[word.lower()]
    except KeyError:
        raise FamilyError(f"{source.where}: {word!r} is not boolean; true, false, yes, no, 1 and 0 are") from None


def _positions(source: _Source, feature: Feature) -> codec.Positions:
    if feature.is_number:
        return codec.encode_numbers(feature, source.numbers())
    words, codes = _words(source, feature.kind)
    # Code -1, a missing cell, finds the None at the end.
    return codec.encode_words(feature, [*words, None])[codes]


def _encode(
    raw: RawTable, groups: Mapping[str, Sequence[_Source]], schema: Schema, held_out: NDArray[np.bool_]
) -> FitTable:
    mine = [(schema.index[n], s) for n in schema.index for s in groups[n] if s.table is raw]
    if len(mine) < 2:
        raise TableError(
            f"table {raw.spec.name!r}: {len(mine)} usable column(s) of {len(raw.columns) + len(raw.skipped)}; at least "
            "two are needed, for one to be predicted from the others"
        )
    positions = np.empty((raw.n_rows, len(mine)), dtype=np.float32)
    for j, (index, source) in enumerate(mine):
        positions[:, j] = _positions(source, schema.features[index])
    return FitTable(raw.spec.name, np.asarray([i for i, _ in mine]), positions, held_out)


def _link(
    raw: RawTable, groups: Mapping[str, Sequence[_Source]], schema: Schema, left_out: Mapping[str, str]
) -> Table:
    links = tuple(
        Link(s.column.name, name, s.unit.scale, s.unit.offset, raw.spec.codes_of(s.column.name))
        for name in schema.index
        for s in groups[name]
        if s.table is raw
    )
    return Table(raw.spec.name, links, raw.n_rows, left_out)


def _check_named(family: Family, features: Mapping[str, Feature], left_out: Sequence[Mapping[str, str]]) -> None:
    """What family.toml says of features must be about features that there are."""
    said = {*family.kinds, *([family.target] if family.target else [])}
    said |= {feature for spec in family.tables for feature in spec.units}
    dropped = {column for out in left_out for column in out}
    unknown = sorted(name for name in said if name not in features and name not in dropped)
    if unknown:
        raise FamilyError(
            f"family {family.name!r} speaks of features that no table has: {list_some([repr(n) for n in unknown], ', ')}; "
            f"the features are {list_some([repr(n) for n in features], ', ')}"
        )


