"""Launch constants, as data: rows by motif and architecture, with a generic row for other devices.

:func:`wedge_tuning`, :func:`tree_tuning` and :func:`pair_tuning` choose a row. A row that cites a benchmark was
measured there; the generic row follows from the sizes of shared memory and registers alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from papilio.kernels.device.constants import BLOCK_PLANES, TABLE_THREADS, WARP_PLANES


@dataclass(frozen=True)
class TableClass:
    """One way to launch a counter-table kernel."""

    kernel: str  # ``dense``, ``hash`` or, for pairs, ``slab``: counters in device memory
    threads: int  # Minimum threads per block
    table_bytes: int  # Shared memory of the table, in bytes (hash: 8 per slot, a power of two of slots)
    # Maximum wedges of a start in this class; for ``hash`` at most 5/8 of the slots, so the table is never full
    max_wedges: int

    def __post_init__(self) -> None:
        # Probing ends at an empty slot.
        assert self.kernel != "hash" or 64 * self.max_wedges <= 5 * self.table_bytes


@dataclass(frozen=True)
class WedgeTuning:
    """Constants of the wedge engine on one architecture."""

    hub_words: int = 2  # 32-bit words of a tile of the hub bit matrix per lane
    hub_min_wedges: int = 20  # Minimum hub wedges per entry for a start to use the bit matrix
    hub_least_wedges: int = 1 << 24  # Minimum hub wedges of all starts for the bit matrix to be worth its launches
    # Per vertex the minimum for each tile of columns, and entries that take as long as filling the table of a tile: a
    # row of a tile takes some 80 instructions of a warp, as many as 30 to 60 wedges in tables. No other minima were
    # measured
    hub_vertex_wedges: int = 40
    hub_vertex_entries: int = 32
    # Maximum tiles of hub columns per vertex; the last has at least ``hub_tile_wedges`` wedges per entry of its layer.
    # With 0, counter tables only, an R-MAT graph of 18 million edges takes 3.4 times as long, movielens-1m 1.6 times
    # (benchmarks/results/butterfly-gpu.md)
    hub_tiles: int = 16
    hub_tile_wedges: int = 20
    # Maximum share of free device memory for the bit matrix; if it needs more, only the tables are used
    hub_memory_fraction: float = 0.25
    # Starts with at most this many wedges and neighbours use the match kernel (one window of a warp)
    match_max_wedges: int = 32
    # Tried in this order; the last one, dense, takes everything in tiles
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
    # Minimum bytes of counters for trying narrower ones that no count exceeds, if hub ends are counted elsewhere
    narrow_bytes: int = 16 << 10
    # Maximum items a warp takes from the counter at once; fewer if a multiprocessor had less than ``warp_share`` turns
    warp_items: int = 16
    warp_share: int = 64
    # Minimum degrees for counting the planes of a start by a block of ``block_threads`` or ``large_threads``
    block_degree: int = 256
    large_degree: int = 1 << 13
    block_threads: int = 256
    crowd_threads: int = 64  # Minimum for these if there are many starts
    vertex_threads: int = 128  # The same per vertex, with a table
    large_threads: int = 512
    # Blocks have more threads, up to their maximum, while the threads of all starts are at most this per multiprocessor
    sm_threads: int = 4096
    # Several blocks share a start with at least this many wedges and entries, if these also exceed 1 / ``split_share``
    # of the work of a multiprocessor; their counters take ``split_bytes`` of device memory
    split_least: int = 1 << 18
    split_share: int = 4
    split_bytes: int = 32 << 20
    split_threads: int = 512
    split_table_bytes: int = 32 << 10
    blocks_per_sm: int = 32  # Persistent blocks per multiprocessor: at least as many as can be resident

    def __post_init__(self) -> None:
        # One window of a warp; capacity of the planes of butterfly.cu; 16 bits for each kind in a slot of a census.
        assert max(self.match_max_wedges, self.warp_items) <= 32
        assert self.block_degree <= 1 << WARP_PLANES
        assert self.large_degree <= 1 << BLOCK_PLANES
        assert all(table.max_wedges < 1 << 16 for table in self.tables if table.kernel == "hash")
        assert max(self.split_threads, *(table.threads for table in self.tables)) <= TABLE_THREADS

    @property
    def tile_columns(self) -> int:
        """Return the hub columns of a tile: a bit for each in the words of a warp."""
        return 1024 * self.hub_words


_GENERIC = WedgeTuning(
    # Every architecture from sm_75 on has 64 KiB of shared memory per block.
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
    """Return the row for a device with this much shared memory per block, in bytes.

    The shared memory is 227 KiB on sm_90 and sm_100, 163 KiB on sm_80, 99 KiB on sm_86 and sm_89, 64 KiB on sm_75.
    """
    return _HOPPER if max_shared_bytes >= 160 << 10 else _GENERIC


@dataclass(frozen=True)
class TreeTuning:
    """Constants of the bitmap-tree engine on one architecture."""

    threads: int = 128  # Threads per block; a warp owns a work item
    # Blocks per multiprocessor, limited by registers, for enumerating, pivoting and counting per vertex
    blocks_per_sm: tuple[int, int, int] = (4, 4, 4)
    # Words of shared memory of a warp for its matrix and lists, a multiple of 4; larger ones lie in device memory
    near_words: int = 2032
    # The same for counting pairs of the children of a root: blocks, and words of each warp
    pair_blocks_per_sm: int = 7
    pair_near_words: int = 768
    # The same for counting triples of children
    list_blocks_per_sm: int = 5
    list_near_words: int = 1248
    # Limits of the classes of work items, in words of device memory per warp, ascending: where memory is short, a class
    # has as many warps as its largest item allows
    far_words: tuple[int, ...] = (1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
    # Sub-trees in the queue of a launch, a power of two of at least 2; 0: warps do not share sub-trees
    slots: int = 512
    slot_words: int = 1 << 14  # Largest sub-tree that is shared, in words
    check_steps: int = 8  # Steps of about 32 words between checks for waiting warps
    # Maximum share of free device memory for data that does not fit in shared memory
    slab_fraction: float = 0.25
    # Estimated set operations that justify a warp; a launch has at least enough warps for its items
    share_cost: int = 1 << 12
    leaf_slots: int = 1 << 18  # Initial slots of the table of leaves, a power of two; the table grows when needed


_CLIQUES = TreeTuning(
    threads=256, blocks_per_sm=(2, 2, 2), near_words=960, slots=1 << 10, slot_words=1 << 15, check_steps=16,
    share_cost=1 << 6,
)  # fmt: skip
_MAXIMAL_CLIQUES = replace(_CLIQUES, threads=128, near_words=192, slot_words=1 << 13)
_MAXIMAL = TreeTuning(blocks_per_sm=(2, 2, 2), near_words=1024, check_steps=32, share_cost=8)

_TREES = {
    # Roots with many neighbours have matrices of hundreds of megabytes.
    "biclique": (
        TreeTuning(slab_fraction=0.5),
        TreeTuning(
            blocks_per_sm=(2, 2, 1), near_words=1024, pair_blocks_per_sm=4, list_blocks_per_sm=2, list_near_words=512,
            slab_fraction=0.5,
        ),
    ),
    "maximal": (replace(_MAXIMAL, near_words=2016, far_words=(1 << 19, 1 << 22)), _MAXIMAL),
    # Blocks of 8 warps, whose lanes take most of the shared memory. The predicted cost says little about the work below
    # a root, so a few set operations are worth a warp.
    "clique": (_CLIQUES, replace(_CLIQUES, blocks_per_sm=(1, 1, 1), near_words=512, threads=128)),
    # Lanes take 26 KiB of shared memory for each warp.
    "clique_maximal": (_MAXIMAL_CLIQUES, replace(_MAXIMAL_CLIQUES, blocks_per_sm=(1, 1, 1), threads=32)),
}  # fmt: skip
"""Rows of searches, by the source of their kernel: for devices like sm_80 and sm_90, and with less shared memory."""


def tree_tuning(stem: str, max_shared_bytes: int) -> TreeTuning:
    """Return the row of a search for a device with this much shared memory per block, in bytes."""
    return _TREES[stem][max_shared_bytes < 160 << 10]


@dataclass(frozen=True)
class PairTuning:
    """Constants of the pass over the wedges that finds pairs of left vertices, on one architecture."""

    # Tried in this order, by the wedges of a root and, for ``dense``, by whether a counter of 4 bytes for each of
    # its possible ends fits in the table; the last one, ``slab``, takes everything
    tables: tuple[TableClass, ...] = (
        TableClass("hash", 32, 8 << 10, 640),
        TableClass("hash", 128, 32 << 10, 2560),
        TableClass("dense", 256, 32 << 10, 1 << 62),
        TableClass("dense", 512, 96 << 10, 1 << 62),
        TableClass("hash", 512, 128 << 10, 10240),
        # One block per multiprocessor: its registers do not allow a second block of 1,024 threads.
        TableClass("dense", 1024, 200 << 10, 1 << 62),
        TableClass("slab", 512, 0, 1 << 62),
    )
    blocks_per_sm: int = 32  # Persistent blocks per multiprocessor: at least as many as can be resident
    # The same for ``slab``; each of its blocks takes 8 bytes of device memory per left vertex
    slabs_per_sm: int = 4
    slab_fraction: float = 0.25  # Maximum share of free device memory for these blocks
    # Maximum share of free device memory for the pairs, at the peak of their sort; a quarter of it stays in use
    # later, when the search takes its share
    pair_fraction: float = 0.9


_GENERIC_PAIRS = PairTuning(
    # Every architecture from sm_75 on has 64 KiB of shared memory per block.
    tables=(
        TableClass("hash", 32, 8 << 10, 640),
        TableClass("hash", 128, 32 << 10, 2560),
        TableClass("dense", 256, 32 << 10, 1 << 62),
        TableClass("slab", 512, 0, 1 << 62),
    ),
)


def pair_tuning(max_shared_bytes: int) -> PairTuning:
    """Return the row for a device with this much shared memory per block, in bytes."""
    return PairTuning() if max_shared_bytes >= 160 << 10 else _GENERIC_PAIRS
