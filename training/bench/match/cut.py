"""One table becomes two of which it is known what columns are the same.

Its rows are divided; of the second part all columns but a few lose their names and, if asked, are expressed otherwise:
numbers by a function that rises or falls throughout, words by other words.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

KEPT, RE_EXPRESSED = "kept", "re-expressed"
APART = ", apart"
FORMS = (KEPT, RE_EXPRESSED, KEPT + APART, RE_EXPRESSED + APART)
# Either side of a division has so large a share of the rows at least.
LEAST_SHARE = 0.2
# A number's rank is raised to a power between a third and three.
MOST_BENT = 3.0


@dataclass(frozen=True, slots=True)
class Cut:
    """Two tables; ``partner``: what each column of the right one that is not shared is called in the left one.

    ``sign``: of the numbers among them, -1 where the right one falls as the left one rises.
    """

    left: pd.DataFrame
    right: pd.DataFrame
    shared: list[str]
    partner: dict[str, str]
    sign: dict[str, int]


def make_cut(frame: pd.DataFrame, form: str, n_shared: int, seed: int) -> Cut:
    """Cut a table. Forms that differ only in how values are expressed have the same rows and shared columns."""
    apart = form.endswith(APART)
    rng = np.random.default_rng([seed, n_shared, apart])
    left, right = _keep_varying(*(divide_apart if apart else divide_at_random)(frame, rng))
    order = [str(left.columns[i]) for i in rng.permutation(left.shape[1])]
    shared, others = order[:n_shared], order[n_shared:]
    opaque = {column: f"x{i}" for i, column in enumerate(others)}
    mixed = [order[i] for i in rng.permutation(len(order))]
    right = right[mixed]
    sign = {opaque[c]: 1 for c in others if right[c].dtype == float}
    if form.startswith(RE_EXPRESSED):
        right, sign = _re_express_all(right, opaque, np.random.default_rng([seed, n_shared, apart, 1]))
    return Cut(left, right.rename(columns=opaque), shared, {x: c for c, x in opaque.items()}, sign)


def divide_at_random(frame: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two halves."""
    order = rng.permutation(len(frame))
    half = len(frame) // 2
    return _take(frame, order[:half]), _take(frame, order[half : 2 * half])


def divide_apart(frame: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two parts of one size that are distributed otherwise: a column divides them and is dropped.

    Rows where that column is missing belong to neither.
    """
    dividers = find_dividers(frame)
    column = list(dividers)[rng.integers(len(dividers))]
    known = frame[column].notna().to_numpy()
    first = dividers[column].to_numpy()
    sides = [rng.permutation(np.flatnonzero(known & side)) for side in (first, ~first)]
    size = min(map(len, sides))
    rest = frame.drop(columns=column)
    one, other = (_take(rest, side[:size]) for side in sides)
    return one, other


def find_dividers(frame: pd.DataFrame) -> "dict[str, pd.Series[bool]]":
    """Columns that divide a table, and its rows on the one side: the most frequent word against the rest.

    Without a fitting column of words, those above the median of a number against the rest.
    """
    words = [c for c in frame.columns if frame[c].dtype == object]
    numbers = [c for c in frame.columns if frame[c].dtype == float]
    by_word = {c: frame[c] == frame[c].value_counts().index[0] for c in words}
    by_number = {c: frame[c] > frame[c].median() for c in numbers}
    for dividers in (by_word, by_number):
        fitting = {
            str(c): side
            for c, side in dividers.items()
            if LEAST_SHARE <= side[frame[c].notna()].mean() <= 1.0 - LEAST_SHARE
        }
        if fitting:
            return fitting
    raise ValueError("no column divides the table: choose another table for this bench")


def re_express(cells: pd.Series, rng: np.random.Generator) -> tuple[pd.Series, int]:
    """The same column said otherwise, and the sign of how: words recoded, numbers bent, stretched and moved."""
    if cells.dtype == object:
        words = cells.dropna().unique()
        codes = {word: f"v{i}" for word, i in zip(words, rng.permutation(len(words)), strict=True)}
        return cells.map(codes).astype(object).where(cells.notna(), None), 1
    rank = cells.rank(method="dense")
    bent = (rank / rank.max()) ** np.exp(rng.uniform(-np.log(MOST_BENT), np.log(MOST_BENT)))
    sign = int(rng.choice([-1, 1]))
    scale = 10.0 ** rng.uniform(-2.0, 3.0)
    return scale * (sign * bent + rng.normal(0.0, 2.0)), sign


def _re_express_all(
    right: pd.DataFrame, opaque: dict[str, str], rng: np.random.Generator
) -> tuple[pd.DataFrame, dict[str, int]]:
    said = {str(c): re_express(right[c], rng) if c in opaque else (right[c], 1) for c in right.columns}
    sign = {opaque[c]: said[c][1] for c in opaque if right[c].dtype == float}
    return pd.DataFrame({c: cells for c, (cells, _) in said.items()}), sign


def _keep_varying(left: pd.DataFrame, right: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Without the columns that are constant in either: there is nothing to know them by."""
    kept = [c for c in left.columns if min(left[c].nunique(), right[c].nunique()) > 1]
    return left[kept], right[kept]


def _take(frame: pd.DataFrame, rows: NDArray[np.int64]) -> pd.DataFrame:
    return frame.iloc[rows].reset_index(drop=True)
