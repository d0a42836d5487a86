"""(p,q)-bicliques of every vertex on the GPU, for one p and one q: ``biclique_vertices.cu``, by enumeration.

Sums of vertices are kept modulo 2^64 and are exact beside the total, which is worked out on the host from the number of
sets of left vertices by the right ones that they share; see :mod:`papilio.kernels.biclique.vertices`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.forms import expand_sizes
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.biclique.question import BicliqueQuestion
from papilio.kernels.device.constants import SUM_WORDS, VERTEX_FRAME_WORDS
from papilio.kernels.device.protocol import Device
from papilio.kernels.exact import choose_modulo

_SPARE_WORDS = 64
"""What rounding up takes, beside that of the lists."""


@dataclass(frozen=True, eq=False)
class VertexTables:
    """What counts of vertices need beside the index."""

    # C(n, q) and C(n - 1, q - 1) modulo 2^64, by n up to the most right vertices that two left ones share: uint64, on
    # the device.
    sets: Any
    members: Any
    # Sizes of U and V, of the cover for balanced bicliques.
    layers: tuple[int, int]
    # The answer for every vertex where p or q is 1, on the host; else empty.
    stars: dict[str, NDArray[np.uint64]]


def make_tables(device: Device, question: BicliqueQuestion, index: BicliqueDeviceIndex) -> VertexTables:
    """Return the tables for a question with p and q, whose edges are on the host or the device."""
    most, least_right = int(index.item_common.max(initial=0)), index.sizes.least_right
    sets = choose_modulo(most, least_right)
    members = np.zeros_like(sets)
    members[1:] = choose_modulo(most, least_right - 1)[:-1]
    source, searched = question.source, question.searched
    stars = {}
    if index.closed_cells:
        ids = device.to_host(source.u), device.to_host(source.v)
        stars = question.star_vectors(BipartiteGraph(source.n_u, source.n_v, *ids))
    layers = searched.n_u, searched.n_v
    return VertexTables(device.to_device(sets), device.to_device(members), layers, stars)


class VertexSums:
    """Sums of one run, on the device: left sets by the right vertices that they share, bicliques of vertices."""

    def __init__(self, device: Device, index: BicliqueDeviceIndex, tables: VertexTables) -> None:
        self.device, self.index, self.tables = device, index, tables
        sizes = tables.sets.size, index.n_left, index.n_right
        self.sums, self.of_left, self.of_right = (device.xp.zeros(n, dtype=np.uint64) for n in sizes)

    @property
    def arguments(self) -> tuple[Any, ...]:
        sizes, tables = self.index.sizes, self.tables
        numbers = np.int32(sizes.least_left - 2), np.int32(sizes.least_right)
        sums = self.sums, self.of_left, self.of_right
        return (self.index.arrays["hop_common"], *numbers, tables.sets, tables.members, *sums)

    def add_to(self, vectors: dict[str, NDArray[np.uint64]]) -> int:
        """Add the sums to those of the original vertices; return the total."""
        index, to_host = self.index, self.device.to_host
        left, right = ("v", "u") if index.swapped else ("u", "v")
        vectors[left][to_host(index.arrays["left_ids"])] += to_host(self.of_left)
        vectors[right][to_host(index.arrays["right_ids"])] += to_host(self.of_right)
        sums, sizes = to_host(self.sums), index.sizes
        shared = {int(n): int(sums[n]) for n in np.flatnonzero(sums)}
        rights = range(sizes.least_right, sizes.least_right + 1)
        return sum(expand_sizes(shared, sizes.least_left, rights).values())


def estimate_vertex_need(index: BicliqueDeviceIndex) -> NDArray[np.int64]:
    """Return the words that a warp needs for each work item at most: sums, matrix, lists, int64 of shape (n_items,).

    With n later children and c columns shared with one of them, a list is n rows of c / 32 words and n places; there is
    one of a child, and one and a frame for every row that is taken before the last two. The last list is turned: n / 32
    words for each column.
    """
    later, degree, common = index.item_later, index.item_degree, index.item_common
    row_words, column_words = (common + 31) // 32, (later + 31) // 32
    taken = np.where(later > index.sizes.least_left - 2, max(0, index.sizes.least_left - 4), 0)
    lists = (taken + 1) * (later * (row_words + 1) + 8) + VERTEX_FRAME_WORDS * taken
    sums = SUM_WORDS * (later + degree)
    need: NDArray[np.int64] = (degree + common) * column_words + degree + sums + lists + _SPARE_WORDS
    return need
