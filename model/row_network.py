"""An additive network for one row: what onnxruntime would answer, sooner.

Of one row the sums are small and calling is dear. So what an asked feature's gates make of each slot is worked out
beforehand, and a row is looked up in it. Rows that come together are for onnxruntime, which has no need of that.
Axis letters: S columns, Q questions, N slots (the values of every feature), K values (of the feature that has the
most), F features, G heads of all members, W width of a head.
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
# So many floats are laid out for one model, 16 MB: those with many columns of many values do without.
MOST_FLOATS = 4_000_000
# With fewer heads onnxruntime takes no longer, and with more pairs of a question and a column it takes less.
FEWEST_HEADS = 32
MOST_PAIRS = 128


class RowNetwork:
    """The tables of a network, laid out for single rows; answering writes to none of them."""

    def __init__(self, folded: Folded, features: Sequence[Feature]) -> None:
        f, g, w = folded.n_features, folded.n_heads, folded.d_head
        sizes = [feature.n_values for feature in features]
        own = np.concatenate([cells[:n] for cells, n in zip(folded.cells, sizes, strict=True)])
        keys, values = own[..., :w], own[..., w:]  # (N, G, W)
        owner = np.repeat(np.arange(f), sizes)
        to_point = folded.rows[..., -1]  # (F, G, W + 1)
        # Of each question and slot: the score in each head, then what hearing it there adds to the point. A slot after
        # the last one: the last value's cells look one further, with weight 0.
        slots = np.zeros((f, len(owner) + 1, 2 * g), np.float32)
        slots[:, :-1, :g] = _each_head(keys, folded.query.transpose(1, 0, 2)) + folded.pair.transpose(1, 2, 0)[:, owner]
        slots[:, :-1, g:] = _each_head(values, to_point[..., :w]) + to_point[:, None, :, w]
        self._slots = slots.reshape(-1, 2 * g)
        self._n_slots, self._n_heads, self._first = len(owner) + 1, g, np.cumsum([0, *sizes[:-1]])
        self._presence = np.ascontiguousarray(folded.presence.transpose(1, 2, 0)).reshape(f * f, g)
        self._beliefs = folded.beliefs.ravel()
        self._base = folded.base
        # Heads come last: what they mix is then added up in runs.
        mixed = np.ones((len(owner) + 1, w + 1, g), np.float32)
        mixed[:-1, :w] = values.transpose(0, 2, 1)
        self._values = mixed.reshape(-1, (w + 1) * g)
        rows = folded.rows.transpose(0, 2, 1, 3).reshape(f, (w + 1) * g, -1)
        self._rows = [np.ascontiguousarray(table[:, :n]) for table, n in zip(rows, sizes, strict=True)]
        self._is_spread = np.asarray([feature.kind != "numeric" for feature in features])

    def answer(
        self, columns: Indices, positions: NDArray[Any], asked: Indices, *, means_only: bool = False
    ) -> list[Floats]:
        """Logits (1, Q, K) and point (1, Q) for the cells (S,) of a row, at least one, of which none is missing.
        ``means_only``: of numbers no logits, and of levels and words only their own.
        """
        low = positions.astype(np.int64)
        part = (positions - low).astype(np.float32)[:, None]  # (S, 1)
        slot = low + self._first.take(columns)
        both = np.concatenate([slot, slot + 1])
        heard = _between(self._slots.take((asked * self._n_slots)[:, None] + both, 0), part)  # (Q, S, 2 G)
        scores, points = heard[..., : self._n_heads], heard[..., self._n_heads :]
        pair = (asked * len(self._rows))[:, None] + columns  # (Q, S)
        gates = _open(scores, np.add.reduce(self._presence.take(pair, 0), axis=1))
        gates *= self._beliefs.take(pair)[..., None]
        base = self._base.take(asked, 0)
        point = np.einsum("qsg,qsg->q", gates, points) + base[:, -1]
        logits = base[:, :-1]
        spread = np.flatnonzero(self._is_spread.take(asked)) if means_only else np.arange(len(asked))
        if len(spread):
            cells = _between(self._values.take(both, 0)[None], part).reshape(len(slot), -1, self._n_heads)
            state = np.add.reduce(gates[spread][:, :, None] * cells, axis=1)  # (some of Q, W + 1, G)
            for question, mixed in zip(spread.tolist(), state.reshape(len(spread), -1), strict=True):
                rows = self._rows[asked[question]]
                logits[question, : rows.shape[1]] += mixed @ rows
        return [logits[None], point[None]]


def _each_head(slots: Floats, asked: Floats) -> Floats:
    """Products over the width: (N, G, W) and (F, G, W) to (F, N, G)."""
    return np.asarray((slots.transpose(1, 0, 2) @ asked.transpose(1, 2, 0)).transpose(2, 1, 0))


def _between(both: Floats, part: Floats) -> Floats:
    """Of (Q, 2 S, ...), what lies by ``part`` (S, 1) of the way from the first half to the second; overwrites it."""
    low, step = both[:, : len(part)], both[:, len(part) :]
    step -= low
    step *= part
    step += low
    return step


def _open(scores: Floats, own: Floats) -> Floats:
    """How far each gate is open, (Q, S, G), where the masked cell's own scores are ``own`` (Q, G); overwrites them."""
    top = np.maximum(np.maximum.reduce(scores, axis=1), own)
    gates = scores - top[:, None]
    np.exp(gates, out=gates)
    own -= top
    np.exp(own, out=own)
    own += np.add.reduce(gates, axis=1)
    gates /= own[:, None]
    return gates


def lay_out(bundle: Bundle, n_heads: int) -> RowNetwork | None:
    """The network of a bundle for single rows; None where it would not be sooner, its tables would be too large, or its
    weights are kept in another form.
    """
    features = bundle.schema.features
    n_floats = len(features) * (sum(feature.n_values for feature in features) + 1) * 2 * n_heads
    if not bundle.is_additive or n_heads < FEWEST_HEADS or n_floats > MOST_FLOATS:
        return None
    try:
        folded = read_folded(bundle.network)
    except BundleError:
        return None
    is_whole = (folded.n_features, folded.n_values, folded.n_heads) == (len(features), bundle.schema.n_values, n_heads)
    return RowNetwork(folded, features) if is_whole else None
