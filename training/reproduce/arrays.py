"""Our fits of tables that are given as arrays of bins, many data sets in one batched pass."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from model import codec
from model.schema import Feature, Schema
from training.adapting import adapt_network, ask_members
from training.fit import Fitted
from training.settings import FitSettings
from training.tables import Dataset, FitTable
from training.weighing import fit_weighed

Bins = NDArray[np.int64]
Floats = NDArray[np.float64]
TARGET = "y"


def to_dataset(x: Bins, y: Bins, n_levels: Sequence[int]) -> Dataset:
    """Bins of the covariates (N, S - 1) and of the target (N,) as a table of ordinals, all of it to learn from."""
    cells = np.column_stack([x, y]).astype(np.float64)
    names = [*(f"x{j + 1}" for j in range(x.shape[1])), TARGET]
    features = []
    for name, column, n in zip(names, cells.T, n_levels, strict=True):
        bins = codec.fit_bins(np.concatenate([column, np.arange(n)]), n_bins=n)  # a knot for every level
        shares = codec.fit_shares(column.astype(np.float32), n)
        features.append(Feature(name, "ordinal", bins, shares=shares))
    schema = Schema(tuple(features))
    held_out = np.zeros(len(cells), dtype=bool)
    table = FitTable("rows", np.arange(len(names)), cells.astype(np.float32), held_out, cells[:0])
    return Dataset("study", schema, (table,), TARGET)


def fit_side_by_side(datasets: Sequence[Dataset], settings: FitSettings, seed: int) -> Fitted:
    """Fit each data set on its own, all in one pass."""
    shape = replace(settings.shape, n_members=settings.shape.n_members * len(datasets))
    return fit_weighed(datasets[0], replace(settings, shape=shape), seed=seed, beside=datasets[1:])


def adapt_side_by_side(fitted: Fitted, datasets: Sequence[Dataset], tests: Sequence[Bins], seed: int) -> None:
    """Let each fit see the covariates of its test rows, never their target."""
    adapt_network(fitted, datasets, [_without_target(x) for x in tests], seed=seed)


def ask_side_by_side(fitted: Fitted, tests: Sequence[Bins]) -> list[Floats]:
    """p(y | x) of each data set's test rows, (N, K)."""
    rows = torch.from_numpy(np.stack(tests).astype(np.float32))  # (L, N, S - 1)
    return ask_members(fitted, torch.arange(rows.shape[2]), rows, rows.shape[2])


def _without_target(x: Bins) -> FitTable:
    return FitTable(
        "there", np.arange(x.shape[1]), x.astype(np.float32), np.zeros(len(x), dtype=bool), x[:0].astype(float)
    )
