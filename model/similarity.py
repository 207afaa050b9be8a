"""How alike features are, as their encodings say, and a picture of them all."""

import numpy as np
from numpy.typing import NDArray

from model.bundle import Bundle
from model.linking import turn_over

Floats = NDArray[np.float64]


def unit_vectors(bundle: Bundle) -> Floats:
    """The encodings (F, D), each of length 1: their products are the cosines."""
    return to_units(bundle.encodings.astype(np.float64))


def to_units(vectors: Floats) -> Floats:
    """Vectors in rows, each of length 1; what has no length stays zero."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def cosines(bundle: Bundle, left: Floats, right: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """How alike unit vectors (L, D) and (R, D) are, (L, R), and whether as they are (1) or turned over (-1)."""
    straight = left @ right.T
    if bundle.linking is None:  # an older bundle's encodings know no turning
        return straight, np.ones(straight.shape, dtype=np.int64)
    turned = turn_over(left) @ right.T
    return np.maximum(straight, turned), np.where(turned > straight, -1, 1)


def find_similar(bundle: Bundle, feature: str, k: int) -> list[tuple[str, float, int]]:
    """The ``k`` features most like this one, most alike first, each with how alike and in which direction."""
    own, vectors = bundle.schema.index[feature], unit_vectors(bundle)
    alike, signs = cosines(bundle, vectors, vectors[[own]])
    order = [i for i in np.argsort(-alike[:, 0], kind="stable") if i != own][:k]
    return [(bundle.schema.features[i].name, float(alike[i, 0]), int(signs[i, 0])) for i in order]


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
