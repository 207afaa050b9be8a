"""An additive network for one row: what onnxruntime would answer, in half the time.

Of one row the sums are small and calling is dear. So what an asked feature's gates make of each slot is worked out
beforehand, and a row is looked up in it. Rows that come together are for onnxruntime, which has no need of that.
Axis letters: S columns, Q questions, K values, F features, G heads of all members, W width of a head.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.bundle import Bundle
from model.errors import BundleError
from model.folded import Floats, Folded, read_folded
from model.schema import Feature

Indices = NDArray[np.int64]
# So many floats are laid out for one model: those with hundreds of columns do without.
MOST_FLOATS = 4_000_000


class RowNetwork:
    """The tables of a network, laid out for single rows."""

    def __init__(self, folded: Folded, features: Sequence[Feature]) -> None:
        f, k, g, w = folded.n_features, folded.n_values, folded.n_heads, folded.d_head
        self._n_slots, self._n_values, self._n_heads = f * k + 1, k, g
        # A slot after the last one: the last value's cells look one further, with weight 0.
        cells = np.concatenate([folded.cells.reshape(f * k, g, 2 * w), np.zeros((1, g, 2 * w), np.float32)])
        keys, values = cells[..., :w], cells[..., w:]
        owner = np.minimum(np.arange(f * k + 1) // k, f - 1)
        scores = np.einsum("sgw,gfw->fsg", keys, folded.query) + folded.pair.transpose(1, 2, 0)[:, owner]
        to_point = folded.rows[..., -1]  # (F, G, W + 1)
        points = np.einsum("sgw,fgw->fsg", values, to_point[..., :w]) + to_point[:, None, :, w]
        # Of each question and slot: the score in each head, then what hearing it there adds to the point.
        self._slots = np.concatenate([scores, points], axis=2).reshape(-1, 2 * g)
        self._presence = np.ascontiguousarray(folded.presence.transpose(1, 2, 0)).reshape(f * f, g)
        self._beliefs = folded.beliefs.ravel()
        self._base = folded.base
        ones = np.ones((f * k + 1, g, 1), np.float32)
        self._values = np.concatenate([values, ones], axis=2).reshape(f * k + 1, g * (w + 1))
        rows = folded.rows.reshape(f, g * (w + 1), k + 1)
        self._rows = [np.ascontiguousarray(own[:, : x.n_values]) for own, x in zip(rows, features, strict=True)]
        self._is_plain = [feature.kind == "numeric" for feature in features]

    def answer(
        self, columns: Indices, positions: NDArray[Any], asked: Indices, *, means_only: bool = False
    ) -> list[Floats]:
        """Logits (1, Q, K) and point (1, Q) for the cells (S,) of a row, at least one, of which none is missing.
        ``means_only``: of numbers no logits, and of levels and words only their own.
        """
        low = positions.astype(np.int64)
        part = (positions - low).astype(np.float32)[:, None]  # (S, 1)
        slot = low + columns * self._n_values
        both = np.concatenate([slot, slot + 1])
        heard = _between(self._slots.take((asked * self._n_slots)[:, None] + both, 0), part)  # (Q, S, 2 G)
        scores, points = heard[..., : self._n_heads], heard[..., self._n_heads :]
        pair = (asked * len(self._rows))[:, None] + columns  # (Q, S)
        gates = self._open(scores, self._presence.take(pair, 0).sum(axis=1))
        gates *= self._beliefs.take(pair)[..., None]
        base = self._base.take(asked, 0)
        point = np.einsum("qsg,qsg->q", gates, points) + base[:, -1]
        logits = base[:, :-1]
        values = None
        for question, feature in enumerate(asked.tolist()):
            if means_only and self._is_plain[feature]:
                continue
            if values is None:
                cells = _between(self._values.take(both, 0)[None], part)[0]
                values = cells.reshape(len(slot), self._n_heads, -1)  # (S, G, W + 1)
            rows = self._rows[feature]
            state = np.einsum("sg,sgv->gv", gates[question], values)
            logits[question, : rows.shape[1]] += state.ravel() @ rows
        return [logits[None], point[None]]

    def _open(self, scores: Floats, own: Floats) -> Floats:
        """How far each gate is open, (Q, S, G), when the masked cell's own scores ``own`` (Q, G)."""
        top = np.maximum(scores.max(axis=1), own)
        gates = np.exp(scores - top[:, None])
        gates /= (gates.sum(axis=1) + np.exp(own - top))[:, None]
        return np.asarray(gates)


def _between(both: Floats, part: Floats) -> Floats:
    """Of (Q, 2 S, N), what lies by ``part`` (S, 1) of the way from the first half to the second; overwrites it."""
    low, step = both[:, : len(part)], both[:, len(part) :]
    step -= low
    step *= part
    step += low
    return step


def lay_out(bundle: Bundle) -> RowNetwork | None:
    """The network of a bundle for single rows; None where its tables are too large, or kept in another form."""
    if not bundle.is_additive:
        return None
    try:
        folded = read_folded(bundle.network)
    except BundleError:
        return None
    features, n_values = bundle.schema.features, bundle.schema.n_values
    n_floats = folded.n_features * (folded.n_features * folded.n_values + 1) * 2 * folded.n_heads
    if (folded.n_features, folded.n_values) != (len(features), n_values) or n_floats > MOST_FLOATS:
        return None
    return RowNetwork(folded, features)
