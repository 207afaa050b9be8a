"""How routes are documented: bodies, answers and errors in the OpenAPI document, each with an example."""

from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service import payloads, shapes
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
    """Make the application's OpenAPI document, once, with the shapes of bodies and answers in it."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes,
        tags=app.openapi_tags,
    )  # fmt: skip
    kinds = [
        kind
        for module in (payloads, shapes)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not payloads.Decoder
        and kind is not msgspec.Struct
    ]  # fmt: skip
    _, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    document.setdefault("components", {}).setdefault("schemas", {}).update(components)
    _forget_unused(document)
    if with_keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    app.openapi_schema = document


def _forget_unused(document: Json) -> None:
    """FastAPI declares its own validation error beside ours: every error here is a problem."""
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
