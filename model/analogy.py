"""Analogies over values of features: b - a + c, in the space of what a value says of everything else.

A value's vector is what the model answers for all features when this value alone is known, less what it
answers when nothing is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import AskError
from model.requests import Cells, nearest
from model.runtime import Predictor
from model.schema import Feature

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answers:
    """What every single value of every feature, known alone, says of all features: (values, what it says)."""

    values: list[tuple[str, Any]]
    vectors: Floats


@lru_cache(maxsize=2)
def answers_of(predictor: Predictor) -> Answers:
    """One row per (feature, value), asked for the expected value or the logits of everything else."""
    schema = predictor.schema
    pairs = [(f, k) for f, feature in enumerate(schema.features) for k in range(feature.n_values - feature.has_other)]
    vectors = []
    for f, feature in enumerate(schema.features):
        own = np.arange(feature.n_values - feature.has_other, dtype=np.float32)[:, None]
        outputs = predictor.ask(Cells.of(np.asarray([f]), own), range(len(schema.features)))
        said = np.where([g.is_number for g in schema.features], outputs["point"], 0.0)  # (K, F)
        words = [outputs["logits"][:, g, : x.n_values] for g, x in enumerate(schema.features) if not x.is_number]
        vectors.append(np.concatenate([said, *words], axis=1))
    vector = np.concatenate(vectors).astype(np.float64)
    empty = predictor.ask(Cells.of(np.asarray([0]), np.asarray([[np.nan]], np.float32)), range(len(schema.features)))
    rest = [empty["logits"][:, g, : x.n_values] for g, x in enumerate(schema.features) if not x.is_number]
    start = np.concatenate([np.where([g.is_number for g in schema.features], empty["point"], 0.0), *rest], axis=1)
    return Answers([(schema.features[f].name, _value(schema.features[f], k)) for f, k in pairs], vector - start)


def _value(feature: Feature, k: int) -> Any:
    return feature.knots.values[k] if feature.is_number else feature.categories[k]


def find_analogy(predictor: Predictor, terms: Sequence[tuple[str, Any]], k: int) -> list[tuple[str, Any, float]]:
    """What is to c as b is to a: the values whose answers lie nearest to b - a + c, nearest first."""
    answers = answers_of(predictor)
    a, b, c = (_nearest_value(predictor, answers, feature, value) for feature, value in terms)
    wanted = answers.vectors[b] - answers.vectors[a] + answers.vectors[c]
    norms = np.linalg.norm(answers.vectors, axis=1) * max(float(np.linalg.norm(wanted)), 1e-12)
    likeness = answers.vectors @ wanted / np.maximum(norms, 1e-12)
    likeness[[a, b, c]] = -np.inf
    order = np.argsort(-likeness, kind="stable")[:k]
    return [(*answers.values[i], float(likeness[i])) for i in order if np.isfinite(likeness[i])]


def _nearest_value(predictor: Predictor, answers: Answers, name: str, value: Any) -> int:
    if name not in predictor.schema.index:
        raise AskError(f"there is no feature {name!r}{nearest(name, predictor.schema.index)}")
    feature = predictor.schema.features[predictor.schema.index[name]]
    own = [i for i, (other, _) in enumerate(answers.values) if other == name]
    if not feature.is_number:
        found = [i for i in own if answers.values[i][1] == value]
        if not found:
            known = dict.fromkeys(feature.categories)
            raise AskError(f"feature {name!r} has no value {value!r}{nearest(str(value), known)}")
        return found[0]
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise AskError(f"feature {name!r} has numbers for values, not {value!r}")
    return min(own, key=lambda i: abs(answers.values[i][1] - number))
