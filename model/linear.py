"""The linear expert: what a joint normal law of all features says of one of them, given the cells of a row.

The network learns what bends; straight lines through many columns that say nearly the same are learnt far
better in closed form. Numbers enter in units of their spread, words as one dimension of 0 and 1 each. Given any
subset of the cells, the law's parameters are linear in them: every observed column adds one contribution.
The same code trains and serves. Axis letters: B rows, S columns, Q questions, K values, D dimensions of the law,
d those of the request's columns, w those of the asked feature, P patterns of missing cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.codec import standardize
from model.law import Floats, Indices, NormalLaw, Request, find_patterns, invert_patterns
from model.schema import Feature, Kind, Schema

# It is not asked for levels: the network alone is as good at them.
ASKED_KINDS: frozenset[Kind] = frozenset({"numeric", "datetime", "categorical", "boolean"})
# Tails for numbers: those of a t distribution, so that a value far out is surprising but never impossible.
FREEDOM = 4.0
# No expectation is surer than this, in squared spreads.
LEAST_VARIANCE = 1e-4
LEAST_EIGENVALUE = 1e-9
# Requests of other columns that are remembered, and what was worked out for each: tens of megabytes at most.
MOST_REQUESTS = 64
MOST_KEPT = 256


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What the law says. Numbers: ``mean`` (B, Q), the expected value less the usual one, in spreads. All:
    ``logits`` (B, Q, K), what it adds to those of the network. Both are 0 where it says nothing.

    On request, of which columns that is made: ``mean_parts`` (B, Q, S) add up to ``mean``; for words
    ``base`` (B, Q, K) and ``parts`` (B, Q, S, K) add up to ``logits``.
    """

    mean: Floats
    logits: Floats
    mean_parts: Floats | None = None
    base: Floats | None = None
    parts: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """The dimensions (w,) of one feature, and where its values lie in them, less the mean, (K, w)."""

    dims: Indices
    points: Floats
    is_number: bool
    usual: NDArray[Any]  # (w, w): the precision with nothing known


