"""What the network says, read as values: numbers with median and interval, categories with probabilities.

Axis letters: B rows, P pieces of a distribution.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model import codec
from model.cells import show_value, show_word
from model.explain import Experts
from model.schema import Feature, Link
from model.straying import Ends, read_ends

Outputs = dict[str, NDArray[np.float32]]
# Outputs that are the same for every row.
FIXED = frozenset({"point_base"})
# The median of the distribution, and no interval.
PLAIN_MEDIAN = Ends()


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer for one target. Numbers: ``median`` and, on request, ``interval`` (B, 2), and the
    distribution in pieces from ``lows`` to ``highs``; levels and categories: ``probability`` and
    ``choices``. ``mass`` (B, P) is the probability of each piece or choice.
    """

    target: str
    kind: str
    values: list[Any]
    mass: codec.Floats
    probability: codec.Floats | None = None
    median: list[Any] | None = None
    interval: list[tuple[Any, Any]] | None = None
    lows: list[Any] | None = None
    highs: list[Any] | None = None
    choices: list[Any] | None = None
    experts: Experts | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imputation:
    """Filled cells, column by column: ``rows[name]`` says which rows, ``filled[name]`` answers them."""

    rows: dict[str, NDArray[np.int64]]
    filled: dict[str, Prediction]
    warnings: tuple[str, ...] = ()


def read_answer(feature: Feature, link: Link, outputs: Outputs, question: int, ends: Ends = PLAIN_MEDIAN) -> Prediction:
    """What the network said of one question, as values in the unit of the caller's column; ``ends``: where median and
    interval lie.
    """
    logits = outputs["logits"][:, question, : feature.n_values]
    mass = softmax(logits)
    if feature.is_number:
        return _read_number(feature, link, mass, outputs["point"][:, question].astype(np.float64), ends)
    chosen = logits[:, : n_choices(feature)].argmax(axis=1)  # of choices far behind OTHER all mass may be 0
    words = [show_word(feature, word) for word in feature.words]
    return Prediction(
        target=link.column,
        kind=feature.kind,
        values=[words[i] for i in chosen],
        mass=mass,
        probability=mass[np.arange(len(mass)), chosen],
        choices=words,
    )


def _read_number(feature: Feature, link: Link, mass: codec.Floats, point: codec.Floats, ends: Ends) -> Prediction:
    bins = feature.knots

    def show(numbers: codec.Floats) -> list[Any]:
        return show_numbers(feature, link, numbers)

    lows, highs, pieces = codec.read_pieces(bins, mass)
    if link.scale < 0:  # the caller's axis runs the other way
        lows, highs, pieces = highs[::-1], lows[::-1], pieces[:, ::-1]
    expected = codec.read_point(bins, point)
    is_level = feature.kind == "ordinal"
    median, interval = read_ends(bins, mass, expected, ends)
    shown = []
    if interval is not None:
        low, high = interval.T
        if not is_level:
            # Value and distribution are two outputs of the network: where they disagree, both are doubtful.
            low, high = np.minimum(low, np.minimum(expected, median)), np.maximum(high, np.maximum(expected, median))
        shown = [show(low), show(high)] if link.scale > 0 else [show(high), show(low)]
    chosen = mass.argmax(axis=1) if is_level else None
    return Prediction(
        target=link.column,
        kind=feature.kind,
        values=show(expected if chosen is None else np.asarray(bins.values)[chosen]),
        mass=pieces,
        probability=None if chosen is None else mass[np.arange(len(mass)), chosen],
        median=show(median),
        interval=list(zip(*shown, strict=True)) if interval is not None else None,
        lows=show(lows),
        highs=show(highs),
    )


def softmax(logits: NDArray[np.floating[Any]]) -> codec.Floats:
    """Logits (B, K) to probabilities."""
    mass = logits.astype(np.float64)
    mass -= mass.max(axis=1, keepdims=True)
    np.exp(mass, out=mass)
    mass /= mass.sum(axis=1, keepdims=True)
    return mass


def show_numbers(feature: Feature, link: Link, numbers: codec.Floats) -> list[Any]:
    """Numbers in the feature's unit as the caller's column has them."""
    in_unit = (numbers - link.offset) / link.scale
    return in_unit.tolist() if feature.kind != "datetime" else [show_value(feature, n) for n in in_unit]


def n_choices(feature: Feature) -> int:
    """Values that may be predicted: OTHER, the last, stands for no value in particular."""
    return feature.n_values - feature.has_other


def one_question(outputs: Outputs, question: int) -> Outputs:
    """The outputs of one of several questions, as if it had been asked alone."""
    one = slice(question, question + 1)
    return {name: output[one] if name in FIXED else output[:, one] for name, output in outputs.items()}
