"""The page as files: what is sent, with which headers, to whom, and that nothing in it leads elsewhere."""

import gzip
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from service.routes.page import FOLDER, HOME, MEDIA_TYPES
from tests.server import ROOT, running
from tests.test_operations import check_problem

KEY = "page-key-55"
FILES = sorted(path for path in FOLDER.iterdir() if not path.name.startswith("."))
NAMESPACES = ("http://www.w3.org/2000/svg",)
IMPORTED = re.compile(r"""(?:from|import)\s*\(?\s*["']\./([^"']+)["']""")
LINKED = re.compile(r"""(?:href|src)="page/([^"]+)\"""")
ASSETS = [path.name for path in FILES if path.name != HOME]


@pytest.fixture(scope="module")
def locked(server, tmp_path_factory):
    """The same service, for those who have a key."""
    shared = {name: server.environment[name] for name in ("TABGLOT_REGISTRY", "TABGLOT_STORE")}
    with running(tmp_path_factory.mktemp("locked"), TABGLOT_API_KEYS=KEY, **shared) as locked:
        yield locked


def needs(path: Path) -> set[str]:
    """The files that a file of the page asks for."""
    text = path.read_text(encoding="utf-8")
    return set(LINKED.findall(text) if path.suffix == ".html" else IMPORTED.findall(text))


# What is sent


def test_the_page_is_at_the_root(client):
    answer = client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.content == (FOLDER / HOME).read_bytes()


@pytest.mark.parametrize("name", ASSETS)
def test_every_file_of_the_page_is_served_as_what_it_is(client, name):
    answer = client.get(f"/page/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == MEDIA_TYPES[Path(name).suffix]
    assert answer.content == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", ["nothing.js", HOME, "..%2Fapp.py", ".", "%00", "app.js/x"])
def test_a_file_that_the_page_does_not_have_is_a_problem(client, name):
    answer = client.get(f"/page/{name}")
    check_problem(answer, 404, answer.request.url.path)


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/page/icon.svg"])
def test_nothing_may_be_run_shown_or_asked_for_but_from_this_server(client, path):
    headers = client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert set(" ".join(policy.values()).split()) == {"'none'", "'self'", "'script'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/page/base.css"])
def test_a_file_that_the_browser_has_already_is_not_sent_again(client, path):
    first = client.get(path)
    again = client.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    assert client.get(path, headers={"if-none-match": '"another"'}).status_code == 200
    assert first.headers["cache-control"] == "no-cache"


def test_files_are_packed_for_those_who_can_unpack_them(client):
    with client.stream("GET", "/page/app.js", headers={"accept-encoding": "gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(packed.iter_raw())) == (FOLDER / "app.js").read_bytes()
    plain = client.get("/page/app.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == packed.headers["vary"] == "accept-encoding"


# To whom


def test_where_keys_are_set_a_browser_gets_the_page_that_asks_for_one(locked):
    answer = httpx.get(locked.url, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.content == (FOLDER / HOME).read_bytes()
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"]


@pytest.mark.parametrize("accept", ["*/*", "application/json"])
def test_where_keys_are_set_a_program_gets_a_problem(locked, accept):
    check_problem(httpx.get(locked.url + "/", headers={"accept": accept}), 401, "/")


def test_only_the_page_itself_is_shown_to_browsers_without_a_key(locked):
    for path in ("/models", "/docs", "/columns", "/nowhere"):
        check_problem(httpx.get(locked.url + path, headers={"accept": "text/html"}), 401, path)
    check_problem(httpx.post(locked.url + "/", headers={"accept": "text/html"}), 401, "/")


def test_with_a_key_the_page_is_no_401(locked):
    assert locked.client.get("/", headers={"accept": "text/html"}).status_code == 200


def test_the_pages_files_need_no_key_and_no_address_beside_them_goes_without(locked):
    assert httpx.get(locked.url + "/page/app.js").status_code == 200
    check_problem(httpx.get(locked.url + "/page/nothing.js"), 404, "/page/nothing.js")
    for path in ("/page", "/pages/app.js", "/models?x=/page/"):
        assert httpx.get(locked.url + path).status_code == 401
    for path in (b"/page/../models", b"/page/%2e%2e/models", b"/page//models"):
        url = httpx.URL(locked.url).copy_with(raw_path=path)
        assert httpx.get(url).status_code in (401, 404)


# What is in it


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_of_the_page_leads_to_another_host(path):
    text = path.read_text(encoding="utf-8")
    for namespace in NAMESPACES:
        text = text.replace(namespace, "")
    assert not re.findall(r"https?://|(?:[\"'(=])//\w|\bwss?://|@import|url\(", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_of_the_page_makes_markup_or_code_of_text(path):
    text = path.read_text(encoding="utf-8")
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:", text
    )
    assert not re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=", text if path.suffix == ".html" else "")


def test_every_file_is_reached_from_the_page_and_every_file_it_needs_is_there():
    reached, ahead = set(), {HOME}
    while ahead:
        name = ahead.pop()
        assert (FOLDER / name).is_file(), f"{name} is asked for, but is not there"
        reached.add(name)
        ahead |= needs(FOLDER / name) - reached
    assert {path.name for path in FILES} == reached


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_read_in_a_sitting(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 300


def test_a_package_that_is_built_has_every_file_of_the_page(tmp_path):
    for name in ("model", "service", "training"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    build = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", "built"]
    answer = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    (built,) = (tmp_path / "built").iterdir()
    with zipfile.ZipFile(built) as wheel:
        assert {f"service/page/{path.name}" for path in FILES} <= set(wheel.namelist())
