"""The Open Inference Protocol, version 2, as KServe and Triton speak it over HTTP: /v2.

A model has one input tensor per feature, all of them optional, and ``parameters.target`` names the column to
predict. Outputs: ``value`` (FP64 for numbers, BYTES for categories and datetimes, BOOL for booleans),
``probability`` (ordinal, categorical, boolean), ``median`` (numbers and datetimes) and, with
``parameters.interval``, ``low`` and ``high``. Binary tensor data go both ways.
"""

import asyncio
import re
from collections.abc import Mapping
from enum import Enum
from importlib.metadata import version as version_of
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from model.errors import BundleError
from model.requests import check_interval
from model.runtime import Pause, Predictor
from model.schema import Link
from service import metrics
from service.bulk import INLINE_BYTES, INLINE_CELLS
from service.documents import gives, takes
from service.errors import ProblemError
from service.front import Drain, media_type_of
from service.live import Served
from service.payloads import InferAsk, InferParameters
from service.routes.asking import do_nothing
from service.routes.health import check_ready
from service.serving import JSON, JSON_TYPES, Serving, answer_in_pieces, answer_json
from service.shapes import InferAnswer, OpenLive, OpenModel, OpenReady, OpenServer
from service.tensors import (
    DATATYPES,
    FP64,
    HEADER_LENGTH,
    OUTPUT_NAMES,
    Column,
    choose_outputs,
    read_ask,
    take_output,
    write_answer,
)

Json = dict[str, Any]
TAGS: list[str | Enum] = ["open inference"]
SERVER: Json = {"name": "tabglot", "version": version_of("tabglot"), "extensions": ["binary_tensor_data"]}
MODEL, VERSION = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
OCTETS = "application/octet-stream"
BY_KIND: Json = {"datatype_by_kind": DATATYPES}
# All but probabilities are in the target's own datatype.
OUTPUTS: list[Json] = [
    {"name": name, "datatype": FP64, "shape": [-1], **({} if name == "probability" else {"parameters": BY_KIND})}
    for name in OUTPUT_NAMES
]
ERRORS = (400, 404, 413, 415, 422, 503)

INFER_EXAMPLE: Json = {
    "id": "7",
    "inputs": [
        {"name": "cylinders", "shape": [2], "datatype": "INT64", "data": [8, 4]},
        {"name": "weight", "shape": [2], "datatype": "FP64", "data": [3504.0, None]},
    ],
    "parameters": {"target": "mpg", "interval": 0.9},
    "outputs": [{"name": "value"}, {"name": "low"}],
}
INFERRED_EXAMPLE: Json = {
    "model_name": "cars",
    "model_version": "1",
    "id": "7",
    "outputs": [
        {"name": "value", "datatype": "FP64", "shape": [2], "data": [14.9, 28.3]},
        {"name": "low", "datatype": "FP64", "shape": [2], "data": [12.1, 21.4]},
    ],
}
MODEL_EXAMPLE: Json = {
    "name": "cars",
    "versions": ["1"],
    "platform": "tabglot",
    "inputs": [{"name": "weight", "datatype": "FP64", "shape": [-1], "parameters": {"kind": "numeric"}}],
    "outputs": OUTPUTS[:2],
}


def add_open_inference(router: APIRouter, serving: Serving, drain: Drain) -> None:
    """Declare the routes under /v2."""
    _add_probes(router, serving, drain)
    _add_models(router, serving, drain)
    _add_infer(router, serving)


def _add_probes(router: APIRouter, serving: Serving, drain: Drain) -> None:
    @router.get(
        "/v2", operation_id="open_server", tags=TAGS, response_model=None, summary="The server and its extensions",
        responses=gives(OpenServer, SERVER),
    )  # fmt: skip
    async def show_server() -> Response:
        return answer_json(SERVER)

    @router.get(
        "/v2/health/live", operation_id="open_live", tags=TAGS, response_model=None,
        summary="Whether the process runs", responses=gives(OpenLive, {"live": True}),
    )  # fmt: skip
    async def live() -> Response:
        return answer_json({"live": True})

    @router.get(
        "/v2/health/ready", operation_id="open_ready", tags=TAGS, response_model=None,
        summary="Whether the active model answered its canary row", responses=gives(OpenReady, {"ready": True}, 503),
    )  # fmt: skip
    async def ready() -> Response:
        check_ready(serving, drain)
        return answer_json({"ready": True})


