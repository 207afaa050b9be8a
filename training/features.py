"""From the columns that are one feature to that feature: its kind, and its codec fitted on training rows."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.cells import boolean_word
from model.errors import FamilyError
from model.schema import NUMBER_KINDS, Feature, Kind
from training.family import Unit
from training.kinds import choose_categories, kind_of_numbers
from training.reading import RawColumn, RawTable, is_number

# Rare categories are listed in the bundle, so that they are told from words never seen.
MOST_RARE = 10_000
# An ordinal has a knot at each of its levels, up to this many.
MOST_LEVELS = 64
# Sums of numbers beyond this overflow.
LARGEST = 1e305


@dataclass(frozen=True, slots=True)
class Source:
    """One column of one table that is to become a feature."""

    table: RawTable
    column: RawColumn
    unit: Unit
    training: NDArray[np.bool_]

    @property
    def where(self) -> str:
        return f"table {self.table.spec.name!r} column {self.column.name!r}"

    def numbers(self) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):
            numbers = self.column.numbers * self.unit.scale + self.unit.offset
        if np.isinf(numbers).any():
            raise FamilyError(f"{self.where}: its unit in family.toml turns some cells into infinity")
        return numbers


def infer_kind(name: str, sources: Sequence[Source]) -> Kind:
    first = sources[0]
    for other in sources[1:]:
        if other.column.storage != first.column.storage:
            raise FamilyError(_say_clash(name, first, other))
    for source in sources:
        if source.unit != Unit() and source.column.storage != "number":
            raise FamilyError(f"{source.where}: it has a unit in family.toml, but holds {_example(source.column)}")
    match first.column.storage:
        case "number":
            return kind_of_numbers([source.numbers() for source in sources])
        case "text":
            return "categorical"
        case storage:
            return storage


def _say_clash(name: str, one: Source, two: Source) -> str:
    first, second = (f"{_example(s.column)} in table {s.table.spec.name!r}" for s in (one, two))
    other, column = two.table.spec.name, two.column.name
    kind = "boolean" if "boolean" in (one.column.storage, two.column.storage) else "categorical"
    return (
        f"feature {name!r} holds {first}, but {second}; in family.toml, keep them apart with "
        f"rename = {{ {_key(column)} = {_quote(f'{name}_{other}')} }} under [tables.{_key(other)}], list codes for "
        f'missing cells there, or read both as {_key(name)} = "{kind}" under [kinds]'
    )


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _key(name: str) -> str:
    """A name as a key of a TOML file."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quote(name)


def _example(column: RawColumn) -> str:
    """A cell that shows what the column holds: for text, one that is no number."""
    if column.storage in ("text", "boolean"):
        strange = [word for word in column.words if not is_number(word)]
        return f"{column.storage}, e.g. {(strange or column.words)[0]!r}"
    return f"{column.storage}s, e.g. {column.numbers[column.known][0]:g}"


def fit_feature(name: str, kind: Kind, sources: Sequence[Source]) -> Feature:
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


def _fit_numbers(name: str, kind: Kind, sources: Sequence[Source]) -> Feature:
    wanted = "datetime" if kind == "datetime" else "number"
    for source in sources:
        if source.column.storage != wanted:
            raise FamilyError(
                f"feature {name!r} should be {kind}, but {source.where} holds {_example(source.column)}; "
                f"{'dates must be ISO 8601, such as 2020-01-31; ' if kind == 'datetime' else ''}"
                "list codes that mean missing under missing, or change its kind in family.toml"
            )
    parts = [source.numbers()[source.training] for source in sources]
    values = np.concatenate([part[~np.isnan(part)] for part in parts])
    if len(values) == 0:  # known in held-out rows only: as good as constant
        values = np.zeros(1)
    if np.abs(values).max() > LARGEST:
        raise FamilyError(
            f"feature {name!r}: {sources[0].where} holds numbers beyond {LARGEST:g}, whose spread cannot be computed; "
            "list codes that mean missing under missing, or give the column a larger unit"
        )
    bins = codec.fit_bins(values, MOST_LEVELS if kind == "ordinal" else codec.N_BINS)
    if len(parts) > 1 and len(values) > 1:
        bins = replace(bins, spread=_fit_spread(parts, bins.spread))
    date_only = kind == "datetime" and bool(np.all(values % 86_400 == 0))
    return _with_shares(Feature(name, kind, bins, date_only=date_only), sources)


def _fit_spread(parts: Sequence[NDArray[np.float64]], overall: float) -> float:
    """The unit of a feature's errors: halfway (as a ratio) from its spread over all tables to that within them.

    Between tables a feature may differ far more than within one (release dates of two years): by the
    overall spread alone, errors that matter within a table would not count.
    """
    known = [part[~np.isnan(part)] for part in parts]
    spreads = [(codec.fit_spread(part)[1] / overall, len(part)) for part in known if len(part)]
    within = np.sqrt(sum(n * spread**2 for spread, n in spreads) / sum(n for _, n in spreads))
    return overall * float(np.sqrt(np.clip(within, 1e-3, 1.0)))


def _with_shares(feature: Feature, sources: Sequence[Source]) -> Feature:
    positions = np.concatenate([encode_source(source, feature)[source.training] for source in sources])
    return replace(feature, shares=codec.fit_shares(positions, max(1, feature.n_values)))


def _words(source: Source, kind: Kind) -> tuple[list[str], NDArray[np.int64]]:
    """A column as words and codes (N,), indices into the words, -1 for missing."""
    column = source.column
    if column.storage == "datetime":
        raise FamilyError(f"{source.where}: it holds dates; they cannot be read as {kind}")
    if column.storage in ("text", "boolean"):
        words, codes = [codec.plain_word(word) for word in column.words], column.codes.astype(np.int64)
    else:
        distinct, codes = np.unique(column.numbers, return_inverse=True)
        words = [codec.word_of(float(number)) for number in distinct if not np.isnan(number)]
        codes = np.where(column.known, codes, -1)
    if kind == "boolean":
        words = [_boolean_word(word, source) for word in words]
    return words, codes


def _boolean_word(word: str, source: Source) -> str:
    try:
        return boolean_word(word)
    except ValueError as error:
        raise FamilyError(f"{source.where}: {error}") from None


def encode_source(source: Source, feature: Feature) -> codec.Positions:
    if feature.is_number:
        return codec.encode_numbers(feature, source.numbers())
    words, codes = _words(source, feature.kind)
    # Code -1, a missing cell, finds the None at the end.
    return codec.encode_words(feature, [*words, None])[codes]
