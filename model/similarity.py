"""How alike features are, as the model sees them, and which columns of two tables pair up.

Likeness of two features is the cosine of their encodings. Two columns can be the same only if both hold
numbers or both hold categories. Pairs are one to one and best in sum (the assignment problem).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.bundle import Bundle
from model.schema import Feature, Link

Floats = NDArray[np.float64]
# Pairs that cannot be are so much worse than any that can.
CANNOT = -10.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A column of the left table, one of the right, and how alike they are (1: the same)."""

    left: str
    right: str
    similarity: float


def unit_vectors(bundle: Bundle) -> Floats:
    """The encodings (F, D), each of length 1: their products are the cosines."""
    vectors = bundle.encodings.astype(np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


def find_similar(bundle: Bundle, feature: str, k: int) -> list[tuple[str, float]]:
    """The ``k`` features most like this one, most alike first."""
    own, vectors = bundle.schema.index[feature], unit_vectors(bundle)
    likeness = vectors @ vectors[own]
    order = [i for i in np.argsort(-likeness, kind="stable") if i != own][:k]
    return [(bundle.schema.features[i].name, float(likeness[i])) for i in order]


def match_tables(bundle: Bundle, left: Mapping[str, Link], right: Mapping[str, Link]) -> list[Pair]:
    """One-to-one pairs of the columns of two tables, best first. A shared feature is its own match."""
    features = {feature.name: feature for feature in bundle.schema.features}
    index, vectors = bundle.schema.index, unit_vectors(bundle)
    rows, columns = ([index[link.feature] for link in links.values()] for links in (left, right))
    likeness = vectors[rows] @ vectors[columns].T
    scores = np.full((len(left), len(right)), CANNOT)
    for i, a in enumerate(left.values()):
        for j, b in enumerate(right.values()):
            if a.feature == b.feature:
                scores[i, j] = 1.0 - CANNOT  # comes before all else
            elif features[a.feature].is_number == features[b.feature].is_number:
                scores[i, j] = likeness[i, j]
    return _assign(list(left), list(right), scores)


def match_rows(bundle: Bundle, left: Mapping[str, Link], columns: Mapping[str, Sequence[Any]]) -> list[Pair]:
    """The same for a table never fitted, of which only values are known: distributions are compared."""
    features = {feature.name: feature for feature in bundle.schema.features}
    scores = np.full((len(left), len(columns)), CANNOT)
    for j, cells in enumerate(columns.values()):
        known = [cell for cell in cells if cell is not None and not (isinstance(cell, float) and math.isnan(cell))]
        for i, link in enumerate(left.values()):
            likeness = _compare(features[link.feature], link, known)
            if likeness is not None:
                scores[i, j] = likeness
    return _assign(list(left), list(columns), scores)


def _compare(feature: Feature, link: Link, cells: Sequence[Any]) -> float | None:
    """1 less the largest distance of the two distribution functions, or the shared mass of words."""
    if not cells:
        return None
    is_number = all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
    if feature.kind in ("numeric", "ordinal") and is_number:
        try:
            values = np.sort(np.asarray(cells, dtype=np.float64) * link.scale + link.offset)
        except OverflowError:
            return None
        knots, ranks = np.asarray(feature.knots.values), np.asarray(feature.knots.ranks)
        mine = np.searchsorted(values, knots, side="right") / len(values)
        less = np.searchsorted(values, knots, side="left") / len(values)
        return 1.0 - float(np.abs((mine + less) / 2 - ranks).max())
    if feature.is_number or (is_number and feature.kind == "boolean"):
        return None
    index = codec.word_index(feature)
    shares = np.asarray(feature.shares)
    mine = np.zeros(len(shares))
    for word, count in Counter(map(_word, cells)).items():
        if word in index:
            mine[int(index[word])] += count / len(cells)
    return float(np.minimum(mine, shares).sum())


def _word(cell: Any) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return codec.word_of(cell) if isinstance(cell, float) and math.isfinite(cell) else str(cell)


def _assign(left: list[str], right: list[str], scores: Floats) -> list[Pair]:
    from scipy.optimize import linear_sum_assignment  # a heavy import that only this needs

    rows, columns = linear_sum_assignment(scores, maximize=True)
    pairs = [
        Pair(left[i], right[j], min(float(scores[i, j]), 1.0))
        for i, j in zip(rows, columns, strict=True)
        if scores[i, j] > CANNOT
    ]
    return sorted(pairs, key=lambda pair: -pair.similarity)


def project(bundle: Bundle) -> Floats:
    """All encodings on their two main axes, (F, 2): a picture, not a measure."""
    centred = bundle.encodings.astype(np.float64)
    centred -= centred.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(centred), 2))
    points[:, : min(2, len(sizes))] = (left * sizes)[:, :2]
    # Axes have no sign of their own: the largest entry is made positive, so the picture stays.
    signs = np.sign(points[np.abs(points).argmax(axis=0), [0, 1]])
    projected: Floats = points * np.where(signs == 0.0, 1.0, signs)
    return projected
