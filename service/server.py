"""Running the application: one process, or a parent with several workers; both go out without losing a request."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType

import uvicorn

from service.bulk import Bulk
from service.front import Drain
from service.settings import Settings, SettingsError

log = logging.getLogger("tabglot")

# After SIGTERM, connections that say nothing are kept so long: their next request may be on its way.
QUIET_SECONDS = 1.0
# A worker that ends by itself this soon after its start would do so again: the parent gives up.
EARLY_SECONDS = 5.0
# Told to workers: the socket they share, and their parent, who may be gone before they look.
WORKER, PARENT = "TABGLOT_WORKER_FD", "TABGLOT_WORKER_PARENT"


class DrainingServer(uvicorn.Server):
    """Stops in order: no new connections; one more answer on those there are, then closed; then the rest."""

    def __init__(self, config: uvicorn.Config, drain: Drain, bulk: Bulk) -> None:
        super().__init__(config)
        self._drain = drain
        self._bulk = bulk
        self._parent = int(os.environ[PARENT]) if PARENT in os.environ else None

    def handle_exit(self, sig: int, _: FrameType | None) -> None:
        """Begin to stop. (uvicorn would raise the signal again afterwards: the exit code would tell of a fault.)"""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """A worker whose parent is gone would go on for ever, and keep the port."""
        if self._parent is not None and os.getppid() != self._parent:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let every request that arrived be answered."""
        self._drain.begun = True
        # Long work that would outlast the time there is ends a little earlier, with an answer.
        patience = (self.config.timeout_graceful_shutdown or QUIET_SECONDS) - QUIET_SECONDS
        asyncio.get_running_loop().call_later(max(patience, 0.0), self._bulk.stop)
        # Closing the door resets whoever stands in the queue before it: they are let in first.
        waiting = [connection for door in sockets or [] for connection in _accept_waiting(door)]
        for server in self.servers:
            server.close()
        for door in sockets or []:
            door.close()
        for connection in waiting:
            await asyncio.get_running_loop().connect_accepted_socket(self._make_protocol, connection)
        deadline = time.monotonic() + min(QUIET_SECONDS, self.config.timeout_graceful_shutdown or QUIET_SECONDS)
        while self.server_state.connections and time.monotonic() < deadline and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def _accept_waiting(listening: socket.socket) -> Iterator[socket.socket]:
    """Connections that the system made but nobody took yet; the socket does not block."""
    with contextlib.suppress(OSError):
        while True:
            yield listening.accept()[0]


def bind(settings: Settings) -> socket.socket:
    """The listening socket; an address that cannot be had is the caller's mistake."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"cannot listen on {settings.host}:{settings.port}: {reason}; choose another --port"
        ) from error
    listening.listen(2048)
    listening.set_inheritable(True)
    return listening


def serve(settings: Settings) -> int:
    """Serve until told to stop."""
    given = os.environ.get(WORKER)
    if given is not None:
        return run_process(settings, socket.socket(fileno=int(given)))
    if settings.workers > 1:  # said once, here, rather than by every worker; and migrated once
        from service.registry import Registry

        Registry.open(settings.registry).close()
    listening = bind(settings)
    host, port = listening.getsockname()[:2]
    log.info("listening", extra={"address": f"http://{host}:{port}", "workers": settings.workers})
    if settings.workers == 1:
        return run_process(settings, listening)
    return Parent(replace(settings, port=port), listening).run()


def run_process(settings: Settings, listening: socket.socket) -> int:
    """One process that answers."""
    from service.app import create_app

    app = create_app(settings)
    config = uvicorn.Config(
        app, access_log=False, log_config=None, lifespan="on", server_header=False,
        proxy_headers=False,  # nothing here depends on who the client is
        timeout_graceful_shutdown=max(1, round(settings.drain_seconds)), timeout_keep_alive=75,
    )  # fmt: skip
    server = DrainingServer(config, app.drain, app.bulk)
    server.run(sockets=[listening])
    log.info("stopped")
    return 0 if server.started else 1


class Parent:
    """Starts workers on one socket, replaces those that die, and passes on the word to stop."""

    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._settings = settings
        self._listening = listening
        self._folder = tempfile.TemporaryDirectory(prefix="tabglot-metrics-")
        self._workers: dict[subprocess.Popen[bytes], float] = {}
        self._stopping = False

    def run(self) -> int:
        """Until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        code = 0
        with self._folder:
            while not self._stopping:
                code = self._mind()
                time.sleep(0.1)
            self._listening.close()
            for worker in self._workers:
                worker.terminate()
            for worker in self._workers:
                worker.wait()
        log.info("stopped")
        return code

    def _mind(self) -> int:
        """Replace the dead; give up where a worker cannot even start."""
        for worker, started in list(self._workers.items()):
            if worker.poll() is None:
                continue
            del self._workers[worker]
            log.error("worker died", extra={"pid": worker.pid, "code": worker.returncode})
            self._forget(worker.pid)
            # One that was killed from outside is replaced at any age.
            if worker.returncode >= 0 and time.monotonic() - started < EARLY_SECONDS:
                self._stopping = True
                return worker.returncode or 1
        while len(self._workers) < self._settings.workers and not self._stopping:
            self._workers[self._start()] = time.monotonic()
        return 0

    def _start(self) -> "subprocess.Popen[bytes]":
        number = self._listening.fileno()
        environment = {
            **os.environ,
            **self._settings.to_environment(),
            WORKER: str(number),
            PARENT: str(os.getpid()),
            "PROMETHEUS_MULTIPROC_DIR": self._folder.name,
        }
        # In a session of its own: Ctrl-C reaches the parent alone, which passes it on once.
        return subprocess.Popen(
            [sys.executable, "-m", "service"], env=environment, pass_fds=[number], start_new_session=True
        )

    def _forget(self, pid: int) -> None:
        """Gauges of the living only: a dead worker's requests are no longer under way."""
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = self._folder.name
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]

    def _stop(self, _: int, __: FrameType | None) -> None:
        """Only a note: a worker may be half started at this moment, and would be missed."""
        self._stopping = True


def warn_if_open(settings: Settings) -> None:
    """Anybody who can reach an address without keys can use it: allowed, but said."""
    if settings.host not in ("127.0.0.1", "::1", "localhost") and not settings.api_keys:
        log.warning("open to the network without a key; set TABGLOT_API_KEYS", extra={"host": settings.host})
