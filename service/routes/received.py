"""A file that was sent as a body: on disk while it is worked on, gone afterwards. Memory does not grow with it."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from service.files.ask import FileAsk, Format
from service.live import Served
from service.payloads import Unknown
from service.serving import Serving


@dataclass(frozen=True, slots=True)
class Received:
    """The body as the file ``source`` in a ``folder`` of its own, and what is asked of it."""

    folder: Path
    source: Path
    format: Format
    served: Served
    ask: FileAsk


@asynccontextmanager
async def receive_file(
    serving: Serving,
    request: Request,
    sent: Format,
    *,
    model: str | None,
    table: str | None,
    columns: tuple[str, ...] | None = None,
    unknown: Unknown = "refuse",
    append: bool = True,
) -> AsyncIterator[Received]:
    """Find the model and the table, then write the body to a file."""
    served = await serving.live.get(model)
    links = serving.live.state.links(served, table)
    most_rows = serving.settings.max_file_rows
    ask = FileAsk(served.predictor, links, table, columns, unknown, most_rows=most_rows, append=append)
    folder = Path(tempfile.mkdtemp(prefix="tabglot-"))
    try:
        source = folder / "in"
        with source.open("wb") as file:
            async for chunk in request.stream():
                file.write(chunk)
        yield Received(folder, source, sent, served, ask)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
