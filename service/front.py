"""What every request passes through: its id, its key, its size, its clock; and errors become problems.

Plain ASGI, without a task or a queue per request. Addresses that must be fast are answered from here,
before any routing; all others go on to FastAPI.
"""

import asyncio
import hmac
import logging
import os
import re
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from time import perf_counter

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import metrics
from service.errors import ProblemError, problem_of, problem_response, shutting_down
from service.logs import log_request
from service.settings import Settings, digest_key

log = logging.getLogger("tabglot")

Handler = Callable[[Request], Awaitable[Response]]
SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
# These answer without a key: probes have none.
OPEN_PATHS = frozenset({"/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready"})
# So do the page's own files, which hold no data: the page is where a person enters a key.
OPEN_FOLDER = "/page/"


@dataclass(slots=True)
class Drain:
    """Whether the process is on its way out: connections are then closed after their answer."""

    begun: bool = False


class Front:
    """Wraps the application; ``fast`` maps (method, path) to what answers it, ``files`` a path to the media types
    that may be as large as files.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        drain: Drain,
        fast: Mapping[tuple[str, str], Handler],
        files: Mapping[str, Container[str]],
    ) -> None:
        self._app = app
        self._drain = drain
        self._fast = fast
        self._files = files
        self._keys = settings.key_digests()
        self._most_json, self._most_file = settings.max_body_bytes, settings.max_file_bytes
        self._logs_requests = settings.log_level in ("debug", "info")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = perf_counter()
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if SANE_ID.fullmatch(given) else os.urandom(12).hex()
        scope["request_id"] = request_id
        status, is_whole = 0, False

        async def answer(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [(b"x-request-id", request_id.encode())]
                if self._drain.begun:
                    extra.append((b"connection", b"close"))
                message["headers"] = [*message["headers"], *extra]
            elif message["type"] == "http.response.body":
                is_whole = not message.get("more_body", False)
            await send(message)

        metrics.UNDER_WAY.inc()
        try:
            await self._answer(scope, receive, answer, headers)
        except ClientDisconnect:
            status = status or 499
        except asyncio.CancelledError:
            # A server that stops does this once its patience is over; left alone it would say 500. The task ends with
            # this answer, which is all that was wanted of it.
            if status or not self._drain.begun:
                raise
            await problem_response(shutting_down(), scope["path"], request_id)(scope, receive, answer)
        except Exception as error:
            if problem_of(error).status == 500:
                log.exception("unexpected error", extra={"request_id": request_id})
            if not status:
                await problem_response(error, scope["path"], request_id)(scope, receive, answer)
            elif not is_whole:  # half an answer is out: only closing the connection tells that it is not all
                raise
        finally:
            metrics.UNDER_WAY.dec()
            self._count(scope, status or 500, perf_counter() - begun)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[bytes, bytes]) -> None:
        path, method = scope["path"], scope["method"]
        if self._keys and path not in OPEN_PATHS and not path.startswith(OPEN_FOLDER):
            self._check_key(scope, headers)
        encoding = headers.get(b"content-encoding", b"identity")
        if encoding.lower() != b"identity":
            raise ProblemError(415, f"content-encoding {encoding.decode('latin-1')!r} is not understood; send it plain")
        is_file = path in self._files and media_type_of(scope) in self._files[path]
        most = self._most_file if is_file else self._most_json
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise too_large(most)
        counted = count_bytes(receive, most)
        handler = self._fast.get((method, path))
        if handler is None:
            await self._app(scope, counted, send)
        else:
            scope["fast"] = path
            response = await handler(Request(scope, counted))
            await response(scope, receive, send)

    def _check_key(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        digest = digest_key(key.strip())
        # Every key is compared, in the same time, whichever fits.
        fits = [hmac.compare_digest(digest, known) for known in self._keys]
        if scheme.lower() == b"bearer" and any(fits):
            return
        scope["locked"] = True
        # A browser that asks for the page is given the one that asks for a key, as a 401 too.
        if not (scope["path"] == "/" and scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b"")):
            raise ProblemError(
                401, "send a valid key as 'authorization: Bearer KEY'", headers={"www-authenticate": "Bearer"}
            )

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = str(scope.get("fast") or getattr(scope.get("route"), "path", "other"))
        metrics.count_request(scope["method"], route, status, seconds)
        if self._logs_requests:
            log_request(
                request_id=scope["request_id"],
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=seconds,
            )


def count_bytes(receive: Receive, most: int) -> Receive:
    """Content-Length may be absent or a lie: the bytes themselves are counted."""
    left = most

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                raise too_large(most)
        return message

    return counted


def too_large(most: int) -> ProblemError:
    """The answer to a body beyond the limit."""
    return ProblemError(
        413, f"the body is larger than {most} bytes; GET /limits tells the limits", headers={"connection": "close"}
    )


def request_id_of(request: Request) -> str:
    """The id under which this request is known."""
    return str(request.scope.get("request_id", ""))


def media_type_of(scope: Scope) -> str:
    """The bare media type of a body."""
    for name, value in scope["headers"]:
        if name == b"content-type":
            text: str = value.decode("latin-1")
            return text.partition(";")[0].strip().lower()
    return "application/json"
