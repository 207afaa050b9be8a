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
# How far mean and median of a column may be apart, in its spreads, for it to be drawn about what is expected also where
# distributions come as near: they lean to what is usual, and copies would hide how columns hang together.
MOST_SKEW = 0.12
# As near: a loss so many times theirs at most. Of a column that lies in clusters they know where nothing ever is.
MOST_LOSS = 1.02
# A value that so large a share of rows has is one that the distribution knows; in few rows it may be no atom.
MOST_SHARED = 1.0 / 16.0
# Fewer rows than forty cannot tell beyond what a fortieth lies, where an interval of 95 % ends.
FEWEST_CELLS = 40 * len(MOST_HIDDEN)


def fit_straying(asked: dict[int, Asked], features: tuple[Feature, ...], plain: Calibration) -> Straying:
    """Of numbers of which enough cells were left out; ``plain``: the calibration as it is without."""
    straying = no_straying(len(features), N_GROUPS)
    asked = {index: cells for index, cells in asked.items() if len(cells.truth) >= FEWEST_CELLS}
    told = {index: _tell(features[index].knots, cells) for index, cells in asked.items()}
    strays = {index: stray_from(features[index].knots, *told[index], cells.truth) for index, cells in asked.items()}
    for index, group, own in by_group(strays, asked, FEWEST_CELLS):
        straying.strays[index, group] = conformal_strays(own, len(MOST_HIDDEN))
    for index, cells in asked.items():
        feature, is_shared = features[index], _is_shared(features[index], cells.truth)
        heights = np.asarray(TAILS if is_shared else TAILS + MIDST)
        strayed = straying.quantiles(index, cells.groups, heights)
        about, within = _compare(
            feature.knots, cells, told[index], strays=strayed, parts=plain.parts[index], heights=heights
        )
        as_near = about <= MOST_LOSS * within and not _is_skewed(feature)
        straying.about[index, INTERVALS] = about < within
        straying.about[index, MEDIANS] = about < within and not is_shared
        straying.about[index, DRAWS] = (about < within or as_near) and not is_shared
    return straying


def _is_shared(feature: Feature, truth: Floats) -> bool:
    """Whether many rows share a value."""
    return any(feature.knots.atoms) or bool(np.unique(truth, return_counts=True)[1].max() > MOST_SHARED * len(truth))


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


def _compare(
    bins: Bins, cells: Asked, told: tuple[Floats, Floats], *, strays: Floats, parts: Floats, heights: Floats
) -> tuple[float, float]:
    """How far quantiles about the expected value, at these ``strays`` (N, L), are from the truth, and how far those of
    distributions in these ``parts`` (G, L) are, by their mean pinball loss: of an interval's ends that is its width,
    and of what it does not hold how far off that lies.
    """
    mass, expected = told
    about = read_about(bins, mass, expected, strays)
    out = 2.0 * heights - 1.0
    central = np.stack([np.interp(np.abs(out), LEVELS, own) for own in parts])  # (G, L)
    within = codec.read_quantiles(bins, mass, 0.5 + 0.5 * np.sign(out) * central[cells.groups])
    first, second = (_pinball((cells.truth[:, None] - ends) / bins.spread, heights) for ends in (about, within))
    return first, second


def _pinball(above: Floats, heights: Floats) -> float:
    """The mean loss of quantiles at heights (L,) that the truth lies so far ``above`` (N, L)."""
    return float(np.mean(np.maximum(heights * above, (heights - 1.0) * above)))
