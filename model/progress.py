"""Progress of a long command: a bar on a terminal, plain lines elsewhere; always on stderr."""

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

BAR = 30
# On anything but a terminal, a line at most this often (seconds): logs are read by people too.
EVERY = 2.0


@dataclass(slots=True)
class Progress:
    """``update`` with the share done and a word on how it goes; ``close`` to end the line."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    _start: float = field(default_factory=time.monotonic)
    _last: float = -1e9
    _open: bool = False

    def say(self, text: str) -> None:
        """A line of its own."""
        if not self.quiet:
            self.close()
            print(text, file=self.stream, flush=True)

    def start(self, text: str) -> None:
        """Say what begins; the time left is reckoned from here."""
        self.say(text)
        self._start = time.monotonic()

    def update(self, done: float, text: str) -> None:
        if self.quiet:
            return
        now = time.monotonic()
        left = (now - self._start) * (1.0 - done) / max(done, 1e-9)
        line = f"{text}  {_clock(left)} left"
        if self.stream.isatty():
            filled = round(BAR * done)
            bar = "█" * filled + "·" * (BAR - filled)
            print(f"\r\033[K{bar} {done:4.0%}  {line}", end="", file=self.stream, flush=True)
            self._open = True
        elif now - self._last >= EVERY or done >= 1.0:
            print(f"{done:4.0%}  {line}", file=self.stream, flush=True)
            self._last = now

    def close(self) -> None:
        if self._open:
            print(file=self.stream, flush=True)
            self._open = False


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
