"""Protobuf's wire format, in which an ONNX network is written: serving has no onnx package to read it with.

A message is a list of fields; those that are not looked into cost nothing, however long they are.
"""

from collections.abc import Iterator

VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5


def read_fields(message: memoryview) -> Iterator[tuple[int, memoryview | None, memoryview]]:
    """Each field as (number, content if it has a length, the field's own bytes); weights are not copied."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        number, kind = key >> 3, key & 7
        content = None
        if kind == VARINT:
            _, at = _read_varint(message, at)
        elif kind == LENGTH:
            length, at = _read_varint(message, at)
            content = message[at : at + length]
            at += length
        elif kind in (FIXED_64, FIXED_32):
            at += 8 if kind == FIXED_64 else 4
        else:
            raise ValueError(f"no protobuf message: wire type {kind}")
        if at > len(message):
            raise ValueError("no whole protobuf message")
        yield number, content, message[start:at]


def read_integers(content: memoryview | None, field: memoryview, *, most: int) -> list[int]:
    """The integers of a field as ``read_fields`` gives it: one of its own, or many packed into its content; ValueError
    for more than ``most``, or others.
    """
    key, at = _read_varint(field, 0)
    if key & 7 not in (VARINT, LENGTH):
        raise ValueError("no integers")
    packed, at = (field, at) if content is None else (content, 0)
    integers: list[int] = []
    while at < len(packed):
        integer, at = _read_varint(packed, at)
        integers.append(integer)
        if len(integers) > most:
            raise ValueError(f"more than {most} integers")
    return integers


def write_field(number: int, content: bytes) -> bytes:
    """A field whose content has a length."""
    return _write_varint(number << 3 | LENGTH) + _write_varint(len(content)) + content


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("no whole protobuf message")
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
