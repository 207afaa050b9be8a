"""Answers put into a file: as text for CSV, in the column's own type for Arrow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from model.cells import show_word
from model.errors import TableError
from model.schema import Feature
from service.files.cells import NOWHERE, Column, is_text
from service.files.notes import Rows

# Columns added at the end of a file and what they hold; None: probabilities.
Added = Mapping[str, Feature | None]
# The column, first of all, that numbers completed copies from 1.
COPY = "draw"
# How a file spells true and false.
Spelling = tuple[str, str]
PLAIN: Spelling = ("true", "false")
SPELLINGS: tuple[Spelling, ...] = (PLAIN, ("yes", "no"), ("y", "n"), ("t", "f"), ("1", "0"))
# Times are counted in 64 bits: so many ticks in a second, so many in all.
TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
MOST_TICKS = 2.0**63
# Whole numbers below this are written without a point.
MOST_WHOLE = 1e15


@dataclass(frozen=True)
class Answers:
    """What is to be written of one piece: cells ``filled`` by column (rows and values), whole columns ``added``, and
    added columns that have cells only ``beside`` those that were filled (rows and values). ``columns`` are those that
    were read; ``spellings`` how booleans are spelt in them; ``copy`` is the number of a copy.
    """

    columns: Mapping[str, Column]
    filled: Mapping[str, tuple[Rows, Sequence[Any]]] = field(default_factory=dict)
    added: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    beside: Mapping[str, tuple[Rows, Sequence[Any]]] = field(default_factory=dict)
    spellings: Mapping[str, Spelling] = field(default_factory=dict)
    copy: int | None = None

    def rows_beside(self, name: str) -> tuple[Rows, Sequence[Any]]:
        """Where a column that is beside another has cells in this piece, and which."""
        return self.beside.get(name, (NOWHERE, ()))


def learn_spelling(words: Sequence[Any]) -> Spelling | None:
    """How true and false are spelt where one of these words is."""
    for word in words:
        text = word.strip() if isinstance(word, str) else ""
        pair = next((pair for pair in SPELLINGS if text.lower() in pair), None)
        if pair is not None:
            true, false = pair
            if text.isupper():
                return true.upper(), false.upper()
            return (true.title(), false.title()) if text.istitle() else pair
    return None


def natural_type(feature: Feature) -> pa.DataType:
    """The type of a column that has none of its own."""
    if feature.kind == "datetime":
        return pa.date32() if feature.date_only else pa.timestamp("us")
    if feature.is_number:
        return pa.float64()
    if feature.kind == "boolean":
        return pa.bool_()
    return pa.int64() if isinstance(show_word(feature, feature.categories[0]), int) else pa.string()


def to_texts(values: Sequence[Any], feature: Feature, spelling: Spelling = PLAIN) -> list[str]:
    """Answers as text: numbers as short as the network's precision allows, dates in ISO 8601."""
    if feature.kind == "boolean":
        return [spelling[0] if value else spelling[1] for value in values]
    if not feature.is_number or feature.kind == "datetime":
        return list(map(str, values))
    return show_numbers(np.asarray(values, dtype=np.float64))


def show_numbers(numbers: NDArray[np.float64]) -> list[str]:
    """Whole numbers as such, others in the fewest digits that give the same 32-bit number."""
    whole = (numbers == np.rint(numbers)) & (np.abs(numbers) < MOST_WHOLE)
    with np.errstate(over="ignore"):
        brief = numbers.astype(np.float32)
    texts = pa.array(np.where(np.isfinite(brief), brief, 0.0).astype(np.float32)).cast(pa.string())
    texts = pc.if_else(pa.array(np.isfinite(brief)), texts, pa.array(numbers).cast(pa.string()))
    wholes = pa.array(np.where(whole, numbers, 0.0).astype(np.int64)).cast(pa.string())
    shown: list[str] = pc.if_else(pa.array(whole), wholes, texts).to_pylist()
    return shown


