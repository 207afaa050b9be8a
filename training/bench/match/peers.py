"""Matchers that look at the values of columns, or at how columns go with the ones that both tables share.

Axis letters: L, R columns left and right that are not shared, K shared columns.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp

from training.bench.match.scoring import Method

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# Into so many classes of about one size numbers are sorted; so many words are looked at, all others are one.
N_BINS = 8
MOST_WORDS = 20


def score_values(left: pd.DataFrame, right: pd.DataFrame, shared: list[str]) -> pd.DataFrame:
    """Numbers: 1 - Kolmogorov-Smirnov distance. Words: the mass that falls on the same words."""
    rows, columns = list_others(left, shared), list_others(right, shared)
    scores = [[_compare_values(left[a], right[b]) for b in columns] for a in rows]
    return pd.DataFrame(scores, index=rows, columns=columns, dtype=float)


def score_information(left: pd.DataFrame, right: pd.DataFrame, shared: list[str]) -> pd.DataFrame:
    """How near the columns' mutual informations with the shared columns are."""
    return _score_vectors(left, right, shared, _describe_by_information)


def score_information_and_entropy(left: pd.DataFrame, right: pd.DataFrame, shared: list[str]) -> pd.DataFrame:
    """The same, and how near the columns' own entropies are: ties between the former are frequent."""

    def describe(table: pd.DataFrame, column: str, shared: Sequence[str]) -> list[float]:
        return [*_describe_by_information(table, column, shared), measure_entropy(table[column])]

    return _score_vectors(left, right, shared, describe)


def score_correlation(left: pd.DataFrame, right: pd.DataFrame, shared: list[str]) -> pd.DataFrame:
    """How near the columns' correlations with the shared columns are, and a column may be turned over as a whole.

    Spearman's between numbers, the correlation ratio of ranks between a number and words, Cramér's V between words.
    """
    rows, columns = list_others(left, shared), list_others(right, shared)
    one, other = (
        np.asarray([[correlate(table[c], table[s]) for s in shared] for c in names])
        for table, names in ((left, rows), (right, columns))
    )  # (L, K), (R, K)
    # Only what has a sign can be turned over.
    turn = np.where([_is_number(left[s]) for s in shared], -1.0, 1.0)
    signed = np.minimum(cdist(one, other), cdist(one * turn, other))
    both = np.logical_and.outer([_is_number(left[c]) for c in rows], [_is_number(right[c]) for c in columns])
    far = np.where(both, signed, cdist(abs(one), abs(other)))
    return pd.DataFrame(-far, index=rows, columns=columns)


PEERS: dict[str, Method] = {
    "ks": score_values,
    "mutual_information": score_information,
    "mutual_information_entropy": score_information_and_entropy,
    "correlation": score_correlation,
}


def list_others(table: pd.DataFrame, shared: Sequence[str]) -> list[str]:
    """The columns that are not shared."""
    return [str(c) for c in table.columns if c not in set(shared)]


def measure_information(one: pd.Series, other: pd.Series) -> float:
    """Mutual information of two columns, freed of most of its bias, as a share of the smaller entropy."""
    known = (one.notna() & other.notna()).to_numpy()
    counts = _count(sort_cells(one[known]), sort_cells(other[known]))
    n_rows = counts.sum()
    entropies = [_entropy(counts.sum(axis=axis)) for axis in (0, 1)]
    if n_rows == 0 or min(entropies) <= 0.0:
        return 0.0
    # What columns that have nothing to do with each other would show on the average.
    bias = (counts.shape[0] - 1) * (counts.shape[1] - 1) / (2.0 * n_rows)
    return float(max(sum(entropies) - _entropy(counts) - bias, 0.0) / min(entropies))


def measure_entropy(cells: pd.Series) -> float:
    """How evenly the values are used: from 0, one value, to 1, every cell another."""
    counts = np.asarray(cells.value_counts(), dtype=np.float64)
    return float(_entropy(counts) / np.log(counts.sum())) if len(counts) > 1 else 0.0


def sort_cells(cells: pd.Series) -> Integers:
    """The class of each cell, none of them missing: numbers by rank, words as they are."""
    if not _is_number(cells):
        place = {word: i for i, word in enumerate(cells.value_counts().index)}
        return cells.map(place).clip(upper=MOST_WORDS).to_numpy(dtype=np.int64)
    if cells.nunique() <= N_BINS:
        return cells.rank(method="dense").to_numpy().astype(np.int64)
    return np.ceil(N_BINS * cells.rank(pct=True).to_numpy()).astype(np.int64)


def correlate(one: pd.Series, other: pd.Series) -> float:
    """Signed between numbers; else from 0 to 1."""
    known = one.notna() & other.notna()
    one, other = one[known], other[known]
    if one.nunique() < 2 or other.nunique() < 2:
        return 0.0
    if _is_number(one) and _is_number(other):
        return float(np.corrcoef(one.rank(), other.rank())[0, 1])
    if _is_number(one) or _is_number(other):
        return _correlation_ratio(one, other) if _is_number(one) else _correlation_ratio(other, one)
    return _cramers_v(one, other)


def _correlation_ratio(numbers: pd.Series, words: pd.Series) -> float:
    ranks = numbers.rank()
    means = ranks.groupby(words.to_numpy()).transform("mean")
    return float(np.std(means) / np.std(ranks))


def _cramers_v(one: pd.Series, other: pd.Series) -> float:
    counts = _count(sort_cells(one), sort_cells(other))
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    chi_square = (np.square(counts - expected) / expected).sum()
    return float(np.sqrt(chi_square / counts.sum() / (min(counts.shape) - 1)))


def _compare_values(left: pd.Series, right: pd.Series) -> float:
    left, right = left.dropna(), right.dropna()
    if left.empty or right.empty:
        return 0.0
    if _is_number(left) and _is_number(right):
        return 1.0 - float(ks_2samp(left, right, method="asymp").statistic)
    one, other = (cells.astype(str).value_counts(normalize=True) for cells in (left, right))
    return float(np.minimum(*one.align(other, join="inner")).sum())


def _score_vectors(
    left: pd.DataFrame,
    right: pd.DataFrame,
    shared: list[str],
    describe: Callable[[pd.DataFrame, str, Sequence[str]], list[float]],
) -> pd.DataFrame:
    rows, columns = list_others(left, shared), list_others(right, shared)
    one, other = (
        np.asarray([describe(table, c, shared) for c in names]) for table, names in ((left, rows), (right, columns))
    )
    return pd.DataFrame(-cdist(one, other), index=rows, columns=columns)


def _describe_by_information(table: pd.DataFrame, column: str, shared: Sequence[str]) -> list[float]:
    return [measure_information(table[column], table[s]) for s in shared]


def _count(one: Integers, other: Integers) -> Floats:
    """How often each class of the one meets each of the other, only of classes that occur."""
    rows, row = np.unique(one, return_inverse=True)
    columns, column = np.unique(other, return_inverse=True)
    counts = np.zeros((len(rows), len(columns)))
    np.add.at(counts, (row, column), 1.0)
    return counts


def _entropy(counts: Floats) -> float:
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())


def _is_number(cells: pd.Series) -> bool:
    return bool(cells.dtype == float)
