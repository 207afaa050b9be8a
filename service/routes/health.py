"""Probes, metrics, limits."""

from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from service import metrics
from service.documents import gives, gives_text
from service.errors import ProblemError
from service.front import Drain
from service.live import NO_MODEL
from service.routes import examples
from service.serving import Serving, answer_json
from service.shapes import Health, Limits


@dataclass(frozen=True, slots=True)
class HealthRoutes:
    """What tells how the service is."""

    serving: Serving
    drain: Drain

    async def live(self) -> Response:
        return answer_json({"status": "live"})

    async def ready(self) -> Response:
        check_ready(self.serving, self.drain)
        active = self.serving.live.state.active
        return answer_json({"status": "ready", "model": active.ref if active else None})

    async def metrics(self) -> Response:
        content, media_type = metrics.render()
        return Response(content, headers={"content-type": media_type})

    async def limits(self) -> Response:
        settings = self.serving.settings
        limits = {
            "body_bytes": settings.max_body_bytes,
            "file_bytes": settings.max_file_bytes,
            "file_rows": settings.max_file_rows,
            "rows": settings.max_rows,
            "draws": settings.max_draws,
        }
        return answer_json(limits)


def add_health(router: APIRouter, serving: Serving, drain: Drain) -> None:
    """Declare the routes that tell how the service is."""
    routes = HealthRoutes(serving, drain)
    add = partial(router.add_api_route, methods=["GET"], tags=["operations"], response_model=None)
    add(
        "/health/live", routes.live, operation_id="live", summary="Whether the process runs",
        responses=gives(Health, {"status": "live"}),
    )  # fmt: skip
    add(
        "/health/ready", routes.ready, operation_id="ready", summary="Whether the active model answered its canary row",
        responses=gives(Health, {"status": "ready", "model": "cars@1"}, 503),
    )  # fmt: skip
    add(
        "/metrics", routes.metrics, operation_id="metrics", summary="Prometheus metrics of all workers",
        responses=gives_text("text/plain", "Prometheus text"),
    )  # fmt: skip
    add(
        "/limits", routes.limits, operation_id="limits", summary="How much one request may hold",
        responses=gives(Limits, examples.LIMITS),
    )  # fmt: skip


def check_ready(serving: Serving, drain: Drain) -> None:
    """Raise unless the active model has proven itself here and the process is there to stay."""
    if drain.begun:
        raise ProblemError(503, "the process is shutting down")
    live = serving.live
    if live.state.active is None:
        raise ProblemError(503, live.fault or NO_MODEL)
