"""Fit how far the truth strays from what is expected, and which features are read about their expected value.

Axis letters: N cells, H heights.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.answers import softmax
from model.calibration import LEVELS, Calibration
from model.schema import Bins, Feature
from model.straying import (
    DRAWS,
    FAR,
    HEIGHTS,
    INTERVALS,
    MEDIANS,
    MIDDLE,
    Straying,
    moments_of,
    no_straying,
    read_about,
    read_spread,
    stray_from,
)
from training.asked import N_GROUPS, Asked, by_group
from training.left_out import MOST_HIDDEN

Floats = NDArray[np.float64]
# What is told is less than what is not.
MOST_TOLD = 0.5 * FAR
# Heights at which quantiles are compared: the ends of intervals, and what lies between.
TAILS = (0.05, 0.1, 0.9, 0.95)
MIDST = (0.25, 0.5, 0.75)
# How far mean and median of a column may be apart, in its spreads, for it to be drawn about what is expected even where
# distributions come as near: they lean to what is usual, and copies would hide how columns hang together.
MOST_SKEW = 0.12
# Fewer rows than forty cannot tell beyond what a fortieth lies, where an interval of 95 % ends.
FEWEST_CELLS = 40 * len(MOST_HIDDEN)


def fit_straying(asked: dict[int, Asked], features: tuple[Feature, ...], plain: Calibration) -> Straying:
    """Of numbers; ``plain``: the calibration as it is without."""
    straying = no_straying(len(features), N_GROUPS)
    told = {index: _tell(features[index].knots, cells) for index, cells in asked.items()}
    strays = {index: stray_from(features[index].knots, *told[index], cells.truth) for index, cells in asked.items()}
    untold = set()
    for index, group, own in by_group(strays, asked, FEWEST_CELLS):
        if len(own) < FEWEST_CELLS:
            untold.add(index)
        else:
            straying.strays[index, group] = conformal_strays(own, len(MOST_HIDDEN))
    for index in asked.keys() - untold:
        feature, cells = features[index], asked[index]
        has_atoms = any(feature.knots.atoms)
        is_nearer = _is_nearer(index, feature.knots, cells, told[index], straying=straying, plain=plain)
        straying.about[index, INTERVALS] = is_nearer
        straying.about[index, MEDIANS] = is_nearer and not has_atoms
        straying.about[index, DRAWS] = not has_atoms and (is_nearer or not _is_skewed(feature))
    return straying


def _is_skewed(feature: Feature) -> bool:
    """Whether a column has a long tail on one side: draws about its expected value would fall out of its range."""
    bins, shares = replace(feature.knots, bends=()), np.asarray(feature.shares)[None]  # knots are far apart in a tail
    mean, median = shares @ moments_of(bins)[:, :1] * bins.spread + bins.mean, codec.read_quantile(bins, shares, 0.5)
    return bool(np.abs(mean[0] - median)[0] > MOST_SKEW * read_spread(bins, shares)[0])


def _tell(bins: Bins, cells: Asked) -> tuple[Floats, Floats]:
    """The distribution that was said of each cell, and the value expected, in the feature's unit."""
    return softmax(cells.logits.astype(np.float32)), codec.read_point(bins, cells.expected)


def conformal_strays(own: Floats, times: int = 1) -> Floats:
    """For each height (H,) what no larger a share of new cells lies above, or for heights under the half below: split
    conformal prediction on either side, where each row is among the cells so many ``times``. What so few rows cannot
    tell is as far as can be.
    """
    ranked, n, heights = np.sort(own), len(own), np.asarray(HEIGHTS)
    # Sums that are whole in exact terms must not fall short of it by rounding.
    ranks = np.floor((n + times) * np.minimum(heights, 1.0 - heights) + 1e-9).astype(np.int64)
    is_low = heights < 0.5
    strays = ranked[np.clip(np.where(is_low, ranks - 1, n - ranks), 0, n - 1)]
    strays[MIDDLE] = np.median(ranked)
    strays = np.clip(strays, -MOST_TOLD, MOST_TOLD)
    strays[ranks < times] = np.where(is_low, -FAR, FAR)[ranks < times]
    return np.asarray(np.maximum.accumulate(strays))


def _is_nearer(
    index: int, bins: Bins, cells: Asked, told: tuple[Floats, Floats], *, straying: Straying, plain: Calibration
) -> bool:
    """Whether quantiles about the expected value are nearer to the truth than those of distributions, by their mean
    pinball loss: of an interval's ends that is its width, and of what it does not hold how far off that lies. Too few
    cells cannot tell.
    """
    if len(cells.truth) < FEWEST_CELLS:
        return False
    heights = np.asarray(TAILS if any(bins.atoms) else TAILS + MIDST)
    mass, expected = told
    about = read_about(bins, mass, expected, straying.quantiles(index, cells.groups, heights))
    out = 2.0 * heights - 1.0
    parts = np.stack([np.interp(np.abs(out), LEVELS, own) for own in plain.parts[index]])  # (G, L)
    own = codec.read_quantiles(bins, mass, 0.5 + 0.5 * np.sign(out) * parts[cells.groups])
    return _pinball(cells.truth, about, heights) < _pinball(cells.truth, own, heights)


def _pinball(truth: Floats, quantiles: Floats, heights: Floats) -> float:
    """The mean loss of quantiles (N, L) at heights (L,)."""
    above = truth[:, None] - quantiles
    return float(np.mean(np.maximum(heights * above, (heights - 1.0) * above)))
