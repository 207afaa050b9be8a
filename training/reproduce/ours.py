"""Our side of a comparison, through the product: files, a family, a fit, a bundle, a predictor."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.runtime import Predictor
from model.schema import Kind
from training.bundling import bundle_fitted
from training.family import Family, TableSpec
from training.fit import fit_network
from training.settings import choose_settings
from training.tables import load_family


def fit_frames(frames: Mapping[str, pd.DataFrame], target: str, *, seed: int, epochs: float | None = None) -> Predictor:
    """Fit one model with the shipped settings on all frames, each a table under its name.

    ``epochs`` is for trying out: a few are quick, and worse.
    """
    with TemporaryDirectory() as folder:
        for name, frame in frames.items():
            frame.to_parquet(Path(folder) / f"{name}.parquet", index=False)
        tables = tuple(TableSpec(name, Path(folder) / f"{name}.parquet") for name in frames)
        dataset = load_family(Family("ours", tables, _kinds(frames), target), seed=seed, held_out=0.0)
        fitted = fit_network(dataset, choose_settings("moe", dataset.n_rows, dataset.n_cells, epochs), seed=seed)
        bundle_fitted(fitted, dataset, Path(folder) / "bundle")
        return Predictor.load(Path(folder) / "bundle")


def probability_of(
    predictor: Predictor, frame: pd.DataFrame, table: str, target: str, positive: str
) -> NDArray[np.float64]:
    """How probable it is that the target is ``positive``, for every row of a frame with a table's columns."""
    columns = {name: frame[name].tolist() for name in frame.columns if name != target}
    answer = predictor.predict(columns, target, table=table)
    assert answer.choices is not None
    return answer.mass[:, answer.choices.index(positive)]


def _kinds(frames: Mapping[str, pd.DataFrame]) -> dict[str, Kind]:
    """Words are categories in every table, also where the few rows of one hold only yes and no."""
    return {
        column: "categorical"
        for frame in frames.values()
        for column in frame.columns
        if not pd.api.types.is_numeric_dtype(frame[column])
    }
