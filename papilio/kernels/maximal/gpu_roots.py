"""The matrices of the roots of maximal bicliques on the device, group after group of work items, as memory allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import LeaseTooLargeError
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex, turn_rows
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.maximal.index import hash_ids

_MATRIX_FRACTION = 0.5
"""Largest share of free device memory for the matrices of a group."""


@dataclass(frozen=True, eq=False)
class MaximalRoots:
    """What the search needs of every left vertex, beside the index."""

    # On the device: offsets, int64, shape (n_left + 1,), and the earlier left vertices that share enough right ones,
    # ascending, int32; hashes of the vertices, uint64.
    earlier_indptr: Any
    earlier: Any
    left_hash: Any
    right_hash: Any
    # On the host, int64, shape (n_left,): rows of each root, and words of 32 bits of its matrix.
    n_rows: NDArray[np.int64]
    matrix_words: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        arrays = (self.earlier_indptr, self.earlier, self.left_hash, self.right_hash)
        return sum(int(array.nbytes) for array in arrays)


@dataclass(frozen=True, eq=False)
class Matrices:
    """The matrices of a group of roots on the device; arrays by left vertex mean nothing for others."""

    words: Any
    starts: Any  # int64: where the matrix of a left vertex begins
    taken: Any  # int32: rows that are in every biclique of a root, with itself; 0 where it has none
    taken_hash: Any  # uint64: the sum of their hashes


def find_roots(device: Device, index: BicliqueDeviceIndex) -> MaximalRoots:
    """Turn the lists of later vertices into those of earlier ones; one sort of the pairs."""
    xp, arrays = device.xp, index.arrays
    earlier_indptr, earlier = turn_rows(xp, arrays["hop_indptr"], arrays["hop"], index.n_left)
    hashes = hash_ids(arrays["left_ids"], arrays["right_ids"], index.swapped)
    n_rows = device.to_host(xp.diff(earlier_indptr) + xp.diff(arrays["hop_indptr"])).astype(np.int64)
    degree = device.to_host(xp.diff(arrays["indptr"])).astype(np.int64)
    return MaximalRoots(earlier_indptr, earlier, *hashes, n_rows, n_rows * ((degree + 31) // 32))


def root_arguments(index: BicliqueDeviceIndex, roots: MaximalRoots) -> tuple[Any, ...]:
    """Return ROOT_PARAMETERS of root_rows.cuh."""
    rows = (index.arrays[name] for name in ("indptr", "columns", "hop_indptr", "hop"))
    return (*rows, roots.earlier_indptr, roots.earlier)


def group_pieces(
    device: Device, index: BicliqueDeviceIndex, roots: MaximalRoots, bounds: Sequence[int]
) -> Iterator[list[int]]:
    """Cut the pieces between the first and the last of ``bounds`` where the matrices of more do not fit.

    Each group is the bounds of its slices.

    Raises
    ------
    LeaseTooLargeError
        When the matrix of one root does not fit; before any other group than those yielded.
    """
    room = int(_MATRIX_FRACTION * device.free_bytes()) // 4
    pieces = index.item_root[bounds[0] : bounds[-1]]
    if int(roots.matrix_words[np.unique(pieces)].sum()) <= room:
        yield list(bounds)
        return
    group, held, used = [bounds[0]], set[int](), 0
    ends = iter(bounds[1:])
    end = next(ends)
    for piece, root in enumerate(pieces.tolist(), bounds[0]):
        if root not in held and used + int(roots.matrix_words[root]) > room:
            if not held:
                raise LeaseTooLargeError(
                    f"the rows around one vertex take {4 * int(roots.matrix_words[root])} bytes of device memory; "
                    f"{4 * room} bytes are for them: use a device with more memory, or --engine cpu"
                )
            yield [*group, piece]
            group, held, used = [piece], set(), 0
        if root not in held:
            used += int(roots.matrix_words[root])
            held.add(root)
        if piece + 1 == end:
            group.append(end)
            end = next(ends, -1)
    yield group


def fill_matrices(
    device: Device, index: BicliqueDeviceIndex, roots: MaximalRoots, first: int, last: int
) -> Matrices:
    """Return the matrices of the roots of the pieces ``[first, last)``, of which there is one at least."""
    xp = device.xp
    vertices = np.unique(index.item_root[first:last])
    ends = np.cumsum(roots.matrix_words[vertices])
    starts = np.zeros(index.n_left, np.int64)
    starts[vertices[1:]] = ends[:-1]
    module = device.load("maximal_rows", {})
    words = xp.empty(int(ends[-1]), dtype=np.uint32)
    given = root_arguments(index, roots)
    listed = (device.to_device(vertices.astype(np.int32)), device.to_device(ends), np.int32(vertices.size))
    launch_over(device, module, "maximal_fill", int(ends[-1]), *given, *listed, words)
    taken, taken_hash = (xp.zeros(index.n_left, dtype=each) for each in (np.int32, np.uint64))
    launch_over(
        device, module, "maximal_close", 32 * vertices.size, *given, *listed, words, roots.left_hash, taken, taken_hash
    )  # fmt: skip
    return Matrices(words, device.to_device(starts), taken, taken_hash)
