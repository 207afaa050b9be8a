"""The linear expert: what a joint normal law of all features expects of a number, given the cells of a row.

The network learns what bends; straight lines through many columns that say nearly the same are learnt far
better in closed form. Numbers enter in units of their spread, words as one column of 0 and 1 each. Given any
subset of the cells, the expected value is linear in them: it adds one contribution per observed column.
The same code trains and serves. Axis letters: B rows, S columns, Q questions, K values, D dimensions of the law,
d those of the request's columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.codec import standardize
from model.schema import Schema

Floats = NDArray[np.float64]
# Levels are what the network is best at.
ASKED_KINDS = frozenset({"numeric", "datetime"})
# Of a feature with more values than this no words enter.
MOST_VALUES = 12
# Tails of the law: those of a t distribution, so that a rare value far out is surprising but never impossible.
FREEDOM = 4.0
# No expectation is surer than so many spreads.
LEAST_VARIANCE = 1e-4
# Patterns of missing cells that are worked out together.
MOST_PATTERNS = 512


@dataclass(frozen=True, slots=True, eq=False)
class NormalLaw:
    """Mean (D,) and covariance (D, D) of all dimensions: dimension i is the number feature ``owner[i]``
    if ``value[i]`` is -1, else whether that feature has this value.
    """

    owner: NDArray[np.int64]
    value: NDArray[np.int64]
    mean: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What the law expects, in units of the spread: mean and variance (B, Q), 0 and 1 where it says nothing;
    ``parts`` (B, Q, S): what each column adds to the mean, beyond ``start`` (Q,), if asked for.
    """

    mean: Floats
    variance: Floats
    start: Floats
    parts: Floats | None = None


