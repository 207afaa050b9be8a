"""From the columns that are one feature to that feature: its kind, and its codec fitted on training rows."""

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
from training.reading import RawColumn, RawTable

# Rare categories are listed in the bundle, so that they are told from words never seen.
MOST_RARE = 10_000
# An ordinal has a knot at each of its levels, up to this many.
MOST_LEVELS = 64


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
        return self.column.numbers * self.unit.scale + self.unit.offset


def infer_kind(name: str, sources: Sequence[Source]) -> Kind:
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


def _say_clash(name: str, one: Source, two: Source) -> str:
    first, second = (f"{s.column.storage} in table {s.table.spec.name!r} ({_example(s.column)})" for s in (one, two))
    other = two.table.spec.name
    return (
        f"feature {name!r} is {first} but {second}; in family.toml, keep them apart with "
        f'rename = {{ {two.column.name} = "{name}_{other}" }} under [tables.{other}], list codes for missing cells '
        f'there, or read both as words with {name} = "categorical" under [kinds]'
    )


def _example(column: RawColumn) -> str:
    """A cell that shows what the column holds: for text, one that is no number."""
    if column.storage in ("text", "boolean"):
        strange = [word for word in column.words if not word.replace(".", "", 1).lstrip("-").isdigit()]
        return f"e.g. {(strange or column.words)[0]!r}"
    return f"e.g. {column.numbers[column.known][0]:g}"


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
    bins = codec.fit_bins(values, MOST_LEVELS if kind == "ordinal" else codec.N_BINS)
    bins = replace(bins, spread=_fit_spread(parts, bins.spread))
    date_only = kind == "datetime" and bool(np.all(values % 86_400 == 0))
    return _with_shares(Feature(name, kind, bins, date_only=date_only), sources)


def _fit_spread(parts: Sequence[NDArray[np.float64]], overall: float) -> float:
    """The unit of a feature's errors: halfway (as a ratio) from its spread over all tables to that within them.

    Between tables a feature may differ far more than within one (release dates of two years): by the
    overall spread alone, errors that matter within a table would not count.
    """
    known = [part[~np.isnan(part)] for part in parts]
    within = sum(part.var() * len(part) for part in known if len(part)) / max(1, sum(map(len, known)))
    return float(np.sqrt(overall * max(np.sqrt(within), 1e-3 * overall)))


def _with_shares(feature: Feature, sources: Sequence[Source]) -> Feature:
    positions = np.concatenate([encode_source(source, feature)[source.training] for source in sources])
    return replace(feature, shares=codec.fit_shares(positions, max(1, feature.n_values)))


def _words(source: Source, kind: Kind) -> tuple[list[str], NDArray[np.int64]]:
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
