"""What the routes share: the settings, the registry, what is live, and the thread for long work."""

from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.bulk import Bulk
from service.errors import ProblemError
from service.front import media_type_of
from service.live import Live
from service.registry import Registry
from service.settings import Settings

JSON = "application/json"
# curl -d sends the second unless told otherwise: what it carries is read as JSON all the same.
JSON_TYPES = frozenset({JSON, "application/x-www-form-urlencoded"})


@dataclass(frozen=True, slots=True)
class Serving:
    """Made once, passed to every route."""

    settings: Settings
    registry: Registry
    live: Live
    bulk: Bulk


def answer_json(content: Any, status: int = 200) -> Response:
    """Plain objects as an answer."""
    return Response(orjson.dumps(content), status, media_type=JSON)


async def read_json(request: Request) -> bytes:
    """The body of a request that must be JSON."""
    media_type = media_type_of(request)
    if media_type not in JSON_TYPES and not media_type.endswith("+json"):
        raise ProblemError(415, f"{media_type!r} is not understood here; send {JSON}")
    message = await request.receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        content: bytes = message["body"]  # most bodies come in one piece: starlette's way would take longer
        return content
    pieces = []
    while message["type"] == "http.request":
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)
        message = await request.receive()
    raise ClientDisconnect
