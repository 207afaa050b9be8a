"""How far the truth strays from what is expected, as left-out rows say: numbers are read about their expected value.

Between few knots a distribution is coarse: what follows almost surely from other columns looks as wide as the stretch
between two knots. The expected value is not. So median, interval and draws of a number lie about it, as far out, in
spreads of the row's own distribution, as held-out cells lay about theirs; of the distribution is taken only how sure it
is of one row beside another. That is done for features for which it comes nearer to held-out cells. Of columns in
which many rows share a value the distribution knows which values there are: medians and draws stay its own.
Axis letters: B rows, F features, G groups by how much is observed, H heights, L levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.schema import Bins, Schema

Floats = NDArray[np.float64]
# Shares of held-out cells below which each stray is known; others lie between.
_LOW_HEIGHTS = (0.0, 0.0005, 0.0025, 0.005, 0.0125, 0.025, 0.0375, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4)
HEIGHTS = (*_LOW_HEIGHTS, 0.5, *(1.0 - height for height in reversed(_LOW_HEIGHTS)))
MIDDLE = len(_LOW_HEIGHTS)
# What may lie about the expected value.
INTERVALS, MEDIANS, DRAWS = 0, 1, 2
# What stands where too few rows were left out to tell: as far as the range goes.
FAR = 1e6
# These must be told for a feature that is read about its expected value.
TOLD = slice(HEIGHTS.index(0.1), HEIGHTS.index(1.0 - 0.1) + 1)
# No distribution has less, in spreads of the feature.
LEAST_SPREAD = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Straying:
    """``strays`` (F, G, H): how many spreads of its distribution the truth lies above what is expected, in so many of
    the held-out cells at most. ``about`` (F, 3): whether INTERVALS of a feature lie about the expected value, whether
    MEDIANS do, and what the audit says, and whether DRAWS do.
    """

    strays: Floats
    about: NDArray[np.bool_]

    def quantiles(self, feature: int, groups: NDArray[np.int64], heights: Floats) -> Floats:
        """The strays of each row's group at some heights (L,), (B, L)."""
        return np.stack([read_strays(own, heights) for own in self.strays[feature]])[groups]

    def draw(self, feature: int, groups: NDArray[np.int64], levels: Floats) -> Floats:
        """Each row's stray at its level, (B,), as far out as can be told."""
        drawn = np.empty(len(levels))
        for group, own in enumerate(self.strays[feature]):
            here = groups == group
            drawn[here] = np.interp(levels[here], *_told(own))
        return drawn

    def share_beyond(self, feature: int, groups: NDArray[np.int64], strays: Floats) -> Floats:
        """How much of what was held out lies as far out as each row's stray, to either side, (B,). Beyond the last that
        can be told it falls with the square of the distance: more slowly than what strays by chance.
        """
        share = np.empty(len(strays))
        for group, own in enumerate(self.strays[feature]):
            here, (heights, known), middle = groups == group, _told(own), own[MIDDLE]
            at = np.interp(strays[here], known, heights)
            last = np.where(strays[here] < middle, middle - known[0], known[-1] - middle)
            further = np.clip(np.abs(strays[here] - middle) / np.maximum(last, 1.0 / FAR), 1.0, FAR)
            share[here] = 2.0 * np.minimum(at, 1.0 - at) / further**2
        return share

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All there is to keep of it."""
        return {"strays": self.strays, "about": self.about.astype(np.int64)}


def read_strays(own: Floats, heights: Floats | tuple[float, ...]) -> Floats:
    """The strays of one group (H,) at some heights (L,); FAR beyond those that can be told, to either side."""
    told, known = _told(own)
    strays, rounding = np.interp(heights, told, known), 1e-9
    is_low, is_high = np.less(heights, told[0] - rounding), np.greater(heights, told[-1] + rounding)
    return np.where(is_low, -FAR, np.where(is_high, FAR, strays))


def _told(own: Floats) -> tuple[Floats, Floats]:
    """The heights that can be told, and the strays there."""
    told = np.abs(own) < FAR
    return np.asarray(HEIGHTS)[told], own[told]


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Where median and interval of each row lie: at ``levels`` (B, 2) of its distribution, or ``strays`` (B, 2)
    spreads from what is expected; the median at .5, or ``median`` (B, 1) spreads from there.
    """

    levels: Floats | None = None
    strays: Floats | None = None
    median: Floats | None = None


