"""The matrices of the roots of maximal bicliques on the device, by groups that fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import LeaseTooLargeError
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.device.arrays import hash_vertices, lengths_of, turn_rows
from papilio.kernels.device.protocol import THREADS, Device, Module, launch_over
from papilio.kernels.offsets import offsets_of

_MANY_CHILDREN, _MANY_RANGES, _MAX_RANGES = 8, 1 << 15, 1 << 18
"""Maximum children of a warp's range, if there are at least the second number of ranges of this size, else fewer; above
the third number of ranges, ranges grow."""

_MATRIX_FRACTION = 0.5
"""Maximum share of free device memory for the matrices of a group."""

_HELD_FRACTION = 0.125
"""Maximum share of free device memory for all matrices together; they are then laid out once, not for each lease."""


_FILL_BLOCKS, _FILL_NEAR, _FILL_WORDS = 4, 1 << 13, 1 << 24
"""Blocks of a multiprocessor that fill matrices, words of shared memory of each, and maximum words of all besides."""


@dataclass(frozen=True, eq=False)
class MaximalRoots:
    """Data of every left vertex for the search, besides the index."""

    # On the device: offsets, int64, shape (n_left + 1,), and the earlier left vertices that share enough right ones,
    # ascending, int32; hashes of the vertices, uint64.
    earlier_indptr: Any
    earlier: Any
    # The left vertices of each right one: offsets, int64, and ids, int32, ascending.
    right_indptr: Any
    right_rows: Any
    left_hash: Any
    right_hash: Any
    # On the host, int64, shape (n_left,): rows and columns of each root.
    n_rows: NDArray[np.int64]
    n_columns: NDArray[np.int64]

    @property
    def row_words(self) -> NDArray[np.int64]:
        """Words of 32 bits of a row of each root, int64, shape (n_left,)."""
        return (self.n_columns + 31) // 32

    @property
    def set_words(self) -> NDArray[np.int64]:
        """Words of 32 bits of a set of rows of each root, int64, shape (n_left,)."""
        return (self.n_rows + 31) // 32

    @property
    def matrix_words(self) -> NDArray[np.int64]:
        """Words of 32 bits of the matrix of each root, by rows and by columns, int64, shape (n_left,)."""
        return self.n_rows * self.row_words + self.n_columns * self.set_words


@dataclass(frozen=True, eq=False)
class Matrices:
    """The matrices of a group of roots on the device. Entries of other left vertices are undefined."""

    words: Any
    starts: Any  # int64: start of the matrix of each left vertex
    taken: Any  # int32: number of rows in every biclique of a root, including the root; 0 if it has none
    taken_hash: Any  # uint64: the sum of their hashes


@dataclass(frozen=True, eq=False)
class Ranges:
    """The work items, divided more finely for the warps of one device."""

    # On the device: root (int32), first child and end (int64) of each.
    arrays: tuple[Any, Any, Any]
    # On the host, int64: item i has the ranges ``[starts[i], starts[i + 1])``, shape (n_items + 1,); the item of each
    # range.
    starts: NDArray[np.int64]
    items: NDArray[np.int64]


def cut_ranges(device: Device, index: BicliqueDeviceIndex) -> Ranges:
    """Cut the children of each work item into ranges of a few children."""
    first, last = index.item_first, index.item_last
    n_children = int((last - first).sum())
    most = max(1, min(_MANY_CHILDREN, n_children // _MANY_RANGES), -(-n_children // _MAX_RANGES))
    counts = -(-(last - first) // most)
    starts = offsets_of(counts)
    items = np.repeat(np.arange(counts.size), counts)
    firsts = first[items] + most * (np.arange(items.size) - starts[items])
    arrays = (index.item_root[items], firsts, np.minimum(firsts + most, last[items]))
    on_device = [device.to_device(np.ascontiguousarray(each)) for each in arrays]
    return Ranges((on_device[0], on_device[1], on_device[2]), starts, items)


def find_roots(device: Device, index: BicliqueDeviceIndex) -> MaximalRoots:
    """Turn the lists of later vertices into lists of earlier ones, with excluded ones. One sort of the pairs."""
    arrays = index.arrays
    apart = (arrays["apart_indptr"], arrays["apart"]) if "apart" in arrays else None
    earlier_indptr, earlier = turn_rows(device, arrays["hop_indptr"], arrays["hop"], index.n_left, apart)
    right_indptr, right_rows = turn_rows(device, arrays["indptr"], arrays["columns"], index.n_right)
    left_hash = hash_vertices(device, arrays["left_ids"], int(index.anchor == "v"))
    right_hash = hash_vertices(device, arrays["right_ids"], int(index.anchor == "u"))
    n_earlier, n_later, n_columns = (
        device.to_host(lengths_of(device, each)).astype(np.int64)
        for each in (earlier_indptr, arrays["hop_indptr"], arrays["indptr"])
    )
    return MaximalRoots(
        earlier_indptr,
        earlier,
        right_indptr,
        right_rows,
        left_hash,
        right_hash,
        n_earlier + n_later,
        n_columns,
    )


def root_arguments(index: BicliqueDeviceIndex, roots: MaximalRoots) -> tuple[Any, ...]:
    """Return ROOT_PARAMETERS of maximal_counts.cuh."""
    rows = (index.arrays[name] for name in ("indptr", "columns", "hop_indptr", "hop"))
    return (*rows, roots.earlier_indptr, roots.earlier)


def group_pieces(
    device: Device, index: BicliqueDeviceIndex, roots: MaximalRoots, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """Cut the pieces [start, stop) into groups whose matrices fit.

    Raises LeaseTooLargeError, before it yields a further group, if the matrix of one root does not fit.
    """
    room, sizes = int(_MATRIX_FRACTION * device.free_bytes()) // 4, roots.matrix_words
    pieces = index.item_root[start:stop]
    if int(sizes[_searched(pieces)].sum()) <= room:
        yield start, stop
        return
    begin, held, used = start, set[int](), 0
    for piece, root in enumerate(pieces.tolist(), start):
        if root < 0 or root in held:
            continue
        if used + int(sizes[root]) > room:
            if not held:
                raise LeaseTooLargeError(
                    f"the rows around one vertex take {4 * int(sizes[root])} bytes of device memory; "
                    f"{4 * room} bytes are available: use a device with more memory, or --engine cpu"
                )
            yield begin, piece
            begin, held, used = piece, set(), 0
        used += int(sizes[root])
        held.add(root)
    yield begin, stop


def _searched(roots: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the distinct roots of pieces; a piece without children has none."""
    return np.flatnonzero(np.bincount(roots[roots >= 0])).astype(np.int32)


