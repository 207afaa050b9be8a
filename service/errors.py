"""Errors as answers: RFC 9457 problems. The only place that knows status codes.

ProblemError            raised where HTTP itself is at fault (media type, size, key, path)
CellError          422, one entry of ``errors`` per cell
AskError           422
BundleError        422, a bundle that is refused
UnknownModelError, UnknownTableError   404
RegistryError      503
anything else      500, said without its text
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from starlette.responses import Response

from model.errors import CellError, CellProblem, TabglotError
from service.registry.errors import RegistryError, UnknownModelError, UnknownTableError

MEDIA_TYPE = "application/problem+json"
# An answer names at most so many faults: a million wrong cells need no million lines.
MOST_ERRORS = 100
TITLES = {
    400: "The request could not be read",
    401: "A key is needed",
    404: "There is no such thing",
    405: "This method is not for this address",
    413: "The request is too large",
    415: "This media type is not understood",
    406: "None of the wanted media types can be given",
    422: "The request cannot be answered as it is",
    500: "Something went wrong here",
    503: "Not ready to answer",
}
SLUGS = {
    400: "unreadable", 401: "unauthorized", 404: "not-found", 405: "method", 406: "not-acceptable", 413: "too-large",
    415: "media-type", 422: "invalid", 500: "internal", 503: "unavailable",
}  # fmt: skip


class ProblemError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Sequence[CellProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})


def shutting_down() -> ProblemError:
    """What work is told that will not be ended by this process."""
    return ProblemError(503, "the process is shutting down", headers={"retry-after": "1"})


def problem_of(error: Exception) -> ProblemError:
    """What an exception means to the caller."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, CellError):
        return ProblemError(422, str(error), error.problems)
    if isinstance(error, UnknownModelError | UnknownTableError):
        return ProblemError(404, str(error))
    if isinstance(error, RegistryError):
        return ProblemError(503, str(error), headers={"retry-after": "1"})
    if isinstance(error, TabglotError):
        return ProblemError(422, str(error))
    return ProblemError(500, "an unexpected error; the log has it under this request id")


def problem_body(problem: ProblemError, instance: str, request_id: str) -> bytes:
    """The problem as RFC 9457 writes it."""
    body: dict[str, Any] = {
        "type": f"urn:tabglot:problem:{SLUGS.get(problem.status, 'error')}",
        "title": TITLES.get(problem.status, "The request failed"),
        "status": problem.status,
        "detail": problem.detail,
        "instance": instance,
        "request_id": request_id,
        "errors": [
            {"row": fault.row, "column": fault.column or None, "message": fault.message}
            for fault in problem.errors[:MOST_ERRORS]
        ],
    }
    if instance.startswith("/v2"):  # where clients of the Open Inference Protocol look for it
        body["error"] = problem.detail
    if len(problem.errors) > MOST_ERRORS:
        body["errors_in_all"] = len(problem.errors)
    return orjson.dumps(body, default=str)


def problem_response(error: Exception, instance: str, request_id: str) -> Response:
    """An exception as an answer."""
    problem = problem_of(error)
    return Response(problem_body(problem, instance, request_id), problem.status, problem.headers, media_type=MEDIA_TYPE)