class LinearExpert:
    """A law, ready to be asked. ``lean`` (F, 2): how far its expected value and its logits are followed."""

    def __init__(self, schema: Schema, law: NormalLaw, lean: Floats | None = None) -> None:
        self.law = law
        self.lean = np.ones((len(schema.features), 2)) if lean is None else lean
        self._n_values = max(feature.n_values for feature in schema.features)
        self._standard = np.zeros((len(schema.features), self._n_values))  # (F, K): knots of numbers, in spreads
        for i, feature in enumerate(schema.features):
            if feature.is_number:
                self._standard[i] = _pad(standardize(feature.knots), self._n_values)
        self._requests: dict[bytes, Request] = {}
        self._blocks = {
            i: self._lay_out(feature, i)
            for i, feature in enumerate(schema.features)
            if i in law.owner and feature.kind in ASKED_KINDS
        }

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All there is to keep of it."""
        law = self.law
        return {
            "owner": law.owner, "value": law.value, "mean": law.mean, "covariance": law.covariance, "lean": self.lean
        }  # fmt: skip

    def _lay_out(self, feature: Feature, index: int) -> _Block:
        dims = np.flatnonzero(self.law.owner == index)
        words = np.eye(feature.n_values)[:, : len(dims)]
        points = (standardize(feature.knots)[:, None] if feature.is_number else words) - self.law.mean[dims]
        spread = self.law.covariance[np.ix_(dims, dims)] + LEAST_VARIANCE * np.eye(len(dims))
        return _Block(dims, points, feature.is_number, np.linalg.inv(spread))

    def tell(self, columns: Indices, positions: NDArray[Any], asked: Indices, *, explain: bool = False) -> Told:
        """What the law says of each question from the other cells of each row; NaN positions are missing."""
        request = self._request(columns)
        cells, seen = request.encode(positions)
        told = _silence(len(positions), len(asked), self._n_values, len(columns) if explain else None)
        blocks = {q: self._blocks[i] for q, i in enumerate(asked.tolist()) if i in self._blocks}
        if len(positions) == 0:
            return told
        if (seen == seen[:1]).all():  # as in most requests: worked out once for all rows, and kept for the next
            for question, block in blocks.items():
                slopes, precision = self._recall(request, seen[:1], block)
                parts = np.einsum("bd,wd,ds->bsw", cells, slopes, request.to_column) if explain else None
                _write(told, question, block, (cells @ slopes.T, precision[None], parts))
            return told
        patterns, which = find_patterns(seen)
        inverses = invert_patterns(request.covariance, patterns)
        for question, block in blocks.items():
            slopes, precisions = self._condition(block, request, patterns, inverses)
            each = slopes[which]  # (B, w, d)
            parts = np.einsum("bd,bwd,ds->bsw", cells, each, request.to_column) if explain else None
            _write(told, question, block, ((each @ cells[:, :, None])[:, :, 0], precisions[which], parts))
        return told

    def _request(self, columns: Indices) -> Request:
        key = columns.tobytes()
        request = self._requests.get(key)
        if request is None:
            if len(self._requests) >= MOST_REQUESTS:
                self._requests.clear()  # other threads hold what they use
            request = self._requests[key] = self._prepare(columns)
        return request

    def _recall(self, request: Request, pattern: NDArray[np.bool_], block: _Block) -> tuple[Floats, Floats]:
        """``_condition`` for a single pattern (1, d), without the axis P, kept."""
        key = (pattern.tobytes(), int(block.dims[0]))
        found = request.kept.get(key)
        if found is None:
            if len(request.kept) >= MOST_KEPT:
                request.kept.clear()
            slopes, precisions = self._condition(block, request, pattern, self._invert(request, pattern))
            found = request.kept[key] = (slopes[0], precisions[0])
        return found

    def _invert(self, request: Request, pattern: NDArray[np.bool_]) -> Floats:
        """The inverse of the last pattern is kept: all questions of a request need it."""
        key, inverse = request.last
        if key != pattern.tobytes():
            inverse = invert_patterns(request.covariance, pattern)
            request.last = (pattern.tobytes(), inverse)
        return inverse

    def coordinates(self, columns: Indices, positions: NDArray[Any]) -> Floats:
        """Rows in all dimensions of the law, NaN where a cell is missing, (B, D)."""
        request = self._request(columns)
        cells, seen = request.encode(positions)
        rows = np.full((len(positions), len(self.law.owner)), np.nan)
        rows[:, request.dims] = np.where(seen, cells + request.mean, np.nan)
        return rows

    def _prepare(self, columns: Indices) -> Request:
        """All that depends only on which columns a request has."""
        dims = np.flatnonzero(np.isin(self.law.owner, columns))
        order = np.argsort(columns)
        place = order[np.searchsorted(columns, self.law.owner[dims], sorter=order)]
        return Request(
            dims=dims,
            place=place,
            to_column=(place[:, None] == np.arange(len(columns))).astype(np.float64),
            mean=self.law.mean[dims],
            covariance=self.law.covariance[np.ix_(dims, dims)],
            value=self.law.value[dims],
            knots=_pad(self._standard[self.law.owner[dims]].T, self._n_values + 1).T,
        )

    def _condition(
        self, block: _Block, request: Request, patterns: NDArray[np.bool_], precision: Floats
    ) -> tuple[Floats, Floats]:
        """Given the seen dimensions but the block's own: how each moves the block's natural parameter,
        (P, w, d), and the block's precision, (P, w, w).
        """
        dims = request.dims
        first = int(np.searchsorted(dims, block.dims[0]))  # a feature's dimensions lie side by side
        is_there = first < len(dims) and dims[first] == block.dims[0]
        own = np.arange(first, first + len(block.dims)) if is_there else dims[:0]
        is_seen = patterns[:, own].all(axis=1) if len(own) else np.zeros(len(patterns), dtype=bool)
        slopes = np.empty((len(patterns), len(block.dims), len(dims)))
        precisions = np.empty((len(patterns), len(block.dims), len(block.dims)))
        floor = LEAST_VARIANCE * np.eye(len(block.dims))
        if is_seen.any():
            rows = -precision[is_seen][:, own]  # (P, w, d)
            left = np.linalg.inv(-rows[:, :, own])
            rows[:, :, own] = 0.0
            precisions[is_seen] = np.linalg.inv(left + floor)
            slopes[is_seen] = precisions[is_seen] @ left @ rows
        if not is_seen.all():
            rest, law = ~is_seen, self.law.covariance
            shared = law[np.ix_(block.dims, dims)] * patterns[rest][:, None, :]  # (P, w, d)
            pulls = shared @ precision[rest]
            left = law[np.ix_(block.dims, block.dims)] - pulls @ shared.transpose(0, 2, 1)
            precisions[rest] = np.linalg.inv(left + floor)
            slopes[rest] = precisions[rest] @ pulls
        return slopes, precisions

    def join(
        self, names: Sequence[str], feed: Mapping[str, NDArray[Any]], outputs: Sequence[NDArray[np.float32]]
    ) -> list[NDArray[np.float32]]:
        """The outputs of the network with what the law says added."""
        asked = np.asarray(feed["asked"])
        found = dict(zip(names, outputs, strict=True))
        told = self.tell(feed["columns"], feed["positions"], asked, explain="contributions" in found)
        lean = self.lean[asked].T  # (2, Q)
        added = {"point": lean[0] * told.mean, "logits": lean[1, :, None] * told.logits}
        if told.mean_parts is not None and told.base is not None and told.parts is not None:
            added["point_contributions"] = lean[0, :, None] * told.mean_parts
            added["base"] = lean[1, :, None] * told.base
            added["contributions"] = lean[1, :, None, None] * told.parts
        return [found[n] + added[n].astype(np.float32) if n in added else found[n] for n in names]


def expert_from_arrays(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> LinearExpert:
    """The expert that was kept; ValueError where it does not fit the features."""
    try:
        owner, value, mean, covariance, lean = (
            arrays[name] for name in ("owner", "value", "mean", "covariance", "lean")
        )
    except KeyError as error:
        raise ValueError(f"it lacks the array {error}") from error
    d = owner.size
    shapes = [array.shape for array in (owner, value, mean, covariance, lean)]
    if shapes != [(d,), (d,), (d,), (d, d), (len(schema.features), 2)]:
        raise ValueError("its arrays do not fit each other, or were made for other features")
    if (
        owner.dtype != np.int64
        or value.dtype != np.int64
        or [*zip(owner, value, strict=True)] != _fitting(schema, owner)
    ):
        raise ValueError("its dimensions are not those of the features")
    if not np.allclose(covariance, covariance.T) or np.linalg.eigvalsh(covariance)[0] < LEAST_EIGENVALUE:
        raise ValueError("its covariance is not symmetric and positive definite")
    return LinearExpert(schema, NormalLaw(owner, value, mean, covariance), lean)


def _fitting(schema: Schema, owner: Indices) -> list[tuple[int, int]]:
    """The dimensions that features of these indices have."""
    found = []
    for i in sorted(set(owner.tolist())):
        if not 0 <= i < len(schema.features):
            return []
        feature = schema.features[i]
        found += [(i, -1)] if feature.is_number else [(i, value) for value in range(feature.n_values - 1)]
    return found


def _write(told: Told, question: int, block: _Block, found: tuple[Floats, Floats, Floats | None]) -> None:
    """One question's answer from its natural parameter (B, w), its precision (B, w, w), and what each column
    adds to the first, (B, S, w).
    """
    moved, precision, parts = found
    n_values = len(block.points)
    if block.is_number:
        variance = 1.0 / precision[:, 0, 0]
        mean, usual = moved[:, 0] * variance, 1.0 / block.usual[0, 0]
        told.mean[:, question] = mean
        now = _log_t(block.points[:, 0], mean[:, None], variance[:, None])
        told.logits[:, question, :n_values] = now - _log_t(block.points[:, 0], 0.0, usual)
        if parts is not None and told.mean_parts is not None:
            told.mean_parts[:, question] = parts[:, :, 0] * variance[:, None]
        return
    base = -0.5 * np.einsum("kw,bwv,kv->bk", block.points, precision - block.usual, block.points)
    told.logits[:, question, :n_values] = base + moved @ block.points.T
    if parts is not None and told.base is not None and told.parts is not None:
        told.base[:, question, :n_values] = base
        told.parts[:, question, :, :n_values] = parts @ block.points.T


def _pad(values: Floats, n_values: int) -> Floats:
    """So many values, the last one as often as needed."""
    return values[np.minimum(np.arange(n_values), len(values) - 1)]


def _silence(n_rows: int, n_questions: int, n_values: int, n_columns: int | None) -> Told:
    """Nothing said yet; with ``n_columns``, room for what each column says."""
    shape = (n_rows, n_questions)
    mean, logits = np.zeros(shape), np.zeros((*shape, n_values))
    if n_columns is None:
        return Told(mean, logits)
    parts = np.zeros((*shape, n_columns, n_values))
    return Told(mean, logits, np.zeros((*shape, n_columns)), np.zeros((*shape, n_values)), parts)


def _log_t(at: Floats, mean: Floats | float, variance: Floats | float) -> Floats:
    """The logarithm of a t density, up to a constant of its degrees of freedom."""
    distance: Floats = np.square(at - mean) / (FREEDOM * variance)
    return -0.5 * (FREEDOM + 1.0) * np.log1p(distance) - 0.5 * np.log(variance)
