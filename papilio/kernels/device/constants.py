"""Numbers that launchers and CUDA sources must agree on: here is where they are set.

Every compilation gets all of them by ``-D`` (:func:`with_constants`). The sources have no values of their own, but
assert those that follow from the layout of a struct.
"""

from __future__ import annotations

from collections.abc import Mapping

from papilio.kernels.peel.phases import BIN_BITS as BIN_BITS

LEAF_BINS = 32
"""Sizes that a warp counts in shared memory (leaves.cuh)."""

LEAF_WORDS = LEAF_BINS * 32 // 2
"""Words of those counters: 16 bits for each size and lane."""

DENSE_BINS, DENSE_LEAVES = 256, 1 << 31
"""Sizes beyond those that a block counts in shared memory, and leaves of one size that are brought to device memory."""

KEPT_WORDS = 2
"""Words of 32 columns up to which the rows of a child keep the columns of the root (biclique_blocks.cu)."""

SLICED_COLUMNS, SLICED_ROWS, SLICED_NARROW = 124, 40, 48
"""Columns up to which, and rows from which, pairs of rows are counted by slices; rows of one or two words from the last
(pairs.cuh)."""

RUN_ROWS, RUN_WORDS = 384, 960
"""Rows of the lists that a warp counts together, and words of shared memory that it has for them (pairs.cuh)."""

SIDE_BITS = 16
"""Of the number of vertices of a side that is held, or free, in a key of leaves (pivot_tree.cuh)."""

BIT_PLANES = 12
"""Planes of the counters of rows: they count to 2^12 (bit_matrix.cuh)."""

SHORT_ROWS, SHORT_BELOW = 127, 32
"""Rows of a list, and in the mean of the lists below its rows, up to which these are counted together
(subset_tree.cuh)."""

SUBSET_FRAME_WORDS, PIVOT_FRAME_WORDS, VERTEX_FRAME_WORDS = 10, 4, 14
"""Words of a frame: of enumeration, of pivots beside its sets, of enumeration for vertices."""

MAXIMAL_NODE_WORDS, MAXIMAL_WIDE_WORDS = 16, 12
"""Words of a node of at most 64 columns and of a wider one, beside their sets (maximal_narrow.cuh, maximal.cu)."""

MAXIMAL_SIDE, MAXIMAL_SEEN = 32, 128
"""Sizes below the first are counted in shared memory; rows in which equal ones are looked for (maximal_counts.cuh,
maximal_narrow.cuh)."""

MAXIMAL_TABLE_WORDS = 3 * 256
"""Words of the table of the sets of up to 8 columns (maximal_subsets.cuh)."""

PROBE_PAIRS = 32
"""Pairs of rows that stand for all pairs of a list where a search is only probed (biclique_probe.cu)."""

PROBE_SIDE = 64
"""Rows or columns, whichever are fewer, up to which they count in the bound of a child (maximal_probe.cu)."""

PROBE_ENTRY_WORDS, PROBE_ROW_WORDS, PROBE_WIDE_WORDS = 8, 16, 16
"""Words that the search for maximal bicliques intersects in the time of an entry that it meets around a root or child,
of a row that it meets, and of a word of rows that have several."""

PROBE_REPEATS = 4
"""Sets of rows that are drawn below a child, which took most of the time to open (biclique_probe.cu)."""

TRADE_THREADS = 512
"""Most threads of a block that trades a pair of rows (trade.cu)."""

LOT_BITS = 24
"""Lots of the heaviest of what is drawn by weight are 2^24 (probe.cuh)."""

SUM_WORDS = 2
"""Words of a sum of a vertex."""

LANE_WORDS = 32 * (32 + 39)
"""Words of shared memory of a warp whose lanes search cliques each: a row of each of 32 vertices, and frames
(clique_lanes.cuh)."""

CLIQUE_SUM_WORDS = 3
"""Numbers that a sum of cliques of one size ends in (clique_lanes.cuh)."""

MAXIMAL_LANE_WORDS = 32 * (4 * 32 + 5 * 16)
"""The same for maximal cliques: rows of both kinds, hashes in two words, and frames (clique_maximal_lanes.cuh)."""

LENGTH_BITS, LONG_ROW = 24, 4096
"""Of the words of a record beside its place (records.cuh); vertices of a row that a warp still sorts (records.cu)."""

QUEUE_PENDING, QUEUE_STATE_WORDS, QUEUE_END_WORDS = 32, 96, 64
"""Place of the number of unfinished items in the state of a launch, words of it, and of the ends of a queue."""

WARP_PLANES, BLOCK_PLANES, LARGE_PLANES = 8, 13, 20
"""Bit planes of the counters of hub columns where a warp, a block or a large block counts a start (butterfly.cu)."""

DENSE_8_BELOW, DENSE_16_BELOW = 1 << 8, 1 << 16
"""Degrees below which dense counters that no count passes have 8 bits, and 16."""

TABLE_THREADS, CENSUS_SLOT_WORDS = 512, 3
"""Most threads of a block with a table, and words of a slot of a hash table of a census."""

PAIR_BINS = 256
"""Least size of the histogram of pairs by shared vertices (biclique_index.cu)."""

COUNT_PAIRS, WRITE_PAIRS, SUM_PAIRS = 0, 1, 2
"""Passes over the wedges of all roots (biclique_index.cu)."""

PEEL_GROUP = 8
"""Lanes that work on one entry of a list (peeling.cuh)."""

SPAN_PAIR_BITS = 33
"""Of the number of a pair in a key of a spanning forest (forest.cu)."""

NO_SUPPORT = 2**63 - 1
"""Above every support."""

COUNTER_LEAST, COUNTER_ROUND, COUNTER_UPDATES, COUNTER_WORDS = 4, 6, 7, 8
"""Places in the counters of a team, and their number, in 64-bit words (peeling.cuh)."""

CONSTANTS: Mapping[str, int] = {
    name: value for name, value in globals().items() if name.isupper() and name != "LEAF_WORDS"
}
"""All of them, by the name of their macro; LEAF_WORDS follows from LEAF_BINS in the sources, too."""


def with_constants(defines: Mapping[str, int]) -> dict[str, int]:
    """Return the defines of a compilation: the constants, and its own."""
    return {**CONSTANTS, **defines}
