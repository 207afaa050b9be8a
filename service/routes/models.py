"""GET /models, POST /models (a bundle as a tar), PUT /models/active (which also rolls back)."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from service.documents import gives, takes, takes_file
from service.errors import ProblemError
from service.front import media_type_of
from service.live import read_published
from service.payloads import ActivateAsk, decoder
from service.publishing import publish, unpack
from service.registry import ModelRecord
from service.routes import examples
from service.serving import Serving, answer_json, read_json
from service.shapes import ModelAnswer, ModelsAnswer

ACTIVATE = decoder(ActivateAsk)
FORM = "multipart/form-data"
TAR_TYPES = ("application/x-tar", "application/tar", "application/gzip", "application/octet-stream")


@dataclass(frozen=True, slots=True)
class ModelRoutes:
    """What answers under /models."""

    serving: Serving

    async def list_models(self) -> Response:
        records = await asyncio.to_thread(self.serving.registry.models)
        active = next((record.ref for record in records if record.active), None)
        return answer_json({"active": active, "models": [show_model(record) for record in records]})

    async def get_model(self, model: str) -> Response:
        ref = (await self.serving.live.get(None)).ref if model == "active" else model
        return answer_json(show_model(await asyncio.to_thread(self.serving.registry.model, ref)))

    async def publish_model(
        self,
        request: Request,
        activate: Annotated[bool, Query(description="serve it from now on")] = True,
        name: Annotated[str | None, Query(description="another name than the bundle's own")] = None,
    ) -> Response:
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="tabglot-"))
        try:
            await _receive(request, folder / "upload.tar")
            record = await asyncio.to_thread(self._publish, folder, activate, name)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, True)
        await self.serving.live.refresh()
        return answer_json(show_model(record), 201)

    def _publish(self, folder: Path, activate: bool, name: str | None) -> ModelRecord:
        bundle = folder / "bundle"
        bundle.mkdir()
        settings = self.serving.settings
        unpack(folder / "upload.tar", bundle, settings.max_file_bytes)
        registry = self.serving.registry
        return publish(registry, settings.store, bundle, name=name, activate=activate, called="the upload")[0]

    async def activate_model(self, request: Request) -> Response:
        ask: ActivateAsk = ACTIVATE.read(await read_json(request))
        registry, live = self.serving.registry, self.serving.live
        # It must be whole in the store (others load it from there), load here and pass its canary.
        published, _ = await asyncio.to_thread(read_published, registry, self.serving.settings.store, ask.model)
        served = await live.get(published.ref)
        record = await asyncio.to_thread(registry.activate, served.ref)
        await live.refresh()
        return answer_json(show_model(record))


def add_models(router: APIRouter, serving: Serving) -> None:
    """Declare the routes under /models."""
    routes = ModelRoutes(serving)
    add = partial(router.add_api_route, tags=["models"], response_model=None)
    add(
        "/models", routes.list_models, methods=["GET"], operation_id="list_models",
        summary="All published models, newest first",
        responses=gives(ModelsAnswer, {"active": "cars@1", "models": [examples.MODEL]}, 503),
    )  # fmt: skip
    add(
        "/models/{model}", routes.get_model, methods=["GET"], operation_id="get_model",
        summary="One model: NAME (its newest version), NAME@VERSION, or active",
        responses=gives(ModelAnswer, examples.MODEL, 404, 422, 503),
    )  # fmt: skip
    add(
        "/models", routes.publish_model, methods=["POST"], operation_id="publish_model", status_code=201,
        summary="Publish a bundle, sent as a .tar; it is verified before it can be served",
        openapi_extra=takes_file(*TAR_TYPES, FORM),
        responses=gives(ModelAnswer, examples.MODEL, 400, 413, 415, 422, 503, status=201),
    )  # fmt: skip
    add(
        "/models/active", routes.activate_model, methods=["PUT"], operation_id="activate_model",
        summary="Serve another model from now on, a newer or an older one",
        openapi_extra=takes(ActivateAsk, {"model": "cars@1"}),
        responses=gives(ModelAnswer, examples.MODEL, 400, 404, 413, 415, 422, 503),
    )  # fmt: skip


async def _receive(request: Request, path: Path) -> None:
    """The upload, as the body itself or as the only file of a form."""
    media_type = media_type_of(request.scope)
    if media_type not in (*TAR_TYPES, FORM):
        raise ProblemError(415, f"{media_type!r} is not understood here; send the .tar as {TAR_TYPES[0]}")
    with path.open("wb") as file:
        if media_type != FORM:
            async for chunk in request.stream():
                file.write(chunk)
            return
        async with request.form(max_files=1, max_fields=4) as form:
            uploads = [value for value in form.values() if isinstance(value, UploadFile)]
            if len(uploads) != 1:
                raise ProblemError(422, "the form has no file; send the .tar as one")
            await asyncio.to_thread(shutil.copyfileobj, uploads[0].file, file)


def show_model(record: ModelRecord) -> dict[str, Any]:
    """A published model as JSON."""
    return {
        "model": record.ref,
        "name": record.name,
        "version": record.version,
        "active": record.active,
        "status": record.status,
        "sha256": record.sha256,
        "created": record.created,
        "published": record.published.isoformat(),
        "preset": record.preset,
        "seed": record.seed,
        "features": [{"feature": name, "kind": kind} for name, kind in record.features],
        "metrics": record.metrics,
    }