def _add_models(router: APIRouter, serving: Serving, drain: Drain) -> None:
    documented = gives(OpenModel, MODEL_EXAMPLE, 404, 422, 503)
    ready_documented = gives(OpenReady, {"name": "cars", "ready": True}, 404, 503)

    @router.get(
        MODEL, operation_id="open_model", tags=TAGS, response_model=None, responses=documented,
        summary="A model's tensors: the version that is served under its name",
    )  # fmt: skip
    async def show_model(name: str) -> Response:
        return await describe_model(serving, name)

    @router.get(
        VERSION, operation_id="open_model_version", tags=TAGS, response_model=None, responses=documented,
        summary="A model's tensors: one version",
    )  # fmt: skip
    async def show_version(name: str, version: str) -> Response:
        return await describe_model(serving, f"{name}@{version}")

    @router.get(
        f"{MODEL}/ready", operation_id="open_model_ready", tags=TAGS, response_model=None,
        responses=ready_documented, summary="Whether a model can be asked",
    )  # fmt: skip
    async def model_ready(name: str) -> Response:
        return await tell_ready(serving, drain, name)

    @router.get(
        f"{VERSION}/ready", operation_id="open_model_version_ready", tags=TAGS, response_model=None,
        responses=ready_documented, summary="Whether one version of a model can be asked",
    )  # fmt: skip
    async def version_ready(name: str, version: str) -> Response:
        return await tell_ready(serving, drain, f"{name}@{version}")


def _add_infer(router: APIRouter, serving: Serving) -> None:
    text = f"the JSON, then the tensors that are binary; the header {HEADER_LENGTH} tells where the JSON ends"
    header = {"name": HEADER_LENGTH, "in": "header", "required": False,
              "description": "bytes of JSON before binary tensors; without it the body is JSON alone",
              "schema": {"type": "integer", "minimum": 0}}  # fmt: skip
    body = {**takes(InferAsk, INFER_EXAMPLE, {OCTETS: text}), "parameters": [header]}
    documented = gives(InferAnswer, INFERRED_EXAMPLE, *ERRORS, others=(OCTETS,))

    @router.post(
        f"{MODEL}/infer", operation_id="open_infer", tags=TAGS, response_model=None, openapi_extra=body,
        summary="Predict one column from tensors of others", responses=documented,
    )  # fmt: skip
    async def infer_model(name: str, request: Request) -> Response:
        return await infer(serving, request, name)

    @router.post(
        f"{VERSION}/infer", operation_id="open_infer_version", tags=TAGS, response_model=None, openapi_extra=body,
        summary="Predict one column from tensors of others, by one version of a model", responses=documented,
    )  # fmt: skip
    async def infer_version(name: str, version: str, request: Request) -> Response:
        return await infer(serving, request, f"{name}@{version}")


async def describe_model(serving: Serving, ref: str) -> Response:
    """What can be sent to a model and what comes back."""
    served = await serving.live.get(ref)
    records = await asyncio.to_thread(serving.registry.models)
    versions = sorted(record.version for record in records if record.name == served.name)
    inputs = [
        {"name": feature.name, "datatype": DATATYPES[feature.kind], "shape": [-1], "parameters": {"kind": feature.kind}}
        for feature in served.predictor.schema.features
    ]
    return answer_json(
        {
            "name": served.name,
            "versions": [str(version) for version in versions],
            "platform": "tabglot",
            "inputs": inputs,
            "outputs": OUTPUTS,
        }
    )


