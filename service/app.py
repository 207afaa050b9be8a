"""The application: FastAPI for routes and their documentation, the front before it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi_swagger import patch_fastapi
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from model.errors import CellProblem, TabglotError
from service.bulk import Bulk
from service.documents import describe
from service.errors import ProblemError, problem_response
from service.front import Drain, Front, Handler, request_id_of
from service.live import Live
from service.registry import Registry
from service.routes.asking import add_asking, make_predict
from service.routes.auditing import add_auditing
from service.routes.columns import add_columns
from service.routes.encodings import add_encodings
from service.routes.health import add_health
from service.routes.imputing import add_imputing, make_impute
from service.routes.media import FORMATS
from service.routes.models import FORM, TAR_TYPES, add_models
from service.routes.open_inference import add_open_inference
from service.routes.page import add_page
from service.routes.query import check_query
from service.routes.schemas import add_schemas
from service.serving import Serving
from service.settings import Settings

ABOUT = (
    "One model for several tables whose columns overlap only in part: predict any column from any subset of the "
    "others, fill in what is missing, and tell which columns mean the same."
)
TAGS = [
    {"name": "answers", "description": "Predict, impute, audit."},
    {"name": "encodings", "description": "How features of different tables relate."},
    {"name": "models", "description": "Published bundles: which there are, which one is served."},
    {"name": "schemas", "description": "What the columns of each table mean."},
    {"name": "operations", "description": "Probes, metrics, limits."},
    {"name": "open inference", "description": "The Open Inference Protocol, version 2."},
]


@dataclass(frozen=True, slots=True)
class Application:
    """The service, whole: ``api`` has the routes, ``asgi`` is what requests meet first."""

    api: FastAPI
    asgi: ASGIApp
    drain: Drain
    bulk: Bulk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.asgi(scope, receive, send)


def create_app(settings: Settings) -> Application:
    """Open the registry and put all parts together."""
    drain = Drain()
    live = Live(
        registry := Registry.open(settings.registry),
        settings.store,
        models_kept=settings.models_kept,
        poll_seconds=settings.poll_seconds,
    )
    serving = Serving(settings, registry, live, Bulk())
    predict, impute = make_predict(serving), make_impute(serving)
    api = FastAPI(
        title="Tabglot", version=version("tabglot"), summary="One model for many tables", description=ABOUT,
        openapi_tags=TAGS, lifespan=_lifespan(serving), redoc_url=None, docs_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )  # fmt: skip
    _add_routes(api, serving, drain, predict, impute)
    patch_fastapi(api, redirect_from_root_to_docs=False)  # /docs with its scripts from here, not from elsewhere
    for kind in (TabglotError, ProblemError, Exception):
        api.add_exception_handler(kind, _on_error)
    api.add_exception_handler(HTTPException, _on_http_error)
    api.add_exception_handler(RequestValidationError, _on_misfit)
    describe(api, with_keys=bool(settings.api_keys))
    fast = {("POST", "/predict"): predict, ("POST", "/impute"): impute}
    files = {"/impute": FORMATS.keys(), "/audit": FORMATS.keys(), "/models": {*TAR_TYPES, FORM}}
    asgi: ASGIApp = Front(api, settings=settings, drain=drain, fast=fast, files=files)
    if settings.cors_origins:  # outermost: a preflight has no key, and errors need the headers too
        asgi = CORSMiddleware(
            asgi, allow_origins=list(settings.cors_origins), allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "content-type", "x-request-id"], expose_headers=["x-request-id"],
        )  # fmt: skip
    return Application(api, asgi, drain, serving.bulk)


def _add_routes(api: FastAPI, serving: Serving, drain: Drain, predict: Handler, impute: Handler) -> None:
    """Declare every address."""
    strict = APIRouter(dependencies=[Depends(check_query)])
    add_asking(strict, predict)
    add_auditing(strict, serving)
    add_imputing(strict, impute)
    add_encodings(strict, serving)
    add_models(strict, serving)
    add_schemas(strict, serving)
    add_columns(strict, serving)
    # Probes, browsers and clients of the protocol add parameters of their own, which change nothing.
    lenient = APIRouter()
    add_health(lenient, serving, drain)
    add_page(lenient)
    add_open_inference(lenient, serving, drain)
    api.include_router(strict)
    api.include_router(lenient)


def _lifespan(serving: Serving) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await serving.live.refresh()
        watching = asyncio.create_task(serving.live.watch())
        # Files need pyarrow, which takes a while to import: beside the first requests, not within one.
        threading.Thread(target=_import_slow_parts, daemon=True).start()
        try:
            yield
        finally:
            watching.cancel()
            serving.bulk.close()
            serving.registry.close()

    return lifespan


def _import_slow_parts() -> None:

    import service.files.rows  # noqa: F401


async def _on_error(request: Request, error: Exception) -> Response:
    return problem_response(error, request.url.path, request_id_of(request))


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Addresses and methods that are not there, said in the one shape of errors."""
    assert isinstance(error, HTTPException)
    details = {404: f"there is nothing at {request.url.path}; GET /docs lists the addresses",
               405: f"{request.method} is not for {request.url.path}"}  # fmt: skip
    detail = details.get(error.status_code, str(error.detail))
    problem = ProblemError(error.status_code, detail, headers=error.headers)
    return problem_response(problem, request.url.path, request_id_of(request))


async def _on_misfit(request: Request, error: Exception) -> Response:
    """Query parameters that cannot be."""
    assert isinstance(error, RequestValidationError)
    faults = [CellProblem(None, str(fault["loc"][-1]), str(fault["msg"])) for fault in error.errors()]
    detail = "; ".join(f"{fault.column}: {fault.message}" for fault in faults)
    return problem_response(ProblemError(422, detail, faults), request.url.path, request_id_of(request))
