"""Pairing columns up softly: axis letters as in model.matching."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def soften(scores: Floats, heat: float, threshold: float) -> Floats:
    """One-to-one in the soft: how much of each column goes to each (L, R, T), with room to stay alone."""
    odds = np.exp(np.clip((scores - threshold) / heat, -700.0, 100.0))
    pairs = odds.sum(axis=2)
    u, v = np.ones(pairs.shape[0]), np.ones(pairs.shape[1])
    for _ in range(50):
        u = 1.0 / (pairs @ v + 1.0)
        v = 1.0 / (u @ pairs + 1.0)
    return np.asarray(odds * u[:, None, None] * v[:, None])
