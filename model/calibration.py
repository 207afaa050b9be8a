"""Honest uncertainty: what held-out rows say of the model's probabilities and intervals.

Words and levels: logits are drawn towards what is said with nothing observed, or away from it, by a factor for each
feature. Numbers: the central part of a distribution that is given as the 90 % interval is the part that held
90 % of the held-out cells, for each feature and by how much of the row was observed (split conformal prediction).
Axis letters: B rows, Q questions, K values, F features, G groups by how much is observed, L levels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.schema import Schema

Floats = NDArray[np.float64]
# Rows are grouped by the share of the columns usually known beside a feature: below these, or above the last.
GROUPS = (0.4, 0.75)
# The intervals that are looked up; others lie between.
LEVELS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """``temper`` (F,): the factor for logits; ``usual`` (F,): how many other columns are known beside a feature;
    ``parts`` (F, G, L): the central part of a distribution that makes an interval of each level.
    """

    temper: Floats
    usual: Floats
    parts: Floats
    log_shares: Floats  # (F, K): what is said with nothing observed

    def widths(self, feature: int, n_observed: NDArray[np.int64], interval: float) -> Floats:
        """The central part of each row's distribution that is its interval, (B,)."""
        return self._look_up(feature, n_observed, np.full(len(n_observed), interval))

    def levels(self, feature: int, n_observed: NDArray[np.int64], levels: Floats) -> Floats:
        """Heights between 0 and 1 in each row's distribution (B,), moved so that evenly drawn ones give values as
        they occur.
        """
        out = 2.0 * levels - 1.0
        return 0.5 + 0.5 * np.sign(out) * self._look_up(feature, n_observed, np.abs(out))

    def tail_shares(self, feature: int, n_observed: NDArray[np.int64], shares: Floats) -> Floats:
        """How much of each row's distribution lies further out (B,), as held-out rows say it does.

        Beyond the last level that they can tell, in proportion: what is twice as far out stays so.
        """
        group = self._group(feature, n_observed)
        by_group = []
        for parts in self.parts[feature]:
            told = parts < 1.0
            outside, really = (np.concatenate([[0.0], (1.0 - x[told])[::-1]]) for x in (parts, np.asarray(LEVELS)))
            by_group.append(np.interp(shares, outside, really))
        return np.asarray(np.stack(by_group)[group, np.arange(len(shares))], dtype=np.float64)

    def _group(self, feature: int, n_observed: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(GROUPS, n_observed / self.usual[feature], side="right"))

    def _look_up(self, feature: int, n_observed: NDArray[np.int64], wanted: Floats) -> Floats:
        group = self._group(feature, n_observed)
        by_group = np.stack([np.interp(wanted, LEVELS, parts) for parts in self.parts[feature]])  # (G, B)
        return np.asarray(by_group[group, np.arange(len(wanted))], dtype=np.float64)

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
        return {"temper": self.temper, "usual": self.usual, "parts": self.parts}


def calibration_of(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> Calibration:
    """The calibration that was kept; ValueError where it does not fit the features."""
    n = len(schema.features)
    shapes = {"temper": (n,), "usual": (n,), "parts": (n, len(GROUPS) + 1, len(LEVELS))}
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            raise ValueError(f"its array {name!r} is not there, or was made for other features")
    if (arrays["temper"] < 0.0).any() or (arrays["usual"] <= 0.0).any():
        raise ValueError("its factors must not be negative")
    if (np.diff(arrays["parts"], axis=2) < 0.0).any() or not 0.0 <= arrays["parts"].min() <= arrays["parts"].max() <= 1:
        raise ValueError("its intervals do not grow with their level")
    return Calibration(arrays["temper"], arrays["usual"], arrays["parts"], log_shares_of(schema))


def log_shares_of(schema: Schema) -> Floats:
    """What is said of each feature with nothing observed, (F, K)."""
    table = np.zeros((len(schema.features), schema.n_values))
    for row, feature in zip(table, schema.features, strict=True):
        row[: feature.n_values] = np.log(np.maximum(feature.shares, 1e-9))
    return table
