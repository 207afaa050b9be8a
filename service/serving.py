"""What the routes share: the settings, the registry, what is live, and the thread for long work."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from model.answers import Prediction
from model.requests import Cells
from model.runtime import Pause, Predictor
from model.schema import Link
from service.bulk import INLINE_CELLS, PIECE, Bulk
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


def write_json(content: Any) -> bytes:
    """Plain objects as JSON. Cells come back as they were sent, so what orjson cannot write (integers of more
    than 64 bits, deep nesting) the slower way does.
    """
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError:
        pass
    try:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    except (RecursionError, ValueError, TypeError):
        raise ProblemError(422, "a cell is nested too deeply, or is no JSON, and cannot be given back") from None


def answer_json(content: Any, status: int = 200) -> Response:
    """Plain objects as an answer."""
    return Response(write_json(content), status, media_type=JSON)


def is_long(rows: Sequence[Mapping[str, Any]], settings: Settings) -> bool:
    """Whether rows are too many, or too wide, to be answered on the event loop."""
    return len(rows) > settings.inline_rows or sum(map(len, rows)) > INLINE_CELLS


def answer_in_pieces(
    predictor: Predictor, cells: Cells, link: Link, pause: Pause, *, interval: float | None, explain: bool = False
) -> Iterator[Prediction]:
    """Predict rows that were read before, some thousand at a time."""
    n_rows = len(cells.positions)
    for start in range(0, max(n_rows, 1), PIECE):
        some = cells if n_rows <= PIECE else cells.rows(slice(start, start + PIECE))
        yield predictor.answer(some, link, interval=interval, explain=explain)
        pause()


async def read_json(request: Request) -> bytes:
    """The body of a request that must be JSON."""
    media_type = media_type_of(request.scope)
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
