"""Portraits of tables that a bundle knows, under their own names and units, and samples of cells as they come."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from model import codec
from model.bundle import Bundle
from model.examples import MOST_EXAMPLES, rescale_examples
from model.portraits import MOST_WORDS, N_QUANTILES, N_REPEATS, N_STATISTICS, Portrait, Sample
from model.schema import Feature, Link


def portrait_of(bundle: Bundle, links: Mapping[str, Link]) -> Portrait:
    """A table's portrait under its own names and units: that of the fitted table with most of its features."""
    wanted = {link.feature for link in links.values()}
    portraits = bundle.linking.portraits.values() if bundle.linking else ()
    best = max(portraits, key=lambda portrait: len(wanted & set(portrait.columns)), default=None)
    if best is None or not wanted & set(best.columns):
        best = _from_schema([bundle.schema.features[bundle.schema.index[name]] for name in wanted])
    place = best.index
    columns = {column: link for column, link in links.items() if link.feature in place}
    order = np.asarray([place[link.feature] for link in columns.values()], dtype=np.int64)
    at = {int(old): new for new, old in reversed(list(enumerate(order)))}
    kept = [k for k, partner in enumerate(best.partners) if int(partner) in at]
    scales = np.asarray([[link.scale, link.offset] for link in columns.values()])
    quantiles = (best.quantiles[order] - scales[:, 1:]) / scales[:, :1]
    examples = [
        rescale_examples(best.examples[i], int(best.distinct[i]), link.scale, link.offset)
        for i, link in zip(order, columns.values(), strict=True)
    ]
    return replace(
        best,
        columns=tuple(columns),
        words=tuple(best.words[i] for i in order),
        signed=best.signed[order],
        repeats=best.repeats[order],
        quantiles=np.sort(quantiles, axis=1),
        shares=best.shares[order],
        examples=np.asarray([values for values, _ in examples]).reshape(-1, MOST_EXAMPLES),
        distinct=np.asarray([count for _, count in examples], dtype=np.int64),
        partners=np.asarray([at[int(best.partners[k])] for k in kept], dtype=np.int64),
        dependence=best.dependence[order][:, kept],
        known=best.known[order][:, kept],
    )


def _from_schema(features: Sequence[Feature]) -> Portrait:
    """What the schema alone tells: values, and nothing of how they go together."""
    grid = np.linspace(0.0, 1.0, N_QUANTILES)
    n = len(features)
    shares = np.zeros((n, MOST_WORDS))
    quantiles = np.zeros((n, N_QUANTILES))
    for j, feature in enumerate(features):
        if feature.is_number:
            quantiles[j] = np.interp(grid, feature.knots.ranks, feature.knots.values)
        else:
            some = feature.shares[:MOST_WORDS]
            shares[j, : len(some)] = some
    return Portrait(
        columns=tuple(feature.name for feature in features),
        words=tuple(None if f.is_number else tuple(f.words[:MOST_WORDS]) for f in features),
        signed=np.asarray([f.is_number or f.n_values <= 2 for f in features]),
        repeats=np.zeros((n, N_REPEATS)),
        quantiles=quantiles,
        shares=shares,
        examples=np.zeros((n, MOST_EXAMPLES)),
        distinct=np.zeros(n, dtype=np.int64),
        partners=np.zeros(0, dtype=np.int64),
        dependence=np.zeros((n, 0, N_STATISTICS)),
        known=np.zeros((n, 0)),
        rows=100,
    )


def read_codes(bundle: Bundle, samples: Mapping[str, Sample]) -> dict[str, Sample]:
    """Numbers under the name of a feature of words are read as its words, if most of them are: 1, 2 for "1", "2"."""
    features = {f.name: f for f in bundle.schema.features}
    for table in bundle.schema.tables:
        features |= {link.column: features[link.feature] for link in table.links if link.column not in features}
    read = dict(samples)
    for name, sample in samples.items():
        feature = features.get(name)
        if feature is None or feature.is_number or sample.words is not None:
            continue
        numbers, codes = np.unique(sample.cells[~np.isnan(sample.cells)], return_inverse=True)
        words = tuple(codec.word_of(float(number)) for number in numbers)
        known = np.asarray([word in feature.words for word in words])
        if len(codes) and known[codes].mean() > 0.5:
            cells = np.full(len(sample.cells), np.nan)
            cells[~np.isnan(sample.cells)] = codes
            read[name] = Sample(cells, words)
    return read


def sample_cells(cells: Sequence[Any]) -> Sample:
    """Cells as they come in JSON: numbers if all that are known are numbers, else words."""
    known = [not (cell is None or (isinstance(cell, float) and math.isnan(cell))) for cell in cells]
    if all(
        isinstance(cell, int | float) and not isinstance(cell, bool) for cell, k in zip(cells, known, strict=True) if k
    ):
        return Sample(np.asarray([_number(cell) if k else math.nan for cell, k in zip(cells, known, strict=True)]))
    texts = [_word(cell) if k else None for cell, k in zip(cells, known, strict=True)]
    words = sorted({text for text in texts if text is not None})
    place = {word: float(i) for i, word in enumerate(words)}
    return Sample(np.asarray([math.nan if text is None else place[text] for text in texts]), tuple(words))


def _number(cell: float) -> float:
    """A number too large for the machine tells nothing."""
    try:
        number = float(cell)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _word(cell: Any) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return codec.word_of(cell) if isinstance(cell, float) and math.isfinite(cell) else str(cell)
