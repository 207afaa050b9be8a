"""Which columns of two tables mean the same: two that a bundle knows, or one that it knows and rows of a new one.

What is shared is told first: columns of the same feature, or, with a new table, columns of the same name. The others
are matched by their portraits (model.matching); a column may well have no match.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.bundle import Bundle
from model.linking import Stands, draw_profile, place
from model.matching import Match, match_portraits
from model.portraits import MOST_WORDS, N_QUANTILES, N_REPEATS, N_STATISTICS, Portrait, Sample, draw_portrait
from model.schema import Feature, Link
from model.similarity import cosines, to_units, unit_vectors
from model.units import Pair, find_units

Floats = NDArray[np.float64]
# From so sure on two columns are said to be the same.
LEAST_SURE = 0.5


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
    features = {link.feature: column for column, link in right.items()}
    shared = {column: features[link.feature] for column, link in left.items() if link.feature in features}
    mine, theirs = _portrait_of(bundle, left), _portrait_of(bundle, right)
    matches = match_portraits(mine, theirs, shared, read_names=read_names)
    vectors, index = unit_vectors(bundle), bundle.schema.index
    pairs = [Found(a, b, 1.0, 1, {"encoding": 1.0}, (1.0, 0.0)) for a, b in shared.items()]
    for match in matches:
        a, b = (vectors[[index[links[c].feature]]] for links, c in ((left, match.left), (right, match.right)))
        pairs.append(_found(match, _cosine(bundle, a, b, match.sign)))
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
    samples = {name: sample for name, sample in samples.items() if not np.isnan(sample.cells).all()}
    if not samples:
        return Matching([], list(left), list(columns))
    known, new = _portrait_of(bundle, left), draw_portrait(samples, first=list(left))
    shared = {c: c for c in known.columns if read_names and c in new.index and _can_be_same(known, new, c)}
    matches = match_portraits(known, new, shared, read_names=read_names)
    encodings = _place(bundle, left, new, shared, matches)
    vectors, index = unit_vectors(bundle), bundle.schema.index
    told = [*(Match(c, c, 1.0, 1, {}) for c in shared), *matches]
    units = _units_of(bundle, left, known, new, [match for match in told if match.probability >= least])
    pairs = []
    for match in told:
        own = to_units(encodings[match.right][None]) if match.right in encodings else np.zeros((1, 1))
        mine = vectors[[index[left[match.left].feature]]]
        cosine = _cosine(bundle, mine, own, match.sign) if own.any() else 0.0
        pairs.append(_found(match, cosine, units.get(match.right)))
    return _split(pairs, list(left), list(columns), least, encodings)


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


def _found(match: Match, cosine: float, unit: tuple[float, float] | None = None) -> Found:
    return Found(match.left, match.right, match.probability, match.sign, {"encoding": cosine, **match.evidence}, unit)


def _cosine(bundle: Bundle, a: Floats, b: Floats, sign: int) -> float:
    straight, signs = cosines(bundle, a, b)
    return float(straight[0, 0] if signs[0, 0] == sign else (a @ b.T)[0, 0])


def _can_be_same(known: Portrait, new: Portrait, name: str) -> bool:
    return bool(known.signed[known.index[name]] == new.signed[new.index[name]])


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
    at = known.index, new.index
    quantiles = [(known.quantiles[at[0][m.left]], new.quantiles[at[1][m.right]], m.sign) for m in numbers]
    for match, unit in zip(numbers, find_units([Pair(*q) for q in quantiles]), strict=True):
        if unit is not None:
            # The known column has a unit of its own: its cells, not the feature's values, were compared.
            link = left[match.left]
            scale, offset = unit[0] * link.scale, unit[1] * link.scale + link.offset
            units[match.right] = (float(f"{scale:.7g}"), float(f"{offset:.7g}"))
    return units


def _place(
    bundle: Bundle, left: Mapping[str, Link], new: Portrait, shared: Mapping[str, str], matches: Sequence[Match]
) -> dict[str, Floats]:
    """The encodings of the new columns: fitted for them alone, with all else frozen."""
    linking = bundle.linking
    if linking is None:
        return {}
    stands: Stands = {left[a].feature: (new.index[b], 1, 1.0) for a, b in shared.items()}
    for match in matches:
        if match.probability >= LEAST_SURE:
            stands[left[match.left].feature] = (new.index[match.right], match.sign, match.probability)
    profile = draw_profile(new, linking.space.landmarks, stands)
    return dict(zip(new.columns, place(linking.space, profile), strict=True))


def _portrait_of(bundle: Bundle, links: Mapping[str, Link]) -> Portrait:
    """A table's portrait under its own names and units: that of the fitted table with most of its features."""
    wanted = {link.feature for link in links.values()}
    portraits = bundle.linking.portraits.values() if bundle.linking else ()
    best = max(portraits, key=lambda portrait: len(wanted & set(portrait.columns)), default=None)
    if best is None or not wanted & set(best.columns):
        best = _from_schema([bundle.schema.features[bundle.schema.index[name]] for name in wanted])
    place = best.index
    columns = {column: link for column, link in links.items() if link.feature in place}
    order = np.asarray([place[link.feature] for link in columns.values()], dtype=np.int64)
    at = {int(old): new for new, old in reversed(list(enumerate(order)))}
    kept = [k for k, partner in enumerate(best.partners) if int(partner) in at]
    scales = np.asarray([[link.scale, link.offset] for link in columns.values()])
    quantiles = (best.quantiles[order] - scales[:, 1:]) / scales[:, :1]
    return replace(
        best,
        columns=tuple(columns),
        words=tuple(best.words[i] for i in order),
        signed=best.signed[order],
        repeats=best.repeats[order],
        quantiles=np.sort(quantiles, axis=1),
        shares=best.shares[order],
        partners=np.asarray([at[int(best.partners[k])] for k in kept], dtype=np.int64),
        dependence=best.dependence[order][:, kept],
        known=best.known[order][:, kept],
    )


