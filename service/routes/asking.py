"""POST /predict and POST /audit, and what they have in common with POST /impute.

The way of a single row: raw body -> msgspec -> columns -> onnxruntime -> orjson, all of it on the event
loop. More rows than a few are worked on in the bulk thread, in pieces.
"""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from model.audit import audit
from model.requests import check_interval
from model.schema import Link
from service import metrics
from service.answers import Json, show_prediction, show_row_answer, show_suspect
from service.bulk import INLINE_BYTES, PIECE, pause
from service.documents import gives, takes
from service.front import Handler
from service.live import Served
from service.payloads import (
    AuditAsk,
    Decoder,
    PredictAsk,
    check_rows,
    decoder,
    rows_to_columns,
)
from service.routes import examples
from service.serving import JSON, Serving, read_json
from service.shapes import AuditAnswer, PredictAnswer

ERRORS = (400, 404, 413, 415, 422, 503)
PREDICT, AUDIT = decoder(PredictAsk), decoder(AuditAsk)


def make_predict(serving: Serving) -> Handler:
    """What answers POST /predict."""

    async def predict(request: Request) -> Response:
        return await answer(serving, request, PREDICT, answer_predict)

    return predict


def add_asking(router: APIRouter, serving: Serving, predict: Handler) -> None:
    """Declare /predict (answered by ``predict``) and /audit."""
    router.add_api_route(
        "/predict", predict, methods=["POST"], operation_id="predict", tags=["answers"], response_model=None,
        summary="Predict one column from any subset of the others",
        openapi_extra=takes(PredictAsk, examples.PREDICT),
        responses=gives(PredictAnswer, examples.PREDICTED, *ERRORS),
    )  # fmt: skip

    @router.post(
        "/audit", operation_id="audit", tags=["answers"], response_model=None,
        summary="The cells that fit the rest of their row least",
        openapi_extra=takes(AuditAsk, examples.AUDIT),
        responses=gives(AuditAnswer, examples.AUDITED, *ERRORS),
    )  # fmt: skip
    async def audit_rows(request: Request) -> Response:
        return await answer(serving, request, AUDIT, answer_audit)


async def answer(
    serving: Serving,
    request: Request,
    reader: Decoder,
    work: Callable[[Any, Served, Mapping[str, Link]], Json],
) -> Response:
    """Read a body, find its model and its table, and do the work: here, or beside the loop if there is much."""
    body = await read_json(request)
    is_large = len(body) > INLINE_BYTES
    ask = await serving.bulk.run(reader.read, body) if is_large else reader.read(body)
    check_rows(ask.rows, serving.settings.max_rows)
    served = serving.live.find(ask.model) or await serving.live.load(ask.model)
    links = serving.live.state.links(served, ask.table)

    def write() -> bytes:
        return orjson.dumps(work(ask, served, links))

    is_long = is_large or len(ask.rows) > serving.settings.inline_rows
    content = await serving.bulk.run(write) if is_long else write()
    metrics.count_rows(request.scope["path"], len(ask.rows))
    return Response(content, media_type=JSON)


def answer_predict(ask: PredictAsk, served: Served, links: Mapping[str, Link]) -> Json:
    """All rows are read before the first is answered: faults are found at once, with their row."""
    predictor = served.predictor
    check_interval(ask.interval)
    columns = rows_to_columns(ask.rows, ask.target)
    if len(ask.rows) == 1 and not ask.explain and ask.target in links:
        link = links[ask.target]
        row = {name: cells for name, cells in columns.items() if name != ask.target}
        single = predictor.predict_row(row, link, links, ask.interval)
        if single is not None:
            return {
                "model": served.ref,
                "target": ask.target,
                "kind": single[0].feature.kind,
                "predictions": [show_row_answer(*single, ask.distribution)],
                "warnings": [],
            }
    link, cells = predictor.prepare(columns, ask.target, table=ask.table, links=links, unknown=ask.unknown)
    n_rows = len(cells.positions)
    if n_rows <= PIECE:
        predictions = show_prediction(
            predictor.answer(cells, link, interval=ask.interval, explain=ask.explain), links, ask.distribution
        )
    else:
        predictions = []
        for start in range(0, n_rows, PIECE):
            some = cells.rows(slice(start, start + PIECE))
            part = predictor.answer(some, link, interval=ask.interval, explain=ask.explain)
            predictions += show_prediction(part, links, ask.distribution)
            pause()
    return {
        "model": served.ref,
        "target": ask.target,
        "kind": predictor.feature_of(link).kind,
        "predictions": predictions,
        "warnings": cells.warnings,
    }


def answer_audit(ask: AuditAsk, served: Served, links: Mapping[str, Link]) -> Json:
    """The most surprising cells of all rows together."""
    columns = rows_to_columns(ask.rows, next(iter(links)))
    suspects, warnings = audit(
        served.predictor, columns, table=ask.table, links=links, interval=ask.interval, unknown=ask.unknown,
        limit=ask.limit,
    )  # fmt: skip
    return {
        "model": served.ref,
        "cells": [show_suspect(suspect, links) for suspect in suspects],
        "warnings": warnings,
    }
