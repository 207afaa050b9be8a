"""Honest uncertainty: what held-out rows say of the model's probabilities and intervals.

Words and levels: logits are drawn towards what is said with nothing observed, or away from it, by a factor for each
feature. Numbers: an interval goes as far about the expected value as held-out cells strayed from theirs
(model.straying), or is the central part of the distribution that held so many of them, for each feature and by how much
of the row was observed (split conformal prediction).
Axis letters: B rows, Q questions, K values, F features, G groups by how much is observed, L levels.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.codec import tails
from model.schema import Schema
from model.straying import DRAWS, MIDDLE, Ends, Straying, straying_of

Floats = NDArray[np.float64]
# Rows are grouped by the share of the columns usually known beside a feature: below these, or above the last.
GROUPS = (0.4, 0.75)
# The intervals that are looked up; others lie between.
LEVELS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """``temper`` (F,): the factor for logits; ``usual`` (F,): how many other columns are known beside a feature;
    ``parts`` (F, G, L): the central part of a distribution that makes an interval of each level; ``spreads``
    (F, G, L): the same for draws, where a value that many rows share holds a stretch of the distribution, not a point.
    ``straying``: numbers that are read about their expected value instead.
    """

    temper: Floats
    usual: Floats
    parts: Floats
    spreads: Floats
    log_shares: Floats  # (F, K): what is said with nothing observed
    straying: Straying

    def widths(self, feature: int, n_observed: NDArray[np.int64], interval: float) -> Floats:
        """The central part of each row's distribution that is its interval, (B,)."""
        parts = np.asarray([np.interp(interval, LEVELS, parts) for parts in self.parts[feature]])  # (G,)
        return np.asarray(parts[self.group(feature, n_observed)])

    def ends(self, feature: int, n_observed: NDArray[np.int64], interval: float | None) -> Ends:
        """Where each row's median and interval lie."""
        about_interval, about_median, _ = self.straying.about[feature].tolist()
        groups = self.group(feature, n_observed)
        median = self.straying.strays[feature, groups, MIDDLE][:, None] if about_median else None
        if interval is None:
            return Ends(median=median)
        if about_interval:
            heights = np.asarray(tails(interval))
            return Ends(median=median, strays=self.straying.quantiles(feature, groups, heights))
        return Ends(median=median, levels=np.stack(tails(self.widths(feature, n_observed, interval)), axis=1))

    def levels(self, feature: int, n_observed: NDArray[np.int64], levels: Floats) -> Floats:
        """Heights between 0 and 1 in each row's distribution (B,), moved so that evenly drawn ones give values as
        they occur.
        """
        out = 2.0 * levels - 1.0
        tails = [np.interp(1.0 - np.abs(out), *_tails(parts)[::-1]) for parts in self.spreads[feature]]
        return 0.5 + 0.5 * np.sign(out) * (1.0 - self._pick(feature, n_observed, tails))

    def draw_strays(self, feature: int, n_observed: NDArray[np.int64], levels: Floats) -> Floats | None:
        """How many spreads from what is expected of it each row lies at its level (B,); None where distributions are
        drawn from.
        """
        if not self.straying.about[feature, DRAWS]:
            return None
        return self.straying.draw(feature, self.group(feature, n_observed), levels)

    def tail_shares(self, feature: int, n_observed: NDArray[np.int64], shares: Floats) -> Floats:
        """How much of each row's distribution lies further out (B,), as held-out rows say it does."""
        tails = [np.interp(shares, *_tails(parts)) for parts in self.parts[feature]]
        return self._pick(feature, n_observed, tails)

    def _pick(self, feature: int, n_observed: NDArray[np.int64], by_group: Sequence[Floats]) -> Floats:
        """Each row's own of what every group would say, (B,)."""
        return np.asarray(np.stack(by_group)[self.group(feature, n_observed), np.arange(len(n_observed))])

    def group(self, feature: int, n_observed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each row's group, (B,)."""
        return np.asarray(np.searchsorted(GROUPS, n_observed / self.usual[feature], side="right"))

    def group_of_row(self, feature: int, n_observed: int) -> int:
        """``group`` of a single row."""
        return bisect_right(GROUPS, n_observed / self.usual.item(feature))

    def apply(
        self, names: Sequence[str], feed: Mapping[str, NDArray[Any]], outputs: Sequence[NDArray[np.float32]]
    ) -> list[NDArray[np.float32]]:
        """The outputs of the network with tempered logits."""
        asked = np.asarray(feed["asked"])
        temper = self.temper[asked]
        if (temper == 1.0).all():
            return list(outputs)
        factor = temper.astype(np.float32)[:, None]  # (Q, 1)
        usual = self.log_shares[asked].astype(np.float32)  # (Q, K)
        done = dict(zip(names, outputs, strict=True))
        for name in ("logits", "base"):
            if name in done:
                done[name] = usual + factor * (done[name] - usual)
        if "contributions" in done:
            done["contributions"] = factor[:, None] * done["contributions"]
        return [done[name] for name in names]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All there is to keep of it."""
        return {
            "temper": self.temper, "usual": self.usual, "parts": self.parts, "spreads": self.spreads,
            **self.straying.to_arrays(),
        }  # fmt: skip


def calibration_of(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> Calibration:
    """The calibration that was kept; ValueError where it does not fit the features."""
    n = len(schema.features)
    table = (n, len(GROUPS) + 1, len(LEVELS))
    shapes = {"temper": (n,), "usual": (n,), "parts": table, "spreads": table}
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            raise ValueError(f"its array {name!r} is not there, or was made for other features")
    if (arrays["temper"] < 0.0).any() or (arrays["usual"] <= 0.0).any():
        raise ValueError("its factors must not be negative")
    for name in ("parts", "spreads"):
        if (np.diff(arrays[name], axis=2) < 0.0).any() or arrays[name].min() < 0.0 or arrays[name].max() > 1.0:
            raise ValueError("its intervals do not grow with their level")
    straying = straying_of(schema, arrays, len(GROUPS) + 1)
    log_shares = log_shares_of(schema)
    return Calibration(arrays["temper"], arrays["usual"], arrays["parts"], arrays["spreads"], log_shares, straying)


def _tails(parts: Floats) -> tuple[Floats, Floats]:
    """What lies outside each part, by the distribution and in truth, ascending from nothing. Beyond the last level
    that can be told it goes on in proportion: what is twice as far out stays so.
    """
    told = parts < 1.0
    outside, really = ((1.0 - x[told])[::-1] for x in (parts, np.asarray(LEVELS)))
    return np.concatenate([[0.0], outside]), np.concatenate([[0.0], really])


def log_shares_of(schema: Schema) -> Floats:
    """What is said of each feature with nothing observed, (F, K)."""
    table = np.zeros((len(schema.features), schema.n_values))
    for row, feature in zip(table, schema.features, strict=True):
        row[: feature.n_values] = np.log(np.maximum(feature.shares, 1e-9))
    return table
