"""Which columns of two tables mean the same: two that a bundle knows, or one that it knows and rows of a new one.

What is shared is told first: columns of the same feature, or, with a new table, columns of the same name. The others
are matched by their portraits (model.matching); a column may well have no match.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.bundle import Bundle
from model.company import orient
from model.known_tables import portrait_of, read_codes, sample_cells
from model.linking import Stands, draw_profile, place, turn_over
from model.matching import Match, match_portraits
from model.portraits import Portrait, Sample, draw_portrait
from model.schema import Link
from model.similarity import to_units, unit_vectors
from model.units import Pair, find_units

Floats = NDArray[np.float64]
# From so sure on two columns are said to be the same.
LEAST_SURE = 0.5
# From so sure on they help to match the others.
LEAST_SHARED = 0.8
# Every column of a new table is compared with every column of the known one: it may have so many.
MOST_COLUMNS = 300


@dataclass(frozen=True, slots=True)
class Found:
    """A pair of columns and how likely they mean the same; ``sign`` -1 where the one falls as the other rises.

    ``evidence``: the cosine of their encodings, and logarithms of odds. ``unit`` (scale, offset) takes the right one
    to the left one's feature, where known.
    """

    left: str
    right: str
    probability: float
    sign: int
    evidence: Mapping[str, float]
    unit: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Matching:
    """The pairs, surest first, and what has no match on either side; ``encodings`` of a new table's columns."""

    pairs: list[Found]
    left: list[str]
    right: list[str]
    encodings: Mapping[str, Floats] = field(default_factory=dict)


def match_tables(
    bundle: Bundle,
    left: Mapping[str, Link],
    right: Mapping[str, Link],
    *,
    read_names: bool = True,
    least: float = LEAST_SURE,
) -> Matching:
    """The columns of two tables the bundle knows. A shared feature is its own match."""
    columns = {link.feature: column for column, link in right.items()}
    first: dict[str, str] = {}
    for column, link in left.items():
        first.setdefault(link.feature, column)
    shared = {column: columns[feature] for feature, column in first.items() if feature in columns}
    mine, theirs = portrait_of(bundle, left), portrait_of(bundle, right)
    matches = match_portraits(mine, theirs, shared, read_names=read_names)
    vectors, index = unit_vectors(bundle), bundle.schema.index
    pairs = [
        Found(a, b, 1.0, _turns(left[a], right[b]), {"encoding": 1.0}, (right[b].scale, right[b].offset))
        for a, b in shared.items()
    ]
    for match in matches:
        links = left[match.left], right[match.right]
        a, b = (vectors[[index[link.feature]]] for link in links)
        sign = match.sign * _turns(*links) if _is_number(mine, match.left) else 1
        pairs.append(_found(match, sign, _cosine(bundle, a, b, match.sign)))
    return _split(pairs, list(left), list(right), least)


def match_rows(
    bundle: Bundle,
    left: Mapping[str, Link],
    columns: Mapping[str, Sequence[Any]],
    *,
    read_names: bool = True,
    least: float = LEAST_SURE,
) -> Matching:
    """The columns of a table and those of rows of a new one; the new columns are placed in the space of encodings."""
    samples = {name: sample_cells(cells) for name, cells in columns.items()}
    return match_samples(bundle, left, read_codes(bundle, samples), read_names=read_names, least=least)


def match_anywhere(
    bundle: Bundle, columns: Mapping[str, Sample], *, read_names: bool = True, least: float = LEAST_SURE
) -> Matching:
    """A new table's columns and the features of all tables of the bundle, surest pairs first.

    What is sure after a first look counts as shared in a second one: it tells more of the rest.
    """
    columns = read_codes(bundle, columns)
    first = _match_each(bundle, columns, {}, read_names=read_names, least=LEAST_SHARED)
    shared = {pair.left: pair.right for pair in _choose_surest(first)}
    found = _match_each(bundle, columns, shared, read_names=read_names, least=least)
    # The table with which most was found places the columns best.
    best = max(found, key=lambda own: sum(pair.probability for pair in own.pairs))
    features = [feature.name for feature in bundle.schema.features]
    sure = {(pair.left, pair.right): pair for own in first for pair in own.pairs}
    kept = [sure.get((pair.left, pair.right), pair) for pair in _choose_surest(found)]
    return _split(kept, features, list(columns), least, best.encodings)


def _match_each(
    bundle: Bundle, columns: Mapping[str, Sample], shared: Mapping[str, str], *, read_names: bool, least: float
) -> list[Matching]:
    """Against every table of the bundle, under the names of features."""
    every = [
        {link.feature: replace(link, column=link.feature, scale=1.0, offset=0.0) for link in table.links}
        for table in bundle.schema.tables
    ]
    new = _draw(columns, [feature.name for feature in bundle.schema.features])
    return [
        match_samples(bundle, links, columns, new=new, shared=shared, read_names=read_names, least=least)
        for links in every
    ]


def _draw(columns: Mapping[str, Sample], first: Sequence[str]) -> Portrait | None:
    """The portrait of the columns that are not empty; None if all are."""
    samples = {name: sample for name, sample in columns.items() if not np.isnan(sample.cells).all()}
    return draw_portrait(samples, first=first) if samples else None


def _choose_surest(found: Sequence[Matching]) -> list[Found]:
    """Of the pairs found with several tables the surest, one to one."""
    kept: dict[str, Found] = {}
    taken: set[str] = set()
    for pair in sorted((pair for own in found for pair in own.pairs), key=lambda pair: -pair.probability):
        if pair.right not in kept and pair.left not in taken:
            kept[pair.right] = pair
            taken.add(pair.left)
    return list(kept.values())


