"""The mixture of experts, read off the network: how much each column was heard and what it said.

``base`` is what the model says with nothing observed; each observed column then moves it by its
contribution, and base + all contributions = score, exactly. It is an account of this model's sum:
not a causal effect, and not a Shapley value (see docs/model.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.schema import Feature

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Experts:
    """Axis letters: B rows, S columns. Columns that were missing in a row have weight 0.

    ``score`` (B,): the logit of the predicted value, or, for numbers, the expected value in its own
    unit. ``base`` (B,). ``weights`` (B, S): the gates, summed over heads. ``contributions`` (B, S).
    """

    columns: tuple[str, ...]
    score: Floats
    base: Floats
    weights: Floats
    contributions: Floats


def explain_value(outputs: Mapping[str, NDArray[np.float32]], question: int, chosen: NDArray[np.int64]) -> Experts:
    """The experts behind the logit of value ``chosen`` (B,) of one question."""
    rows = np.arange(len(chosen))
    parts = outputs["contributions"][:, question].astype(np.float64)[rows, :, chosen]  # (B, S)
    base = outputs["base"][question].astype(np.float64)[chosen]
    return Experts((), base + parts.sum(axis=1), base, _weights(outputs, question), parts)


def explain_number(
    outputs: Mapping[str, NDArray[np.float32]], question: int, feature: Feature, scale: float, offset: float
) -> Experts:
    """The experts behind an expected value; ``scale`` and ``offset`` are those of the caller's column."""
    bins = feature.knots
    to_unit = bins.spread / scale
    parts = outputs["point_contributions"][:, question].astype(np.float64) * to_unit
    start = float(outputs["point_base"][question]) * to_unit + (bins.mean - offset) / scale
    base = np.full(len(parts), start)
    return Experts((), base + parts.sum(axis=1), base, _weights(outputs, question), parts)


def _weights(outputs: Mapping[str, NDArray[np.float32]], question: int) -> Floats:
    return outputs["gates"][:, question].astype(np.float64)
