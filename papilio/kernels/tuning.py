"""Launch constants, as data: rows by motif and architecture, with a generic fall-through.

A row is chosen by :func:`wedge_tuning`; a row that cites a benchmark was measured there, the generic row
follows from the sizes of shared memory and registers alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from papilio.kernels.device.constants import BLOCK_PLANES, TABLE_THREADS, WARP_PLANES


@dataclass(frozen=True)
class TableClass:
    """One way to launch a counter-table kernel."""

    kernel: str  # ``dense``, ``hash`` or, for pairs, ``slab``: counters in device memory
    threads: int  # Fewest threads per block
    table_bytes: int  # Shared memory of the table, in bytes (hash: 8 per slot, a power of two of slots)
    # Most wedges of a start in this class; for ``hash`` at most 5/8 of the slots, so the table is never full
    max_wedges: int

    def __post_init__(self) -> None:
        # Probing ends at an empty slot.
        assert self.kernel != "hash" or 64 * self.max_wedges <= 5 * self.table_bytes


@dataclass(frozen=True)
class WedgeTuning:
    """Constants of the wedge engine on one architecture."""

    hub_words: int = 2  # 32-bit words of the hub bit matrix per lane; 1024 hub columns each
    hub_min_wedges: int = 20  # Hub wedges per entry from which a start goes through the bit matrix
    hub_least_wedges: int = (
        1 << 24
    )  # Hub wedges of all starts from which the bit matrix is worth its launches
    # Largest share of free device memory for the bit matrix; beyond it the tables do all
    hub_memory_fraction: float = 0.25
    # Starts up to this many wedges and neighbours go to the match kernel (one window of a warp)
    match_max_wedges: int = 32
    # Tried in this order; the last one, dense, takes everything by tiles
    tables: tuple[TableClass, ...] = (
        TableClass("dense", 128, 8 << 10, 8192),
        TableClass("hash", 64, 8 << 10, 640),
        TableClass("dense", 256, 16 << 10, 1 << 15),
        TableClass("dense", 256, 32 << 10, 1 << 16),
        TableClass("hash", 128, 16 << 10, 1280),
        TableClass("hash", 256, 32 << 10, 2560),
        TableClass("dense", 512, 48 << 10, 1 << 62),
        TableClass("dense", 512, 96 << 10, 1 << 62),
        TableClass("hash", 512, 64 << 10, 5120),
        TableClass("hash", 512, 128 << 10, 10240),
        TableClass("dense", 512, 96 << 10, 1 << 62),
    )
    # Bytes of counters that no count passes from which narrower ones are tried, where hub ends are counted elsewhere
    narrow_bytes: int = 16 << 10
    # Most items that a warp takes from the counter at once; as many warps of a multiprocessor get some first
    warp_items: int = 16
    warp_share: int = 64
    # Degrees from which the planes of one start are counted by a block of ``block_threads`` or ``large_threads``
    block_degree: int = 256
    large_degree: int = 1 << 13
    block_threads: int = 256
    crowd_threads: int = 64  # Fewest of these, where there are many starts
    large_threads: int = 512
    # Blocks have more threads, up to their most, while those of all starts are no more than this for a multiprocessor
    sm_threads: int = 4096
    # Blocks share a start of so many wedges and entries that is also more than one of ``split_share`` parts of what
    # each multiprocessor has to do; they have counters in ``split_bytes`` of device memory
    split_least: int = 1 << 18
    split_share: int = 4
    split_bytes: int = 32 << 20
    split_threads: int = 512
    split_table_bytes: int = 32 << 10
    blocks_per_sm: int = 32  # Persistent blocks per multiprocessor: at least as many as can be resident

    def __post_init__(self) -> None:
        # One window of a warp; what the planes of butterfly.cu hold; 16 bits for each kind in a slot of a census.
        assert max(self.match_max_wedges, self.warp_items) <= 32
        assert self.block_degree <= 1 << WARP_PLANES
        assert self.large_degree <= 1 << BLOCK_PLANES
        assert all(table.max_wedges < 1 << 16 for table in self.tables if table.kernel == "hash")
        assert max(self.split_threads, *(table.threads for table in self.tables)) <= TABLE_THREADS


_GENERIC = WedgeTuning(
    # 64 KiB of shared memory per block is what every architecture from sm_75 on offers.
    tables=(
        TableClass("dense", 128, 8 << 10, 8192),
        TableClass("hash", 64, 8 << 10, 640),
        TableClass("dense", 256, 16 << 10, 1 << 15),
        TableClass("dense", 256, 32 << 10, 1 << 16),
        TableClass("hash", 128, 16 << 10, 1280),
        TableClass("hash", 256, 32 << 10, 2560),
        TableClass("dense", 512, 48 << 10, 1 << 62),
    ),
    large_threads=256,
)
_HOPPER = WedgeTuning()


def wedge_tuning(max_shared_bytes: int) -> WedgeTuning:
    """Return the row for a device by the shared memory that one block can have, in bytes.

    That is 227 KiB on sm_90 and sm_100, 163 KiB on sm_80, 99 KiB on sm_86 and sm_89, 64 KiB on sm_75.
    """
    return _HOPPER if max_shared_bytes >= 160 << 10 else _GENERIC


@dataclass(frozen=True)
class TreeTuning:
    """Constants of the bitmap-tree engine on one architecture."""

    threads: int = 128  # Threads per block; a warp owns a work item
    # Blocks that a multiprocessor has registers for when it enumerates, pivots or counts for vertices
    blocks_per_sm: tuple[int, int, int] = (4, 4, 3)
    # Words of shared memory that a warp has for its matrix and lists, a multiple of 4; what does not fit lies in
    # device memory
    near_words: int = 2032
    # The same where a block counts pairs of the children of a root: blocks, and words of each warp
    pair_blocks_per_sm: int = 7
    pair_near_words: int = 768
    # The same where it counts triples of them
    list_blocks_per_sm: int = 5
    list_near_words: int = 1248
    # Words of device memory per warp that divide the work items into classes, rising
    far_words: tuple[int, ...] = (1 << 14, 1 << 17, 1 << 20)
    # Sub-trees that the queue of a launch holds, a power of two from 2 on; 0: sub-trees are never left to others
    slots: int = 512
    slot_words: int = 1 << 14  # Largest sub-tree that is left to others, in words
    check_steps: int = 8  # Steps of about 32 words between two looks for warps that wait
    # Largest share of free device memory for what does not fit into shared memory
    slab_fraction: float = 0.25
    # Estimated set operations that are worth a warp: a launch has no more warps, nor fewer than for its items
    share_cost: int = 1 << 12
    leaf_slots: int = 1 << 18  # Slots of the table of leaves at first, a power of two; it grows by itself


_CLIQUES = TreeTuning(
    threads=256, blocks_per_sm=(2, 2, 2), near_words=960, slots=1 << 10, slot_words=1 << 15, check_steps=16,
    share_cost=1 << 6,
)  # fmt: skip
_MAXIMAL_CLIQUES = replace(_CLIQUES, threads=128, near_words=192, slot_words=1 << 13)
_MAXIMAL = TreeTuning(blocks_per_sm=(2, 2, 2), near_words=1024, check_steps=32, share_cost=8)

_TREES = {
    "biclique": (
        TreeTuning(),
        TreeTuning(
            blocks_per_sm=(2, 2, 1), near_words=1024, pair_blocks_per_sm=4, list_blocks_per_sm=2, list_near_words=512
        ),
    ),
    "maximal": (replace(_MAXIMAL, near_words=2016, far_words=(1 << 19, 1 << 22)), _MAXIMAL),
    # Blocks of 8 warps, whose lanes take most of the shared memory. The predicted cost says little of the work below a
    # root, so that few set operations are worth a warp.
    "clique": (_CLIQUES, replace(_CLIQUES, blocks_per_sm=(1, 1, 1), near_words=512, threads=128)),
    # Lanes take 26 KiB of shared memory for each warp.
    "clique_maximal": (_MAXIMAL_CLIQUES, replace(_MAXIMAL_CLIQUES, blocks_per_sm=(1, 1, 1), threads=32)),
}  # fmt: skip
"""Rows of searches, by the source of their kernel: for devices as sm_80 and sm_90, and for less shared memory."""


def tree_tuning(stem: str, max_shared_bytes: int) -> TreeTuning:
    """Return the row of a search for a device by the shared memory that one block can have, in bytes."""
    return _TREES[stem][max_shared_bytes < 160 << 10]


@dataclass(frozen=True)
class PairTuning:
    """Constants of the pass over the wedges that finds pairs of left vertices, on one architecture."""

    # Tried in this order, by the wedges of a root and, for ``dense``, by whether a counter of 4 bytes for each of
    # its possible ends fits the table; the last one, ``slab``, takes everything
    tables: tuple[TableClass, ...] = (
        TableClass("hash", 32, 8 << 10, 640),
        TableClass("hash", 128, 32 << 10, 2560),
        TableClass("dense", 256, 32 << 10, 1 << 62),
        TableClass("dense", 512, 96 << 10, 1 << 62),
        TableClass("hash", 512, 128 << 10, 10240),
        # One block per multiprocessor: its registers allow no second one of 1,024 threads.
        TableClass("dense", 1024, 200 << 10, 1 << 62),
        TableClass("slab", 512, 0, 1 << 62),
    )
    blocks_per_sm: int = 32  # Persistent blocks per multiprocessor: at least as many as can be resident
    # The same for ``slab``, each block of which takes 8 bytes of device memory per left vertex
    slabs_per_sm: int = 4
    slab_fraction: float = 0.25  # Largest share of free device memory for those
    # Largest share of free device memory for the pairs, at the peak while they are sorted; a quarter of it is
    # held later, when the search takes its share
    pair_fraction: float = 0.9


_GENERIC_PAIRS = PairTuning(
    # 64 KiB of shared memory per block is what every architecture from sm_75 on offers.
    tables=(
        TableClass("hash", 32, 8 << 10, 640),
        TableClass("hash", 128, 32 << 10, 2560),
        TableClass("dense", 256, 32 << 10, 1 << 62),
        TableClass("slab", 512, 0, 1 << 62),
    ),
)


def pair_tuning(max_shared_bytes: int) -> PairTuning:
    """Return the row for a device by the shared memory that one block can have, in bytes."""
    return PairTuning() if max_shared_bytes >= 160 << 10 else _GENERIC_PAIRS
