"""How far a model's predictions for two features agree, over the same rows."""

import numpy as np

from model.analogy import answers_of
from model.runtime import Predictor

# So many different rows must speak of both features for their agreement to mean anything.
LEAST_ROWS = 8


def agreement(predictor: Predictor, left: str, right: str) -> float | None:
    """The correlation (-1 to 1) of what the model expects of two number features.

    The rows: each value of each other feature, known alone. None for words, and where too few rows speak of both.
    """
    schema = predictor.schema
    a, b = schema.index[left], schema.index[right]
    if not (schema.features[a].is_number and schema.features[b].is_number):
        return None
    answers = answers_of(predictor)
    own = np.asarray([feature in (left, right) for feature, _ in answers.values])
    said = answers.vectors[:, [a, b]]
    some = said[~own & (np.abs(said) > 1e-9).all(axis=1)]
    if len(some) < LEAST_ROWS or not some.std(axis=0).all():
        return None
    return float(np.asarray(np.corrcoef(some.T))[0, 1])
