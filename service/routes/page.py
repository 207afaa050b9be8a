"""GET /: the page, for people who would rather look than read. Its files are part of the package, read once."""

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.documents import fails, gives_text
from service.errors import ProblemError

FOLDER = Path(__file__).parent.parent / "page"
HOME = "index.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing is run, shown or asked for but from this server; no markup is ever made from text.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    # Asked about each time, sent only if changed: after an upgrade nobody sees half of the old page.
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page, as it is and packed."""

    content: bytes
    packed: bytes
    media_type: str
    tag: str


def add_page(router: APIRouter) -> None:
    """Declare / and the page's files."""

    @router.get(
        "/", operation_id="home", tags=["operations"], response_model=None, summary="The page",
        responses=gives_text("text/html", "A page that shows all of it"),
    )  # fmt: skip
    async def home(request: Request) -> Response:
        # Where keys are set a browser cannot send one by itself: it gets the page that asks for it, as a 401.
        return _send(request, read_assets()[HOME], 401 if request.scope.get("locked") else 200)

    @router.get("/page/{name}", include_in_schema=False, response_model=None, responses=fails(404))
    async def asset(request: Request, name: str) -> Response:
        found = read_assets().get(name)
        if found is None or name == HOME:
            raise ProblemError(404, f"the page has no file {name!r}")
        return _send(request, found, 200)


@cache
def read_assets() -> Mapping[str, Asset]:
    """All files of the page."""
    assets = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in MEDIA_TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            assets[path.name] = Asset(content, gzip.compress(content, mtime=0), MEDIA_TYPES[path.suffix], tag)
    return assets


def _send(request: Request, asset: Asset, status: int) -> Response:
    # Weak: packed or not, it is the same file.
    headers = {**HEADERS, "etag": f"W/{asset.tag}", "vary": "accept-encoding"}
    if status == 401:
        headers |= {"www-authenticate": "Bearer", "cache-control": "no-store"}
    elif asset.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = asset.content
    if GZIP.search(request.headers.get("accept-encoding", "")):
        content, headers["content-encoding"] = asset.packed, "gzip"
    return Response(content, status, headers=headers, media_type=asset.media_type)
