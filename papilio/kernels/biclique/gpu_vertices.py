"""(p,q)-bicliques of every vertex on the GPU, for one p and one q: ``biclique_vertices.cu``, by enumeration.

Sums of vertices are kept modulo 2^64 and are exact beside the total, which is worked out on the host from the number of
sets of left vertices by the right ones that they share; see :mod:`papilio.kernels.biclique.vertices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.decisions import Choice
from papilio.kernels.biclique.forms import choose_modulo, expand_sizes
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.biclique.question import BicliqueQuestion
from papilio.kernels.biclique.signed_cover import fold_vectors
from papilio.kernels.device.constants import LEAF_WORDS, SUM_WORDS, VERTEX_FRAME_WORDS
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import Cut, Partial
from papilio.kernels.tree.launch import Arguments, TreeLauncher
from papilio.kernels.tree.layout import TreeClass, explain_layout, make_classes
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Biclique

__all__ = ["PreparedVerticesGpu", "prepare_vertices", "run_vertices"]

_SPARE_WORDS = 64
"""What rounding up takes, beside that of the lists."""


@dataclass(frozen=True, eq=False)
class PreparedVerticesGpu:
    """A graph ready for :func:`run_vertices`.

    Attributes
    ----------
    motif : Biclique
    index : BicliqueDeviceIndex
        With its pairs.
    right_indptr : device array of int64, shape (n_right + 1,)
        Row offsets of the right vertices.
    right_rows : device array of int32, shape (n_edges of the core,)
        Left vertices of each right one, ascending.
    sets, members : device array of uint64, shape (most shared right vertices + 1,)
        C(n, q) and C(n - 1, q - 1) modulo 2^64, by n.
    classes : tuple of TreeClass
        Size classes of the work items.
    layers : tuple of int
        Sizes of U and V, of the cover for balanced bicliques.
    stars : dict of str to ndarray of uint64, host
        The answer for every vertex where p or q is 1; else empty.
    decisions : tuple of (str, str)
        What was decided, and why.
    """

    motif: Biclique
    index: BicliqueDeviceIndex
    right_indptr: Any
    right_rows: Any
    sets: Any
    members: Any
    classes: tuple[TreeClass, ...]
    layers: tuple[int, int]
    stars: dict[str, NDArray[np.uint64]]
    decisions: tuple[Choice, ...]

    @property
    def n_items(self) -> int:
        """Number of work items."""
        return self.index.n_items

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        extra = (self.right_indptr, self.right_rows, self.sets, self.members)
        return self.index.device_bytes + sum(int(array.nbytes) for array in extra)


def prepare_vertices(
    device: Device,
    question: BicliqueQuestion,
    index: BicliqueDeviceIndex,
    rights: tuple[Any, Any],
    tuning: TreeTuning,
    decisions: tuple[Choice, ...],
) -> PreparedVerticesGpu:
    """Add to an index what counts of vertices need.

    Parameters
    ----------
    device : Device
    question : BicliqueQuestion
        With p and q; its source has its edges on the host or the device.
    index : BicliqueDeviceIndex
        With its pairs.
    rights : tuple of device arrays
        Offsets and rows of the right layer.
    tuning : TreeTuning
    decisions : tuple of (str, str)
        What was decided, and why.
    """
    most, least_right = int(index.item_common.max(initial=0)), index.sizes.least_right
    sets = choose_modulo(most, least_right)
    members = np.zeros_like(sets)
    members[1:] = choose_modulo(most, least_right - 1)[:-1]
    source, searched = question.source, question.searched
    stars = {}
    if index.closed_cells:
        ids = device.to_host(source.u), device.to_host(source.v)
        stars = question.star_vectors(BipartiteGraph(source.n_u, source.n_v, *ids))
    classes = make_classes(_estimate_need(index), tuning) if index.n_pairs else ()
    if classes:
        decisions = (*decisions, *explain_layout(device, _alone(tuning), classes, *_block_shape(tuning)))
    return PreparedVerticesGpu(
        motif=question.motif,
        index=index,
        right_indptr=rights[0],
        right_rows=rights[1],
        sets=device.to_device(sets),
        members=device.to_device(members),
        classes=classes,
        layers=(searched.n_u, searched.n_v),
        stars=stars,
        decisions=decisions,
    )


def _alone(tuning: TreeTuning) -> TreeTuning:
    """Return the tuning of launches whose warps leave nothing to others."""
    return replace(tuning, slots=0)


def _block_shape(tuning: TreeTuning) -> tuple[int, int]:
    """Return the words of shared memory that each warp has for counters, and blocks by registers."""
    return LEAF_WORDS, tuning.blocks_per_sm[2]


def run_vertices(
    device: Device,
    prepared: PreparedVerticesGpu,
    tuning: TreeTuning,
    bounds: Sequence[int],
    cut: Cut,
) -> tuple[Partial, NDArray[np.uint64]]:
    """Count the vertices for the items from ``bounds[0]`` to ``bounds[-1]``, or the first of them if the run is cut.

    Parameters
    ----------
    device : Device
    prepared : PreparedVerticesGpu
    tuning : TreeTuning
    bounds : sequence of int
        Where slices begin and end, rising.
    cut : callable
        Once it is true no further slice begins.

    Returns
    -------
    Partial
    ndarray of uint64
        Words of 32 bits that each block of threads intersected.

    Raises
    ------
    LeaseTooLargeError
        When the device has no room for the search of one block.
    """
    index, start, end = prepared.index, bounds[0], bounds[-1]
    vectors = {layer: np.zeros(n, np.uint64) for layer, n in zip("uv", prepared.layers, strict=True)}
    total, block_words = 0, np.zeros(0, np.uint64)
    if start < end and prepared.classes:
        search = _Search(device, prepared)
        end, block_words = search.run(tuning, bounds, cut)
        total = search.add_to(vectors)
    elif start == 0 < end and prepared.stars:
        stars = {layer: vector.copy() for layer, vector in prepared.stars.items()}
        return Partial(end - start, index.closed_total, 0, stars), block_words
    if prepared.motif.needs_signs:
        vectors = fold_vectors(vectors)
    return Partial(end - start, total, (int(block_words.sum()) + 1) // 2, vectors), block_words


class _Search:
    """Sums of one run, on the device: left sets by the right vertices that they share, bicliques of vertices."""

    def __init__(self, device: Device, prepared: PreparedVerticesGpu) -> None:
        index, xp = prepared.index, device.xp
        self.device, self.prepared = device, prepared
        self.sums, self.of_left, self.of_right = (
            xp.zeros(n, dtype=np.uint64) for n in (prepared.sets.size, index.n_left, index.n_right)
        )

    def run(self, tuning: TreeTuning, bounds: Sequence[int], cut: Cut) -> tuple[int, NDArray[np.uint64]]:
        """Launch the slices; return the item at which the run ended, and the words that blocks intersected."""
        index = self.prepared.index
        fixed_words, blocks_per_sm = _block_shape(tuning)
        module = self.device.load("biclique_vertices", {"MIN_BLOCKS": blocks_per_sm})
        launcher = TreeLauncher(
            self.device,
            _alone(tuning),
            module.get_function("biclique_vertices"),
            self.prepared.classes,
            index.pieces_at(bounds),
            index.costs,
            fixed_words,
            blocks_per_sm,
        )
        n_slices = launcher.run(cut, self._arguments)
        return bounds[n_slices], self.device.to_host(launcher.block_words)

    def _arguments(self, items: Any, n_items: np.int32, schedule: Arguments, block_words: Any) -> Arguments:
        """Return the arguments of the kernel; nothing is left to others, so that only the first item is read."""
        prepared, sizes = self.prepared, self.prepared.index.sizes
        near_words, slab, far_words, state = schedule[:4]
        rows = ("indptr", "columns", "hop_indptr", "hop", "hop_common")
        return (
            *(prepared.index.arrays[name] for name in rows),
            prepared.right_indptr,
            prepared.right_rows,
            *(prepared.index.arrays[name] for name in ("item_root", "item_first", "item_last")),
            items,
            n_items,
            np.int32(sizes.least_left - 2),
            np.int32(sizes.least_right),
            near_words,
            slab,
            far_words,
            state,
            prepared.sets,
            prepared.members,
            self.sums,
            self.of_left,
            self.of_right,
            block_words,
        )

    def add_to(self, vectors: dict[str, NDArray[np.uint64]]) -> int:
        """Add the sums to those of the original vertices; return the total."""
        index, to_host = self.prepared.index, self.device.to_host
        left, right = ("v", "u") if index.swapped else ("u", "v")
        vectors[left][to_host(index.arrays["left_ids"])] += to_host(self.of_left)
        vectors[right][to_host(index.arrays["right_ids"])] += to_host(self.of_right)
        sums, sizes = to_host(self.sums), index.sizes
        shared = {int(n): int(sums[n]) for n in np.flatnonzero(sums)}
        rights = range(sizes.least_right, sizes.least_right + 1)
        return sum(expand_sizes(shared, sizes.least_left, rights).values())


def _estimate_need(index: BicliqueDeviceIndex) -> NDArray[np.int64]:
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
