"""Whether two columns have more values exactly in common than any two columns would.

Two columns on one grid of measurement, or of tables that share rows, do. How many values two different columns would
have in common is seen from all other columns of both tables: 1, 2 and 3 stand in many of them, 13.72 in few.

Axis letters as in model.matching; C columns of both tables, the left one's first, V distinct values in any of them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.examples import MOST_EXAMPLES, Lots, draw_lots
from model.portraits import Portrait

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LAST_LOT = np.uint64(2**64 - 1)
# Beside the columns that have a value or not, a tenth of one that has it, and of one that has not: few tell little.
UNSEEN = 0.1
LEAST_CHANCE, MOST_CHANCE = 0.01, 0.99
# More values than this say no more: they stray together.
MOST_COUNTED = 40.0
# Two different columns stray from what is expected of any two as if that were known from so many values; and now and
# then they have any number of values in common.
FIRMNESS, BY_CHANCE = 4.0, 0.01
# So often the same column has no more in common than any two: its values are never the same twice, or all have them.
NO_MORE = 0.6
# The levels of a column that has few are anyone's: only from so many values on they count in full.
LEAST_COUNTED = 16.0


@dataclass(frozen=True, slots=True)
class Lists:
    """The examples of all columns: ``holds`` (C, V), sparse, 1 where a column has a value; the values' ``lots`` (V,).

    ``distinct`` (C,): how many values a column has; ``last`` (C,): up to which lot they are drawn.
    """

    holds: Any
    lots: Lots
    distinct: Integers
    last: Lots


def compare_equal(left: Portrait, right: Portrait, rows: Integers, columns: Integers) -> Floats:
    """How much likelier the equal values of every pair of columns are if they are the same than if not, (L, R).

    1, which says nothing, where either has no examples: words, and bundles fitted before there were any.
    """
    if not left.distinct.any() or not right.distinct.any():
        return np.ones((len(rows), len(columns)))
    lists = _list_values(left, right)
    n, equal, chance = _count(lists, rows, columns + len(left.columns))
    return np.asarray(np.where(n > 0, _weigh(n, equal, chance), 1.0))


def _list_values(left: Portrait, right: Portrait) -> Lists:
    from scipy.sparse import csr_array  # a heavy import that only this needs

    distinct = np.concatenate([left.distinct, right.distinct])
    drawn = np.arange(MOST_EXAMPLES) < distinct[:, None]
    values, which = np.unique(np.concatenate([left.examples, right.examples])[drawn], return_inverse=True)
    lots = draw_lots(values)
    ends = np.concatenate([[0], np.cumsum(drawn.sum(axis=1))])
    holds = csr_array((np.ones(len(which)), which, ends), shape=(len(distinct), len(values)))
    last = np.full(len(distinct), LAST_LOT)
    for c in np.flatnonzero(distinct > MOST_EXAMPLES):
        last[c] = lots[which[ends[c] : ends[c + 1]]].max()
    return Lists(holds, lots, distinct, last)


def _count(lists: Lists, a: Integers, b: Integers) -> tuple[Floats, Floats, Floats]:
    """Of every pair of columns a and b, each (L, R): how many values of the one with fewer can be looked up in the
    other, how many are found, and which share of them would be found in any other column.
    """
    holds, has = lists.holds, lists.distinct > 0
    n_columns = has.sum() - np.searchsorted(np.sort(lists.last[has]), lists.lots)  # that would have drawn a value, (V,)
    # Neither column is evidence of what any other one would have.
    rate = 1.0 / (np.maximum(n_columns - 2, 0) + 2.0 * UNSEEN)
    elsewhere = (holds.sum(axis=0) - 1.0 + UNSEEN) * rate
    usual = (holds @ elsewhere) / np.maximum(holds.sum(axis=1), 1.0)  # (C,)
    equal = (holds[a] @ holds[b].T).toarray()
    in_both = ((holds[a] * rate) @ holds[b].T).toarray()
    fewer = lists.distinct[a][:, None] <= lists.distinct[b]
    n = np.where(fewer, _look_up(lists, a, b), _look_up(lists, b, a).T)
    chance = np.where(fewer, usual[a][:, None], usual[b]) - in_both / np.maximum(n, 1.0)
    return np.where(has[a][:, None] & has[b], n, 0.0), equal, np.clip(chance, LEAST_CHANCE, MOST_CHANCE)


def _look_up(lists: Lists, a: Integers, b: Integers) -> Floats:
    """How many examples of each column of a would have been drawn in each of b, if they were there, (A, B)."""
    holds = lists.holds
    own = [np.sort(lists.lots[holds.indices[holds.indptr[c] : holds.indptr[c + 1]]]) for c in a]
    return np.asarray([np.searchsorted(lots, lists.last[b], "right") for lots in own], dtype=np.float64)


def _weigh(n: Floats, equal: Floats, chance: Floats) -> Floats:
    """The odds of ``equal`` values of ``n`` in common, for the same column against two different ones.

    Different columns: a share near ``chance``, or now and then any. The same one: any share above it, or no more.
    """
    full = np.minimum(1.0, n / LEAST_COUNTED)
    counted = np.minimum(1.0, MOST_COUNTED / np.maximum(n, 1.0))
    n, equal = n * counted, equal * counted
    near, free = (_log_beta_binomial(n, equal, mean, firm) for mean, firm in ((chance, FIRMNESS), (0.5, 2.0)))
    different = np.logaddexp(np.log1p(-BY_CHANCE) + near, np.log(BY_CHANCE) + free)
    more = _log_beta_binomial(n, equal, (1.0 + chance) / 2.0, 2.0)
    return np.asarray((NO_MORE + (1.0 - NO_MORE) * np.exp(more - different)) ** full)


def _log_beta_binomial(n: Floats, found: Floats, mean: Floats | float, firmness: float) -> Floats:
    """The logarithm of the probability of so many found among n, up to a constant, if the share is not known: beta
    with this mean, as firm as so many values.
    """
    from scipy.special import betaln  # a heavy import that only this needs

    a, b = mean * firmness, (1.0 - mean) * firmness
    return np.asarray(betaln(found + a, np.maximum(n - found, 0.0) + b) - betaln(a, b))
