"""A new table beside the features of a bundle: which of its columns are known features, which are new ones.

Known features keep their codec: words they never had are missing, numbers beyond their range are clamped. New ones are
fitted on the new table's training rows, as in a fit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.errors import FamilyError, TableError, list_some
from model.requests import nearest
from model.schema import Feature, Link, Schema, Table
from training.family import TableSpec, Unit
from training.features import Source, encode_source, fit_feature, infer_kind
from training.kinds import ONLY_MISSING, why_leave_out
from training.pieces import open_pieces
from training.reading import RawColumn, RawTable, is_number, read_table
from training.tables import HELD_OUT_SHARE, MIN_ROWS, MOST_HELD_OUT, Dataset, FitTable

# How the cells of a column must be stored to be a feature of a number kind.
STORED = {"numeric": "number", "ordinal": "number", "datetime": "datetime"}


@dataclass(frozen=True, slots=True)
class Joined:
    """A table, read and encoded. ``schema``: the bundle's features, then the new ones; its tables, then this one."""

    schema: Schema
    table: FitTable
    n_old: int

    @property
    def new(self) -> tuple[Feature, ...]:
        return self.schema.features[self.n_old :]

    def dataset(self, name: str) -> Dataset:
        """The new table alone, over all features."""
        return Dataset(name, self.schema, (self.table,))


