"""The linear expert: what a joint normal law of all features says of one of them, given the cells of a row.

The network learns what cells say together; what many columns that are nearly the same say apart is learnt far better in
closed form. Numbers enter in units of their spread and by orders of their normal score, words as one dimension of 0 and
1 each. Given any subset of the cells, the law's parameters are linear in these: every observed column adds one
contribution. The same code trains and serves. Axis letters: B rows, S columns, Q questions, K values, D dimensions of
the law, d those of the request's columns, w those of the asked feature, P patterns of missing cells.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.codec import score_values, standardize
from model.conditioning import Known, condition_numbers, condition_word
from model.law import (
    LEAST_VARIANCE,
    N_ORDERS,
    PLAIN,
    Floats,
    Indices,
    NormalLaw,
    Request,
    find_patterns,
    solvers,
)
from model.schema import Feature, Kind, Schema
from model.telling import Askable, Numbers, Told, Word, log_t

# It is not asked for levels: the network alone is as good at them.
ASKED_KINDS: frozenset[Kind] = frozenset({"numeric", "datetime", "categorical", "boolean"})
LEAST_EIGENVALUE = 1e-9
# Requests of other columns that are remembered.
MOST_REQUESTS = 64
# So many floats are worked on at once.
MOST_AT_ONCE = 4_000_000


class LinearExpert:
    """A law, ready to be asked. ``lean`` (F, 2): how far its expected value and its logits are followed.
    ``beliefs`` (F, F), of words: how far cells of the second feature are believed in what they say of the first; of a
    feature with itself, how far what follows from which cells a row has. None: all of them fully.
    """

    def __init__(
        self, schema: Schema, law: NormalLaw, lean: Floats | None = None, beliefs: Floats | None = None
    ) -> None:
        self.law = law
        self.beliefs = beliefs
        self.lean = np.ones((len(schema.features), 2)) if lean is None else lean
        self.n_values = max(feature.n_values for feature in schema.features)
        self._standard = np.zeros((len(schema.features), self.n_values))  # (F, K): knots of numbers, in spreads
        for i, feature in enumerate(schema.features):
            if feature.is_number:
                self._standard[i] = _pad(standardize(feature.knots), self.n_values)
        self._knots = self._lay_out_knots(schema)
        self._n_knots = np.asarray([feature.n_values for feature in schema.features])
        self._requests: dict[bytes, Request] = {}
        asked = [i for i in sorted(set(law.owner.tolist())) if schema.features[i].kind in ASKED_KINDS]
        self._numbers = self._lay_out_numbers([i for i in asked if schema.features[i].is_number])
        words = [i for i in asked if not schema.features[i].is_number]
        self._words = {i: self._lay_out_word(schema.features[i], i) for i in words}
        self._askable = Askable(law, self._numbers, self._words, beliefs)
        solvers()  # now, not with the first row

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All there is to keep of it."""
        law = self.law
        kept = {"owner": law.owner, "value": law.value, "mean": law.mean, "covariance": law.covariance}
        return {**kept, "lean": self.lean, **({} if self.beliefs is None else {"beliefs": self.beliefs})}

    def _lay_out_knots(self, schema: Schema) -> Floats:
        """What each dimension of a number has at the number's knots, (D, K)."""
        knots = self._standard[self.law.owner]
        for i in np.flatnonzero(self.law.value < PLAIN):
            order = PLAIN - int(self.law.value[i])
            shares = np.asarray(schema.features[self.law.owner[i]].shares)
            knots[i] = _pad(score_values(shares, N_ORDERS)[:, order - 1], self.n_values)
        return knots

    def _lay_out_numbers(self, asked: list[int]) -> Numbers:
        at = np.full(len(self._standard), -1)
        at[asked] = np.searchsorted(self.law.owner, asked)
        mean, variance = np.zeros(len(at)), np.ones(len(at))
        mean[asked], variance[asked] = self.law.mean[at[asked]], self.law.covariance[at[asked], at[asked]]
        points = self._standard - mean[:, None]
        return Numbers(at, points, log_t(points, 0.0, variance[:, None] + LEAST_VARIANCE))

    def _lay_out_word(self, feature: Feature, index: int) -> Word:
        first, last = np.searchsorted(self.law.owner, [index, index + 1]).tolist()
        at = slice(first, last)
        points = np.eye(feature.n_values)[:, : last - first] - self.law.mean[at]
        spread = self.law.covariance[at, at] + LEAST_VARIANCE * np.eye(last - first)
        return Word(at, points, np.asarray(np.linalg.inv(spread), dtype=np.float64))

    def tell(
        self,
        columns: Indices,
        positions: NDArray[Any],
        asked: Indices,
        *,
        explain: bool = False,
        means_only: bool = False,
    ) -> Told:
        """What the law says of each question from the other cells of each row; NaN positions are missing.
        ``means_only``: of numbers the expected value is enough.
        """
        request = self._request(columns)
        told = _silence(len(positions), len(asked), self.n_values, len(columns) if explain else None)
        if len(positions) == 0:
            return told
        if len(positions) == 1 and not explain:
            row = request.encode_row(positions[0].tolist())
            if self._askable.tell_holes(told, row, asked, means_only=means_only):
                return told
        cells, seen = request.encode(positions)
        patterns, which = find_patterns(seen)
        known = Known(request, patterns, request.invert(patterns), which, cells)
        numbers = np.flatnonzero(self._numbers.at[asked] >= 0)
        step = max(1, MOST_AT_ONCE // (cells.size or 1))
        for i in range(0, len(numbers), step):
            self._tell_numbers(told, known, numbers[i : i + step], asked)
        for question, feature in enumerate(asked.tolist()):
            if feature in self._words:
                self._tell_word(told, known, question, feature)
        return told

    def _tell_numbers(self, told: Told, known: Known, questions: Indices, asked: Indices) -> None:
        """Answer questions about numbers, all at once."""
        features = asked[questions]
        slopes, variance = condition_numbers(self.law, known, self._numbers.at[features])
        mean, variance = known.apply(slopes), known.spread(variance)  # (B, n), (B or 1, n)
        points, usual = self._numbers.points[features], self._numbers.usual[features]
        told.mean[:, questions] = mean
        told.logits[:, questions] = log_t(points, mean[:, :, None], variance[:, :, None]) - usual
        if told.mean_parts is not None:
            told.mean_parts[:, questions] = known.split(slopes)

    def _tell_word(self, told: Told, known: Known, question: int, feature: int) -> None:
        """Answer one question about a word."""
        word = self._words[feature]
        slopes, precision = condition_word(self.law, known, word.at)
        believed = 1.0
        if self.beliefs is not None:
            slopes = slopes * self.beliefs[feature, self.law.owner[known.request.dims]]
            believed = self.beliefs.item(feature, feature)
        moved, precision = known.apply(slopes), known.spread(precision)  # (B, w), (B or 1, w, w)
        n_values = len(word.points)
        base = -0.5 * believed * ((word.points @ (precision - word.usual)) * word.points).sum(axis=-1)  # (B or 1, K)
        told.logits[:, question, :n_values] = base + moved @ word.points.T
        if told.base is not None and told.parts is not None:
            told.base[:, question, :n_values] = base
            told.parts[:, question, :, :n_values] = known.split(slopes).transpose(0, 2, 1) @ word.points.T

    def _request(self, columns: Indices) -> Request:
        key = columns.tobytes()
        request = self._requests.get(key)
        if request is None:
            if len(self._requests) >= MOST_REQUESTS:
                self._requests.clear()  # other threads hold what they use
            request = self._requests[key] = self._prepare(columns)
        return request

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
        order = np.argsort(columns, kind="stable")
        place = order[np.searchsorted(columns, self.law.owner[dims], sorter=order)]
        return Request(
            dims=dims,
            owner=self.law.owner[dims],
            place=place,
            to_column=(place[:, None] == np.arange(len(columns))).astype(np.float64),
            mean=self.law.mean[dims],
            covariance=self.law.covariance[np.ix_(dims, dims)],
            across=self.law.covariance[:, dims],
            value=self.law.value[dims],
            knots=_pad(self._knots[dims].T, self.n_values + 1).T,
            n_knots=self._n_knots[self.law.owner[dims]],
        )

    def join(
        self,
        names: Sequence[str],
        feed: Mapping[str, NDArray[Any]],
        outputs: Sequence[NDArray[np.float32]],
        *,
        means_only: bool = False,
    ) -> list[NDArray[np.float32]]:
        """The outputs of the network with what the law says added; ``means_only``: as in ``tell``."""
        asked = np.asarray(feed["asked"])
        found = dict(zip(names, outputs, strict=True))
        explain = "contributions" in found
        told = self.tell(feed["columns"], feed["positions"], asked, explain=explain, means_only=means_only)
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
    beliefs = arrays.get("beliefs")  # bundles of before have none
    if beliefs is not None and (beliefs.shape != (len(lean), len(lean)) or not (beliefs >= 0.0).all()):
        raise ValueError("its beliefs were made for other features, or are negative")
    if not d or not np.allclose(covariance, covariance.T) or np.linalg.eigvalsh(covariance)[0] < LEAST_EIGENVALUE:
        raise ValueError("its covariance is not symmetric and positive definite")
    return LinearExpert(schema, NormalLaw(owner, value, mean, covariance), lean, beliefs)


def _fitting(schema: Schema, owner: Indices) -> list[tuple[int, int]]:
    """The dimensions that features of these indices have; of a number as many orders as there are."""
    found: list[tuple[int, int]] = []
    for i, n_dims in zip(*(part.tolist() for part in np.unique(owner, return_counts=True)), strict=True):
        if not 0 <= i < len(schema.features):
            return []
        feature = schema.features[i]
        n_orders = min(n_dims - 1, N_ORDERS) if feature.n_values > 2 else 0
        values = range(PLAIN, PLAIN - n_orders - 1, -1) if feature.is_number else range(feature.n_values - 1)
        found += [(i, value) for value in values]
    return found


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