def plain_ends(n_rows: int, interval: float | None) -> Ends:
    """Those of distributions as they are."""
    return Ends() if interval is None else Ends(levels=np.tile(codec.tails(interval), (n_rows, 1)))


def read_ends(bins: Bins, probabilities: Floats, expected: Floats, ends: Ends) -> tuple[Floats, Floats | None]:
    """Median (B,) and interval (B, 2) of each distribution (B, K), of which this (B,) is expected."""
    if ends.median is None:
        median = codec.read_quantile(bins, probabilities, 0.5)
    else:
        median = read_about(bins, probabilities, expected, ends.median)[:, 0]
    if ends.strays is not None:
        return median, read_about(bins, probabilities, expected, ends.strays)
    return median, None if ends.levels is None else codec.read_quantiles(bins, probabilities, ends.levels)


def read_about(bins: Bins, probabilities: Floats, expected: Floats, strays: Floats) -> Floats:
    """The values so many spreads (B, L) of its distribution from what is expected of each row, within the range."""
    is_told = np.abs(strays) < FAR
    reach = read_spread(bins, probabilities)[:, None] * np.where(is_told, strays, 0.0)
    value = np.clip(expected[:, None] + reach, bins.values[0], bins.values[-1])
    return np.where(is_told, value, np.where(strays < 0.0, bins.values[0], bins.values[-1]))


def stray_from(bins: Bins, probabilities: Floats, expected: Floats, values: Floats) -> Floats:
    """How many spreads of its distribution each value (B,) lies above what is expected of its row."""
    strays: Floats = (values - expected) / read_spread(bins, probabilities)
    return strays


def read_spread(bins: Bins, probabilities: Floats) -> Floats:
    """The standard deviation of each distribution, (B,)."""
    mean, square = (probabilities @ moments_of(bins)).T
    spread: Floats = np.maximum(np.sqrt(np.maximum(square - mean * mean, 0.0)), LEAST_SPREAD) * bins.spread
    return spread


@lru_cache(maxsize=10_000)
def moments_of(bins: Bins) -> Floats:
    """What mass on each knot adds to mean and mean square, in spreads from the feature's mean, (K, 2). Outliers are
    kept near, or the little that any row has there would be all of its spread.
    """
    axis = codec.axis_of(bins)
    lows, highs = (
        np.clip((ends - bins.mean) / bins.spread, -codec.MOST_SPREADS, codec.MOST_SPREADS)
        for ends in (axis.lows, axis.highs)
    )
    middle = 0.5 * (lows + highs)
    moments: Floats = axis.to_pieces @ np.stack([middle, middle**2 + (highs - lows) ** 2 / 12.0], axis=1)
    return moments


def straying_of(schema: Schema, arrays: Mapping[str, NDArray[Any]], n_groups: int) -> Straying:
    """What was kept; nothing is read about its expected value where nothing was (bundles of before); ValueError where
    it does not fit the features.
    """
    if "strays" not in arrays and "about" not in arrays:
        return no_straying(len(schema.features), n_groups)
    shapes = {"strays": (len(schema.features), n_groups, len(HEIGHTS)), "about": (len(schema.features), 3)}
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            raise ValueError(f"its array {name!r} is not there, or was made for other features")
    strays, about = arrays["strays"], arrays["about"]
    if not (np.diff(strays, axis=2) >= 0.0).all() or not ((strays >= -FAR) & (strays <= FAR)).all():
        raise ValueError("its strays do not grow with their height")
    if not np.isin(about, (0, 1)).all():
        raise ValueError("its array 'about' says neither yes nor no")
    if (np.abs(strays[about.any(axis=1)][..., TOLD]) >= FAR).any():
        raise ValueError("its strays leave out what must be told")
    if any(own.any() and not feature.is_continuous for own, feature in zip(about, schema.features, strict=True)):
        raise ValueError("it has strays of a feature that is no number")
    return Straying(strays, about.astype(np.bool_))


def no_straying(n_features: int, n_groups: int) -> Straying:
    """Nothing is read about its expected value."""
    return Straying(np.zeros((n_features, n_groups, len(HEIGHTS))), np.zeros((n_features, 3), dtype=np.bool_))
