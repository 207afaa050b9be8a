"""What a joint normal law says of numbers and words, and how it says it of all that a single row lacks.

Axis letters: B rows, S columns, Q questions, K values, F features, n dimensions asked for, w those of a word.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from model.law import LEAST_VARIANCE, Floats, Indices, NormalLaw, Row, solvers

# Tails for numbers: those of a t distribution, so that a value far out is surprising but never impossible.
FREEDOM = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What the law says. Numbers: ``mean`` (B, Q), the expected value less the usual one, in spreads. All:
    ``logits`` (B, Q, K), what it adds to those of the network, of meaning for a feature's own values. Both are 0
    where it says nothing.

    On request, of which columns that is made: ``mean_parts`` (B, Q, S) add up to ``mean``; for words
    ``base`` (B, Q, K) and ``parts`` (B, Q, S, K) add up to ``logits``.
    """

    mean: Floats
    logits: Floats
    mean_parts: Floats | None = None
    base: Floats | None = None
    parts: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """The dimensions of one word feature, which lie side by side; where its values lie in them, less the mean,
    (K, w), the precision with nothing known, (w, w), and how far out the values lie by it, (K,).
    """

    at: slice
    points: Floats
    usual: Floats
    usual_bends: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "usual_bends", ((self.points @ self.usual) * self.points).sum(axis=-1))

    def say(self, expected: Floats, left: Floats, believed: float = 1.0) -> Floats:
        """The logits (K,) for one row: its dimensions are expected there (w,), that much in doubt (w, w).
        ``believed``: how far what follows from which cells there are, whatever they hold.
        """
        if len(expected) == 1:
            points, precision = self.points[:, 0], 1.0 / (left.item() + LEAST_VARIANCE)
            bend = 0.5 * believed * (precision - self.usual.item())
            return np.asarray(points * (precision * expected.item() - bend * points))
        doubt = left + LEAST_VARIANCE * np.eye(len(left))
        drawn = solvers().dposv(doubt, self.points.T)[1]  # (w, K)
        bends = (self.points.T * drawn).sum(axis=0) - self.usual_bends
        return np.asarray(expected @ drawn - 0.5 * believed * bends)


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The numbers that may be asked: of each feature its dimension, -1 if it is none of them, (F,); where its values
    lie, less the mean, and the log density there with nothing known, (F, K) each.
    """

    at: Indices
    points: Floats
    usual: Floats


def log_t(at: Floats, mean: Floats | float, variance: Floats | float) -> Floats:
    """The logarithm of a t density, up to a constant of its degrees of freedom."""
    distance: Floats = np.square(at - mean) / (FREEDOM * variance)
    return -0.5 * (FREEDOM + 1.0) * np.log1p(distance) - 0.5 * np.log(variance)


@dataclass(frozen=True, slots=True, eq=False)
class Askable:
    """The features that a law may be asked for; ``beliefs`` as of ``model.linear.LinearExpert``, if there are any."""

    law: NormalLaw
    numbers: Numbers
    words: Mapping[int, Word]
    beliefs: Floats | None = None

    def tell_holes(self, told: Told, row: Row, asked: Indices, *, means_only: bool) -> bool:
        """Answer for features that a single row lacks, numbers and words in one: the calls are dear, not the sums.
        ``means_only``: of numbers no more is said than what is expected. False if the row has one of them.
        """
        numbers = [(q, at) for q, at in enumerate(self.numbers.at[asked].tolist()) if at >= 0]
        words = [(q, f, self.words[f]) for q, f in enumerate(asked.tolist()) if f in self.words]
        dims = [at for _, at in numbers]
        for _, _, word in words:
            dims += range(word.at.start, word.at.stop)
        if not dims or not set(dims).isdisjoint(row.seen):
            return not dims
        expected, left = row.condition(self.law, dims, self.beliefs if words else None)
        n = len(numbers)
        if numbers:
            questions = [q for q, _ in numbers]
            told.mean[0, questions] = expected[:n]
            if not means_only:
                which, variance = asked[questions], left.diagonal()[:n] + LEAST_VARIANCE
                logits = log_t(self.numbers.points[which], expected[:n, None], variance[:, None])
                told.logits[0, questions] = logits - self.numbers.usual[which]
        for question, feature, word in words:
            block = slice(n, n + len(word.usual))
            believed = 1.0 if self.beliefs is None else self.beliefs.item(feature, feature)
            said = word.say(expected[block], left[block, block], believed)
            told.logits[0, question, : len(word.points)] = said
            n = block.stop
        return True
