"""A client that costs little: raw sockets, kept open, one request under way on each.

Run as ``python -m training.bench.load_client JOB`` (JSON); prints what became of the requests as JSON.
"""

import json
import math
import re
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass
class Job:
    """``expect``, if given, is the only value each model may answer. ``until_closed``: the server ends it."""

    port: int
    body: str
    connections: int = 1
    seconds: float = 2.0
    expect: dict[str, float] | None = None
    until_closed: bool = False

    def request(self) -> bytes:
        content = self.body.encode()
        lines = ["POST /predict HTTP/1.1", "host: localhost", "content-type: application/json"]
        return "\r\n".join([*lines, f"content-length: {len(content)}", "", ""]).encode() + content


@dataclass
class Tally:
    """What became of the requests; ``lost`` were sent whole and got no whole answer."""

    answered: int = 0
    failed: int = 0
    mixed: int = 0
    lost: int = 0
    elapsed: float = 0.0
    p50: float = 0.0  # milliseconds
    p99: float = 0.0
    most: float = 0.0


@dataclass
class Line:
    """One connection and what has come on it since its last request."""

    connection: socket.socket
    sent_at: float = 0.0
    got: bytes = b""


def run_job(job: Job) -> Tally:
    """Ask until the time is over, or until the server has closed all connections."""
    tally, request, times = Tally(), job.request(), list[float]()
    lines = [Line(socket.create_connection(("127.0.0.1", job.port), 30)) for _ in range(job.connections)]
    with selectors.DefaultSelector() as selector:
        for line in lines:
            line.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(line.connection, selectors.EVENT_READ, line)
            _send(line, request)
        begun = time.perf_counter()
        deadline = begun + job.seconds
        while selector.get_map() and time.perf_counter() < deadline:
            for key, _ in selector.select(0.1):
                if not _take(key.data, request, job, tally, times):
                    selector.unregister(key.fileobj)
        tally.elapsed = time.perf_counter() - begun
        if job.until_closed:
            tally.lost += len(selector.get_map())
    for line in lines:
        line.connection.close()
    times = sorted(times) or [0.0]
    tally.p50, tally.p99, tally.most = times[len(times) // 2], times[len(times) * 99 // 100], times[-1]
    return tally


def _send(line: Line, request: bytes) -> None:
    line.got = b""
    line.sent_at = time.perf_counter()
    line.connection.sendall(request)


def _take(line: Line, request: bytes, job: Job, tally: Tally, times: list[float]) -> bool:
    """Read what came; when an answer is whole, count it and ask again. False: the connection is closed."""
    try:
        piece = line.connection.recv(1 << 16)
    except ConnectionError:
        piece = b""
    if not piece:
        tally.lost += 1
        return False
    line.got += piece
    end = line.got.find(b"\r\n\r\n")
    length = LENGTH.search(line.got, 0, end) if end >= 0 else None
    if length is None or len(line.got) < end + 4 + int(length.group(1)):
        return True
    times.append((time.perf_counter() - line.sent_at) * 1e3)
    tally.answered += 1
    tally.failed += line.got[9:12] != b"200"
    if job.expect is not None and line.got[9:12] == b"200":
        tally.mixed += _is_mixed(json.loads(line.got[end + 4 :]), job.expect)
    if b"connection: close" in line.got[:end]:
        return False
    try:
        _send(line, request)
    except ConnectionError:
        tally.lost += 1
        return False
    return True


def _is_mixed(answer: Any, expect: dict[str, float]) -> bool:
    """A row among others differs from the row alone in the seventh digit; another model's answer by far more."""
    return not math.isclose(answer["predictions"][0]["value"], expect[answer["model"]], rel_tol=1e-5)


if __name__ == "__main__":
    print(json.dumps(asdict(run_job(Job(**json.loads(sys.argv[1]))))))
