"""POST /predict, and what it has in common with POST /audit and POST /impute.

The way of a single row: raw body -> msgspec -> columns -> onnxruntime -> orjson, all of it on the event
loop. More rows than a few are worked on in the bulk thread, in pieces.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from model.requests import check_interval
from model.runtime import Pause
from model.schema import Link
from service import metrics
from service.answers import Json, show_prediction, show_row_answer
from service.bulk import INLINE_BYTES
from service.documents import gives, takes
from service.front import Handler
from service.live import Served
from service.payloads import Decoder, PredictAsk, check_rows, decoder, rows_to_columns
from service.routes import examples
from service.routes.query import refuse_all
from service.serving import JSON, Serving, answer_in_pieces, is_long, read_json
from service.shapes import PredictAnswer
from service.together import Together

ERRORS = (400, 404, 413, 415, 422, 503)
PREDICT = decoder(PredictAsk)


def make_predict(serving: Serving) -> Handler:
    """What answers POST /predict."""
    together = Together()

    async def predict(request: Request) -> Response:
        return await answer(serving, request, PREDICT, answer_predict, partial(answer_single, together))

    return predict


def add_asking(router: APIRouter, predict: Handler) -> None:
    """Declare /predict (answered by ``predict``)."""
    router.add_api_route(
        "/predict", predict, methods=["POST"], operation_id="predict", tags=["answers"], response_model=None,
        summary="Predict one column from any subset of the others",
        openapi_extra=takes(PredictAsk, examples.PREDICT),
        responses=gives(PredictAnswer, examples.PREDICTED, *ERRORS),
    )  # fmt: skip


async def answer(
    serving: Serving,
    request: Request,
    reader: Decoder,
    work: Callable[[Any, Served, Mapping[str, Link], Pause], bytes],
    quick: Callable[[Any, Served, Mapping[str, Link]], Awaitable[bytes | None]] | None = None,
) -> Response:
    """Read a body, find its model and its table, and do the work: here, or beside the loop if there is much.
    A single row is tried the ``quick`` way first.
    """
    refuse_all(request)
    body = await read_json(request)
    is_large = len(body) > INLINE_BYTES
    ask = await serving.bulk.run(request, reader.read, body) if is_large else reader.read(body)
    check_rows(ask.rows, serving.settings.max_rows)
    served = serving.live.find(ask.model) or await serving.live.load(ask.model)
    links = serving.live.state.links(served, ask.table)
    content = await quick(ask, served, links) if quick is not None and len(ask.rows) == 1 else None
    if content is None and (is_large or is_long(ask.rows, serving.settings)):
        content = await serving.bulk.run(request, work, ask, served, links, serving.bulk.pause)
    elif content is None:
        content = work(ask, served, links, do_nothing)
    metrics.count_rows(request.scope["path"], len(ask.rows))
    return Response(content, media_type=JSON)


def do_nothing() -> None:
    """The pause of what is soon done."""


def answer_predict(ask: PredictAsk, served: Served, links: Mapping[str, Link], pause: Pause) -> bytes:
    """All rows are read before the first is answered: faults are found at once, with their row."""
    predictor = served.predictor
    check_interval(ask.interval)
    answer: Json = {"model": served.ref, "target": ask.target}
    columns = rows_to_columns(ask.rows, ask.target, links, predictor.schema.index)
    link, cells = predictor.prepare(columns, ask.target, table=ask.table, links=links, unknown=ask.unknown)
    answer["kind"] = predictor.feature_of(link).kind
    parts = answer_in_pieces(predictor, cells, link, pause, interval=ask.interval, explain=ask.explain)
    # Written piece by piece: one call for all of it would hold up everybody else.
    written = [orjson.dumps(show_prediction(part, links, ask.distribution))[1:-1] for part in parts]
    answer["predictions"] = orjson.Fragment(b"[" + b",".join(written) + b"]")
    return orjson.dumps({**answer, "warnings": cells.warnings})


async def answer_single(together: Together, ask: PredictAsk, served: Served, links: Mapping[str, Link]) -> bytes | None:
    """One row of plain cells; None: it takes the general way."""
    link = links.get(ask.target)
    if ask.explain or link is None:
        return None
    check_interval(ask.interval)
    row = {name: (cell,) for name, cell in ask.rows[0].items() if name != ask.target}
    single = served.predictor.read_single(row, link, links)
    if single is None:
        return None
    readout = single[0]
    told = await together.ask(served.predictor, *single, ask.interval)
    return orjson.dumps(
        {
            "model": served.ref,
            "target": ask.target,
            "kind": readout.feature.kind,
            "predictions": [show_row_answer(readout, told, ask.distribution)],
            "warnings": [],
        }
    )
