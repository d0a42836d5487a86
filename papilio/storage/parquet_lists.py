"""Columns of lists, labels and numbers as the bytes of a Parquet file: a page of labels and a page of their numbers for
each row group; of floating-point numbers one page.

The layout is fixed: required lists of required labels, or labels alone, as dictionaries with numbers of 8, 16 or 32
bits, compressed by zstd. A vertex takes a third to an eighth of the time of a general writer, which handles each level
and each value separately; and compression finds repeated bytes, but not repeated bits.

Source: the Parquet format, https://github.com/apache/parquet-format (Encodings.md, parquet.thrift).

Includes a writer for the part of Thrift's compact protocol in the headers and footers of Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.errors import StoreError
from papilio.version import __version__

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Kinds of values: non-negative numbers, bytes, and the results of :func:`list_of` and :func:`struct`."""

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
    """Return a struct; its field numbers increase, by at most 15."""
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


MAGIC = b"PAR1"
"""First and last bytes of a file."""

_FEW_LABELS = 1 << 12
"""Up to this many labels in reach, and one for 16 vertices, are all written: finding the labels that occur takes 5 ns a
vertex. With more labels, numbers are longer and less alike than numbers by first appearance."""

_ZSTD = 6
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_REQUIRED, _REPEATED = 0, 2
_UTF8, _LIST = 0, 3
_STRING_TYPE, _LIST_TYPE = 1, 3
_PHYSICAL = {pa.int32(): 1, pa.int64(): 2, pa.float64(): 5, pa.string(): 6}


class _Page(NamedTuple):
    header: bytes
    content: pa.Buffer  # compressed
    plain_bytes: int  # of the content before

    @property
    def n_bytes(self) -> int:
        return len(self.header) + int(self.content.size)


class ChunkSizes(NamedTuple):
    """Sizes of a column of a row group in the footer, in bytes, headers of pages included."""

    labels: int
    numbers: int
    plain: int  # of both, without compression
    n_levels: int


class Group(NamedTuple):
    """A row group at an offset in the file."""

    begin: int
    n_rows: int
    chunks: Sequence[ChunkSizes]


Packed = tuple[Sequence[bytes | pa.Buffer], ChunkSizes]
"""A column of a row group: its bytes, and their description in the file."""


