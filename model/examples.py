"""Examples of a number column's distinct values, drawn so that those of two columns can be compared.

Every value has a lot of its own, the same in all tables, and the lowest lots are drawn (bottom-k sampling): what two
columns have in common is drawn in both or, beyond the shorter draw's last lot, in neither.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Lots = NDArray[np.uint64]
# So many distinct values of a column are kept.
MOST_EXAMPLES = 256
# Values that agree in so many digits are equal: cells that went through a fit come back a little rounded.
N_DIGITS = 6
# Of a column of which rounding leaves fewer distinct values than this share, nothing can be said.
LEAST_TOLD = 0.9
# Numbers beyond this are slips or codes; below that they are as good as zero.
MOST_SIZE, LEAST_SIZE = 1e100, 1e-290
# Constants of the mixing function splitmix64.
_ADDED, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def draw_examples(cells: Floats) -> tuple[Floats, int]:
    """The examples of a column's known cells, rising, then zeros, (MOST_EXAMPLES,); how many distinct values it has."""
    exact = np.unique(cells[np.abs(cells) < MOST_SIZE])
    distinct = np.unique(round_off(exact))
    if len(distinct) < LEAST_TOLD * len(exact):  # long numbers, such as identifiers: rounding makes them equal
        distinct = distinct[:0]
    drawn = distinct[np.argsort(draw_lots(distinct), kind="stable")[:MOST_EXAMPLES]]
    return np.pad(np.sort(drawn), (0, MOST_EXAMPLES - len(drawn))), len(distinct)


def rescale_examples(examples: Floats, distinct: int, scale: float, offset: float) -> tuple[Floats, int]:
    """The examples of (value - offset) / scale, for every value; none if not all values are there.

    In another unit every value has another lot, so that of a draw nothing can be said.
    """
    if (scale, offset) == (1.0, 0.0):
        return examples, distinct
    return draw_examples((examples[:distinct] - offset) / scale if distinct <= MOST_EXAMPLES else np.zeros(0))


def round_off(values: Floats) -> Floats:
    """To the nearest number of ``N_DIGITS`` digits; never -0.0, whose bits are not those of 0.0."""
    shift = N_DIGITS - 1 - np.floor(np.log10(np.maximum(np.abs(values), LEAST_SIZE)))
    # Powers of ten are exact only upwards: equal numbers must have equal bits.
    up, down = 10.0 ** np.clip(shift, 0.0, None), 10.0 ** np.clip(-shift, 0.0, None)
    return np.asarray(np.round(values * up / down) * down / up + 0.0)


def draw_lots(values: Floats) -> Lots:
    """The lot of each value: its bits, mixed."""
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(values).view(np.uint64) + _ADDED
        x = (x ^ (x >> np.uint64(30))) * _FIRST
        x = (x ^ (x >> np.uint64(27))) * _SECOND
    return np.asarray(x ^ (x >> np.uint64(31)))