def match_samples(
    bundle: Bundle,
    left: Mapping[str, Link],
    columns: Mapping[str, Sample],
    *,
    new: Portrait | None = None,
    shared: Mapping[str, str] | None = None,
    read_names: bool = True,
    least: float = LEAST_SURE,
) -> Matching:
    """The same, of columns as they are sampled, or as their portrait is drawn already.

    ``shared``: left columns that are known to be which new ones.
    """
    new = new or _draw(columns, list(left))
    if new is None:
        return Matching([], list(left), list(columns))
    known = portrait_of(bundle, left)
    told = {**({c: c for c in known.columns} if read_names else {}), **(shared or {})}
    matches = _match_told(known, new, told, left, read_names=read_names)
    encodings = _place(bundle, left, new, matches)
    vectors, index = unit_vectors(bundle), bundle.schema.index
    units = _units_of(bundle, left, known, new, [match for match in matches if match.probability >= least])
    pairs = []
    for match in matches:
        own = to_units(encodings[match.right][None]) if match.right in encodings else np.zeros((1, 1))
        mine = vectors[[index[left[match.left].feature]]]
        cosine = _cosine(bundle, mine, own, match.sign) if own.any() else 0.0
        sign = match.sign * _turns(left[match.left]) if _is_number(known, match.left) else 1
        pairs.append(_found(match, sign, cosine, units.get(match.right)))
    return _split(pairs, list(left), list(columns), least, encodings)


def _match_told(
    known: Portrait, new: Portrait, told: Mapping[str, str], left: Mapping[str, Link], *, read_names: bool
) -> list[Match]:
    """The matches that are told, as far as they can be, and then those that are found."""
    signs: dict[tuple[str, str], int] = {}
    for a, b in told.items():
        if a in known.index and b in new.index and left[a].scale > 0:
            sign = orient(known, known.index[a], new, new.index[b])
            if sign is not None:
                signs[a, b] = sign
    found = match_portraits(known, new, dict(signs.keys()), read_names=read_names)
    return [*(Match(a, b, 1.0, sign, {}) for (a, b), sign in signs.items()), *found]


def _turns(*links: Link) -> int:
    """-1 if the cells of columns fall as their features rise, an odd number of times."""
    return -1 if sum(link.scale < 0.0 for link in links) % 2 else 1


def _is_number(portrait: Portrait, column: str) -> bool:
    return portrait.words[portrait.index[column]] is None


def _split(
    pairs: Sequence[Found],
    left: list[str],
    right: list[str],
    least: float,
    encodings: Mapping[str, Floats] | None = None,
) -> Matching:
    """Pairs that are sure enough, and the columns that are in none."""
    kept = sorted((p for p in pairs if p.probability >= least), key=lambda p: -p.probability)
    taken = {p.left for p in kept}, {p.right for p in kept}
    rest = [c for c in left if c not in taken[0]], [c for c in right if c not in taken[1]]
    return Matching(kept, *rest, encodings or {})


def _found(match: Match, sign: int, cosine: float, unit: tuple[float, float] | None = None) -> Found:
    return Found(match.left, match.right, match.probability, sign, {"encoding": cosine, **match.evidence}, unit)


def _cosine(bundle: Bundle, a: Floats, b: Floats, sign: int) -> float:
    """The cosine of two encodings, the one turned over if the two columns are."""
    turned = turn_over(a) if sign < 0 and bundle.linking is not None else a
    return float((turned @ b.T)[0, 0])


def _units_of(
    bundle: Bundle, left: Mapping[str, Link], known: Portrait, new: Portrait, matches: Sequence[Match]
) -> dict[str, tuple[float, float]]:
    """What takes each new column to its feature, where that can be told; words must be the feature's own."""
    numbers, units = [], {}
    for match in matches:
        feature = bundle.schema.features[bundle.schema.index[left[match.left].feature]]
        words = new.words[new.index[match.right]]
        if feature.is_number and words is None:
            numbers.append(match)
        elif words is not None and set(words) & set(feature.words):
            units[match.right] = (1.0, 0.0)
    pairs = [
        Pair(
            known.quantiles[known.index[match.left]],
            new.quantiles[new.index[match.right]],
            match.sign * _turns(left[match.left]),
            _usual_range(bundle, left[match.left]),
        )
        for match in numbers
    ]
    for match, unit in zip(numbers, find_units(pairs), strict=True):
        if unit is not None:
            # The known column has a unit of its own: its cells, not the feature's values, were compared.
            link = left[match.left]
            scale, offset = unit[0] * link.scale, unit[1] * link.scale + link.offset
            units[match.right] = (float(f"{scale:.7g}"), float(f"{offset:.7g}"))
    return units


def _usual_range(bundle: Bundle, link: Link) -> tuple[float, float]:
    """Where the values of a column's feature lie in all tables, in the column's own unit."""
    knots = bundle.schema.features[bundle.schema.index[link.feature]].knots
    low, high = np.interp([0.02, 0.98], knots.ranks, knots.values)
    ends = sorted(((low - link.offset) / link.scale, (high - link.offset) / link.scale))
    return float(ends[0]), float(ends[1])


def _place(bundle: Bundle, left: Mapping[str, Link], new: Portrait, matches: Sequence[Match]) -> dict[str, Floats]:
    """The encodings of the new columns: fitted for them alone, with all else frozen."""
    linking = bundle.linking
    if linking is None:
        return {}
    stands: Stands = {}
    for match in matches:
        if match.probability >= LEAST_SURE:
            stands[left[match.left].feature] = (new.index[match.right], match.sign, match.probability)
    profile = draw_profile(new, linking.space.landmarks, stands)
    return dict(zip(new.columns, place(linking.space, profile), strict=True))
