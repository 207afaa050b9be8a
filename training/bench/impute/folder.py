"""Tables of one's own to fill holes in: CSV files in a folder, or in folders of it."""

from functools import cache
from pathlib import Path

import pandas as pd

from training.bench.impute.pool import MOST_WORDS
from training.bench.impute.tables import MOST_ROWS
from training.bench.match.families import read_table
from training.figures import ComparisonError

FEWEST_ROWS = 100
# What folders of families hold beside tables.
NO_TABLES = ("matches", "false_friends")


def list_tables(folder: Path) -> tuple[str, ...]:
    """The tables of a folder that are large enough, by their places in it; of what they hold: numbers, and words of
    few values.
    """
    if not folder.is_dir():
        raise ComparisonError(f"--data {folder}: there is no such folder; give one with tables as CSV files")
    files = [*folder.glob("*.csv"), *folder.glob("*/*.csv")]
    names = sorted(file.relative_to(folder).with_suffix("").as_posix() for file in files if file.stem not in NO_TABLES)
    found = tuple(name for name in names if _is_enough(load_table(folder, name)))
    if not found:
        raise ComparisonError(
            f"--data {folder}: no table there with {FEWEST_ROWS} rows and two columns; expected *.csv or FAMILY/*.csv"
        )
    return found


def _is_enough(table: pd.DataFrame) -> bool:
    return len(table) >= FEWEST_ROWS and table.shape[1] > 1 and bool(table.select_dtypes("number").shape[1])


@cache
def load_table(folder: Path, name: str) -> pd.DataFrame:
    """One of them; columns of one value, and words of many, are left out."""
    try:
        table = read_table(folder / f"{name}.csv").head(MOST_ROWS)
    except ValueError as error:  # pandas' own, and of text in another encoding
        raise ComparisonError(f"--data {folder}: {name}.csv cannot be read: {error}") from error
    most = {c: float("inf") if pd.api.types.is_numeric_dtype(table[c]) else MOST_WORDS for c in table.columns}
    return table[[c for c in table.columns if 2 <= table[c].nunique() <= most[c]]]
