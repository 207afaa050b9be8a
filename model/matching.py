"""Which columns of two tables mean the same, from the tables' portraits.

For every pair of columns the evidence is added up as a logarithm of odds: how much likelier what is seen would be if
the two were the same than if each were drawn on its own. It comes from the values themselves (kept, in another unit,
or re-expressed altogether: then they say nothing), from how often values repeat, and above all from the company: a
column and its twin go with the columns that both tables share in the same way, and so, once pairs emerge, with the
columns of every likely pair. A number may be turned over (miles per gallon, litres per 100 km): every pair of numbers
is tried both ways.

Axis letters: L, R columns left and right, T the two ways (as it is, turned over), E statistics.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.company import Speaker, compare_dependence, compare_pairs, orient
from model.equality import compare_equal
from model.likeness import (
    Values,
    compare_levels,
    compare_names,
    compare_repeats,
    compare_values,
    measure_distances,
)
from model.moving import MOST_KEPT, learn_kept, learn_moves, weigh_moves
from model.pairing import soften
from model.portraits import LEAST_ROWS, N_ORDERS, TURNED, Portrait

Floats = NDArray[np.float64]
# The logarithm of the odds of a pair that cannot be.
CANNOT = -1e6
# Of all likely pairs so many speak for the others in a round, those that are surest and say most.
MOST_SPEAKERS = 48


@dataclass(frozen=True, slots=True)
class Weights:
    """What evidence is worth, and how it is weighed up. Chosen on twelve tables of which none is in the benchmark."""

    values: float = 4.0
    repeats: float = 1.0
    levels: float = 0.25
    least_levels: float = -10.0  # shares move from table to table: so much may speak against a pair, not more
    shared: float = 1.0
    company: float = 1.0
    names: float = 8.0
    # How far the dependence of the same two columns differs from table to table, beyond chance: a first guess that
    # counts as much as so many pairs, then learnt, within limits; and the degrees of freedom of Student's law: how
    # far single statistics may stray.
    drift: float = 0.05
    patience: float = 4.0
    least_drift: float = 0.02
    most_drift: float = 0.2
    freedom: float = 3.0
    # The share of columns whose values are kept (a first guess, then learnt), and are only in another unit.
    kept: float = 0.4
    rescaled: float = 0.02
    # Pairs are formed in rounds, at first loosely, then more and more firmly.
    rounds: int = 6
    first_heat: float = 8.0
    last_heat: float = 2.0
    least_speaker: float = 0.05
    # How far the sum of evidence is to be believed, and how much of it there must be for any match.
    doubt: float = 3.5
    threshold: float = -2.0


DEFAULT = Weights()


@dataclass(frozen=True, slots=True)
class Match:
    """A column of the left table and one of the right; ``sign`` is -1 where the one falls as the other rises.

    ``probability``: that they mean the same, with "no match" among the candidates. The parts of the ``evidence``
    are logarithms of odds.
    """

    left: str
    right: str
    probability: float
    sign: int
    evidence: Mapping[str, float]


def match_portraits(
    left: Portrait,
    right: Portrait,
    shared: Mapping[str, str],
    *,
    read_names: bool = False,
    weights: Weights = DEFAULT,
) -> list[Match]:
    """One-to-one matches of the columns that are not ``shared`` (left name to right name), surest first."""
    from scipy.optimize import linear_sum_assignment  # a heavy import that only this needs

    task = Task(left, right, shared, weights, read_names=read_names)
    if not task.feasible.any():
        return []
    parts = task.solve()
    total = task.add_up(parts)
    ways, best = total.argmax(axis=2), total.max(axis=2)
    sure = soften(total, weights.doubt, weights.threshold).sum(axis=2)
    matches = []
    for i, j in zip(*linear_sum_assignment(best, maximize=True), strict=True):
        if best[i, j] > CANNOT / 2:
            way = int(ways[i, j])
            # Never -0.0.
            evidence = {name: round(float(part[i, j, way]), 3) + 0.0 for name, part in parts.items()}
            names = left.columns[task.rows[i]], right.columns[task.columns[j]]
            matches.append(Match(*names, float(sure[i, j]), 1 - 2 * way, evidence))
    return sorted(matches, key=lambda match: -match.probability)


class Task:
    """Two portraits and what is known to be shared: the evidence for every pair of the other columns."""

    def __init__(
        self, left: Portrait, right: Portrait, shared: Mapping[str, str], weights: Weights, *, read_names: bool = False
    ) -> None:
        self.left, self.right, self.weights, self.read_names = left, right, weights, read_names
        taken = set(shared.values())
        self.rows = np.asarray([i for i, name in enumerate(left.columns) if name not in shared], dtype=np.int64)
        self.columns = np.asarray([i for i, name in enumerate(right.columns) if name not in taken], dtype=np.int64)
        both = left.signed[self.rows][:, None], right.signed[self.columns][None]
        self.feasible: NDArray[np.bool_] = both[0] == both[1]
        # Words cannot be turned over.
        self.open = np.stack([self.feasible, both[0] & both[1]], axis=2)  # (L, R, T)
        known = left.index, right.index
        pairs = [(known[0][a], known[1][b]) for a, b in shared.items() if a in known[0] and b in known[1]]
        signs = [orient(left, a, right, b) for a, b in pairs]
        self.shared = [Speaker(a, b, sign, 1.0) for (a, b), sign in zip(pairs, signs, strict=True) if sign is not None]
        self.drift = weights.drift
        self.chance = 1.0 / max(left.rows, 1) + 1.0 / max(right.rows, 1)

    def add_up(self, parts: Mapping[str, Floats]) -> Floats:
        """The sum of the evidence, (L, R, T)."""
        return np.where(self.open, sum(parts.values(), start=np.zeros(self.open.shape)), CANNOT)

    def solve(self) -> dict[str, Floats]:
        """The parts of the evidence, each (L, R, T); pairs that emerge speak for further ones, round by round."""
        w = self.weights
        parts = {
            **self._compare_values(),
            "repeats": w.repeats * compare_repeats(self.left, self.right, self.rows, self.columns, w.freedom)
            + w.levels * np.maximum(compare_levels(self.left, self.right, self.rows, self.columns), w.least_levels),
            "shared": w.shared * self.compare_company(self.shared),
            "company": np.zeros(self.open.shape),
        }
        if self.read_names:
            names = compare_names(self.left.columns, self.right.columns, self.rows, self.columns)
            parts["names"] = np.repeat(w.names * names[:, :, None], 2, axis=2)
        for turn in range(w.rounds):
            odds = soften(self.add_up(parts), max(w.last_heat, w.first_heat * 0.5**turn), 0.0)
            self.drift = self._learn_drift(odds)
            parts["company"] = w.company * (self.compare_company(self._speakers(odds)) + self._swap(odds))
        return parts

    def _compare_values(self) -> dict[str, Floats]:
        """What the distributions of the values say, and what is added by those that are exactly equal."""
        w = self.weights
        here = self.left, self.right, self.rows, self.columns
        distances, equal = measure_distances(*here, chance=self.chance), compare_equal(*here)
        told = weigh_moves(self.left, self.right, [(s.left, s.right) for s in self.shared], self.chance)
        values = compare_values(distances, learn_moves(told, distances, equal, self.feasible, w.kept))
        both = Values(values.kept * equal, values.rescaled)
        kept = learn_kept(both.kept, self.feasible, w.kept, MOST_KEPT - w.rescaled)
        plain = self._weigh_values(values, kept)
        return {"values": plain, "equal": self._weigh_values(both, kept) - plain}

    def _weigh_values(self, values: Values, kept: float) -> Floats:
        """What the values say if a share ``kept`` of the columns has kept them, (L, R, T)."""
        w = self.weights
        mixed = np.log(kept * values.kept + w.rescaled * values.rescaled + 1.0 - kept - w.rescaled)
        return np.repeat(w.values * mixed[:, :, None], 2, axis=2)

    def _learn_drift(self, odds: Floats) -> float:
        """How far the dependence of two columns differs from that of their likely twins, beyond chance."""
        w = self.weights
        pairs = [*self.shared]
        for i, one in enumerate(odds):
            j, t = np.unravel_index(int(one.argmax()), one.shape)
            if one[j, t] > w.least_speaker:
                pairs.append(Speaker(int(self.rows[i]), int(self.columns[j]), 1 - 2 * int(t), float(one[j, t])))
        gap, weight = compare_dependence(self.left, self.right, pairs)
        learnt = ((weight * gap).sum() + w.patience * w.drift**2) / (weight.sum() + w.patience)
        return float(np.clip(np.sqrt(max(learnt, 0.0)), w.least_drift, w.most_drift))

    def _speakers(self, odds: Floats) -> list[Speaker]:
        """Pairs likely enough to speak for others, (L, R, T) to a list."""
        found = np.argwhere(odds > self.weights.least_speaker)
        loud = np.square(self.left.dependence).sum(axis=(1, 2))[self.rows[found[:, 0]]] * odds[tuple(found.T)]
        return [
            Speaker(int(self.rows[i]), int(self.columns[j]), 1 - 2 * int(t), float(odds[i, j, t]))
            for i, j, t in found[np.argsort(-loud, kind="stable")[:MOST_SPEAKERS]]
        ]

    def compare_company(self, speakers: list[Speaker]) -> Floats:
        """How alike the columns go with those of given pairs, (L, R, T)."""
        total = np.zeros(self.open.shape)
        place = [{int(p): k for k, p in enumerate(side.partners)} for side in (self.left, self.right)]
        for speaker in speakers:
            if speaker.left in place[0] and speaker.right in place[1]:
                p, q = place[0][speaker.left], place[1][speaker.right]
                total += speaker.weight * self._hear(speaker, p, q)
        return total

    def _hear(self, speaker: Speaker, p: int, q: int) -> Floats:
        """What one pair says of all others, (L, R, T): its columns are the partners ``p`` and ``q``."""
        left, right = self.left, self.right
        mine, theirs = left.dependence[self.rows, p], right.dependence[self.columns, q]  # (L, E), (R, E)
        n_mine, n_theirs = left.known[self.rows, p], right.known[self.columns, q]
        enough = (n_mine >= LEAST_ROWS)[:, None] & (n_theirs >= LEAST_ROWS)
        enough &= (self.rows != speaker.left)[:, None] & (self.columns != speaker.right)
        drift = self.drift**2 / 2
        doubt = 1.0 / np.maximum(n_mine, 1.0) + drift, 1.0 / np.maximum(n_theirs, 1.0) + drift
        # How far such statistics stray from zero by themselves: where they do not, they tell nothing.
        real = (np.square(mine).mean(0) + np.square(theirs).mean(0) - doubt[0].mean() - doubt[1].mean()) / 2
        said = np.zeros(self.open.shape)
        for t, way in enumerate((1, -1)):
            turned = theirs
            if left.signed[speaker.left]:
                turn = np.outer(
                    TURNED if way < 0 else np.ones(N_ORDERS), TURNED if speaker.sign < 0 else np.ones(N_ORDERS)
                )
                turned = np.where(right.signed[self.columns, None], theirs * turn.ravel(), theirs)
            doubts = doubt[0][:, None, None], doubt[1][None, :, None]
            said[:, :, t] = compare_pairs(mine[:, None], turned[None], doubts, real, self.weights.freedom)
        return np.where(enough[:, :, None], said, 0.0)

    def _swap(self, odds: Floats) -> Floats:
        """What the pairs say that would have to part if two columns paired up, (L, R, T).

        A pair does not speak for its own columns. But if i is with q now and p with j, then i with j makes p go with
        q, and how i goes with p and j with q tells whether that would be better: else two columns that are much alike
        would never change partners.
        """
        left, right = self.left, self.right
        if not len(left.partners) or not len(right.partners):
            return np.zeros(self.open.shape)
        p, q = odds.max(axis=2).argmax(axis=0), odds.max(axis=2).argmax(axis=1)  # of each column, of each row
        way = odds[np.arange(len(q)), q].argmax(axis=1)
        place = [{int(x): k for k, x in enumerate(side.partners)} for side in (left, right)]
        p_at = np.asarray([place[0].get(int(a), -1) for a in self.rows[p]])
        q_at = np.asarray([place[1].get(int(b), -1) for b in self.columns[q]])
        mine = left.dependence[self.rows[:, None], p_at[None]]  # (L, R, E)
        theirs = right.dependence[self.columns[None], q_at[:, None]]
        n_mine, n_theirs = left.known[self.rows[:, None], p_at[None]], right.known[self.columns[None], q_at[:, None]]
        doubts = [1.0 / np.maximum(n, 1.0)[:, :, None] + self.drift**2 / 2 for n in (n_mine, n_theirs)]
        real = (np.square(mine).mean((0, 1)) + np.square(theirs).mean((0, 1)) - doubts[0].mean() - doubts[1].mean()) / 2
        sure = odds.sum(axis=2)
        # As loud as each of the two pairs would speak for the other one now.
        weight = np.sqrt(sure[p, np.arange(len(p))][None] * sure[np.arange(len(q)), q][:, None])
        apart = (p[None] != np.arange(len(q))[:, None]) & (q[:, None] != np.arange(len(p)))
        apart &= (p_at >= 0)[None] & (q_at >= 0)[:, None] & (n_mine >= LEAST_ROWS) & (n_theirs >= LEAST_ROWS)
        # Which way round the parted two would go: as i and q do, the other way if i falls as p rises.
        signs = np.where((way == 1)[:, None] != (mine[:, :, 0] < 0.0), -1, 1)
        both = left.signed[self.rows][:, None] & left.signed[self.rows[p]]
        said = np.zeros(self.open.shape)
        for t, turn in enumerate((np.ones(N_ORDERS), TURNED)):
            partner = np.where((signs < 0)[:, :, None], TURNED, np.ones(N_ORDERS))  # (L, R, O)
            turned = (turn[:, None] * partner[:, :, None]).reshape(*signs.shape, -1)
            said[:, :, t] = compare_pairs(
                mine,
                np.where(both[:, :, None], theirs * turned, theirs),
                (doubts[0], doubts[1]),
                real,
                self.weights.freedom,
            )
        return np.where(apart[:, :, None], weight[:, :, None] * said, 0.0)
