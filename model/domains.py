"""What a column may hold, as its caller knows it: the range of a number, the words of a category, what is usual."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from model.answers import n_choices, show_numbers
from model.cells import show_word
from model.schema import Feature, Link


@dataclass(frozen=True, slots=True)
class Domain:
    """``knots`` of a number ascend in the column's unit, about as many training rows between any two; the first and
    the last are the fitted range. ``values``: the levels of an ordinal, the words of a category, most frequent first.
    ``typical``: the median, or the most frequent word.
    """

    knots: list[Any]
    values: list[Any]
    typical: Any


def describe_column(feature: Feature, link: Link) -> Domain:
    """What may be sent for a column, in its own unit."""
    shares = np.asarray(feature.shares)
    if not feature.is_number:
        words = [show_word(feature, word) for word in feature.words[: n_choices(feature)]]
        values = [words[i] for i in np.argsort(-shares[: len(words)], kind="stable")]
        return Domain([], values, values[0] if values else None)
    numbers = np.asarray(feature.knots.values)
    knots = show_numbers(feature, link, numbers if link.scale > 0 else numbers[::-1])
    median = numbers[min(int(np.searchsorted(np.cumsum(shares), 0.5 * shares.sum())), len(numbers) - 1)]
    typical = show_numbers(feature, link, np.asarray([median]))[0]
    return Domain(knots, knots if feature.kind == "ordinal" else [], typical)
