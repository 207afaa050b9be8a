"""A real service: `python -m service` on a real socket, with a registry and a store of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parent.parent


class RunningServer:
    """One started service; ``client`` talks to it."""

    def __init__(self, home: Path, *args: str, **environment: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.environment = service_environment(home, **environment)
        self._log = (home / "log.txt").open("ab")
        started_at = self._log.tell()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service", "--port", "0", *args], env=self.environment, stderr=self._log, cwd=home
        )
        try:
            self.url = self._wait_for("listening", started_at)["address"]
        except BaseException:
            self.stop()
            raise
        key = environment.get("TABGLOT_API_KEYS", "").partition(",")[0]
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def logs(self) -> list[dict[str, object]]:
        lines = (self.home / "log.txt").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def _wait_for(self, event: str, start: int, seconds: float = 30.0) -> dict[str, str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in (self.home / "log.txt").read_bytes()[start:].splitlines():
                if b'"event":"' + event.encode() + b'"' in line:
                    entry: dict[str, str] = json.loads(line)
                    return entry
            time.sleep(0.02)
        raise AssertionError(f"no {event!r} in the log: {(self.home / 'log.txt').read_text()}")

    def wait_until_ready(self, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if self.client.get("/health/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"not ready: {(self.home / 'log.txt').read_text()}")

    def stop(self) -> int:
        if hasattr(self, "client"):
            self.client.close()  # or the service would wait for one more request on this connection
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._log.close()
        return code


def service_environment(home: Path, **environment: str) -> dict[str, str]:
    """Settings under which nothing outside ``home`` is touched."""
    usual = {key: value for key, value in os.environ.items() if not key.startswith(("TABGLOT_", "PROMETHEUS_"))}
    return {
        **usual,
        "PYTHONPATH": str(ROOT),
        "TABGLOT_REGISTRY": f"sqlite:///{home / 'registry.db'}",
        "TABGLOT_STORE": str(home / "store"),
        **environment,
    }


@contextmanager
def running(home: Path, *args: str, **environment: str) -> Iterator[RunningServer]:
    """A service that is ready, and stopped afterwards."""
    server = RunningServer(home, *args, **environment)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def run_service(home: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of python -m service, as a user runs it."""
    return subprocess.run(
        [sys.executable, "-m", "service", *args], env=service_environment(home, **environment), cwd=home,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
