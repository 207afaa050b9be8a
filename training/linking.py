"""The linking fit: portraits of all tables from their training rows, and the encodings of all features."""

import numpy as np
from numpy.typing import NDArray

from model.linking import fit_space, place_portrait
from model.portrait_files import Linking
from model.portraits import Portrait, Sample, draw_portrait
from model.schema import Feature
from training.tables import Dataset, FitTable


def link_tables(dataset: Dataset) -> tuple[Linking, NDArray[np.float32]]:
    """What places the features of a dataset, and their encodings, (F, 2 D)."""
    portraits = {table.name: draw_table(table, dataset) for table in dataset.tables}
    names = [feature.name for feature in dataset.schema.features]
    space, encodings = fit_space(list(portraits.values()), names)
    return Linking(portraits, space, dataset.schema), encodings.astype(np.float32)


def link_one_more(linking: Linking, dataset: Dataset, n_old: int) -> tuple[Linking, NDArray[np.float32]]:
    """The linking with one more table, and where its new features lie, (new features, 2 D); the old ones stay.

    ``dataset``: that table alone, over all features, of which the first ``n_old`` were there before.
    """
    (table,) = dataset.tables
    portrait = draw_table(table, dataset)
    placed = place_portrait(linking.space, portrait, list(linking.portraits.values()))
    encodings = np.zeros((len(dataset.schema.features) - n_old, placed.shape[1]), dtype=np.float32)
    for feature, vector in zip(table.columns, placed, strict=True):
        if feature >= n_old:
            encodings[feature - n_old] = vector
    return Linking({**linking.portraits, table.name: portrait}, linking.space, dataset.schema), encodings


def draw_table(table: FitTable, dataset: Dataset) -> Portrait:
    """The portrait of one table's training rows, its columns under the names of their features."""
    features = [dataset.schema.features[i] for i in table.columns]
    rows = table.positions[~table.held_out].astype(np.float64)
    return draw_portrait({feature.name: sample_of(feature, rows[:, j]) for j, feature in enumerate(features)})


def sample_of(feature: Feature, positions: NDArray[np.float64]) -> Sample:
    """Cells back from their positions, NaN where missing."""
    if not feature.is_number:
        return Sample(positions, feature.words)
    knots = np.asarray(feature.knots.values)
    return Sample(np.interp(positions, np.arange(len(knots)), knots))
