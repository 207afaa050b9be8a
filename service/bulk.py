"""Long work beside the event loop: single rows must not wait for it."""

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Answer = TypeVar("Answer")

# A thread that computes lets the event loop in after at most so long (Python's default is ten times that).
SWITCH_SECONDS = 0.0005
# Between two pieces of work the thread steps back so that whoever waits goes first.
PAUSE_SECONDS = 0.0002
# Rows that are answered at a time.
PIECE = 2048
# Bodies of more bytes are parsed beside the loop as well.
INLINE_BYTES = 64 << 10


class Bulk:
    """One thread: bulk requests queue up behind each other, not in front of single rows."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bulk")
        sys.setswitchinterval(SWITCH_SECONDS)

    async def run(self, work: Callable[..., Answer], *args: Any) -> Answer:
        """Do the work in the thread and wait for it without holding anybody up."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)


def pause() -> None:
    """Let others in."""
    time.sleep(PAUSE_SECONDS)
