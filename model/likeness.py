"""How alike two columns are by themselves: their values, how often those repeat, their names.

All as logarithms of odds, or as odds, for every pair of columns of two tables: axis letters as in model.matching.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from model.portraits import N_REPEATS, Portrait

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# The same column's distribution may move from table to table: hardly (halves of one table) or far (other times, other
# places). How far is learnt (model.moving).
MOVES = np.asarray([0.02, 0.05, 0.12, 0.3])
# The same column differs so much in each of the figures of its repeats.
USUAL_REPEATS = np.asarray([0.3, 0.3, 0.15, 0.15, 0.15])
TURNED_REPEATS = np.asarray([1.0, 1.0, -1.0, 1.0, 1.0])
# Distances of any two columns pile up near 1, as a power of the distance: no less and no more than this; but now and
# then two columns have the same values by chance.
LEAST_POWER, MOST_POWER, BY_CHANCE = 0.0, 5.0, 0.05
# Shares of more rows than this are not told apart any finer: tables differ for more reasons than chance.
MOST_COUNTED = 200.0
# So much of a name is read.
MOST_NAME, MOST_NAME_WORDS = 100, 12
# So many columns show how far apart a table's columns are.
MOST_COMPARED = 40


@dataclass(frozen=True, slots=True)
class Distances:
    """How far apart the distributions of every pair of columns are, from 0 to 1, (L, R): ``plain`` as they are,
    ``shape`` in units of their own.

    ``chance``: how much of it is chance; ``power``: how distances of any two columns pile up near 1. ``numbers``: both
    columns are; ``words``: both are. A pair of a number and a word says nothing.
    """

    plain: Floats
    shape: Floats
    chance: Floats
    power: Floats
    numbers: NDArray[np.bool_]
    words: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Values:
    """How much likelier the values are if two columns are the same than if not, (L, R): kept, in another unit."""

    kept: Floats
    rescaled: Floats


def measure_distances(
    left: Portrait, right: Portrait, rows: Integers, columns: Integers, *, chance: float
) -> Distances:
    """Of every pair of columns."""
    mine, theirs = (
        np.asarray([side.words[c] is not None for c in which], dtype=bool)
        for side, which in ((left, rows), (right, columns))
    )
    words = mine[:, None] & theirs
    plain = _distances(left.quantiles[rows], right.quantiles[columns])
    for i, j in np.argwhere(words):
        plain[i, j] = _word_distance(left, int(rows[i]), right, int(columns[j]))
    counts = np.asarray([len(left.words[a] or ()) for a in rows])[:, None]
    return Distances(
        plain=plain,
        shape=_distances(_own_units(left.quantiles[rows]), _own_units(right.quantiles[columns])),
        chance=chance * np.where(words, counts, 1.0),
        power=np.where(words, MOST_POWER, _usual_power(left, right)),
        numbers=~mine[:, None] & ~theirs,
        words=words,
    )


def compare_values(distances: Distances, moves: Floats) -> Values:
    """Of every pair of columns, if the same column's distribution moves as far as ``moves`` tells (see ``MOVES``)."""
    kept = _odds(distances.plain, distances.chance, moves, distances.power)
    rescaled = _odds(distances.shape, distances.chance, moves, np.zeros_like(distances.power))
    return Values(
        np.where(distances.numbers | distances.words, kept, 1.0),
        np.where(distances.numbers, rescaled, np.where(distances.words, 0.0, 1.0)),
    )


def _usual_power(left: Portrait, right: Portrait) -> float:
    """How much likelier large distances are than small ones for two columns that are not the same: as in one table."""
    logs = []
    for side in (left, right):
        numbers = [j for j, words in enumerate(side.words) if words is None][:MOST_COMPARED]
        far = _distances(side.quantiles[numbers], side.quantiles[numbers])
        logs.append(np.log(np.maximum(far[np.triu_indices(len(numbers), 1)], 0.01)))
    total = np.concatenate(logs)
    mean = float(total.mean()) if len(total) else 0.0
    return min(max(-1.0 / mean - 1.0, LEAST_POWER), MOST_POWER) if mean < 0.0 else MOST_POWER


def move(distances: Floats, chance: Floats) -> Floats:
    """The density of distances for the same column, for each of ``MOVES`` on the last axis: Student's, with 4 degrees
    of freedom.
    """
    variance = chance[..., None] / 2 + np.square(MOVES)
    return np.asarray(0.75 / np.sqrt(variance) * (1.0 + np.square(distances)[..., None] / variance / 4.0) ** -2.5)


def _odds(distances: Floats, chance: Floats, moves: Floats, power: Floats) -> Floats:
    """How much likelier distances of two distributions (0 to 1) are for the same column than for any two."""
    any_two = BY_CHANCE + (1.0 - BY_CHANCE) * (power + 1.0) * distances**power
    return np.asarray(move(distances, chance) @ moves / any_two)


def _distances(mine: Floats, theirs: Floats) -> Floats:
    """The largest distance of two distribution functions, given by quantiles (L, Q) and (R, Q): (L, R).

    Values shared by many cells count half below and half above themselves.
    """
    n = mine.shape[1]
    own = [[_below(row, row) for row in side] for side in (mine, theirs)]
    far = np.zeros((len(mine), len(theirs)))
    for i, x in enumerate(mine):
        for j, y in enumerate(theirs):
            there, back = np.abs(_below(y, x) - own[0][i]).max(), np.abs(_below(x, y) - own[1][j]).max()
            far[i, j] = max(there, back) / n
    return far


