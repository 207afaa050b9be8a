"""The portrait of a table: how its columns are distributed and depend on each other, whatever they are called.

All of it but ``quantiles``, ``shares`` and ``examples`` stays as it is when a column is renamed, its numbers are
re-expressed by a rising function and its words are recoded; a falling function turns the signs of what is odd in it.

Axis letters: N rows, S columns, P partners, O orders, E statistics of a pair, W words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.examples import draw_examples

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# A number is seen through its normal score, and that one's square and cube, freed of each other.
N_ORDERS = 3
N_STATISTICS = N_ORDERS * N_ORDERS
# The orders that turn their sign when a column is turned over.
TURNED = np.asarray([-1.0, 1.0, -1.0])
N_QUANTILES = 129
# Of a column of words so many are looked at, the most frequent; all columns are compared with so many partners.
MOST_WORDS = 20
MOST_PARTNERS = 64
# So many rows tell all there is to tell; a value in fewer cells than this is as good as unique.
MOST_ROWS = 20_000
MOST_CELLS = 1_500_000
LEAST_TIES = 8
# Numbers beyond this are slips or codes: sums of them would overflow.
MOST_NUMBER = 1e100
LEAST_ROWS = 5
N_REPEATS = 5
NO_CELLS: Floats = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Sample:
    """The cells of one column, (N,), NaN where missing: numbers, or the index of each cell's word."""

    cells: Floats
    words: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Portrait:
    """What is kept of a table.

    ``signed`` (S,): numbers, and whatever has two values; the others are words. ``repeats`` (S, N_REPEATS): how much
    the column repeats its values, and where. ``dependence`` (S, P, E): how each column goes with each partner, the
    column numbers in ``partners``; ``known`` (S, P): in how many rows both are known. ``quantiles`` (S, N_QUANTILES)
    of numbers; ``shares`` (S, W) of words, most frequent first, or of a number's levels, rising, if it has few.
    ``examples`` (S, MOST_EXAMPLES) of a number's values, rising, then zeros, of which so many are ``distinct`` (S,):
    none of words, nor in bundles fitted before there were any.
    """

    columns: tuple[str, ...]
    words: tuple[tuple[str, ...] | None, ...]
    signed: NDArray[np.bool_]
    repeats: Floats
    quantiles: Floats
    shares: Floats
    examples: Floats
    distinct: Integers
    partners: Integers
    dependence: Floats
    known: Floats
    rows: int

    @property
    def index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.columns)}


