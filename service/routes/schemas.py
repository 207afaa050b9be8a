"""GET and PUT /schemas: what the columns of each table mean. A table can be served without a refit."""

import asyncio
import math
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from model.errors import CellError, CellProblem
from model.requests import nearest
from model.schema import Link
from service.documents import gives, takes
from service.errors import ProblemError
from service.live import Served
from service.payloads import SchemaAsk, decoder
from service.registry import TableVersion
from service.routes import examples
from service.serving import Serving, answer_json, read_json
from service.shapes import SchemaAnswer, SchemasAnswer, SchemaVersions

SCHEMA = decoder(SchemaAsk)
MOST_NAME = 200


def add_schemas(router: APIRouter, serving: Serving) -> None:
    """Declare the routes under /schemas."""
    registry, live = serving.registry, serving.live

    def kinds() -> dict[str, str]:
        active = live.state.active
        return {f.name: f.kind for f in active.predictor.schema.features} if active else {}

    @router.get(
        "/schemas", operation_id="list_schemas", tags=["schemas"], response_model=None,
        summary="All tables that can be named now: those of the active model and those registered",
        responses=gives(SchemasAnswer, {"tables": [examples.SCHEMA_GIVEN]}, 503),
    )  # fmt: skip
    async def list_schemas() -> Response:
        state = live.state
        own = state.active.predictor.schema.by_table if state.active else {}
        names = dict.fromkeys([*own, *state.registered])
        versions = await asyncio.to_thread(lambda: [_current(registry.table_versions(name)) for name in names])
        return answer_json({"tables": [show_table(version, kinds()) for version in versions]})

    @router.get(
        "/schemas/{table}", operation_id="get_schema", tags=["schemas"], response_model=None,
        summary="A table's columns as they are read now, and every version before",
        responses=gives(SchemaVersions, {**examples.SCHEMA_GIVEN, "versions": [examples.SCHEMA_GIVEN]}, 404, 422, 503),
    )  # fmt: skip
    async def get_schema(table: str) -> Response:
        versions = await asyncio.to_thread(registry.table_versions, table)
        shown = [show_table(version, kinds()) for version in versions]
        return answer_json({**show_table(_current(versions), kinds()), "versions": shown})

    @router.put(
        "/schemas/{table}", operation_id="put_schema", tags=["schemas"], response_model=None,
        summary="Register a table, or change what its columns mean: served at once, no refit",
        openapi_extra=takes(SchemaAsk, examples.SCHEMA),
        responses=gives(SchemaAnswer, examples.SCHEMA_GIVEN, 400, 413, 415, 422, 503),
    )  # fmt: skip
    async def put_schema(table: str, request: Request) -> Response:
        ask: SchemaAsk = SCHEMA.read(await read_json(request))
        served = await live.get(None)
        links = _read_links(table, ask, served)
        version = await asyncio.to_thread(registry.put_table, table, links)
        await live.refresh()
        return answer_json(show_table(version, kinds()))

    @router.delete(
        "/schemas/{table}", operation_id="delete_schema", tags=["schemas"], response_model=None,
        summary="Take back what was registered: a bundle's own table of that name is served again",
        responses=gives(SchemaAnswer, examples.SCHEMA_GIVEN, 404, 422, 503),
    )  # fmt: skip
    async def delete_schema(table: str) -> Response:
        version = await asyncio.to_thread(registry.drop_table, table)
        await live.refresh()
        return answer_json(show_table(version, kinds()))


def _current(versions: list[TableVersion]) -> TableVersion:
    """The version that is read now (newest first): one that was registered and not taken back, else the bundle's."""
    registered = next((version for version in versions if version.origin == "registered"), None)
    if registered is not None and not registered.retired:
        return registered
    return next((version for version in versions if version.origin != "registered"), versions[0])


def _read_links(table: str, ask: SchemaAsk, served: Served) -> list[Link]:
    """The columns, each with a feature that the active model knows and a unit that can be."""
    if not table.strip() or len(table) > MOST_NAME:
        raise ProblemError(422, f"a table's name has between 1 and {MOST_NAME} characters")
    if not ask.columns:
        raise ProblemError(422, "columns is empty: a table has at least one column")
    index = served.predictor.schema.index
    problems, links = [], []
    for column, given in ask.columns.items():
        fault = None
        if given.feature not in index:
            fault = f"there is no feature {given.feature!r}{nearest(given.feature, index)}"
        elif given.scale == 0.0 or not math.isfinite(given.scale) or not math.isfinite(given.offset):
            fault = "scale must be finite and not 0, offset finite: feature value = cell * scale + offset"
        elif (given.scale, given.offset) != (1.0, 0.0) and not _has_unit(served, given.feature):
            fault = f"feature {given.feature!r} is no number: it takes no scale or offset"
        if fault:
            problems.append(CellProblem(None, column, fault))
        links.append(Link(column, given.feature, given.scale, given.offset, tuple(given.missing)))
    twice = {link.feature for i, link in enumerate(links) if any(link.feature == k.feature for k in links[:i])}
    problems += [CellProblem(None, k.column, f"another column is {k.feature!r} already") for k in links
                 if k.feature in twice]  # fmt: skip
    if problems:
        raise CellError(problems)
    return links


def _has_unit(served: Served, feature: str) -> bool:
    schema = served.predictor.schema
    return schema.features[schema.index[feature]].kind in ("numeric", "ordinal")


def show_table(version: TableVersion, kinds: dict[str, str]) -> dict[str, Any]:
    """A table's columns as JSON."""
    return {
        "table": version.table,
        "version": version.version,
        "origin": version.origin,
        "created": version.created.isoformat(),
        "columns": {
            link.column: {
                "feature": link.feature,
                "scale": link.scale,
                "offset": link.offset,
                "missing": list(link.missing),
                "kind": kinds.get(link.feature),
            }
            for link in version.columns
        },
    }
