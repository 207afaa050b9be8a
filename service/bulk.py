"""Long work beside the event loop: single rows must not wait for it, nor a process that shall stop."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from service.errors import shutting_down

Answer = TypeVar("Answer")

# A thread that computes lets the event loop in after at most so long (Python's default is ten times that).
SWITCH_SECONDS = 0.0005
# Between two pieces of work the thread steps back so that whoever waits goes first.
PAUSE_SECONDS = 0.0002
# How often it is looked whether the caller is still there.
LOOK_SECONDS = 0.5
# Rows that are answered at a time.
PIECE = 2048
# Bodies of more bytes, and rows of more cells in all, are worked on beside the loop.
INLINE_BYTES = 64 << 10
INLINE_CELLS = 512


class Bulk:
    """One thread: bulk requests queue up behind each other, not in front of single rows."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bulk")
        self._stopping = threading.Event()
        self._abandoned = threading.Event()  # that of the work under way
        sys.setswitchinterval(SWITCH_SECONDS)

    async def run(self, request: Request, work: Callable[..., Answer], *args: Any) -> Answer:
        """Do the work in the thread and wait for it without holding anybody up. It ends early, between two
        pieces, if the caller goes away or the process has to stop.
        """
        abandoned = threading.Event()

        def begin() -> Answer:
            self._abandoned = abandoned
            self.pause()
            return work(*args)

        future = asyncio.get_running_loop().run_in_executor(self._thread, begin)
        while not (await asyncio.wait({future}, timeout=LOOK_SECONDS))[0]:
            if await request.is_disconnected():
                abandoned.set()
        return future.result()

    def pause(self) -> None:
        """Let others in; called by the work itself, between its pieces."""
        if self._stopping.is_set():
            raise shutting_down()
        if self._abandoned.is_set():
            raise ClientDisconnect
        time.sleep(PAUSE_SECONDS)

    def stop(self) -> None:
        """End what is under way at its next pause."""
        self._stopping.set()

    def close(self) -> None:
        self.stop()
        self._thread.shutdown(wait=True, cancel_futures=True)
