"""Portraits and the space of encodings as arrays of a bundle, and back.

Words are not written: a fitted column's words are those of its feature, in the order of the schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.examples import MOST_EXAMPLES
from model.linking import N_STAYING, N_TURNING, Space
from model.portraits import MOST_NUMBER, MOST_WORDS, N_QUANTILES, N_REPEATS, N_STATISTICS, Portrait
from model.schema import Schema

NO_WORD = -1
# No portrait has larger figures, or more rows.
MOST_FIGURE, MOST_COUNTED = 1e3, 1e12


@dataclass(frozen=True, slots=True)
class Linking:
    """What a bundle knows of how its tables' columns relate: a portrait of each table, and where features lie.

    Columns of portraits go by the names of their features, and are in the features' units.
    """

    portraits: Mapping[str, Portrait]
    space: Space
    schema: Schema

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        index = self.schema.index
        arrays: dict[str, NDArray[Any]] = {
            "landmarks": np.asarray([index[name] for name in self.space.landmarks], dtype=np.int64),
            "turning": self.space.turning,
            "staying": self.space.staying,
        }
        for t, table in enumerate(self.schema.tables):
            if table.name in self.portraits:
                arrays |= {f"{t}.{key}": array for key, array in self._pack(self.portraits[table.name]).items()}
        return arrays

    def _pack(self, portrait: Portrait) -> dict[str, NDArray[Any]]:
        words = np.full((len(portrait.columns), MOST_WORDS), NO_WORD, dtype=np.int64)
        columns = np.asarray([self.schema.index[name] for name in portrait.columns], dtype=np.int64)
        for j, (own, column) in enumerate(zip(portrait.words, columns, strict=True)):
            place = {word: i for i, word in enumerate(self.schema.features[column].words)}
            words[j, : len(own or ())] = [place[word] for word in own or ()]
        return {
            "columns": columns,
            "words": words,
            "signed": portrait.signed.astype(np.int64),
            "repeats": portrait.repeats,
            "quantiles": portrait.quantiles,
            "shares": portrait.shares,
            "examples": portrait.examples,
            "distinct": portrait.distinct,
            "partners": portrait.partners,
            "dependence": portrait.dependence,
            "known": portrait.known,
            "rows": np.asarray([portrait.rows], dtype=np.int64),
        }


def linking_of(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> Linking:
    """Read what ``to_arrays`` gave; ValueError if it does not fit the schema."""
    try:
        landmarks = tuple(schema.features[_within(i, len(schema.features))].name for i in arrays["landmarks"])
        space = Space(landmarks, _floats(arrays["turning"]), _floats(arrays["staying"]))
        tables = enumerate(schema.tables)
        portraits = {table.name: _unpack(schema, arrays, f"{t}.") for t, table in tables if f"{t}.columns" in arrays}
    except (KeyError, IndexError, TypeError, OverflowError) as error:
        raise ValueError(f"it is not complete: {error}") from error
    for axes, size in ((space.turning, N_TURNING), (space.staying, N_STAYING)):
        if axes.ndim != 2 or len(axes) != size * len(landmarks):
            raise ValueError("the axes do not fit the landmarks")
    return Linking(portraits, space, schema)


def _unpack(schema: Schema, arrays: Mapping[str, NDArray[Any]], start: str) -> Portrait:
    own = {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}
    columns = [_within(i, len(schema.features)) for i in own["columns"]]
    partners = np.asarray([_within(p, len(columns)) for p in own["partners"]], dtype=np.int64)
    s, p = len(columns), len(partners)
    if not {"examples", "distinct"} & set(own):  # fitted before there were any: nothing is known of equal values
        own |= {"examples": np.zeros((s, MOST_EXAMPLES)), "distinct": np.zeros(s, dtype=np.int64)}
    shapes = {
        "words": (s, MOST_WORDS), "signed": (s,), "repeats": (s, N_REPEATS), "quantiles": (s, N_QUANTILES),
        "shares": (s, MOST_WORDS), "examples": (s, MOST_EXAMPLES), "distinct": (s,),
        "dependence": (s, p, N_STATISTICS), "known": (s, p), "rows": (1,),
    }  # fmt: skip
    for key, shape in shapes.items():
        if own[key].shape != shape:
            raise ValueError(f"{start}{key} has the shape {own[key].shape}, not {shape}")
    if len(set(columns)) < s or len(set(partners.tolist())) < p or not 1 <= own["rows"][0] < MOST_COUNTED:
        raise ValueError(f"{start}columns, partners or rows cannot be")
    features = [schema.features[i] for i in columns]
    words = tuple(
        None if feature.is_number else tuple(feature.words[_within(w, len(feature.words))] for w in row if w >= 0)
        for feature, row in zip(features, own["words"], strict=True)
    )
    return Portrait(
        columns=tuple(feature.name for feature in features),
        words=words,
        signed=own["signed"] != 0,
        repeats=np.clip(_floats(own["repeats"]), -MOST_FIGURE, MOST_FIGURE),
        quantiles=np.sort(np.clip(_floats(own["quantiles"]), -MOST_NUMBER, MOST_NUMBER), axis=1),
        shares=np.clip(_floats(own["shares"]), 0.0, 1.0),
        examples=_rising(own["examples"], own["distinct"], f"{start}examples"),
        distinct=own["distinct"].astype(np.int64),
        partners=partners,
        dependence=np.clip(_floats(own["dependence"]), -MOST_FIGURE, MOST_FIGURE),
        known=np.clip(_floats(own["known"]), 0.0, MOST_COUNTED),
        rows=int(own["rows"][0]),
    )


def _rising(examples: NDArray[Any], distinct: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Examples as they must be: so many distinct values, rising, and within what is a number at all."""
    drawn = np.arange(MOST_EXAMPLES) < distinct[:, None]
    rises = np.diff(examples, axis=1) > 0.0
    if (distinct < 0).any() or (distinct >= MOST_COUNTED).any() or not rises[drawn[:, 1:]].all():
        raise ValueError(f"{name} are not distinct values in rising order")
    if np.abs(examples).max(initial=0.0) > MOST_NUMBER:
        raise ValueError(f"{name} hold a number beyond {MOST_NUMBER:g}")
    return np.where(drawn, _floats(examples), 0.0)


def _within(number: Any, size: int) -> int:
    if not 0 <= int(number) < size:
        raise ValueError(f"{number} is no number of {size}")
    return int(number)


def _floats(array: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(array, dtype=np.float64)
