"""Fit data frames as users fit files: a family, a fit, a bundle, a predictor."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from model.runtime import Predictor
from model.schema import Kind
from training.bundling import bundle_fitted
from training.family import Family, TableSpec
from training.settings import choose_settings
from training.tables import HELD_OUT_SHARE, load_family
from training.weighing import fit_weighed


def fit_frames(
    frames: Mapping[str, pd.DataFrame],
    *,
    target: str | None = None,
    kinds: Mapping[str, Kind] | None = None,
    seed: int = 0,
    held_out: float = HELD_OUT_SHARE,
    epochs: float | None = None,
) -> Predictor:
    """Fit one model with the shipped settings on all frames, each a table under its name.

    ``kinds`` says what columns are where that is not to be found out; text is a category if nothing is said.
    ``held_out``: the share of rows that are held out for good where they are not left out in turn (with a target, or
    where rows are many).
    ``epochs`` is for trying out: a few are quick, and worse.
    """
    with TemporaryDirectory() as folder:
        out = Path(folder) / "bundle"
        fit_bundle(frames, out, target=target, kinds=kinds, seed=seed, held_out=held_out, epochs=epochs)
        return Predictor.load(out)


def fit_bundle(
    frames: Mapping[str, pd.DataFrame],
    out: Path,
    *,
    target: str | None = None,
    kinds: Mapping[str, Kind] | None = None,
    seed: int = 0,
    held_out: float = HELD_OUT_SHARE,
    epochs: float | None = None,
) -> None:
    """``fit_frames``, its bundle written to ``out``."""
    known = {**_words(frames), **(kinds or {})}
    with TemporaryDirectory() as folder:
        for name, frame in frames.items():
            frame.to_parquet(Path(folder) / f"{name}.parquet", index=False)
        tables = tuple(TableSpec(name, Path(folder) / f"{name}.parquet") for name in frames)
        dataset = load_family(Family("frames", tables, known, target), seed=seed, held_out=held_out, in_turn=True)
        fitted = fit_weighed(dataset, choose_settings("moe", dataset.n_rows, dataset.n_cells, epochs), seed=seed)
        bundle_fitted(fitted, dataset, out)


def _words(frames: Mapping[str, pd.DataFrame]) -> dict[str, Kind]:
    """Words are categories in every table, also where the few rows of one hold only yes and no."""
    return {
        column: "categorical"
        for frame in frames.values()
        for column in frame.columns
        if not pd.api.types.is_numeric_dtype(frame[column])
    }