def _from_schema(features: Sequence[Feature]) -> Portrait:
    """What the schema alone tells: values, and nothing of how they go together."""
    grid = np.linspace(0.0, 1.0, N_QUANTILES)
    n = len(features)
    shares = np.zeros((n, MOST_WORDS))
    quantiles = np.zeros((n, N_QUANTILES))
    for j, feature in enumerate(features):
        if feature.is_number:
            quantiles[j] = np.interp(grid, feature.knots.ranks, feature.knots.values)
        else:
            some = feature.shares[:MOST_WORDS]
            shares[j, : len(some)] = some
    return Portrait(
        columns=tuple(feature.name for feature in features),
        words=tuple(None if f.is_number else tuple(f.words[:MOST_WORDS]) for f in features),
        signed=np.asarray([f.is_number or f.n_values <= 2 for f in features]),
        repeats=np.zeros((n, N_REPEATS)),
        quantiles=quantiles,
        shares=shares,
        partners=np.zeros(0, dtype=np.int64),
        dependence=np.zeros((n, 0, N_STATISTICS)),
        known=np.zeros((n, 0)),
        rows=100,
    )


def sample_cells(cells: Sequence[Any]) -> Sample:
    """Cells as they come in JSON: numbers if all that are known are numbers, else words."""
    known = [not (cell is None or (isinstance(cell, float) and math.isnan(cell))) for cell in cells]
    if all(
        isinstance(cell, int | float) and not isinstance(cell, bool) for cell, k in zip(cells, known, strict=True) if k
    ):
        return Sample(np.asarray([_number(cell) if k else math.nan for cell, k in zip(cells, known, strict=True)]))
    words: dict[str, int] = {}
    numbers = [
        words.setdefault(_word(cell), len(words)) if k else math.nan for cell, k in zip(cells, known, strict=True)
    ]
    return Sample(np.asarray(numbers, dtype=np.float64), tuple(words))


def _number(cell: float) -> float:
    """A number too large for the machine tells nothing."""
    try:
        number = float(cell)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _word(cell: Any) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return codec.word_of(cell) if isinstance(cell, float) and math.isfinite(cell) else str(cell)
