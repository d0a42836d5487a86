"""Columns of lists as the bytes of a Parquet file: a page of labels and a page of their numbers for each row group.

What is written is fixed: required lists of required labels, as dictionaries, whose numbers have 8, 16 or 32 bits, and
zstd over it all. So a vertex takes a few nanoseconds, where a writer of any table, which looks at each level and each
value by itself, takes ten times as long; and repeated bytes are found where repeated bits are not.

Source: the Parquet format, https://github.com/apache/parquet-format (Encodings.md, parquet.thrift).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.storage.thrift import BINARY, I32, I64, LIST, STRUCT, list_of, struct, varint
from papilio.version import __version__

MAGIC = b"PAR1"
"""A file begins and ends with it."""

_FEW_LABELS = 1 << 12
"""Up to so many in reach, and one for 16 vertices, are all written: looking for those that occur takes 5 ns a vertex.
The numbers of more labels are longer, and less alike, than those of labels by their first appearance."""

_CODEC = pa.Codec("zstd", 1)
_ZSTD = 6
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_REQUIRED, _REPEATED = 0, 2
_UTF8, _LIST = 0, 3
_STRING_TYPE, _LIST_TYPE = 1, 3
_PHYSICAL = {pa.int32(): 1, pa.int64(): 2, pa.string(): 6}


class Chunk(NamedTuple):
    """A column of a row group; sizes in bytes, headers of pages included."""

    pages: tuple[bytes, bytes]  # labels, numbers
    n_levels: int
    plain_bytes: int  # before compression


class Group(NamedTuple):
    """A row group that begins at a place of the file."""

    begin: int
    n_rows: int
    chunks: Sequence[Chunk]


def pack_lists(names: pa.Array, places: NDArray[np.int32], offsets: NDArray[np.int64]) -> Chunk:
    """Return the lists of the labels at some places of ``names``; list i is ``places[offsets[i]:offsets[i + 1]]``."""
    numbers, labels = _number(names, places)
    is_empty = offsets[1:] == offsets[:-1]
    starts = offsets[:-1] + np.cumsum(is_empty) - is_empty
    n_levels = places.size + int(np.count_nonzero(is_empty))
    levels = _pack_levels(n_levels, starts) + _pack_levels(n_levels, starts[is_empty])
    content = levels + _pack_numbers(numbers, len(labels))
    encodings = (1, I32, n_levels), (2, I32, _RLE_DICTIONARY), (3, I32, _RLE), (4, I32, _RLE)
    pages = (
        _page(_DICTIONARY_PAGE, _plain(labels), 7, struct((1, I32, len(labels)), (2, I32, _PLAIN))),
        _page(_DATA_PAGE, content, 5, struct(*encodings)),
    )
    return Chunk((pages[0][0], pages[1][0]), n_levels, pages[0][1] + pages[1][1])


def _number(names: pa.Array, places: NDArray[np.int32]) -> tuple[NDArray[np.int32], pa.Array]:
    """Return numbers of labels, and the labels: all in reach where these are few, else those that occur."""
    low, high = (int(places.min()), int(places.max())) if places.size else (0, -1)
    if high - low < min(_FEW_LABELS, places.size // 16):
        return places - np.int32(low), names.slice(low, high - low + 1)
    numbered = pa.array(places).dictionary_encode()
    return numbered.indices.to_numpy(), names.take(numbered.dictionary)


def _pack_levels(n: int, zeros: NDArray[np.int64]) -> bytes:
    """Return n bits, 1 but for those at some places, as a run of whole bytes behind its length."""
    bits = np.zeros(-(-n // 8) * 8, np.uint8)
    bits[:n] = 1
    bits[zeros] = 0
    run = _run(np.packbits(bits, bitorder="little"), n)
    return len(run).to_bytes(4, "little") + run


def _pack_numbers(numbers: NDArray[np.int32], n_labels: int) -> bytes:
    """Return numbers of labels as a run, behind the number of their bits."""
    width = 1 if n_labels <= 1 << 8 else 2 if n_labels <= 1 << 16 else 4
    packed = np.zeros(-(-numbers.size // 8) * 8, f"<u{width}")
    packed[: numbers.size] = numbers
    return bytes([8 * width]) + _run(packed, numbers.size)


def _run(packed: NDArray[np.unsignedinteger], n: int) -> bytes:
    """Return n values, packed with what fills up the last eight of them."""
    return varint(-(-n // 8) << 1 | 1) + packed.tobytes()


def _plain(labels: pa.Array) -> bytes:
    """Return labels one after the other; the length of each that is text before it."""
    if labels.type != pa.string():
        numbers: NDArray[np.int64] = labels.to_numpy()
        return numbers.astype(numbers.dtype.newbyteorder("<"), copy=False).tobytes()
    _, offsets, text = labels.buffers()
    n = len(labels)
    ends = np.frombuffer(offsets, "<i4", n + 1, 4 * labels.offset) if n else np.zeros(1, "<i4")
    begin, n_bytes = int(ends[0]), int(ends[-1] - ends[0])
    written = np.empty(n_bytes + 4 * n, np.uint8)
    is_text = np.ones(written.size, np.bool_)
    heads = (ends[:-1] - begin + 4 * np.arange(n))[:, None] + np.arange(4)
    is_text[heads] = False
    written[heads] = np.diff(ends).astype("<i4").view(np.uint8).reshape(-1, 4)
    written[is_text] = np.frombuffer(text, np.uint8, n_bytes, begin) if n_bytes else ()
    return written.tobytes()


def _page(kind: int, content: bytes, number: int, details: bytes) -> tuple[bytes, int]:
    """Return a page, and the bytes that it would have without compression."""
    packed: bytes = _CODEC.compress(content, asbytes=True)
    header = struct((1, I32, kind), (2, I32, len(content)), (3, I32, len(packed)), (number, STRUCT, details))
    return header + packed, len(header) + len(content)


def make_footer(schema: pa.Schema, groups: Sequence[Group], metadata: Mapping[bytes, bytes]) -> bytes:
    """Return what follows the row groups of a file with these columns of lists."""
    content = struct(
        (1, I32, 2),
        (2, LIST, list_of(STRUCT, _schema_elements(schema))),
        (3, I64, sum(group.n_rows for group in groups)),
        (4, LIST, list_of(STRUCT, [_describe_group(schema, group) for group in groups])),
        (
            5,
            LIST,
            list_of(STRUCT, [struct((1, BINARY, key), (2, BINARY, metadata[key])) for key in metadata]),
        ),
        (6, BINARY, f"papilio version {__version__}".encode()),
    )
    return content + len(content).to_bytes(4, "little") + MAGIC


def _schema_elements(schema: pa.Schema) -> list[bytes]:
    elements = [struct((4, BINARY, b"schema"), (5, I32, len(schema)))]
    for field in schema:
        kind = struct((_LIST_TYPE, STRUCT, struct()))
        elements.append(
            struct(
                (3, I32, _REQUIRED),
                (4, BINARY, field.name.encode()),
                (5, I32, 1),
                (6, I32, _LIST),
                (10, STRUCT, kind),
            )
        )
        elements.append(struct((3, I32, _REPEATED), (4, BINARY, b"list"), (5, I32, 1)))
        physical = (1, I32, _PHYSICAL[field.type.value_type]), (3, I32, _REQUIRED), (4, BINARY, b"element")
        text = (6, I32, _UTF8), (10, STRUCT, struct((_STRING_TYPE, STRUCT, struct())))
        elements.append(struct(*physical, *(text if field.type.value_type == pa.string() else ())))
    return elements


def _describe_group(schema: pa.Schema, group: Group) -> bytes:
    begin, columns = group.begin, []
    for field, chunk in zip(schema, group.chunks, strict=True):
        labels, numbers = map(len, chunk.pages)
        description = struct(
            (1, I32, _PHYSICAL[field.type.value_type]),
            (2, LIST, list_of(I32, (_PLAIN, _RLE, _RLE_DICTIONARY))),
            (3, LIST, list_of(BINARY, (field.name.encode(), b"list", b"element"))),
            (4, I32, _ZSTD),
            (5, I64, chunk.n_levels),
            (6, I64, chunk.plain_bytes),
            (7, I64, labels + numbers),
            (9, I64, begin + labels),
            (11, I64, begin),
        )
        columns.append(struct((2, I64, 0), (3, STRUCT, description)))
        begin += labels + numbers
    return struct(
        (1, LIST, list_of(STRUCT, columns)),
        (2, I64, sum(chunk.plain_bytes for chunk in group.chunks)),
        (3, I64, group.n_rows),
        (5, I64, group.begin),
        (6, I64, begin - group.begin),
    )