def load_rows(device: Device) -> Module:
    """Return the kernels that fill matrices; wait until they are compiled."""
    module = device.load("maximal_rows", {})
    module.get_function("maximal_fill")
    return module


def hold_matrices(device: Device, index: BicliqueDeviceIndex, roots: MaximalRoots) -> Matrices | None:
    """Return the matrices of all roots, at least one. None if they take too much of the memory."""
    size_bytes = 4 * int(roots.matrix_words[_searched(index.item_root)].sum())
    if size_bytes > _HELD_FRACTION * device.free_bytes():
        return None
    return fill_matrices(device, index, roots, 0, index.n_items)


def fill_matrices(device: Device, index: BicliqueDeviceIndex, roots: MaximalRoots, first: int, last: int) -> Matrices:
    """Return the matrices of the roots, at least one, of the pieces ``[first, last)``."""
    xp = device.xp
    vertices = _searched(index.item_root[first:last])
    sizes = roots.matrix_words[vertices]
    starts = np.zeros(index.n_left, np.int64)
    starts[vertices[1:]] = np.cumsum(sizes)[:-1]
    module = load_rows(device)
    words = xp.empty(int(sizes.sum()), dtype=np.uint32)
    given, listed = root_arguments(index, roots), device.to_device(vertices.astype(np.int32))
    n_roots, start = np.int32(vertices.size), device.to_device(starts)
    taken, taken_hash = (xp.zeros(index.n_left, dtype=each) for each in (np.int32, np.uint64))
    far_words = int(roots.n_columns.max()) // 4 * 4 + 4
    blocks = min(vertices.size, _FILL_BLOCKS * device.sm_count, max(1, _FILL_WORDS // far_words))
    module.get_function("maximal_fill")(
        (blocks,), (THREADS,), (
            *given, listed, n_roots, start, words, roots.right_indptr, roots.right_rows, np.int32(_FILL_NEAR),
            xp.empty(blocks * far_words, dtype=np.uint32), np.int64(far_words), xp.zeros(1, dtype=np.int32),
        ), shared_mem=4 * _FILL_NEAR,
    )  # fmt: skip
    launch_over(
        device, module, "maximal_close", 32 * vertices.size, *given, listed, n_roots, start, words,
        roots.left_hash, taken, taken_hash,
    )  # fmt: skip
    ends = np.cumsum((roots.set_words * roots.row_words)[vertices])
    launch_over(
        device, module, "maximal_turn", 32 * int(ends[-1]), *given, listed, device.to_device(ends), n_roots, start,
        words,
    )  # fmt: skip
    return Matrices(words, start, taken, taken_hash)
