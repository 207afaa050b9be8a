"""The joint normal law of all features: its dimensions, and what a request's columns are to it.

Numbers enter in units of their spread, words as one dimension of 0 and 1 each. Axis letters: B rows, S columns,
K values, D dimensions of the law, d those of a request's columns, P patterns of missing cells.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.schema import Schema

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Words of a feature with more values than this do not enter.
MOST_VALUES = 12
# Patterns of missing cells that are worked out together.
MOST_PATTERNS = 512


@dataclass(frozen=True, slots=True, eq=False)
class NormalLaw:
    """Mean (D,) and covariance (D, D) of all dimensions: dimension i is the number feature ``owner[i]``
    if ``value[i]`` is -1, else whether that feature has this value.
    """

    owner: Indices
    value: Indices
    mean: Floats
    covariance: Floats

    @classmethod
    def standard(cls, owner: Indices, value: Indices) -> "NormalLaw":
        """A law of independent dimensions."""
        return cls(owner, value, np.zeros(len(owner)), np.eye(len(owner)))


@dataclass(slots=True, eq=False)
class Request:
    """What the columns of a request are to the law: its dimensions ``dims``, the column ``place`` each belongs to,
    mean and value of each (d,), their covariance, and the knots of numbers (d, K + 1). ``kept``: what was worked
    out before, by pattern of missing cells and question; ``last``: the inverse for the last pattern.
    """

    dims: Indices
    place: Indices
    to_column: Floats  # (d, S)
    mean: Floats
    covariance: Floats
    value: Indices
    knots: Floats
    kept: dict[tuple[bytes, int], tuple[Floats, Floats]] = field(default_factory=dict)
    last: tuple[bytes, Floats] = (b"none", np.empty(0))

    def encode(self, positions: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
        """Cells as deviations from the mean, 0 where missing, and whether there is one, (B, d) each."""
        at = positions[:, self.place].astype(np.float64)
        seen = ~np.isnan(at)
        at = np.where(seen, at, 0.0)
        below = at.astype(np.int64)
        every = np.arange(len(self.dims))
        low = self.knots[every, below]
        numbers = low + (at - below) * (self.knots[every, below + 1] - low)
        cells = np.where(self.value < 0, numbers, at == self.value) - self.mean
        return np.where(seen, cells, 0.0), seen


def dimensions_of(schema: Schema, most: int) -> tuple[Indices, Indices]:
    """Owner and value of each dimension; words are left out, those of the most varied features first, where
    there would be more dimensions than ``most``, and everything where the numbers alone are more.
    """
    features = list(enumerate(schema.features))
    pairs = [(i, -1) for i, feature in features if feature.is_number]
    if len(pairs) > most:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    words = [(f.n_values, i) for i, f in features if not f.is_number and f.n_values <= MOST_VALUES]
    for n_values, i in sorted(words):
        if len(pairs) + n_values - 1 <= most:
            # The last value is what is left when it is none of the others.
            pairs += [(i, value) for value in range(n_values - 1)]
    owner, value = np.asarray(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    return owner, value


def invert_seen(covariance: Floats, seen: Floats) -> Floats:
    """The precision of the seen dimensions of each pattern (P, d), zero for all others, (P, d, d)."""
    both = seen[:, :, None] * seen[:, None, :]
    masked = covariance * both
    diagonal = np.arange(seen.shape[1])
    masked[:, diagonal, diagonal] += 1.0 - seen
    inverse: Floats = np.linalg.inv(masked) * both
    return inverse


def invert_patterns(covariance: Floats, patterns: NDArray[np.bool_]) -> Floats:
    steps = range(0, len(patterns), MOST_PATTERNS)
    return np.concatenate([invert_seen(covariance, patterns[i : i + MOST_PATTERNS].astype(float)) for i in steps])


def find_patterns(seen: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Indices]:
    """The distinct rows (P, d), and which of them each row is (B,)."""
    if (seen == seen[:1]).all():
        return seen[:1], np.zeros(len(seen), dtype=np.int64)
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    _, first, which = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
    return seen[first], which.ravel()
