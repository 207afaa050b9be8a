"""Our side of a comparison."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.runtime import Predictor


def probability_of(
    predictor: Predictor, frame: pd.DataFrame, table: str, target: str, positive: str
) -> NDArray[np.float64]:
    """How probable it is that the target is ``positive``, for every row of a frame with a table's columns."""
    columns = {name: frame[name].tolist() for name in frame.columns if name != target}
    answer = predictor.predict(columns, target, table=table)
    assert answer.choices is not None
    return answer.mass[:, answer.choices.index(positive)]
