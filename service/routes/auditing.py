"""POST /audit: rows as JSON, or a whole file as CSV, Parquet or Arrow."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from model.audit import audit
from model.runtime import Pause
from model.schema import Link
from service import metrics
from service.answers import Json, show_suspect
from service.documents import gives, takes
from service.errors import ProblemError
from service.files.ask import Format
from service.live import Served
from service.payloads import AuditAsk, Unknown, decoder, rows_to_columns
from service.routes import examples
from service.routes.asking import ERRORS, answer
from service.routes.media import FILES, sent_format
from service.routes.received import Received, receive_file
from service.serving import Serving, answer_json, write_json
from service.shapes import AuditAnswer

# Every one of them is explained, which takes a while.
MOST_SUSPECTS = 10_000
AUDIT = decoder(AuditAsk)
USUAL = AuditAsk(rows=[])


def add_auditing(router: APIRouter, serving: Serving) -> None:
    """Declare /audit. Query parameters are for files; JSON has them in the body."""

    @router.post(
        "/audit", operation_id="audit", tags=["answers"], response_model=None,
        summary="The cells that fit the rest of their row least",
        openapi_extra=takes(AuditAsk, examples.AUDIT, FILES),
        responses=gives(AuditAnswer, examples.AUDITED, *ERRORS),
    )  # fmt: skip
    async def audit_rows(
        request: Request,
        *,
        table: Annotated[str | None, Query(description="names are read as this table's columns")] = None,
        model: Annotated[str | None, Query(description="NAME or NAME@VERSION; default: the active model")] = None,
        limit: Annotated[int, Query(description="how many cells at the most")] = USUAL.limit,
        interval: Annotated[float, Query(description="such as 0.9, of what was expected")] = USUAL.interval,
        unknown: Annotated[Unknown, Query(description="columns nobody knows")] = "refuse",
    ) -> Response:
        sent = sent_format(request)
        if sent is None:
            return await answer(serving, request, AUDIT, answer_audit)
        ask = AuditAsk(rows=[], table=table, model=model, limit=limit, interval=interval, unknown=unknown)
        return await _audit_file(serving, request, sent, ask)


def answer_audit(ask: AuditAsk, served: Served, links: Mapping[str, Link], pause: Pause) -> bytes:
    """The most surprising cells of all rows together."""
    return write_json(find_suspects(ask, served, links, pause))


def find_suspects(ask: AuditAsk, served: Served, links: Mapping[str, Link], pause: Pause) -> Json:
    """The same, as it will be written."""
    if not 1 <= ask.limit <= MOST_SUSPECTS:
        raise ProblemError(422, f"limit must be between 1 and {MOST_SUSPECTS}, not {ask.limit}")
    columns = rows_to_columns(ask.rows, next(iter(links)), links)
    suspects, warnings = audit(
        served.predictor, columns, table=ask.table, links=links, interval=ask.interval, unknown=ask.unknown,
        limit=ask.limit, pause=pause,
    )  # fmt: skip
    cells = [show_suspect(suspect, links) for suspect in suspects]
    return {"model": served.ref, "cells": cells, "warnings": list(warnings)}


async def _audit_file(serving: Serving, request: Request, sent: Format, ask: AuditAsk) -> Response:
    asked = receive_file(serving, request, sent, model=ask.model, table=ask.table, unknown=ask.unknown)
    async with asked as received:
        content = await serving.bulk.run(request, _read_and_audit, ask, received, serving)
    metrics.count_rows("/audit", content["rows_in_all"])
    return answer_json(content)


def _read_and_audit(ask: AuditAsk, received: Received, serving: Serving) -> Json:
    """Rows that have suspects are told with them: who sends a file does not have its rows at hand."""
    from service.files.rows import read_rows  # pyarrow loads only where tables are files

    rows, warnings = read_rows(received.source, received.format, received.ask, serving.settings.max_rows)
    links = received.ask.links
    found = find_suspects(msgspec.structs.replace(ask, rows=rows), received.served, links, serving.bulk.pause)
    concerned = [{"row": row, "cells": rows[row]} for row in sorted({cell["row"] for cell in found["cells"]})]
    n_cells = sum(len(row) - list(row.values()).count(None) for row in rows)
    counts = {"rows_in_all": len(rows), "cells_in_all": n_cells}
    return {**found, "warnings": [*warnings, *found["warnings"]], **counts, "rows": concerned}