def _below(column: Floats, at: Floats) -> Floats:
    """How many of a column's quantiles lie below each value, equal ones counted half."""
    return np.asarray((np.searchsorted(column, at, "left") + np.searchsorted(column, at, "right")) / 2)


def _own_units(quantiles: Floats) -> Floats:
    """Each column from its median, in units of the distance between its quartiles."""
    k = quantiles.shape[1] // 4
    middle = quantiles[:, 2 * k, None]
    width = np.maximum(quantiles[:, 3 * k] - quantiles[:, k], (quantiles[:, -2] - quantiles[:, 1]) / 4)
    return np.asarray((quantiles - middle) / np.maximum(width, 1e-12)[:, None])


def _word_distance(left: Portrait, a: int, right: Portrait, b: int) -> float:
    """The share of cells whose word the other column does not have as often."""
    other = dict(zip(right.words[b] or (), right.shares[b], strict=False))
    common = sum(
        min(share, other.get(word, 0.0)) for word, share in zip(left.words[a] or (), left.shares[a], strict=False)
    )
    return max(1.0 - float(common), 0.0)


def compare_repeats(left: Portrait, right: Portrait, rows: Integers, columns: Integers, freedom: float) -> Floats:
    """How alike the columns repeat their values, as logarithms of odds, (L, R, T)."""
    mine, theirs = left.repeats[rows], right.repeats[columns]
    chance = 4.0 / max(left.rows, 1) + 4.0 / max(right.rows, 1)
    both = np.zeros((len(mine), len(theirs), 2))
    for t, turn in enumerate((np.ones(N_REPEATS), TURNED_REPEATS)):
        other = theirs * turn
        wide = (mine.var(axis=0) + other.var(axis=0)) / 2 + USUAL_REPEATS**2 + chance
        same = _log_student(mine[:, None] - other, USUAL_REPEATS**2 + chance, freedom)
        alone = [_log_student(side - side.mean(axis=0), wide, freedom) for side in (mine, other)]
        both[:, :, t] = (same - (alone[0][:, None] + alone[1]) / 2).sum(axis=2)
    return both


def _log_student(x: Floats, variance: Floats, freedom: float) -> Floats:
    """The logarithm of Student's density, up to a constant."""
    return np.asarray(-0.5 * (freedom + 1.0) * np.log1p(x * x / variance / freedom) - 0.5 * np.log(variance))


def compare_levels(left: Portrait, right: Portrait, rows: Integers, columns: Integers) -> Floats:
    """How much likelier the shares of words, or of a number's few levels in their order, are if drawn from one law
    than from two, as logarithms, (L, R, T). Words are compared by how frequent they are: they may be recoded.
    """
    both = np.zeros((len(rows), len(columns), 2))
    n, m = min(float(left.rows), MOST_COUNTED), min(float(right.rows), MOST_COUNTED)
    for i, a in enumerate(rows):
        mine = left.shares[a][left.shares[a] > 0]
        for j, b in enumerate(columns):
            theirs = right.shares[b][right.shares[b] > 0]
            is_signed = bool(left.signed[a])
            if not len(mine) or not len(theirs) or is_signed != right.signed[b]:
                continue
            if is_signed and len(mine) != len(theirs):
                continue
            size = max(len(mine), len(theirs))
            x, y = (np.pad(counts, (0, size - len(counts))) for counts in (n * mine, m * theirs))
            both[i, j, 0] = _same_law(x, y)
            both[i, j, 1] = _same_law(x, y[::-1]) if is_signed else 0.0
    return both


def _same_law(x: Floats, y: Floats) -> float:
    return _log_evidence(x + y) - _log_evidence(x) - _log_evidence(y)


def _log_evidence(counts: Floats) -> float:
    """The logarithm of the probability of counts if all laws are equally likely beforehand."""
    from scipy.special import gammaln  # a heavy import that only this needs

    return float(gammaln(len(counts)) - gammaln(len(counts) + counts.sum()) + gammaln(counts + 1.0).sum())


def compare_names(left: Sequence[str], right: Sequence[str], rows: Integers, columns: Integers) -> Floats:
    """How alike names are, from -0.25 (nothing in common) to 1 (the same words), (L, R)."""
    mine, theirs = ([name[:MOST_NAME] for name in names] for names in (left, right))
    alike = np.asarray([[_name_likeness(mine[a], theirs[b]) for b in columns] for a in rows])
    return np.asarray(alike.reshape(len(rows), len(columns)) * 1.25 - 0.25)


@lru_cache(maxsize=100_000)
def _name_likeness(a: str, b: str) -> float:
    mine, theirs = _split(a)[:MOST_NAME_WORDS], _split(b)[:MOST_NAME_WORDS]
    if not mine or not theirs:
        return 0.0
    best = [[_word_likeness(x, y) for y in theirs] for x in mine]
    there, back = sum(max(row) for row in best), sum(max(column) for column in zip(*best, strict=True))
    return float(there + back) / (len(mine) + len(theirs))


def _split(name: str) -> tuple[str, ...]:
    """The words of a name: engineSize, engine_size and Engine.Size have the same two."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return tuple(re.findall(r"[a-z]+|[0-9]+", spaced.lower()))


def _word_likeness(a: str, b: str) -> float:
    """1 for the same word, less for one that starts with the other, or leaves letters out (wt, weight)."""
    if a == b:
        return 1.0
    short, long = sorted((a, b), key=len)
    if len(short) < 2 or short[0] != long[0]:
        return 0.0
    if long.startswith(short):
        return 0.9 if len(short) > 2 else 0.5
    letters = iter(long)
    return 0.6 if all(letter in letters for letter in short) else 0.0