def draw_portrait(samples: Mapping[str, Sample], first: Sequence[str] = ()) -> Portrait:
    """The portrait of a table; ``first``: columns that are to be partners, if not all can be."""
    names, words = tuple(samples), tuple(sample.words for sample in samples.values())
    n_rows = len(next(iter(samples.values())).cells)
    most = min(MOST_ROWS, max(MOST_CELLS // len(names), 1))
    some = np.random.default_rng(0).permutation(n_rows)[:most] if n_rows > most else slice(None)
    columns = [np.where(np.abs(sample.cells) < MOST_NUMBER, sample.cells, np.nan)[some] for sample in samples.values()]
    signed = np.asarray([w is None or _count(cells) <= 2 for w, cells in zip(words, columns, strict=True)])
    views = [_score(cells) if s else _indicate(cells) for s, cells in zip(signed, columns, strict=True)]
    partners = _choose_partners(names, first)
    known = ~np.isnan(np.stack(columns, axis=1))  # (N, S)
    dependence, counts = _relate(views, known, signed, partners)
    listed = [_list_words(cells, w, is_signed=bool(s)) for w, cells, s in zip(words, columns, signed, strict=True)]
    no_quantiles = np.zeros(N_QUANTILES)
    drawn = [draw_examples(cells if w is None else NO_CELLS) for w, cells in zip(words, columns, strict=True)]
    return Portrait(
        columns=names,
        words=tuple(own for own, _ in listed),
        signed=signed,
        repeats=np.stack([_repeat(columns[j], views[j] if signed[j] else None) for j in range(len(names))]),
        quantiles=np.stack([_quantiles(columns[j]) if w is None else no_quantiles for j, w in enumerate(words)]),
        shares=np.stack([np.pad(shares, (0, MOST_WORDS - len(shares))) for _, shares in listed]),
        examples=np.stack([values for values, _ in drawn]),
        distinct=np.asarray([count for _, count in drawn], dtype=np.int64),
        partners=partners,
        dependence=dependence,
        known=counts,
        rows=n_rows,
    )


def _count(cells: Floats) -> int:
    return len(np.unique(cells[~np.isnan(cells)]))


def _count_words(cells: Floats) -> Floats:
    """The share of each word among the known cells, (W,)."""
    known = cells[~np.isnan(cells)].astype(np.int64)
    shares: Floats = np.bincount(known) / max(len(known), 1)
    return shares


def _list_words(
    cells: Floats, words: tuple[str, ...] | None, *, is_signed: bool
) -> tuple[tuple[str, ...] | None, Floats]:
    """The words to be kept and their shares; of a number, the shares of its levels.

    Most frequent words come first; of two words, the one that counts as the lower.
    """
    if words is None:
        return None, _levels(cells)
    top = np.sort(_frequent(cells)) if is_signed else _frequent(cells)
    return tuple(words[k] for k in top), _count_words(cells)[top]


def _levels(cells: Floats) -> Floats:
    """The share of each level of a number that has few, in rising order; empty for the others."""
    _, counts = np.unique(cells[~np.isnan(cells)], return_counts=True)
    return counts / counts.sum() if 0 < len(counts) <= MOST_WORDS else np.zeros(0)


def _frequent(cells: Floats) -> Integers:
    """The indices of the most frequent words, most frequent first."""
    shares = _count_words(cells)
    order = np.argsort(-shares, kind="stable")[:MOST_WORDS]
    return order[shares[order] > 0]


def _score(cells: Floats) -> Floats:
    """The normal score of each cell and its powers, each of mean 0, spread 1 and free of the lower ones, (N, O)."""
    from scipy.special import ndtri  # a heavy import that only this needs

    known = ~np.isnan(cells)
    view = np.zeros((len(cells), N_ORDERS))
    values, which, counts = np.unique(cells[known], return_inverse=True, return_counts=True)
    if len(values) < 2:
        return view
    middle = (np.cumsum(counts) - counts / 2) / counts.sum()
    score, weight = ndtri(middle), counts / counts.sum()
    lower = [np.ones(len(values))]
    for order in range(1, min(N_ORDERS, len(values) - 1) + 1):
        rest = score**order
        for other in lower:
            rest = rest - other * (weight * rest * other).sum()
        spread = float(np.sqrt((weight * rest * rest).sum()))
        if spread < 1e-6:
            break
        lower.append(rest / spread)
    view[known, : len(lower) - 1] = np.stack(lower[1:], axis=1)[which]
    return view


def _indicate(cells: Floats) -> Floats:
    """For each frequent word whether a cell holds it, less its share, in units of the share's root, (N, W)."""
    known = ~np.isnan(cells)
    top = _frequent(cells)
    root = np.sqrt(_count_words(cells)[top])
    view = np.zeros((len(cells), len(top)))
    view[known] = (cells[known, None] == top) / root - root
    return view


def _choose_partners(names: Sequence[str], first: Sequence[str]) -> Integers:
    place = {name: i for i, name in enumerate(names)}
    chosen = [place[name] for name in first if name in place]
    rest = [i for i in range(len(names)) if i not in set(chosen)]
    return np.sort(np.asarray((chosen + rest)[:MOST_PARTNERS], dtype=np.int64))


def _relate(
    views: Sequence[Floats], known: NDArray[np.bool_], signed: NDArray[np.bool_], partners: Integers
) -> tuple[Floats, Floats]:
    """How each column goes with each partner, (S, P, E), and in how many rows both are known, (S, P).

    Of two signed columns: the products of their scores' orders. With words on one side, what is left of it without
    the words' names: how far each order of the other's score differs between words. With words on both sides: how
    far they go together at all. What chance alone would give is taken off.
    """
    counts = known.astype(np.float64).T @ known[:, partners]  # (S, P)
    sizes = np.asarray([view.shape[1] for view in views])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    stacked = np.concatenate(views, axis=1)
    together = np.zeros((len(views), len(partners), N_STATISTICS))
    for p, partner in enumerate(partners):
        products = stacked.T @ views[partner]  # (all views, O or W)
        for j in range(len(views)):
            n = counts[j, p]
            if j == partner or n < LEAST_ROWS or not sizes[j]:
                continue
            pair = products[starts[j] : starts[j + 1]] / n
            if signed[j] and signed[partner]:
                together[j, p] = pair.ravel()
            elif signed[j] or signed[partner]:
                axis = 1 if signed[j] else 0
                together[j, p, :N_ORDERS] = _beyond_chance((pair**2).sum(axis), (pair.shape[axis] - 1) / n)
            else:
                chance = (pair.shape[0] - 1) * (pair.shape[1] - 1) / n
                together[j, p, 0] = _beyond_chance((pair**2).sum(), chance)
    return together, counts


def _beyond_chance(squares: Floats, chance: float) -> Floats:
    rest = squares - chance
    root: Floats = np.sign(rest) * np.sqrt(np.abs(rest))
    return root


def _repeat(cells: Floats, view: Floats | None) -> Floats:
    """How often the column repeats its values: mean and spread over cells of the logarithm, and for numbers how that
    goes with the normal score and its square; last the share of missing cells.
    """
    known = ~np.isnan(cells)
    n = int(known.sum())
    if not n:
        return np.asarray([0.0, 0.0, 0.0, 0.0, 1.0])
    _, which, counts = np.unique(cells[known], return_inverse=True, return_counts=True)
    often = np.log(np.maximum(counts[which] / n, LEAST_TIES / n) * n / LEAST_TIES)
    with_score = (often[:, None] * view[known, :2]).mean(axis=0) if view is not None else np.zeros(2)
    return np.asarray([often.mean(), often.std(), *with_score, 1.0 - known.mean()])


def _quantiles(cells: Floats) -> Floats:
    known = cells[~np.isnan(cells)]
    if not len(known):
        return np.zeros(N_QUANTILES)
    quantiles: Floats = np.quantile(known, np.linspace(0.0, 1.0, N_QUANTILES))
    return quantiles
