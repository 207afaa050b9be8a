"""The lookup tables that a network was folded into, read back from model.onnx.

What model.export folds cannot be unfolded, but a feature has its own part of every table: new features find
their place beside the old ones, whose part stays as it is, bit for bit; model.graphs writes them again.
Axis letters: F features, K values (padded), G heads of all members, W width of a head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.errors import BundleError
from model.weights import read_weights

Floats = NDArray[np.float32]
# What shuts a gate, and the logits of values that a feature does not have, as in model.network.
CLOSED = -1e9


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """The tables of a linear network.

    ``cells`` (F, K, G, 2 W): key and value of each slot. ``query`` (G, F, W): what an asked feature looks for.
    ``pair`` (G, F, F): the bias of the gate of (asked, heard); ``presence`` (G, F, F): how much the presence of the
    heard one lowers the score of the masked cell (a negative number: that opens all gates).
    ``rows`` (F, G, W + 1, K + 1): from what is heard, and the sum of the gates, to logits and, last, the point.
    ``base`` (F, K + 1): the same with nothing observed. ``beliefs`` (F, F): how far the heard one is believed by the
    asked one, whatever its gate.
    """

    cells: Floats
    query: Floats
    pair: Floats
    presence: Floats
    rows: Floats
    base: Floats
    beliefs: Floats
    n_members: int

    @property
    def n_features(self) -> int:
        return int(self.base.shape[0])

    @property
    def n_values(self) -> int:
        return int(self.base.shape[1] - 1)

    @property
    def n_heads(self) -> int:
        """Of all members together."""
        return int(self.query.shape[0])

    @property
    def d_head(self) -> int:
        return int(self.query.shape[2])

    def resize(self, n_values: int) -> "Folded":
        """The same with so many values: closed ones are put in, or left out, after each feature's own."""
        cells = _fit_axis(self.cells, n_values, axis=1, fill=0.0)
        rows = _fit_axis(self.rows[..., :-1], n_values, axis=3, fill=0.0)
        base = _fit_axis(self.base[:, :-1], n_values, axis=1, fill=CLOSED)
        return Folded(
            cells=cells,
            query=self.query,
            pair=self.pair,
            presence=self.presence,
            rows=np.concatenate([rows, self.rows[..., -1:]], axis=3),
            base=np.concatenate([base, self.base[:, -1:]], axis=1),
            beliefs=self.beliefs,
            n_members=self.n_members,
        )

    def grow(self, n_features: int) -> "Folded":
        """The same with so many features in all: the new ones neither hear nor are heard."""
        old = self.n_features
        pair, presence, beliefs = (
            _fit_axis(_fit_axis(table, n_features, axis=-2, fill=fill), n_features, axis=-1, fill=fill)
            for table, fill in ((self.pair, CLOSED), (self.presence, 0.0), (self.beliefs, 1.0))
        )
        base = _fit_axis(self.base, n_features, axis=0, fill=CLOSED)
        base[old:, -1] = 0.0
        return Folded(
            cells=_fit_axis(self.cells, n_features, axis=0, fill=0.0),
            query=_fit_axis(self.query, n_features, axis=1, fill=0.0),
            pair=pair,
            presence=presence,
            rows=_fit_axis(self.rows, n_features, axis=0, fill=0.0),
            base=base,
            beliefs=beliefs,
            n_members=self.n_members,
        )

    def add_heads(self, n_heads: int) -> "Folded":
        """The same with so many more heads in each member, in which nothing is heard and nothing said."""

        def widen(table: Floats, axis: int, fill: float) -> Floats:
            before, after = table.shape[:axis], table.shape[axis + 1 :]
            own, m = self.n_heads // self.n_members, self.n_members
            by_member = table.reshape(*before, m, own, *after)
            wide = _fit_axis(by_member, own + n_heads, axis=axis + 1, fill=fill)
            return wide.reshape(*before, m * (own + n_heads), *after)

        return Folded(
            cells=widen(self.cells, 2, 0.0),
            query=widen(self.query, 0, 0.0),
            pair=widen(self.pair, 0, CLOSED),
            presence=widen(self.presence, 0, 0.0),
            rows=widen(self.rows, 1, 0.0),
            base=self.base,
            beliefs=self.beliefs,
            n_members=self.n_members,
        )

    def pick(self, features: Sequence[int]) -> "Folded":
        """The tables of some features, as if there were no others."""
        some = list(features)
        return Folded(
            cells=self.cells[some],
            query=self.query[:, some],
            pair=self.pair[:, some][:, :, some],
            presence=self.presence[:, some][:, :, some],
            rows=self.rows[some],
            base=self.base[some],
            beliefs=self.beliefs[some][:, some],
            n_members=self.n_members,
        )

    def put(self, part: "Folded", features: Sequence[int], *, n_old: int, n_new_heads: int) -> "Folded":
        """The same with what ``part`` says of the features from ``n_old`` on, and of any in the last ``n_new_heads`` of
        each member's heads; ``features``: which ones it is about.

        What is between two features before ``n_old`` in the other heads is not touched.
        """
        part = part.resize(self.n_values)
        some = np.asarray(features)
        new, old = np.flatnonzero(some >= n_old), np.flatnonzero(some < n_old)
        tables = (self.cells, self.query, self.pair, self.presence, self.rows, self.base)
        cells, query, pair, presence, rows, base = (table.copy() for table in tables)
        cells[some[new]], rows[some[new]], base[some[new]] = part.cells[new], part.rows[new], part.base[new]
        query[:, some[new]] = part.query[:, new]
        for table, of_part in ((pair, part.pair), (presence, part.presence)):
            table[:, some[new][:, None], some] = of_part[:, new]
            table[:, some[:, None], some[new]] = of_part[:, :, new]
        per_member = self.n_heads // self.n_members
        heads = np.flatnonzero(np.arange(self.n_heads) % per_member >= per_member - n_new_heads)
        rows[np.ix_(some[old], heads)] = part.rows[np.ix_(old, heads)]
        query[np.ix_(heads, some[old])] = part.query[np.ix_(heads, old)]
        cells[np.ix_(some[old], np.arange(self.n_values), heads)] = part.cells[
            np.ix_(old, np.arange(self.n_values), heads)
        ]
        return Folded(cells, query, pair, presence, rows, base, self.beliefs, self.n_members)


