"""List cliques on the GPU: the counting kernels leave records, ``clique_order.cu`` turns them into rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import UnipartiteGraph
from papilio.kernels.clique.gpu import (
    CliqueGpu,
    MaximalCliqueGpu,
    PreparedCliqueGpu,
    PreparedMaximalCliqueGpu,
)
from papilio.kernels.clique.list import refuse_counting
from papilio.kernels.clique.question import restrict_graph
from papilio.kernels.device.arrays import make_offsets
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.engine import require_request
from papilio.kernels.exact import mix
from papilio.kernels.listing import cut_chunks
from papilio.kernels.probe import Prober, RowProber
from papilio.kernels.search.gpu_listing import RaggedOnDevice, Records, TreeLister, TreeListing
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Clique, Granularity, Listing, MaximalClique, Motif

_MOST_WAYS = 1 << 40
"""Maximum cliques of one leaf: a longer listing would take many terabytes."""


@dataclass(frozen=True, eq=False)
class PreparedCliqueListing(TreeListing):
    """A graph ready for the ``run`` of a lister. All arrays but ``ids_n`` are on the device."""

    searched: PreparedCliqueGpu | PreparedMaximalCliqueGpu  # the graph to search
    row_size: int | None  # vertices of a row; None for any number
    positions: Any  # in ``ids_n``, of every rank: int32
    always: Any  # positions added to each clique: int32
    hashes: tuple[Any]  # of the vertices, by position: uint64
    ways: Any  # of cliques of one size: C(n, j), see clique_order.cu; int64
    ids_n: NDArray[np.int32]  # ids of all vertices that can be in a row, ascending
    decisions: tuple[tuple[str, str], ...]


class _CliqueLister(TreeLister):
    engine: CliqueGpu | MaximalCliqueGpu

    def prepare(self, graph: UnipartiteGraph, motif: Motif, per: Granularity) -> PreparedCliqueListing:
        """Set aside the required vertices, then prepare as the engine does, which rejects other motifs."""
        require_request("listing", (Clique, MaximalClique), graph, motif, per, graph_type=UnipartiteGraph)
        assert isinstance(motif, Clique | MaximalClique)
        n, is_maximal = (motif.min_size, True) if isinstance(motif, MaximalClique) else (motif.k, False)
        assert n is not None
        device, row_size = self.device, None if is_maximal else n
        left = restrict_graph(graph, np.array(self.listing.with_u, np.int32), row_size)
        k = max(n - left.held.size, 1)
        ids = np.union1d(left.ids, left.held).astype(np.int32)
        with device.guard():
            searched = self.engine.prepare(left.graph, type(motif)(k), per if is_maximal else "vertex")
            most, vertices = searched.max_later + 1, device.to_host(searched.later.vertices)
            ways = np.zeros(1, np.int64) if is_maximal else _list_ways(most, min(k, most))
            decisions = searched.decisions
            return PreparedCliqueListing(
                searched,
                row_size,
                device.to_device(np.searchsorted(ids, left.ids[vertices]).astype(np.int32)),
                device.to_device(np.searchsorted(ids, left.held).astype(np.int32)),
                (device.to_device(mix(ids.astype(np.uint64))),),
                device.to_device(ways),
                ids,
                decisions if left.graph is graph else (left.reason, *decisions),
            )

    def _row_sizes(self, prepared: PreparedCliqueListing) -> Sequence[int | None]:
        return [prepared.row_size]

    def prober(self, prepared: PreparedCliqueListing) -> Prober:
        searched: Any = prepared.searched
        rates = self.engine.prober(searched).rates
        if isinstance(searched, PreparedCliqueGpu):  # rows are found as counts per vertex, and probed as totals
            searched = replace(searched, per="total")
        return RowProber(self.engine.prober(searched), int(prepared.always.size), leaves=True, rates=rates)

    def _launch(self, kernel: str, n_threads: int, prepared: PreparedCliqueListing, *arguments: Any) -> None:
        module = self.device.load("clique_order", {})
        always = prepared.always
        launch_over(
            self.device, module, kernel, n_threads, prepared.positions, always, np.int32(always.size), *arguments
        )  # fmt: skip


class MaximalCliqueGpuLister(_CliqueLister):
    """Lists maximal cliques on one device; ``tuning`` defaults to the constants of the device."""

    def __init__(self, device: Device, listing: Listing, tuning: TreeTuning | None = None) -> None:
        super().__init__(listing, MaximalCliqueGpu(device, tuning, lists=True))

    def _keys_of(self, prepared: PreparedCliqueListing) -> tuple[int, Any]:
        return 0, prepared.positions

    def _expand(
        self, prepared: PreparedCliqueListing, group: None, records: Records, most_rows: int | None
    ) -> Iterator[Sequence[RaggedOnDevice]]:
        xp = self.device.xp
        lengths = records.lengths[:most_rows] + int(prepared.always.size)
        offsets, longest = make_offsets(self.device, lengths), int(lengths.max())
        for begin, end in cut_chunks(xp, offsets, self.chunk_values):
            ends = offsets[begin : end + 1] - offsets[begin]
            host_ends = self.device.to_host(ends)
            values = xp.empty(int(host_ends[-1]), dtype=np.int32)
            places = records.places[begin:end]
            self._launch(
                "clique_copy", 32 * (end - begin), prepared, places, np.int64(end - begin), records.words, ends, values
            )  # fmt: skip
            yield [RaggedOnDevice(ends, host_ends, values, longest)]


class CliqueGpuLister(_CliqueLister):
    """Lists the k-cliques of one k on one device.

    ``algorithm`` and ``order`` are as in :class:`~papilio.kernels.clique.list.CliqueLister`.
    """

    has_checksum = False

    def __init__(
        self,
        device: Device,
        listing: Listing,
        algorithm: str = "auto",
        order: str = "auto",
        tuning: TreeTuning | None = None,
    ) -> None:
        refuse_counting(algorithm)
        super().__init__(listing, CliqueGpu(device, "pivot", order, tuning, lists=True))

    def _keys_of(self, prepared: PreparedCliqueListing) -> tuple[int, Any]:
        return 1, prepared.positions

    def _expand(
        self, prepared: PreparedCliqueListing, group: None, records: Records, most_rows: int | None
    ) -> Iterator[Sequence[RaggedOnDevice]]:
        xp, searched = self.device.xp, prepared.searched
        assert isinstance(searched, PreparedCliqueGpu)
        k = searched.sizes[1]
        n_held = records.words[records.begins].astype(np.int64)
        ways = prepared.ways[(records.lengths - 1 - n_held) * (k + 1) + k - n_held]
        if most_rows is None and ways.size and int(ways.max()) >= _MOST_WAYS:
            raise CapacityError(
                f"more than {_MOST_WAYS} cliques of {k} vertices lie within one set of vertices; specify --limit"
            )
        ends = make_offsets(self.device, ways if most_rows is None else xp.minimum(ways, most_rows))[1:]
        n_rows = int(ends[-1]) if most_rows is None else min(int(ends[-1]), most_rows)
        size = k + int(prepared.always.size)
        for begin in range(0, n_rows, max(1, self.chunk_values // size)):
            n = min(n_rows - begin, max(1, self.chunk_values // size))
            values = xp.empty(n * size, dtype=np.int32)
            self._launch(
                "clique_choose", n, prepared, np.int32(k), prepared.ways, records.places,
                np.int64(records.places.size), records.words, ends, np.int64(begin), np.int64(n), values,
            )  # fmt: skip
            host_ends = np.arange(n + 1, dtype=np.int64) * size
            yield [RaggedOnDevice(xp.arange(n + 1, dtype=np.int64) * size, host_ends, values, size)]


def _list_ways(most: int, k: int) -> NDArray[np.int64]:
    """Return C(n, j), at most ``_MOST_WAYS``, at place n * (k + 1) + j, for n up to ``most`` and j up to ``k``."""
    ways = np.zeros((most + 1, k + 1), np.int64)
    ways[:, 0] = 1
    for n in range(1, most + 1):
        ways[n, 1:] = np.minimum(ways[n - 1, 1:] + ways[n - 1, :-1], _MOST_WAYS)
    return ways.ravel()
