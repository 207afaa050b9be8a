"""Probes, metrics, limits, and the way from / to the documentation."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service import metrics
from service.documents import fails, gives, gives_text
from service.errors import ProblemError
from service.front import Drain
from service.live import NO_MODEL
from service.serving import Serving, answer_json
from service.shapes import Health, Limits


def add_health(router: APIRouter, serving: Serving, drain: Drain) -> None:
    """Declare the routes that tell how the service is."""
    settings = serving.settings

    @router.get(
        "/health/live", operation_id="live", tags=["operations"], response_model=None,
        summary="Whether the process runs", responses=gives(Health, {"status": "live"}),
    )  # fmt: skip
    async def live() -> Response:
        return answer_json({"status": "live"})

    @router.get(
        "/health/ready", operation_id="ready", tags=["operations"], response_model=None,
        summary="Whether the active model answered its canary row",
        responses=gives(Health, {"status": "ready", "model": "cars@1"}, 503),
    )  # fmt: skip
    async def ready() -> Response:
        check_ready(serving, drain)
        active = serving.live.state.active
        return answer_json({"status": "ready", "model": active.ref if active else None})

    @router.get(
        "/metrics", operation_id="metrics", tags=["operations"], response_model=None,
        summary="Prometheus metrics of all workers", responses=gives_text("text/plain", "Prometheus text"),
    )  # fmt: skip
    async def show_metrics() -> Response:
        content, media_type = metrics.render()
        return Response(content, headers={"content-type": media_type})

    @router.get(
        "/limits", operation_id="limits", tags=["operations"], response_model=None,
        summary="How much one request may hold",
        responses=gives(Limits, {"body_bytes": 16777216, "file_bytes": 1073741824, "rows": 100000, "draws": 100}),
    )  # fmt: skip
    async def limits() -> Response:
        return answer_json(
            {
                "body_bytes": settings.max_body_bytes,
                "file_bytes": settings.max_file_bytes,
                "rows": settings.max_rows,
                "draws": settings.max_draws,
            }
        )

    @router.get(
        "/", operation_id="home", tags=["operations"], response_model=None, summary="To the documentation",
        status_code=307, responses=fails(),
    )  # fmt: skip
    async def home(request: Request) -> Response:
        return RedirectResponse(request.scope.get("root_path", "") + "/docs")


def check_ready(serving: Serving, drain: Drain) -> None:
    """Raise unless the active model has proven itself here and the process is there to stay."""
    if drain.begun:
        raise ProblemError(503, "the process is shutting down")
    live = serving.live
    if live.state.active is None:
        raise ProblemError(503, live.fault or NO_MODEL)
