"""JSON lines on stderr, one per event. Never a cell, a key or a body: only what happened, where, how long."""

import contextlib
import logging
import os
import time
from functools import lru_cache
from typing import Any

import orjson

# What every record has of its own; the rest was given as ``extra``.
USUAL = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message", "taskName"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _clock(record.created),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **{key: value for key, value in record.__dict__.items() if key not in USUAL},
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str).decode()


class StderrLines(logging.Handler):
    """Every record at once, past sys.stderr: what that cannot write it keeps, to fail of it again at exit."""

    def emit(self, record: logging.LogRecord) -> None:
        _write(self.format(record).encode())


def set_up_logs(level: str) -> None:
    """All loggers, uvicorn's among them, speak JSON on stderr."""
    handler = StderrLines()
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("tabglot").setLevel(level.upper())
    # What uvicorn says of starting and stopping is said by us in one line each.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def log_request(*, request_id: str, method: str, path: str, status: int, seconds: float) -> None:
    """One line per answer, written at once: the logging module would take longer than the network."""
    line = orjson.dumps(
        {
            "time": _clock(time.time()),
            "level": "info",
            "event": "request",
            "request_id": request_id,
            "method": method,
            "path": path,
            "status": status,
            "milliseconds": round(seconds * 1e3, 3),
        }
    )
    _write(line)


def _write(line: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads the log any more: no reason to stop, or to end otherwise
        os.write(2, line + b"\n")


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{_whole_second(whole)}.{int((seconds - whole) * 1000):03d}Z"


@lru_cache(maxsize=2)
def _whole_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
