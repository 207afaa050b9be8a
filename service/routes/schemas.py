"""GET and PUT /schemas: what the columns of each table mean. A table can be served without a refit."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from model.errors import MOST_LISTED, CellError, CellProblem
from model.requests import nearest
from model.schema import Link
from service.documents import gives, takes
from service.errors import ProblemError
from service.live import Served
from service.payloads import SchemaAsk, decoder
from service.registry import REGISTERED, TableVersion
from service.routes import examples
from service.serving import Serving, answer_json, read_json
from service.table_shapes import SchemaAnswer, SchemasAnswer, SchemaVersions

SCHEMA = decoder(SchemaAsk)
MOST_NAME = 200
MOST_COLUMNS = 10_000
# Units beyond this would make numbers infinite.
LEAST_SCALE = 1e-100


@dataclass(frozen=True, slots=True)
class SchemaRoutes:
    """What answers under /schemas."""

    serving: Serving

    async def list_schemas(self) -> Response:
        state = self.serving.live.state
        own = state.active.predictor.schema.by_table if state.active else {}
        names = dict.fromkeys([*own, *state.registered])
        registry = self.serving.registry
        versions = await asyncio.to_thread(lambda: [_current(registry.table_versions(name)) for name in names])
        return answer_json({"tables": [self._show(version) for version in versions]})

    async def get_schema(self, table: str) -> Response:
        versions = await asyncio.to_thread(self.serving.registry.table_versions, table)
        shown = [self._show(version) for version in versions]
        return answer_json({**self._show(_current(versions)), "versions": shown})

    async def put_schema(self, table: str, request: Request) -> Response:
        ask: SchemaAsk = SCHEMA.read(await read_json(request))
        links = _read_links(table, ask, await self.serving.live.get(None))
        version = await asyncio.to_thread(self.serving.registry.put_table, table, links)
        await self.serving.live.refresh()
        return answer_json(self._show(version))

    async def delete_schema(self, table: str) -> Response:
        version = await asyncio.to_thread(self.serving.registry.drop_table, table)
        await self.serving.live.refresh()
        return answer_json(self._show(version))

    def _show(self, version: TableVersion) -> dict[str, Any]:
        active = self.serving.live.state.active
        return show_table(version, {f.name: f.kind for f in active.predictor.schema.features} if active else {})


def add_schemas(router: APIRouter, serving: Serving) -> None:
    """Declare the routes under /schemas."""
    routes = SchemaRoutes(serving)
    add = partial(router.add_api_route, tags=["schemas"], response_model=None)
    add(
        "/schemas", routes.list_schemas, methods=["GET"], operation_id="list_schemas",
        summary="All tables that can be named now: those of the active model and those registered",
        responses=gives(SchemasAnswer, {"tables": [examples.SCHEMA_GIVEN]}, 503),
    )  # fmt: skip
    add(
        "/schemas/{table}", routes.get_schema, methods=["GET"], operation_id="get_schema",
        summary="A table's columns as they are read now, and every version before",
        responses=gives(SchemaVersions, {**examples.SCHEMA_GIVEN, "versions": [examples.SCHEMA_GIVEN]}, 404, 422, 503),
    )  # fmt: skip
    add(
        "/schemas/{table}", routes.put_schema, methods=["PUT"], operation_id="put_schema",
        summary="Register a table, or change what its columns mean: served at once, no refit",
        openapi_extra=takes(SchemaAsk, examples.SCHEMA),
        responses=gives(SchemaAnswer, examples.SCHEMA_GIVEN, 400, 413, 415, 422, 503),
    )  # fmt: skip
    add(
        "/schemas/{table}", routes.delete_schema, methods=["DELETE"], operation_id="delete_schema",
        summary="Take back what was registered: a bundle's own table of that name is served again",
        responses=gives(SchemaAnswer, examples.SCHEMA_GIVEN, 404, 422, 503),
    )  # fmt: skip


def _current(versions: list[TableVersion]) -> TableVersion:
    """The version that is read now (newest first): one that was registered and not taken back, else the bundle's."""
    registered = next((version for version in versions if version.origin == REGISTERED), None)
    if registered is not None and not registered.retired:
        return registered
    return next((version for version in versions if version.origin != REGISTERED), versions[0])


def _read_links(table: str, ask: SchemaAsk, served: Served) -> list[Link]:
    """The columns, each with a feature that the active model knows and a unit that can be."""
    if not table.strip() or len(table) > MOST_NAME:
        raise ProblemError(422, f"a table's name has between 1 and {MOST_NAME} characters")
    if not ask.columns:
        raise ProblemError(422, "columns is empty: a table has at least one column")
    if len(ask.columns) > MOST_COLUMNS:
        raise ProblemError(422, f"{len(ask.columns)} columns are more than the {MOST_COLUMNS} a table may have")
    links = [Link(column, k.feature, k.scale, k.offset, tuple(k.missing)) for column, k in ask.columns.items()]
    seen = Counter(link.feature for link in links)
    problems: list[CellProblem] = []
    for link in links:
        fault = _find_fault(link, served, with_hint=len(problems) < MOST_LISTED)
        if fault is None and seen[link.feature] > 1:
            fault = f"another column is {link.feature!r} already"
        if fault is not None:
            problems.append(CellProblem(None, link.column, fault))
    if problems:
        raise CellError(problems)
    return links


def _find_fault(link: Link, served: Served, *, with_hint: bool) -> str | None:
    index = served.predictor.schema.index
    if not link.column.strip():
        return "a column must have a name"
    if link.feature not in index:
        return f"there is no feature {link.feature!r}{nearest(link.feature, index) if with_hint else ''}"
    if not LEAST_SCALE <= abs(link.scale) <= 1 / LEAST_SCALE or not abs(link.offset) <= 1 / LEAST_SCALE:
        return "scale must be finite and not 0, offset finite: feature value = cell * scale + offset"
    if (link.scale, link.offset) != (1.0, 0.0) and not _has_unit(served, link.feature):
        return f"feature {link.feature!r} is no number: it takes no scale or offset"
    return None


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