def dimensions_of(schema: Schema, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Owner and value of each dimension; words are left out, those of the most varied features first, where
    there would be more dimensions than ``most``.
    """
    numbers = [(i, -1) for i, feature in enumerate(schema.features) if feature.is_number]
    words = [
        (feature.n_values, i) for i, feature in enumerate(schema.features)
        if not feature.is_number and feature.n_values <= MOST_VALUES
    ]  # fmt: skip
    pairs = list(numbers)
    for n_values, i in sorted(words):
        if len(pairs) + n_values - 1 <= most:
            # The last value is what is left when it is none of the others.
            pairs += [(i, value) for value in range(n_values - 1)]
    pairs = sorted(pairs) if len(numbers) <= most else []
    owner, value = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    return owner, value


class LinearExpert:
    """A law, ready to be asked. ``lean`` (F, 2): how far its expected value and its distribution are followed."""

    def __init__(self, schema: Schema, law: NormalLaw, lean: Floats | None = None) -> None:
        self.law = law
        n_features = len(schema.features)
        self.lean = np.ones((n_features, 2)) if lean is None else lean
        self.is_asked = np.asarray([f.kind in ASKED_KINDS for f in schema.features])
        self._number_at = np.full(n_features, -1)
        is_number = law.value < 0
        self._number_at[law.owner[is_number]] = np.flatnonzero(is_number)
        n_values = max(feature.n_values for feature in schema.features)
        self._standard = np.zeros((n_features, n_values))  # (F, K): the knots of numbers, in spreads
        for i, feature in enumerate(schema.features):
            if feature.is_number:
                self._standard[i, : feature.n_values] = standardize(feature.knots)
                self._standard[i, feature.n_values :] = self._standard[i, feature.n_values - 1]

    def speaks(self, asked: NDArray[np.int64]) -> bool:
        """Whether any of the questions is one for the law."""
        return bool((self.is_asked[asked] & (self._number_at[asked] >= 0)).any())

    def expect(
        self, columns: NDArray[np.int64], positions: NDArray[Any], asked: NDArray[np.int64], *, explain: bool = False
    ) -> Expected:
        """The expected value of each question from the other cells of each row; NaN positions are missing."""
        dims, place = self._find(columns)
        cells, seen = self._encode(dims, positions[:, place])
        patterns, which = _find_patterns(seen)
        pulls, variance = self._pull(dims, asked, patterns)  # per pattern (P, Q, d), (P, Q)
        known = np.where(self.is_asked[asked] & (self._number_at[asked] >= 0), 1.0, 0.0)
        start = known * self.law.mean[self._number_at[asked]]
        pulls, variance = pulls * known[:, None], np.where(known > 0.0, variance, 1.0)
        if len(patterns) == 1:
            mean = start + cells @ pulls[0].T
        else:
            mean = start + (pulls[which] @ cells[:, :, None])[:, :, 0]
        parts = None
        if explain:
            to_column = (place[:, None] == np.arange(len(columns))).astype(np.float64)  # (d, S)
            parts = (pulls[which] * cells[:, None, :]) @ to_column
        return Expected(mean, variance[which], start, parts)

    def coordinates(self, columns: NDArray[np.int64], positions: NDArray[Any]) -> Floats:
        """Rows in all dimensions of the law, NaN where a cell is missing, (B, D)."""
        dims, place = self._find(columns)
        cells, seen = self._encode(dims, positions[:, place])
        rows = np.full((len(positions), len(self.law.owner)), np.nan)
        rows[:, dims] = np.where(seen, cells + self.law.mean[dims], np.nan)
        return rows

    def _find(self, columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The dimensions of some features, and which of ``columns`` each belongs to, (d,) each."""
        dims = np.flatnonzero(np.isin(self.law.owner, columns))
        order = np.argsort(columns)
        return dims, order[np.searchsorted(columns, self.law.owner[dims], sorter=order)]

    def _encode(self, dims: NDArray[np.int64], positions: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
        """Cells as deviations from the mean, 0 where missing, and whether there is one, (B, d) each."""
        seen = ~np.isnan(positions)
        at = np.where(seen, positions, 0.0).astype(np.float64)
        owner, value = self.law.owner[dims], self.law.value[dims]
        below = np.minimum(at.astype(np.int64), self._standard.shape[1] - 2)
        low, high = self._standard[owner, below], self._standard[owner, below + 1]
        numbers = low + (at - below) * (high - low)
        cells = np.where(value < 0, numbers, at == value) - self.law.mean[dims]
        return np.where(seen, cells, 0.0), seen

    def _pull(
        self, dims: NDArray[np.int64], asked: NDArray[np.int64], patterns: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """How much each dimension moves each question, (P, Q, d), and the variance left, (P, Q)."""
        pieces = [
            self._pull_some(dims, asked, patterns[i : i + MOST_PATTERNS])
            for i in range(0, len(patterns), MOST_PATTERNS)
        ]
        return np.concatenate([p for p, _ in pieces]), np.concatenate([v for _, v in pieces])

    def _pull_some(
        self, dims: NDArray[np.int64], asked: NDArray[np.int64], patterns: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        law, seen = self.law.covariance, patterns.astype(np.float64)
        target = self._number_at[asked]  # (Q,); -1 picks nonsense that the caller drops
        precision = invert_seen(law[np.ix_(dims, dims)], seen)
        shared = seen[:, :, None] * law[np.ix_(dims, target)]  # (P, d, Q)
        pulls = (precision @ shared).transpose(0, 2, 1)  # (P, Q, d)
        variance = law[target, target] - (pulls * shared.transpose(0, 2, 1)).sum(2)
        # A question whose own cell is there: it is told from the others alone.
        own = dims[None, :] == target[:, None]  # (Q, d)
        if own.any():
            question, dim = np.nonzero(own)
            itself = precision[:, dim, dim]  # (P, .)
            is_seen = patterns[:, dim]
            alone = -precision[:, dim, :] / np.where(is_seen, itself, 1.0)[:, :, None]
            alone[:, np.arange(len(dim)), dim] = 0.0
            pulls[:, question] = np.where(is_seen[:, :, None], alone, pulls[:, question])
            variance[:, question] = np.where(is_seen, 1.0 / np.where(is_seen, itself, 1.0), variance[:, question])
        return pulls, np.maximum(variance, LEAST_VARIANCE)

    def surprise(self, expected: Expected, asked: NDArray[np.int64]) -> Floats:
        """What the law adds to the logits of each question's values, (B, Q, K): nothing if nothing is known."""
        knots = self._standard[asked]  # (Q, K)
        usual = np.maximum(self.law.covariance[self._number_at[asked], self._number_at[asked]], LEAST_VARIANCE)
        start = _log_t(knots, expected.start[:, None], usual[:, None])
        now = _log_t(knots, expected.mean[:, :, None], expected.variance[:, :, None])
        speaks = self.is_asked[asked] & (self._number_at[asked] >= 0)
        return (now - start) * speaks[:, None]

    def join(
        self, names: tuple[str, ...], feed: Mapping[str, NDArray[Any]], outputs: list[NDArray[np.float32]]
    ) -> list[NDArray[np.float32]]:
        """The outputs of the network with what the law says added."""
        asked = np.asarray(feed["asked"])
        if not self.speaks(asked):
            return outputs
        found = dict(zip(names, outputs, strict=True))
        expected = self.expect(feed["columns"], feed["positions"], asked, explain="point_contributions" in found)
        lean = self.lean[asked]  # (Q, 2)
        found["point"] = found["point"] + (lean[:, 0] * (expected.mean - expected.start)).astype(np.float32)
        width = found["logits"].shape[-1]
        told = lean[:, 1, None] * self.surprise(expected, asked)[:, :, :width]
        found["logits"] = found["logits"] + told.astype(np.float32)
        if expected.parts is not None:
            parts = (lean[:, 0, None] * expected.parts).astype(np.float32)
            found["point_contributions"] = found["point_contributions"] + parts
        return [found[name] for name in names]


def invert_seen(covariance: Floats, seen: Floats) -> Floats:
    """The precision of the seen dimensions of each pattern (P, d), zero for all others, (P, d, d)."""
    both = seen[:, :, None] * seen[:, None, :]
    masked = covariance * both
    diagonal = np.arange(seen.shape[1])
    masked[:, diagonal, diagonal] += 1.0 - seen
    inverse: Floats = np.linalg.inv(masked) * both
    return inverse


def _find_patterns(seen: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The distinct rows (P, d), and which of them each row is (B,)."""
    if (seen == seen[:1]).all():
        return seen[:1], np.zeros(len(seen), dtype=np.int64)
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    _, first, which = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
    return seen[first], which.ravel()


def _log_t(at: Floats, mean: Floats, variance: Floats) -> Floats:
    """The logarithm of a t density, up to a constant of its degrees of freedom."""
    distance: Floats = np.square(at - mean) / (FREEDOM * variance)
    return -0.5 * (FREEDOM + 1.0) * np.log1p(distance) - 0.5 * np.log(variance)
