"""POST /impute: rows as JSON, or a whole file as CSV, Parquet or Arrow."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, BinaryIO, TypeVar

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from model.draws import draw_copies
from model.runtime import Pause
from model.schema import Link
from service import metrics
from service.answers import Json, show_draws, show_imputation
from service.bulk import INLINE_BYTES
from service.documents import gives, takes
from service.errors import ProblemError
from service.files.ask import FileReport, Format
from service.front import Handler
from service.live import Served
from service.payloads import ImputeAsk, Unknown, check_rows, decoder, rows_to_columns
from service.routes import examples
from service.routes.asking import do_nothing
from service.routes.media import FILES, MEDIA_TYPES, sent_format, wanted_format
from service.routes.query import refuse_all, refuse_others
from service.routes.received import Received, receive_file
from service.serving import Serving, answer_json, is_long, read_json
from service.shapes import ImputeAnswer

IMPUTE = decoder(ImputeAsk)
Choice = TypeVar("Choice")
UNKNOWN: dict[str, Unknown] = {"refuse": "refuse", "ignore": "ignore"}
# What a file request may have in its address, as ``add_imputing`` declares it.
FILE_QUERY = ("table", "model", "columns", "unknown", "append", "interval", "first")
CHUNK = 1 << 18
# Warnings of a file travel in a header, which proxies cut at some kilobytes.
MOST_HEADER = 4000


def make_impute(serving: Serving) -> Handler:
    """What answers POST /impute."""

    async def impute(request: Request) -> Response:
        sent = sent_format(request)
        wanted = wanted_format(request.headers, sent)
        if sent is not None:
            return await _impute_file(serving, request, sent, wanted)
        refuse_all(request)
        body = await read_json(request)
        is_large = len(body) > INLINE_BYTES
        ask = await serving.bulk.run(request, IMPUTE.read, body) if is_large else IMPUTE.read(body)
        _check(ask, serving)
        served = serving.live.find(ask.model) or await serving.live.load(ask.model)
        links = serving.live.state.links(served, ask.table)
        metrics.count_rows("/impute", len(ask.rows))
        if wanted is not None and ask.draws:
            raise ProblemError(422, "draws are given as JSON only; ask without them, or accept application/json")
        if wanted is None and not is_large and not ask.draws and not is_long(ask.rows, serving.settings):
            return answer_json(answer_impute(ask, served, links, do_nothing))
        return await serving.bulk.run(request, _write_answer, ask, served, links, wanted, serving.bulk.pause)

    return impute


def add_imputing(router: APIRouter, impute: Handler) -> None:
    """Declare /impute. Query parameters are for files; JSON has them in the body."""

    @router.post(
        "/impute", operation_id="impute", tags=["answers"], response_model=None,
        summary="Fill in what is missing; observed cells stay as they are",
        openapi_extra=takes(ImputeAsk, examples.IMPUTE, FILES),
        responses=gives(ImputeAnswer, examples.IMPUTED, 400, 404, 406, 413, 415, 422, 503, others=tuple(FILES)),
    )  # fmt: skip
    async def declared(
        request: Request,
        *,
        table: Annotated[str | None, Query(description="names are read as this table's columns")] = None,
        model: Annotated[str | None, Query(description="NAME or NAME@VERSION; default: the active model")] = None,
        columns: Annotated[str | None, Query(description="which columns to fill, comma separated")] = None,
        unknown: Annotated[Unknown, Query(description="columns nobody knows")] = "refuse",
        append: Annotated[bool, Query(description="whether columns that the file lacks are added to it")] = True,
        interval: Annotated[float | None, Query(description="such as 0.9, where the answer is JSON")] = None,
        first: Annotated[int | None, Query(description="only so many rows, where the answer is JSON")] = None,
    ) -> Response:
        del table, model, columns, unknown, append, interval, first  # read from the address by ``impute`` itself
        return await impute(request)


def _check(ask: ImputeAsk, serving: Serving) -> None:
    settings = serving.settings
    check_rows(ask.rows, settings.max_rows)
    if not 0 <= ask.draws <= settings.max_draws:
        raise ProblemError(422, f"draws must be between 0 and {settings.max_draws}, not {ask.draws}")
    if ask.draws * len(ask.rows) > settings.max_rows:
        raise ProblemError(422, f"{ask.draws} draws of {len(ask.rows)} rows are more than {settings.max_rows} rows")
    if ask.seed < 0:
        raise ProblemError(422, f"seed must not be negative, as {ask.seed} is")


def answer_impute(ask: ImputeAsk, served: Served, links: Mapping[str, Link], pause: Pause) -> Json:
    """Completed rows, what was put where, and as many drawn copies as were asked for."""
    predictor = served.predictor
    columns = rows_to_columns(ask.rows, next(iter(links)), links, predictor.schema.index)
    # Without a table the names are features, and only those that the rows have are filled.
    own_links = None if ask.table is None else links
    which = ask.columns
    if which is None and own_links is None and not any(ask.rows):
        which = []
    filled = predictor.impute(
        columns, table=ask.table, links=own_links, which=which, interval=ask.interval, explain=ask.explain,
        unknown=ask.unknown, pause=pause, brief=True,
    )  # fmt: skip
    rows, imputed = show_imputation(filled, ask.rows, links)
    metrics.IMPUTED.inc(len(imputed))
    answer: Json = {"model": served.ref, "rows": rows, "imputed": imputed}
    if ask.draws:
        draws = draw_copies(
            predictor, columns, n_draws=ask.draws, seed=ask.seed, table=ask.table, links=own_links, which=which,
            unknown=ask.unknown, pause=pause,
        )  # fmt: skip
        answer["draws"] = show_draws(draws, ask.rows, ask.draws)
    return {**answer, "warnings": filled.warnings}


def _write_answer(
    ask: ImputeAsk, served: Served, links: Mapping[str, Link], wanted: Format | None, pause: Pause
) -> Response:
    answer = answer_impute(ask, served, links, pause)
    if wanted is None:
        return answer_json(answer)
    from service.files.rows import write_rows  # pyarrow loads only where tables are files

    headers = _headers(served.ref, len(answer["rows"]), len(answer["imputed"]), answer["warnings"])
    return Response(write_rows(answer["rows"], wanted), headers=headers, media_type=MEDIA_TYPES[wanted])


async def _impute_file(serving: Serving, request: Request, sent: Format, wanted: Format | None) -> Response:
    """The body goes to a file, the answer comes from a file: memory does not grow with either."""
    refuse_others(request, FILE_QUERY, ImputeAsk.__struct_fields__)
    query = request.query_params
    extras = _read_extras(query, wanted)
    asked = receive_file(
        serving,
        request,
        sent,
        model=query.get("model"),
        table=query.get("table"),
        columns=tuple(name.strip() for name in query["columns"].split(",")) if "columns" in query else None,
        unknown=_read_word(query, "unknown", UNKNOWN),
        append=_read_word(query, "append", {"true": True, "false": False}),
    )
    async with asked as received:
        if wanted is None:
            return await serving.bulk.run(request, _file_as_json, received, extras, serving)
        report = await serving.bulk.run(request, _fill_file, received, wanted, serving.bulk.pause)
        opened = (received.folder / "out").open("rb")  # outlives its name: the folder goes now
    metrics.count_rows("/impute", report.rows)
    metrics.IMPUTED.inc(report.filled)
    headers = _headers(received.served.ref, report.rows, report.filled, report.warnings)
    headers["content-length"] = str(opened.seek(0, 2))
    opened.seek(0)
    return StreamingResponse(_send(opened), headers=headers, media_type=MEDIA_TYPES[wanted])


@dataclass(frozen=True, slots=True)
class Extras:
    """What a file answered as JSON can be asked for besides: intervals, and only its ``first`` rows."""

    interval: float | None = None
    first: int | None = None


def _read_extras(query: Mapping[str, str], wanted: Format | None) -> Extras:
    given = {name: query[name] for name in ("interval", "first") if name in query}
    if given and wanted is not None:
        raise ProblemError(422, f"{next(iter(given))} is for JSON answers only: accept application/json")
    try:
        interval = float(given["interval"]) if "interval" in given else None
        first = int(given["first"]) if "first" in given else None
    except ValueError:
        raise ProblemError(422, "interval must be a number such as 0.9, first a whole number") from None
    if first is not None and first < 1:
        raise ProblemError(422, f"first must be at least 1, not {first}")
    return Extras(interval, first)


def _read_word(query: Mapping[str, str], name: str, choices: Mapping[str, Choice]) -> Choice:
    """What one of a few words means; the first is usual."""
    word = query.get(name, next(iter(choices)))
    if word.lower() not in choices:  # Python's clients write True and False
        raise ProblemError(422, f"{name} must be {' or '.join(choices)}, not {word!r}")
    return choices[word.lower()]


def _fill_file(received: Received, wanted: Format, pause: Pause) -> FileReport:
    from service.files.work import impute_file  # pyarrow loads only where tables are files

    return impute_file(received.source, received.format, received.folder / "out", wanted, received.ask, pause=pause)


def _file_as_json(received: Received, extras: Extras, serving: Serving) -> Response:
    """A file in, JSON out: its known columns as rows, answered as rows are."""
    from service.files.rows import read_rows

    ask = received.ask
    rows, warnings = read_rows(received.source, received.format, ask, serving.settings.max_rows, first=extras.first)
    columns = list(ask.columns) if ask.columns is not None else None
    if not ask.append:
        own = dict.fromkeys(rows[0]) if rows else {}
        columns = [name for name in (own if columns is None else columns) if name in own]
    json_ask = ImputeAsk(rows=rows, table=ask.table, columns=columns, interval=extras.interval)
    answer = answer_impute(json_ask, received.served, ask.links, serving.bulk.pause)
    return answer_json({**answer, "warnings": [*warnings, *answer["warnings"]]})


async def _send(file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk


def _headers(model: str, rows: int, imputed: int, warnings: Sequence[str]) -> dict[str, str]:
    """What a JSON answer would say beside the rows."""
    kept: list[str] = []
    room = MOST_HEADER
    for warning in warnings:
        room -= len(json.dumps(warning)) + 2
        if room < 0:
            kept.append(f"and {len(warnings) - len(kept)} more")
            break
        kept.append(warning)
    return {"x-model": model, "x-rows": str(rows), "x-imputed-cells": str(imputed), "x-warnings": json.dumps(kept)}
