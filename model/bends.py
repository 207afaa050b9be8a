"""Between two knots rows need not lie evenly: a long tail has most of its rows at its foot.

The network knows knots only. How a stretch between two of them is filled is kept from the training rows as a few
**bends**: values at which so much of the stretch's rows lies below.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bend = tuple[float, float]
# A stretch bends where its rows depart from evenness by more than chance would have them (Kolmogorov's law, one time
# in twenty), and by more than a share that anybody would see.
BY_CHANCE = 1.36
LEAST_BEND = 0.05
MOST_BENDS = 6


def fit_bends(values: Floats, knots: Floats) -> tuple[Bend, ...]:
    """The bends of all stretches between ``knots``, ascending: (value, share of the stretch's rows below it)."""
    bends: list[Bend] = []
    ordered = np.sort(values)
    for low, high in pairwise(knots.tolist()):
        inside = ordered[np.searchsorted(ordered, low, "right") : np.searchsorted(ordered, high, "left")]
        bends += _bend(inside, low, high)
    return tuple(bends)


def _bend(inside: Floats, low: float, high: float) -> list[Bend]:
    """The bends of one stretch whose rows are these: where it is furthest from straight, then again, a few times."""
    if len(inside) < 2:
        return []
    distinct, counts = np.unique(inside, return_counts=True)
    shares = (np.cumsum(counts) - 0.5 * counts) / len(inside)
    bound = max(LEAST_BEND, BY_CHANCE / np.sqrt(len(inside)))
    found: list[Bend] = []
    while len(found) < MOST_BENDS:
        straight = straighten(distinct, low, high, found)
        furthest = int(np.abs(shares - straight).argmax())
        if abs(shares[furthest] - straight[furthest]) <= bound:
            break
        found = sorted([*found, (float(distinct[furthest]), float(shares[furthest]))])
    return found


def straighten(values: Floats, low: float, high: float, bends: Sequence[Bend]) -> Floats:
    """How much of a stretch from ``low`` to ``high`` lies below each of the values within it."""
    places = [low, *(value for value, _ in bends), high]
    return np.asarray(np.interp(values, places, [0.0, *(share for _, share in bends), 1.0]))


def check_bends(bends: Sequence[Bend], knots: Sequence[float]) -> None:
    """ValueError unless bends stand between knots and ascend, their shares within each stretch too."""
    places = np.searchsorted(knots, [value for value, _ in bends], side="left")
    for i, (value, share) in enumerate(bends):
        follows = i > 0 and places[i] == places[i - 1]
        if not 0 < places[i] < len(knots) or value == knots[places[i]] or not 0.0 < share < 1.0:
            raise ValueError("a bend must stand between two knots, with a share between 0 and 1")
        if (i > 0 and value <= bends[i - 1][0]) or (follows and share <= bends[i - 1][1]):
            raise ValueError("bends must ascend")
