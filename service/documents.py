"""How routes are documented: bodies, answers and errors in the OpenAPI document, each with an example."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service import match_shapes, payloads, shapes, table_shapes
from service.errors import MEDIA_TYPE, TITLES

REFERENCE = "#/components/schemas/{name}"
Json = dict[str, Any]


def takes(kind: type[msgspec.Struct], example: Any, others: Mapping[str, str] | None = None) -> Json:
    """For ``openapi_extra``: the body of a request; ``others`` are media types that are files."""
    content: Json = {"application/json": {"schema": _reference(kind), "example": example}}
    for media_type, text in (others or {}).items():
        content[media_type] = {"schema": {"type": "string", "format": "binary", "description": text}}
    return {"requestBody": {"required": True, "content": content}}


def takes_file(*media_types: str) -> Json:
    """For ``openapi_extra``: a body that is a file."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}
    return {"requestBody": {"required": True, "content": content}}


def gives(
    kind: type[msgspec.Struct], example: Any, *errors: int, status: int = 200, others: tuple[str, ...] = ()
) -> dict[int | str, Json]:
    """For ``responses``: the answer, and every error there can be."""
    content: Json = {"application/json": {"schema": _reference(kind), "example": example}}
    content |= {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in others}
    return {status: {"description": _summary(kind), "content": content}, **fails(*errors)}


def gives_text(media_type: str, text: str, *errors: int) -> dict[int | str, Json]:
    """For ``responses``: an answer that is no JSON."""
    return {200: {"description": text, "content": {media_type: {"schema": {"type": "string"}}}}, **fails(*errors)}


def fails(*statuses: int) -> dict[int | str, Json]:
    """For ``responses``: errors, all of one shape. Any address may be asked without a key, or break."""
    schema = {"content": {MEDIA_TYPE: {"schema": _reference(shapes.ProblemDetails)}}}
    return {status: {"description": TITLES[status], **schema} for status in sorted({*statuses, 401, 500})}


def _reference(kind: type[msgspec.Struct]) -> Json:
    return {"$ref": REFERENCE.format(name=kind.__name__)}


def _summary(kind: type[msgspec.Struct]) -> str:
    return (kind.__doc__ or kind.__name__).strip().partition("\n")[0]


def describe(app: FastAPI, *, with_keys: bool) -> None:
    """Have the application's OpenAPI document made when it is first asked for, ours instead of FastAPI's."""

    @cache
    def openapi() -> Json:
        return _make_document(app, with_keys)

    app.openapi = openapi  # type: ignore[method-assign]


def _make_document(app: FastAPI, with_keys: bool) -> Json:
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes,
        tags=app.openapi_tags,
    )  # fmt: skip
    _, schemas = msgspec.json.schema_components(_kinds(), ref_template=REFERENCE)
    # FastAPI declares a validation error of its own: every error here is a problem.
    for methods in document["paths"].values():
        for operation in methods.values():
            if MEDIA_TYPE not in operation["responses"].get("422", {}).get("content", {MEDIA_TYPE: None}):
                operation["responses"]["422"] = fails(422)[422]
    document["components"] = {"schemas": schemas}
    if with_keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    return document


def _kinds() -> list[type[msgspec.Struct]]:
    """All bodies and answers."""
    found = [kind for module in (payloads, shapes, match_shapes, table_shapes) for kind in vars(module).values()]
    return [
        kind
        for kind in found
        if isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and kind not in (msgspec.Struct, payloads.Decoder)
    ]