def join_table(
    schema: Schema,
    path: Path,
    *,
    name: str,
    columns: Mapping[str, Link],
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Joined:
    """Read a file as one more table; ``columns``: what is said of some of its columns."""
    if name in schema.by_table:
        raise FamilyError(f"the bundle has a table {name!r} already: give the new one another name with --name")
    with _advising():
        raw = _read(schema, path, name, columns)
        training = ~_hold_out(raw, np.random.default_rng([seed, len(schema.tables)]))
        sources, left_out = _find_sources(schema, raw, training)
        wide = Schema((*schema.features, *_fit_new(schema, sources, left_out)))
        ordered = {feature: sources[feature] for feature in wide.index if feature in sources}
        table = _encode(raw, wide, ordered, ~training, left_out)
    for column, reason in left_out.items():
        say(f"{name}: {column!r} left out ({reason})")
    tables = (*schema.tables, _link(raw, wide, ordered, left_out))
    return Joined(replace(wide, tables=tables), table, len(schema.features))


@contextmanager
def _advising() -> Iterator[None]:
    """What is said of family.toml, where tables are read, is to be said of --schema here."""
    try:
        yield
    except (TableError, FamilyError) as error:
        if "family.toml" not in str(error):
            raise
        form = '{"columns": {COLUMN: {"feature": NAME, "missing": [CODE]}}}'
        raise type(error)(f"{error} (here, --schema FILE stands for family.toml: {form})") from error


def _read(schema: Schema, path: Path, name: str, columns: Mapping[str, Link]) -> RawTable:
    pieces = open_pieces(TableSpec(name, path))
    names = dict.fromkeys([*pieces.schema.names, *pieces.skipped])
    for column in columns:
        if column not in names:
            raise TableError(f"--schema: table {name!r} has no column {column!r}{nearest(column, names)}")
    spec = TableSpec(
        name,
        path,
        missing={column: link.missing for column, link in columns.items()},
        rename={column: link.feature for column, link in columns.items()},
        units={link.feature: Unit(link.scale, link.offset) for link in columns.values()},
    )
    # Words of a known feature are taken as they stand, even where they look like numbers.
    words = {feature.name for feature in schema.features if feature.kind == "categorical"}
    return read_table(spec, as_text=frozenset(c for c in names if spec.rename.get(c, c) in words))


def _hold_out(raw: RawTable, rng: np.random.Generator) -> NDArray[np.bool_]:
    if raw.n_rows < MIN_ROWS:
        raise TableError(f"table {raw.spec.name!r}: {raw.n_rows} rows to learn from; at least {MIN_ROWS} are needed")
    held = np.zeros(raw.n_rows, dtype=bool)
    n = min(MOST_HELD_OUT, max(1, round(HELD_OUT_SHARE * raw.n_rows)))
    held[rng.permutation(raw.n_rows)[:n]] = True
    return held


def _find_sources(
    schema: Schema, raw: RawTable, training: NDArray[np.bool_]
) -> tuple[dict[str, Source], dict[str, str]]:
    """The column that is each feature, and why others are left out."""
    sources: dict[str, Source] = {}
    left_out = dict(raw.skipped)
    for column in raw.columns:
        name = raw.spec.rename.get(column.name, column.name)
        source = Source(raw, column, raw.spec.units.get(name, Unit()), training)
        known = schema.features[schema.index[name]] if name in schema.index else None
        reason = _why_leave_out(known, source)
        if reason:
            left_out[column.name] = reason
        elif name in sources:
            raise FamilyError(
                f"table {raw.spec.name!r}: columns {sources[name].column.name!r} and {column.name!r} are both the "
                f"feature {name!r}; name another feature for one of them in --schema"
            )
        else:
            sources[name] = source
    return sources, left_out


def _why_leave_out(known: Feature | None, source: Source) -> str | None:
    """Why a column teaches nothing; None if it does, of a ``known`` feature or a new one."""
    column = source.column
    if known is None or column.too_many_words:
        return why_leave_out(source.table.spec.name, column)
    if not column.known.any():
        return ONLY_MISSING
    wanted = STORED.get(known.kind)
    if (wanted is None and column.storage == "datetime") or (wanted is not None and column.storage != wanted):
        raise FamilyError(
            f"{source.where}: the feature {known.name!r} is {known.kind}, but here it holds {_example(column)}; list "
            "codes for missing cells, or name another feature for it, in --schema"
        )
    if wanted != "number" and source.unit != Unit():
        raise FamilyError(f"{source.where}: the feature {known.name!r} is {known.kind}: it takes no scale or offset")
    return None


def _example(column: RawColumn) -> str:
    """A cell that shows what the column holds: for text, one that is no number."""
    if column.storage in ("text", "boolean"):
        strange = [word for word in column.words if not is_number(word)]
        return f"{column.storage}, e.g. {(strange or column.words)[0]!r}"
    return f"{column.storage}s, e.g. {column.numbers[column.known][0]:g}"


def _fit_new(schema: Schema, sources: dict[str, Source], left_out: dict[str, str]) -> list[Feature]:
    """The features that are new; columns that tell nothing leave ``sources``."""
    new = []
    for name in [name for name in sources if name not in schema.index]:
        feature = fit_feature(name, infer_kind(name, [sources[name]]), [sources[name]])
        if feature.n_values < 2:
            left_out[sources.pop(name).column.name] = "constant in the training rows"
        else:
            new.append(feature)
    return new


def _encode(
    raw: RawTable,
    schema: Schema,
    sources: Mapping[str, Source],
    held_out: NDArray[np.bool_],
    left_out: Mapping[str, str],
) -> FitTable:
    positions = np.empty((raw.n_rows, len(sources)), dtype=np.float32)
    truth = np.empty((int(held_out.sum()), len(sources)))
    for j, (name, source) in enumerate(sources.items()):
        feature = schema.features[schema.index[name]]
        positions[:, j] = encode_source(source, feature)
        held = positions[held_out, j].astype(np.float64)
        unseen = np.isnan(held) & source.column.known[held_out]
        truth[:, j] = source.numbers()[held_out] if feature.is_number else np.where(unseen, -1.0, held)
    n_usable = int((~np.isnan(positions[~held_out])).any(axis=0).sum())
    if n_usable < 2:
        reasons = list_some([f"{column!r} is left out ({reason})" for column, reason in left_out.items()])
        raise TableError(
            f"table {raw.spec.name!r}: {n_usable} usable column(s); at least two are needed, for one to be "
            f"predicted from the others; {reasons or 'the words of the others are all unknown'}"
        )
    return FitTable(raw.spec.name, np.asarray([schema.index[name] for name in sources]), positions, held_out, truth)


def _link(raw: RawTable, schema: Schema, sources: Mapping[str, Source], left_out: Mapping[str, str]) -> Table:
    columns = {source.column.name: name for name, source in sources.items()}
    # A column that is empty here and known elsewhere taught nothing, but can be filled.
    for column in (c.name for c in raw.columns if left_out.get(c.name) == ONLY_MISSING):
        feature = raw.spec.rename.get(column, column)
        if feature in schema.index and feature not in columns.values():
            columns[column] = feature
    units = {feature: raw.spec.units.get(feature, Unit()) for feature in columns.values()}
    links = [Link(c, f, units[f].scale, units[f].offset, raw.spec.codes_of(c)) for c, f in columns.items()]
    return Table(raw.spec.name, tuple(links), raw.n_rows, dict(left_out))


def call_new(schema: Schema, names: Sequence[str]) -> list[str]:
    """New features, each with the old one that a table of the bundle calls so: perhaps it is that one."""
    known = {link.column: link.feature for table in schema.tables for link in table.links}
    return [
        f"{name!r} (is it {known[name]!r}? then say so in --schema)" if name in known else repr(name) for name in names
    ]