async def tell_ready(serving: Serving, drain: Drain, ref: str) -> Response:
    """A model is ready when it is loaded and its canary row was answered."""
    if drain.begun:
        check_ready(serving, drain)
    try:
        served = await serving.live.get(ref)
    except BundleError as error:
        raise ProblemError(503, str(error)) from None
    return answer_json({"name": served.name, "ready": True})


async def infer(serving: Serving, request: Request, ref: str) -> Response:
    """Read the tensors, and predict: here, or beside the loop if there is much."""
    served = serving.live.find(ref) or await serving.live.load(ref)
    end = find_end(request)
    body = await request.body()
    is_large = len(body) > INLINE_BYTES
    reading = (body, end, serving.settings.max_rows)
    ask, columns, n_rows = await serving.bulk.run(request, read_ask, *reading) if is_large else read_ask(*reading)
    links = serving.live.state.links(served, ask.parameters.table if ask.parameters else None)
    work = (ask, columns, served, links)
    if is_large or n_rows > serving.settings.inline_rows or n_rows * len(columns) > INLINE_CELLS:
        content, tail = await serving.bulk.run(request, answer_infer, *work, serving.bulk.pause)
    else:
        content, tail = answer_infer(*work, do_nothing)
    metrics.count_rows(request.scope["route"].path, n_rows)
    if tail is None:
        return Response(content, media_type=JSON)
    return Response(content + tail, headers={HEADER_LENGTH: str(len(content))}, media_type=OCTETS)


def find_end(request: Request) -> int | None:
    """Where the JSON of the body ends and binary tensors begin; None: the body is JSON alone."""
    length = request.headers.get(HEADER_LENGTH)
    if length is None:
        media_type = media_type_of(request.scope)
        if media_type not in JSON_TYPES and media_type != OCTETS and not media_type.endswith("+json"):
            raise ProblemError(415, f"{media_type!r} is not understood here; send {JSON} or {OCTETS}")
        return None
    if not re.fullmatch("[0-9]{1,15}", length):
        raise ProblemError(400, f"{HEADER_LENGTH} must be a number of bytes, not {length!r}")
    return int(length)


def answer_infer(
    ask: InferAsk, columns: Mapping[str, Column], served: Served, links: Mapping[str, Link], pause: Pause
) -> tuple[bytes, bytes | None]:
    """The answer's JSON, and what follows it if any output is binary."""
    asked = ask.parameters or InferParameters()
    if asked.target is None:
        raise ProblemError(422, 'name the column to predict: "parameters": {"target": COLUMN}')
    check_interval(asked.interval)
    predictor = served.predictor
    kind = predictor.feature_of(predictor.resolve(asked.target, links)).kind
    wanted = choose_outputs(ask.outputs, kind, asked)
    plain = {name: _plain(cells, links.get(name), predictor) for name, cells in columns.items()}
    link, cells = predictor.prepare(plain, asked.target, table=asked.table, links=links, unknown=asked.unknown)
    values: dict[str, list[Any]] = {name: [] for name in wanted}
    for part in answer_in_pieces(predictor, cells, link, pause, interval=asked.interval):
        for name, column in values.items():
            column.extend(take_output(part, name))
    header: Json = {"model_name": served.name, "model_version": str(served.record.version)}
    if ask.id is not None:
        header["id"] = ask.id
    if cells.warnings:
        header["parameters"] = {"warnings": cells.warnings}
    return write_answer(header, wanted, values)


def _plain(cells: Column, link: Link | None, predictor: Predictor) -> Column:
    """Arrays are read whole where numbers belong; all else, and a single row, is read cell by cell."""
    if not isinstance(cells, np.ndarray):
        return cells
    kind = None if link is None else predictor.feature_of(link).kind
    if kind == "categorical" and cells.dtype.kind == "f":  # the category 0.1 as FP32 is 0.1, not 0.10000000149
        cells = cells.astype(str).astype(np.float64)
    return cells if len(cells) > 1 and kind in ("numeric", "ordinal") else cells.tolist()
