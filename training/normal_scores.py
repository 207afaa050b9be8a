"""Cells of number features as normal scores: 0 where missing, which is their mean. N rows, K values."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from model.codec import score_values
from model.schema import Feature, Schema
from training.tables import Dataset, FitTable

Floats = NDArray[np.float64]


def score_table(schema: Schema, table: FitTable, features: Sequence[int]) -> Floats:
    """A table's cells of some features, (N, features); a feature the table lacks is all zeros."""
    at = {int(feature): j for j, feature in enumerate(table.columns)}
    scores = np.zeros((len(table.positions), len(features)))
    for j, feature in enumerate(features):
        if feature in at:
            scores[:, j] = _score(schema.features[feature], table.positions[:, at[feature]])
    return scores


def score_rows(dataset: Dataset, features: Sequence[int], *, must_know: int) -> Floats:
    """All training rows that know one feature, (N, features)."""
    parts = [np.zeros((0, len(features)))]
    for table in dataset.tables:
        if must_know in table.columns:
            asked = table.positions[:, list(table.columns).index(must_know)]
            rows = table.positions[~table.held_out & ~np.isnan(asked)]
            parts.append(score_table(dataset.schema, replace(table, positions=rows), features))
    return np.concatenate(parts)


def score_edges(feature: Feature) -> Floats:
    """The normal scores between which each value lies, (K + 1,)."""
    shares = np.asarray(feature.shares)
    ends = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
    ends[-1] = 1.0
    edges: Floats = ndtri(ends)
    return edges


def _score(feature: Feature, positions: NDArray[np.float32]) -> Floats:
    by_value = score_values(np.asarray(feature.shares), 1)[:, 0]
    known = ~np.isnan(positions)
    return np.where(known, np.interp(np.where(known, positions, 0.0), np.arange(len(by_value)), by_value), 0.0)