def to_array(values: Sequence[Any], feature: Feature, kind: pa.DataType, spelling: Spelling = PLAIN) -> pa.Array:
    """Answers in the type of a column; null where it cannot hold one."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        return pa.array(to_texts(values, feature, spelling), pa.string()).cast(kind)
    if feature.kind == "datetime":
        return _to_moments(values, kind)
    if feature.is_number:
        return _from_numbers(np.asarray(values, dtype=np.float64), kind)
    return _from_numbers(np.fromiter(map(_number, values), np.float64, count=len(values)), kind)


def _from_numbers(numbers: NDArray[np.float64], kind: pa.DataType) -> pa.Array:
    fits = _have_room(numbers, kind)
    none, numbers = ~fits, np.where(fits, numbers, 0.0)
    if pa.types.is_integer(kind):
        return pa.array(np.rint(numbers).astype(kind.to_pandas_dtype()), kind, mask=none)
    if pa.types.is_boolean(kind):
        return pa.array(numbers == 1.0, kind, mask=none)
    if pa.types.is_duration(kind):
        micros = np.rint(numbers * 1e6).astype(np.int64)
        return pa.array(micros, pa.duration("us"), mask=none).cast(kind, safe=False)
    if not (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return pa.nulls(len(numbers), kind)
    return pa.array(numbers, mask=none).cast(kind, safe=False)


def _have_room(numbers: NDArray[np.float64], kind: pa.DataType) -> NDArray[np.bool_]:
    """Which numbers a type can hold, rounded to it; a capped one would be another answer. NaN is none."""
    size = np.abs(numbers)
    if pa.types.is_integer(kind):
        info, whole = np.iinfo(kind.to_pandas_dtype()), np.rint(numbers)
        # The largest 64-bit integers are no doubles; the numbers after them are.
        return np.asarray((whole >= float(info.min)) & (whole < float(info.max + 1)))
    if pa.types.is_boolean(kind):
        return np.asarray((numbers == 0.0) | (numbers == 1.0))
    if pa.types.is_duration(kind):
        return np.asarray(size * max(1e6, TICKS[kind.unit]) < MOST_TICKS)
    if pa.types.is_decimal(kind):
        return np.asarray(size < 10.0 ** (kind.precision - kind.scale) - 0.5 * 10.0**-kind.scale)
    most = np.finfo(kind.to_pandas_dtype()).max if pa.types.is_floating(kind) else np.inf
    return size <= float(most)


def _number(value: Any) -> float:
    if isinstance(value, str) and value in PLAIN:
        return float(value == "true")
    try:
        return float(value)
    except ValueError:
        return np.nan


def _to_moments(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Times are UTC, as the model gives them; a day begins at midnight."""
    moments = np.array(values, dtype="datetime64[us]")
    if pa.types.is_date(kind):
        return pa.array(moments.astype("datetime64[D]")).cast(kind)
    if pa.types.is_timestamp(kind):
        seconds = moments.astype(np.int64) / 1e6
        moments[np.abs(seconds) * TICKS[kind.unit] >= MOST_TICKS] = np.datetime64("NaT")
        return pa.array(moments).cast(pa.timestamp(kind.unit), safe=False).cast(pa.int64()).cast(kind)
    return pa.nulls(len(values), kind)


def put(cells: pa.Array, rows: Rows, new: pa.Array) -> pa.Array:
    """The same cells, and ``new`` ones in the given rows."""
    kind = cells.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, put(cells.storage, rows, new))
    if pa.types.is_dictionary(kind):
        return _put_coded(cells, rows, new)
    if pa.types.is_string_view(kind):  # Arrow cannot pick from these
        return put(cells.cast(pa.large_string()), rows, new.cast(pa.large_string())).cast(kind)
    index = np.arange(len(cells))
    index[rows] = len(cells) + np.arange(len(rows))
    return pa.concat_arrays([cells, new]).take(pa.array(index))


def _put_coded(cells: pa.DictionaryArray, rows: Rows, new: pa.Array) -> pa.Array:
    """Words that the column's dictionary lacks are added at its end."""
    kind, words = cells.type, cells.dictionary
    coded = new.dictionary_encode()
    place = pc.index_in(coded.dictionary, value_set=words)
    extra = coded.dictionary.filter(place.is_null())
    later = np.cumsum(place.is_null().to_numpy(zero_copy_only=False)) - 1 + len(words)
    places = pc.if_else(place.is_null(), pa.array(later), place.cast(pa.int64()))
    try:
        codes = places.take(coded.indices).cast(kind.index_type)
    except pa.ArrowInvalid:
        raise TableError(f"its dictionary ({kind}) has no room for another word; use wider indices") from None
    words = pa.concat_arrays([words, extra]) if len(extra) else words
    return pa.DictionaryArray.from_arrays(put(cells.indices, rows, codes), words, ordered=kind.ordered)