def _fit_axis(table: Floats, size: int, *, axis: int, fill: float) -> Floats:
    """Cut an axis, or fill it up, to a size."""
    n = table.shape[axis]
    if size <= n:
        return np.take(table, np.arange(size), axis=axis)
    room = list(table.shape)
    room[axis] = size - n
    return np.concatenate([table, np.full(room, fill, dtype=np.float32)], axis=axis)


def read_folded(content: bytes) -> Folded:
    """The tables of an additive model.onnx."""
    try:
        return _unpack(read_weights(content))
    except (KeyError, ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
        raise BundleError(
            "model.onnx was written by another version of Tabglot, which kept its weights in another form: "
            "fit the bundle again"
        ) from error


def _unpack(arrays: Mapping[str, NDArray[np.generic]]) -> Folded:
    """Tables of the shapes that model.export writes; ValueError for any others."""
    query, k = np.asarray(arrays["query"], np.float32), int(arrays["n_values"])
    g, f, w = query.shape
    if not query.size:
        raise ValueError("there is nothing in it")
    slots = np.asarray(arrays["cell_slots"], np.float32).reshape(f * k + 1, g, 2 * w + 1)
    # Bundles of before have heads first.
    pairs = np.moveaxis(arrays["pairs"], -1, 0) if "pairs" in arrays else arrays["pair"]
    pair, presence = np.asarray(pairs, np.float32).reshape(2, g, f, f)
    return Folded(
        cells=slots[:-1].reshape(f, k, g, 2 * w + 1)[..., :-1],
        query=query,
        pair=pair,
        presence=presence,
        rows=np.asarray(arrays["rows"], np.float32).reshape(f, g, w + 1, k + 1),
        base=np.asarray(arrays["base_table"], np.float32).reshape(f, k + 1),
        beliefs=np.asarray(arrays.get("beliefs", np.ones((f, f))), np.float32).reshape(f, f),
        n_members=round(1.0 / float(arrays["per_member"])),
    )
