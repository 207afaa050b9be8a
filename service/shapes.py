"""The shapes of answers: what the OpenAPI document shows, and what tests hold the answers to."""

from typing import Any

import msgspec


class Expert(msgspec.Struct, forbid_unknown_fields=True):
    """An observed column: how much it was heard (its gate, summed over heads) and what it added."""

    feature: str
    column: str
    weight: float
    contribution: float


class Piece(msgspec.Struct, forbid_unknown_fields=True):
    """A piece of a distribution: numbers from low to high, or one value."""

    probability: float
    low: float | str | None = None
    high: float | str | None = None
    value: Any = None


class PredictedRow(msgspec.Struct, forbid_unknown_fields=True):
    """base + the experts' contributions = score."""

    value: float | int | str | bool
    distribution: list[Piece] | None = None
    median: float | str | None = None
    interval: list[float | str] | None = None
    probability: float | None = None
    score: float | None = None
    base: float | None = None
    experts: list[Expert] | None = None


class PredictAnswer(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    target: str
    kind: str
    predictions: list[PredictedRow]
    warnings: list[str]


class ImputedCell(msgspec.Struct, forbid_unknown_fields=True):
    row: int
    column: str
    value: float | int | str | bool
    probability: float | None = None
    interval: list[float | str] | None = None
    score: float | None = None
    base: float | None = None
    experts: list[Expert] | None = None


class ImputeAnswer(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    rows: list[dict[str, Any]]
    imputed: list[ImputedCell]
    warnings: list[str]
    draws: list[list[dict[str, Any]]] | None = None


class SuspectCell(msgspec.Struct, forbid_unknown_fields=True):
    """surprise: at most one sound cell in e^surprise has so much against it."""

    row: int
    column: str
    value: Any
    surprise: float
    expected: float | int | str | bool
    interval: list[float | str] | None
    probability: float | None
    experts: list[Expert]


class SuspectRow(msgspec.Struct, forbid_unknown_fields=True):
    row: int
    cells: dict[str, Any]


class AuditAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """rows: those of a file that have such cells, among rows_in_all with cells_in_all known cells."""

    model: str
    cells: list[SuspectCell]
    warnings: list[str]
    rows_in_all: int | None = None
    cells_in_all: int | None = None
    rows: list[SuspectRow] | None = None


class EncodedFeature(msgspec.Struct, forbid_unknown_fields=True):
    feature: str
    kind: str
    tables: list[str]
    encoding: list[float]


class EncodingsAnswer(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    dimension: int
    features: list[EncodedFeature]


class SimilarFeature(msgspec.Struct, forbid_unknown_fields=True):
    """sign: -1 where the one falls as the other rises."""

    feature: str
    tables: list[str]
    similarity: float
    sign: int


class SimilarAnswer(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    feature: str
    similar: list[SimilarFeature]


class Point(msgspec.Struct, forbid_unknown_fields=True):
    feature: str
    kind: str
    tables: list[str]
    x: float
    y: float


class MapAnswer(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    points: list[Point]


class AnalogousValue(msgspec.Struct, forbid_unknown_fields=True):
    feature: str
    value: float | str
    similarity: float


class AnalogyAnswer(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    answers: list[AnalogousValue]


class ModelFeature(msgspec.Struct, forbid_unknown_fields=True):
    feature: str
    kind: str


class ModelAnswer(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    name: str
    version: int
    active: bool
    status: str
    sha256: str
    created: str
    published: str
    preset: str
    seed: int
    features: list[ModelFeature]
    metrics: dict[str, Any]


class ModelsAnswer(msgspec.Struct, forbid_unknown_fields=True):
    active: str | None
    models: list[ModelAnswer]


class Health(msgspec.Struct, forbid_unknown_fields=True):
    status: str
    model: str | None = None


class Limits(msgspec.Struct, forbid_unknown_fields=True):
    body_bytes: int
    file_bytes: int
    file_rows: int
    rows: int
    draws: int


class Fault(msgspec.Struct, forbid_unknown_fields=True):
    row: int | None
    column: str | None
    message: str


class ProblemDetails(msgspec.Struct, forbid_unknown_fields=True):
    """RFC 9457; errors names at most 100 cells."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    errors: list[Fault]
    errors_in_all: int | None = None
    error: str | None = None


class OpenLive(msgspec.Struct, forbid_unknown_fields=True):
    """The process runs."""

    live: bool


class OpenReady(msgspec.Struct, forbid_unknown_fields=True):
    """The model of that name (or, without one, the active model) answers."""

    ready: bool
    name: str | None = None


class OpenServer(msgspec.Struct, forbid_unknown_fields=True):
    """What answers here, and which extensions of the protocol it knows."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(msgspec.Struct, forbid_unknown_fields=True):
    """A tensor that may be sent or asked for; the datatype of an output can differ with the target's kind."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = None


class OpenModel(msgspec.Struct, forbid_unknown_fields=True):
    """A model: one input per feature, all of them optional, and what it can answer."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class TensorAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """An output: its cells are in ``data``, or ``parameters.binary_data_size`` bytes after the JSON."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: dict[str, Any] | None = None


class InferAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """Predictions, column by column."""

    model_name: str
    model_version: str
    outputs: list[TensorAnswer]
    id: str | None = None
    parameters: dict[str, Any] | None = None
