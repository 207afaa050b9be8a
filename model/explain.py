"""The mixture of experts, read off the network: how much each column was heard and what it said.

``base`` is what the model says with nothing observed; each observed column then moves it by its
contribution, and base + all contributions = score, exactly. It is an account of this model's sum:
not a causal effect, and not a Shapley value (see docs/model.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.schema import Feature, Link

Floats = NDArray[np.float64]
Outputs = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Experts:
    """Axis letters: B rows, S columns. Columns that a row did not hold (``observed``) have weight 0.

    ``score`` (B,): the logit of the predicted value, or, for numbers, the expected value in its own
    unit. ``base`` (B,). ``weights`` (B, S): the gates, summed over heads. ``contributions`` (B, S).
    """

    columns: tuple[str, ...]
    observed: NDArray[np.bool_]
    score: Floats
    base: Floats
    weights: Floats
    contributions: Floats


@dataclass(frozen=True, slots=True)
class Heard:
    """Who could be heard: the columns by name, and which of them each row held, (B, S)."""

    columns: tuple[str, ...]
    observed: NDArray[np.bool_]


def explain_value(outputs: Outputs, question: int, chosen: NDArray[np.int64], heard: Heard) -> Experts:
    """The experts behind the logit of value ``chosen`` (B,) of one question."""
    rows = np.arange(len(chosen))
    parts = outputs["contributions"][:, question].astype(np.float64)[rows, :, chosen]  # (B, S)
    base = outputs["base"][:, question].astype(np.float64)[rows, chosen]
    return _experts(heard, base, outputs["gates"][:, question], parts)


def explain_number(outputs: Outputs, question: int, feature: Feature, link: Link, heard: Heard) -> Experts:
    """The experts behind an expected value, in the unit of the caller's column."""
    bins = feature.knots
    to_unit = bins.spread / link.scale
    parts = outputs["point_contributions"][:, question].astype(np.float64) * to_unit
    start = float(outputs["point_base"][question]) * to_unit + (bins.mean - link.offset) / link.scale
    return _experts(heard, np.full(len(parts), start), outputs["gates"][:, question], parts)


def _experts(heard: Heard, base: Floats, gates: NDArray[np.float32], parts: Floats) -> Experts:
    n = len(heard.columns)  # none where nothing was sent: the network still saw one missing cell
    return Experts(
        columns=heard.columns,
        observed=heard.observed,
        score=base + parts.sum(axis=1),
        base=base,
        weights=gates.astype(np.float64)[:, :n],
        contributions=parts[:, :n],
    )
