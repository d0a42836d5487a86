"""Thrift's compact protocol, as far as the headers and footers of Parquet need it, and only to write."""

from __future__ import annotations

from collections.abc import Iterable

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Kinds of values: numbers that are not negative, bytes, and what :func:`list_of` and :func:`struct` return."""

Field = tuple[int, int, int | bytes]
"""Number, kind and value of a field."""


def varint(number: int) -> bytes:
    """Return a number, seven bits to a byte, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def struct(*fields: Field) -> bytes:
    """Return a struct; the numbers of its fields rise, by at most 15."""
    written, last = bytearray(), 0
    for number, kind, value in fields:
        written.append((number - last) << 4 | kind)
        written += _value(kind, value)
        last = number
    return bytes(written) + b"\0"


def list_of(kind: int, values: Iterable[int | bytes]) -> bytes:
    """Return a list of values of one kind."""
    items = [_value(kind, value) for value in values]
    size = len(items)
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)
    return head + b"".join(items)


def _value(kind: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(2 * value)  # an odd number is a negative one
    return varint(len(value)) + value if kind == BINARY else value
