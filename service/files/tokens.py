"""Where the fields of CSV text are, byte for byte, found with numpy.

A separator counts where it is outside quotes: where the number of quotes before it is even. That
holds if every quote opens a field, closes one, or is doubled inside one; text in which some quote
does none of these (as in: 5" pipe) is searched for quoted fields with a regular expression instead.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LF, CR, QUOTE = 10, 13, 34

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Records:
    """Whole records at the start of some text: the places of all their fields, how many fields each
    record has, and how much text they take. ``unclosed`` is where a quoted field begins that never ends.
    """

    starts: Places
    ends: Places
    counts: Places
    used: int
    unclosed: int | None = None

    @property
    def blank(self) -> NDArray[np.bool_]:
        """Records that are empty lines."""
        last = np.cumsum(self.counts) - 1
        empty: NDArray[np.bool_] = (self.counts == 1) & (self.starts[last] == self.ends[last])
        return empty


def scan(text: bytes, delimiter: bytes, final: bool) -> Records:
    """Find the fields of all whole records; the last one needs no line end if the text is ``final``."""
    raw = np.frombuffer(text, np.uint8)
    outside, unclosed = _find_outside(text, raw, delimiter)
    separators = (raw == delimiter[0]) | (raw == LF) | (raw == CR)
    if outside is not None:
        separators &= outside
    ends = np.flatnonzero(separators)
    if not final and len(ends) and ends[-1] == len(raw) - 1 and raw[-1] == CR:
        ends = ends[:-1]  # a line feed may follow, and belong to it
    # The line feed of a CRLF is part of the line end before it.
    ends = ends[~((raw[ends] == LF) & (ends > 0) & (raw[ends - 1] == CR))]
    is_line = raw[ends] != delimiter[0]
    following = np.minimum(ends + 1, len(raw) - 1)
    nexts = ends + 1 + ((raw[ends] == CR) & (ends + 1 < len(raw)) & (raw[following] == LF))
    if final and len(raw) and (len(ends) == 0 or nexts[-1] < len(raw) or not is_line[-1]):
        ends, nexts, is_line = np.append(ends, len(raw)), np.append(nexts, len(raw)), np.append(is_line, True)
    lines = np.flatnonzero(is_line)
    n = int(lines[-1]) + 1 if len(lines) else 0
    starts = np.concatenate([[0], nexts[: max(n - 1, 0)]])[:n].astype(np.int64)
    return Records(starts, ends[:n], np.diff(lines, prepend=-1), int(nexts[n - 1]) if n else 0, unclosed)


def _find_outside(text: bytes, raw: Bytes, delimiter: bytes) -> tuple[NDArray[np.bool_] | None, int | None]:
    """Which bytes are outside quotes (None: all), and where a quote is never closed."""
    if QUOTE not in text:
        return None, None
    is_quote = raw == QUOTE
    quotes = np.flatnonzero(is_quote)
    opens, closes = quotes[0::2], quotes[1::2]
    beside = np.zeros(256, dtype=bool)
    beside[[delimiter[0], LF, CR, QUOTE]] = True
    if not (beside[raw[opens[opens > 0] - 1]].all() and beside[raw[closes[closes < len(raw) - 1] + 1]].all()):
        return _search_outside(text, delimiter)
    # Sums that wrap around keep their parity.
    outside = np.cumsum(is_quote, dtype=np.uint8) % 2 == 0
    if len(opens) == len(closes):
        return outside, None
    k = len(closes)
    while k > 0 and closes[k - 1] == opens[k] - 1:  # a doubled quote: the field began before
        k -= 1
    return outside, int(opens[k])


def _search_outside(text: bytes, delimiter: bytes) -> tuple[NDArray[np.bool_], int | None]:
    """The slow way, a step per quoted field: a quote that does not begin a field is text."""
    field = re.compile(rb'(?<![^\r\n%s])"[^"]*(?:""[^"]*)*("|\Z)' % re.escape(delimiter))
    outside = np.ones(len(text), dtype=bool)
    unclosed = None
    for match in field.finditer(text):
        outside[match.start() : match.end()] = False
        unclosed = None if match[1] else match.start()
    return outside, unclosed


def gather(raw: Bytes, starts: Places, ends: Places) -> tuple[Bytes, NDArray[np.int32]]:
    """The bytes of some fields, one after the other, and where each begins (one more than fields)."""
    lengths = ends - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    index = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return raw[index], offsets.astype(np.int32)


def inner(raw: Bytes, starts: Places, ends: Places) -> tuple[Places, Places, NDArray[np.bool_]]:
    """Fields without the quotes around them, and which had some."""
    if len(raw) == 0:
        return starts, ends, np.zeros(len(starts), dtype=bool)
    last = len(raw) - 1
    quoted = (ends > starts) & (raw[np.minimum(starts, last)] == QUOTE)
    closed = quoted & (ends - starts > 1) & (raw[np.maximum(ends - 1, 0)] == QUOTE)
    return starts + quoted, ends - closed, quoted


def splice(text: bytes, starts: Places, ends: Places, texts: list[bytes]) -> bytes:
    """Put each of ``texts`` in the place of what stands from its start to its end; the rest stays."""
    order = np.argsort(starts, kind="stable")
    out: list[bytes] = []
    at = 0
    for start, end, i in zip(starts[order].tolist(), ends[order].tolist(), order.tolist(), strict=True):
        out += text[at:start], texts[i]
        at = end
    out.append(text[at:])
    return b"".join(out)


def count_lines(text: bytes) -> int:
    """How many line ends there are, of any kind."""
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
