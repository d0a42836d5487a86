"""Numbers on which launchers and CUDA sources must agree, defined only here.

Every compilation gets all of them by ``-D`` (:func:`with_constants`). The sources define no values of their own, but
assert the values that follow from the layout of a struct.
"""

from __future__ import annotations

from collections.abc import Mapping

from papilio.kernels.peel.phases import BIN_BITS as BIN_BITS

LEAF_BINS = 32
"""Number of sizes that a warp counts in shared memory (leaves.cuh)."""

LEAF_WORDS = LEAF_BINS * 32 // 2
"""Words of these counters: 16 bits for each size and lane."""

DENSE_BINS, DENSE_LEAVES = 256, 1 << 31
"""Larger sizes that a block counts in shared memory, and leaves of a size after which they go to device memory."""

KEPT_WORDS = 2
"""Maximum words of 32 columns for which the rows of a child keep the columns of the root (biclique_blocks.cu)."""

SLICED_COLUMNS, SLICED_ROWS, SLICED_NARROW = 124, 40, 48
"""Maximum columns and minimum rows for counting pairs of rows by slices; the last is the minimum for rows of one or two
words (pairs.cuh)."""

RUN_ROWS, RUN_WORDS = 384, 960
"""Rows of the lists that a warp counts together, and words of shared memory for them (pairs.cuh)."""

SIDE_BITS = 16
"""Bits for the number of held, or free, vertices of a side in a key of leaves (pivot_tree.cuh)."""

BIT_PLANES = 12
"""Bit planes of the counters of rows, which count to 2^12 (bit_matrix.cuh)."""

SHORT_ROWS, SHORT_BELOW = 127, 32
"""Maximum rows of a list, and maximum mean rows of the lists below its rows, for counting these lists together
(subset_tree.cuh)."""

SUBSET_FRAME_WORDS, PIVOT_FRAME_WORDS, VERTEX_FRAME_WORDS = 10, 4, 14
"""Words of a frame: of enumeration, of pivots without its sets, of enumeration for vertices."""

MAXIMAL_NODE_WORDS, MAXIMAL_WIDE_WORDS = 16, 12
"""Words of a node of at most 64 columns and of a wider node, without their sets (maximal_narrow.cuh, maximal.cu)."""

MAXIMAL_SIDE, MAXIMAL_SEEN = 32, 128
"""Sizes below the first are counted in shared memory; the second is the number of rows searched for equal ones
(maximal_counts.cuh, maximal_narrow.cuh)."""

MAXIMAL_TABLE_WORDS = 3 * 256
"""Words of the table of the sets of up to 8 columns (maximal_subsets.cuh)."""

TRADE_THREADS, TRADE_SMALL = 256, 256
"""Threads of a block that trades pairs of rows, and maximum entries of a pair that a warp trades (trade.cu)."""

SUM_WORDS = 2
"""Words of the sum of a vertex."""

LANE_WORDS = 32 * (32 + 39)
"""Words of shared memory of a warp whose lanes each search for cliques: a row for each of 32 vertices, and frames
(clique_lanes.cuh)."""

CLIQUE_SUM_WORDS = 3
"""Words of the final sum of cliques of one size (clique_lanes.cuh)."""

OUTER_MATRIX_WORDS = 20
"""Words that describe the matrix to return to from the matrix of a node (clique.cu)."""

MAXIMAL_LANE_WORDS = 32 * (4 * 32 + 5 * 16)
"""The same for maximal cliques: rows of both kinds, hashes in two words, and frames (clique_maximal_lanes.cuh)."""

LENGTH_BITS, LONG_ROW = 24, 4096
"""Bits of the length of a record next to its place (records.cuh); maximum row length that a warp sorts (records.cu)."""

QUEUE_PENDING, QUEUE_STATE_WORDS, QUEUE_END_WORDS = 32, 96, 64
"""Place of the number of unfinished items in the state of a launch, words of the state, and of the ends of a queue."""

WARP_PLANES, BLOCK_PLANES, LARGE_PLANES = 8, 13, 20
"""Bit planes of the counters of hub columns, if a warp, a block or a large block counts a start (butterfly.cu)."""

DENSE_8_BELOW, DENSE_16_BELOW = 1 << 8, 1 << 16
"""Degrees below which dense counters, which no count exceeds, have 8 bits and 16 bits."""

TABLE_THREADS, CENSUS_SLOT_WORDS = 512, 3
"""Maximum threads of a block with a table, and words of a slot in the hash table of a census."""

PAIR_BINS = 256
"""Minimum size of the histogram of pairs by shared vertices (biclique_index.cu)."""

COUNT_PAIRS, WRITE_PAIRS, SUM_PAIRS = 0, 1, 2
"""Passes over the wedges of all roots (biclique_index.cu)."""

PEEL_GROUP = 8
"""Lanes that work on one entry of a list (peeling.cuh)."""

LEVEL_BINS = 1024
"""Core numbers below it are counted in shared memory (core.cu)."""

SPAN_PAIR_BITS = 33
"""Bits of the number of a pair in a key of a spanning forest (forest.cu)."""

NO_SUPPORT = 2**63 - 1
"""A value above every support."""

COUNTER_LEAST, COUNTER_ROUND, COUNTER_UPDATES, COUNTER_WORDS = 4, 6, 7, 8
"""Places in the counters of a team, and the number of counters, in 64-bit words (peeling.cuh)."""

CONSTANTS: Mapping[str, int] = {
    name: value for name, value in globals().items() if name.isupper() and name != "LEAF_WORDS"
}
"""All constants, by macro name; the sources derive LEAF_WORDS from LEAF_BINS."""


def with_constants(defines: Mapping[str, int]) -> dict[str, int]:
    """Return the defines of a compilation: the constants and its own defines."""
    return {**CONSTANTS, **defines}