class ListPacker:
    """Packs columns, for one thread at a time.

    Buffers as large as a column are reused: threads that allocate memory wait for each other, and Python copies bytes
    while holding its lock.
    """

    def __init__(self) -> None:
        self._codec = pa.Codec("zstd", 1)
        self._levels = self._content = np.empty(0, np.uint8)

    def pack(self, names: pa.Array, places: NDArray[np.int32], offsets: NDArray[np.int64] | None = None) -> Packed:
        """Pack the labels at some positions of ``names``.

        With ``offsets`` they are in lists; list i is at ``places[offsets[i]:offsets[i + 1]]``.
        """
        numbers, low, labels = _number(names, places)
        labels = labels.cast(pa.string()) if labels.type == pa.large_string() else labels
        levels: Sequence[bytes | NDArray[np.uint8]] = ()
        n_levels = places.size
        if offsets is not None:
            begins, empty = offsets[:-1], offsets[:0]
            is_empty = np.equal(offsets[1:], offsets[:-1])
            if is_empty.any():
                begins = begins + np.cumsum(is_empty) - is_empty
                empty = begins[is_empty]
                n_levels += empty.size
            levels = *self._pack_levels(n_levels, begins), *self._pack_levels(n_levels, empty)
        content = self._place(levels, numbers, low, len(labels))
        encodings = (1, I32, n_levels), (2, I32, _RLE_DICTIONARY), (3, I32, _RLE), (4, I32, _RLE)
        pages = (
            self._page(_DICTIONARY_PAGE, _plain(labels), 7, struct((1, I32, len(labels)), (2, I32, _PLAIN))),
            self._page(_DATA_PAGE, content, 5, struct(*encodings)),
        )
        plain_bytes = sum(len(page.header) + page.plain_bytes for page in pages)
        sizes = ChunkSizes(pages[0].n_bytes, pages[1].n_bytes, plain_bytes, n_levels)
        return [part for page in pages for part in page[:2]], sizes

    def pack_values(self, values: NDArray[np.float64]) -> Packed:
        """Pack floating-point numbers."""
        content = np.ascontiguousarray(values, "<f8").view(np.uint8)
        encodings = (1, I32, values.size), (2, I32, _PLAIN), (3, I32, _RLE), (4, I32, _RLE)
        page = self._page(_DATA_PAGE, content, 5, struct(*encodings))
        return page[:2], ChunkSizes(0, page.n_bytes, len(page.header) + page.plain_bytes, values.size)

    def _pack_levels(self, n: int, zeros: NDArray[np.int64]) -> Sequence[bytes | NDArray[np.uint8]]:
        """Return n bits, 1 except at some positions, as a run after its length."""
        if not zeros.size:
            run = varint(n << 1) + b"\1"
            return (_length(len(run)) + run,)
        self._levels = _grow(self._levels, _whole_bytes(n))
        bits = self._levels[: _whole_bytes(n)]
        bits.fill(1)
        bits[zeros] = bits[n:] = 0
        head = _head(n)
        return _length(len(head) + bits.size // 8) + head, np.packbits(bits, bitorder="little")

    def _place(
        self, levels: Sequence[bytes | NDArray[np.uint8]], numbers: NDArray[np.int32], low: int, n_labels: int
    ) -> NDArray[np.uint8]:
        """Return levels, the number of bits, and numbers minus ``low`` as a run: a whole page."""
        n, width = numbers.size, 1 if n_labels <= 1 << 8 else 2 if n_labels <= 1 << 16 else 4
        parts = *levels, bytes([8 * width]) + _head(n)
        n_before = sum(map(len, parts))
        at = begin = -n_before % width
        end = begin + n_before + width * _whole_bytes(n)
        self._content = _grow(self._content, end)
        for part in parts:
            self._content[at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        packed = self._content[at:end].view(f"<u{width}")
        np.subtract(numbers, np.int32(low), out=packed[:n], casting="unsafe")
        packed[n:] = 0
        return self._content[begin:end]

    def _page(self, kind: int, content: bytes | NDArray[np.uint8], number: int, details: bytes) -> _Page:
        n_bytes = len(content)
        if n_bytes >> 31:
            raise StoreError(
                f"a row of a listing takes {n_bytes:,} bytes; a page of Parquet holds at most {2**31 - 1:,}: list "
                "motifs of fewer vertices"
            )
        packed = self._codec.compress(content)
        header = struct((1, I32, kind), (2, I32, n_bytes), (3, I32, packed.size), (number, STRUCT, details))
        return _Page(header, packed, n_bytes)


def _grow(memory: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    return memory if memory.size >= size else np.empty(size + size // 4, np.uint8)


def _number(names: pa.Array, places: NDArray[np.int32]) -> tuple[NDArray[np.int32], int, pa.Array]:
    """Return numbers, the smallest one, and the indexed labels: all in reach if few, else only the used ones."""
    low, high = (int(places.min()), int(places.max())) if places.size else (0, -1)
    if high - low < min(_FEW_LABELS, places.size // 16):
        return places, low, names.slice(low, high - low + 1)
    numbered = pa.array(places).dictionary_encode()
    return numbered.indices.to_numpy(), 0, names.take(numbered.dictionary)


def _whole_bytes(n: int) -> int:
    """Round n up to a multiple of 8: packed values come by eights."""
    return -(-n // 8) * 8


def _length(n_bytes: int) -> bytes:
    return n_bytes.to_bytes(4, "little")


def _head(n: int) -> bytes:
    return varint(-(-n // 8) << 1 | 1)


def _plain(labels: pa.Array) -> bytes:
    """Return concatenated labels; text labels follow their length."""
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


def make_footer(schema: pa.Schema, groups: Sequence[Group], metadata: Mapping[bytes, bytes]) -> bytes:
    """Return the end of a file with these columns: the footer, its length and the magic bytes."""
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
        kind, name = _element_type(field), field.name
        if kind != field.type:
            group = (5, I32, 1), (6, I32, _LIST), (10, STRUCT, struct((_LIST_TYPE, STRUCT, struct())))
            elements.append(struct((3, I32, _REQUIRED), (4, BINARY, name.encode()), *group))
            elements.append(struct((3, I32, _REPEATED), (4, BINARY, b"list"), (5, I32, 1)))
            name = "element"
        physical = (1, I32, _PHYSICAL[kind]), (3, I32, _REQUIRED), (4, BINARY, name.encode())
        text = (6, I32, _UTF8), (10, STRUCT, struct((_STRING_TYPE, STRUCT, struct())))
        elements.append(struct(*physical, *(text if kind == pa.string() else ())))
    return elements


def _element_type(field: pa.Field) -> pa.DataType:
    """Return the element type of a column of lists, or the type of any other column."""
    is_list = pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type)
    return field.type.value_type if is_list else field.type


def _describe_group(schema: pa.Schema, group: Group) -> bytes:
    begin, columns = group.begin, []
    for field, chunk in zip(schema, group.chunks, strict=True):
        kind = _element_type(field)
        path = field.name.encode(), *(() if kind == field.type else (b"list", b"element"))
        encodings = (_PLAIN, _RLE, *((_RLE_DICTIONARY,) if chunk.labels else ()))
        description = struct(
            (1, I32, _PHYSICAL[kind]),
            (2, LIST, list_of(I32, encodings)),
            (3, LIST, list_of(BINARY, path)),
            (4, I32, _ZSTD),
            (5, I64, chunk.n_levels),
            (6, I64, chunk.plain),
            (7, I64, chunk.labels + chunk.numbers),
            (9, I64, begin + chunk.labels),
            *(((11, I64, begin),) if chunk.labels else ()),
        )
        columns.append(struct((2, I64, 0), (3, STRUCT, description)))
        begin += chunk.labels + chunk.numbers
    return struct(
        (1, LIST, list_of(STRUCT, columns)),
        (2, I64, sum(chunk.plain for chunk in group.chunks)),
        (3, I64, group.n_rows),
        (5, I64, group.begin),
        (6, I64, begin - group.begin),
    )
