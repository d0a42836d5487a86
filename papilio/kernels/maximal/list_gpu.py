"""Listing maximal bicliques on the GPU: ``maximal.cu`` records their columns, ``maximal_rows.cu`` adds the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import ExecutionError
from papilio.graph import BipartiteGraph, RowColumn
from papilio.kernels.biclique.list import restrict_to_common
from papilio.kernels.device.arrays import make_offsets
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.engine import StopCheck, require_request
from papilio.kernels.exact import mix
from papilio.kernels.listing import cut_chunks
from papilio.kernels.maximal.gpu import MaximalBicliqueGpu, PreparedMaximalGpu
from papilio.kernels.maximal.gpu_roots import Matrices, root_arguments
from papilio.kernels.maximal.list import explain_restriction, list_stars, place_sides
from papilio.kernels.probe import Prober
from papilio.kernels.search.gpu_listing import RaggedOnDevice, Records, TreeLister, TreeListing
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Granularity, Listing, MaximalBiclique, Motif

_HEAD = 2
"""Words of a record before its columns: the root, and the number of rows."""


@dataclass(frozen=True, eq=False)
class PreparedMaximalGpuListing(TreeListing):
    """A graph ready for :meth:`MaximalBicliqueGpuLister.run`."""

    searched: PreparedMaximalGpu  # the graph to search; its hashes of vertices are numbers
    places: tuple[Any, Any]  # positions of its rows and columns in the ids below; int32, device
    hashes: tuple[Any, Any]  # of vertices of U and V, by position; uint64, device
    ids_u: NDArray[np.int32]  # ids of all vertices that can be in a row, ascending
    ids_v: NDArray[np.int32]
    decisions: tuple[tuple[str, str], ...]


class MaximalBicliqueGpuLister(TreeLister):
    """Lists maximal bicliques on one device.

    ``anchor`` and ``tuning`` are as for :class:`~papilio.kernels.maximal.gpu.MaximalBicliqueGpu`.
    """

    engine: MaximalBicliqueGpu

    def __init__(
        self, device: Device, listing: Listing, anchor: str = "auto", tuning: TreeTuning | None = None
    ) -> None:
        super().__init__(listing, MaximalBicliqueGpu(device, anchor, tuning, {"LISTS": 1, "TABLES": 0}))

    def prepare(self, graph: BipartiteGraph, motif: Motif, per: Granularity) -> PreparedMaximalGpuListing:
        require_request("listing", MaximalBiclique, graph, motif, per)
        device, xp = self.device, self.device.xp
        left = restrict_to_common(graph, self.listing)
        with device.guard():
            searched = self.engine.prepare(left, motif, per)
            index = searched.index
            sides = [device.to_host(index.arrays[name]) for name in ("left_ids", "right_ids")]
            places, ids_u, ids_v = place_sides(left, index.anchor, (sides[0], sides[1]))
            # The search adds up numbers instead of hashes: the number of the root, and the numbers of the columns.
            numbers = replace(
                searched.roots,
                left_hash=xp.zeros(index.n_left, dtype=np.uint64),
                right_hash=xp.arange(index.n_right, dtype=np.uint64),
            )
            hashes = mix(ids_u.astype(np.uint64)), mix(ids_v.astype(np.uint64) | np.uint64(1 << 32))
            return PreparedMaximalGpuListing(
                replace(searched, roots=numbers),
                (device.to_device(places[0]), device.to_device(places[1])),
                (device.to_device(hashes[0]), device.to_device(hashes[1])),
                ids_u,
                ids_v,
                (*explain_restriction(graph, left), *searched.decisions),
            )

    def prober(self, prepared: PreparedMaximalGpuListing) -> Prober:
        return self.engine.prober(prepared.searched)

    def _groups(
        self, prepared: PreparedMaximalGpuListing, start: int, stop: int
    ) -> Iterator[tuple[Matrices | None, tuple[int, int]]]:
        searched = prepared.searched
        if not searched.classes:  # only stars
            yield None, (start, stop)
            return
        numbers = self.device.xp.arange(searched.index.n_left, dtype=np.uint64)
        for group in self.engine.group_items(searched, start, stop):
            yield replace(self.engine.lay_out(searched, *group), taken_hash=numbers), group

    def _search(
        self,
        prepared: PreparedMaximalGpuListing,
        group: Matrices | None,
        span: tuple[int, int],
        cut: StopCheck,
        record_arguments: tuple[Any, ...],
    ) -> int:
        if group is None:
            return span[1]
        return self.engine.leave_records(prepared.searched, group, span, cut, record_arguments)

    def _keys_of(self, prepared: PreparedMaximalGpuListing) -> tuple[int, Any]:
        return _HEAD, prepared.places[1]

    def _expand(
        self,
        prepared: PreparedMaximalGpuListing,
        group: Matrices | None,
        records: Records,
        most_rows: int | None,
    ) -> Iterator[Sequence[RaggedOnDevice]]:
        assert group is not None
        device, xp, index = self.device, self.device.xp, prepared.searched.index
        places = records.places[:most_rows]
        sizes = (
            records.words[records.begins + 1].astype(np.int64)[:most_rows],
            records.lengths[:most_rows] - _HEAD,
        )
        rows, columns = (make_offsets(device, each) for each in sizes)
        longest = [int(each.max()) for each in sizes]
        wrong = xp.zeros(1, dtype=np.int32)
        for begin, end in cut_chunks(xp, rows + columns, self.chunk_values):
            ends = [each[begin : end + 1] - each[begin] for each in (rows, columns)]
            on_host = [device.to_host(each) for each in ends]
            made = [xp.empty(int(each[-1]), dtype=np.int32) for each in on_host]
            launch_over(
                device, device.load("maximal_rows", {}), "maximal_expand", 32 * (end - begin),
                *root_arguments(index, prepared.searched.roots), group.words, group.starts, *prepared.places,
                places[begin:end], np.int64(end - begin), records.words, *ends, *made, wrong,
            )  # fmt: skip
            if int(device.to_host(wrong)[0]):
                raise ExecutionError(
                    f"the numbers of vertices of {int(wrong[0])} maximal bicliques differ from the search; list "
                    "with --engine cpu"
                )
            sides = [RaggedOnDevice(*each) for each in zip(ends, on_host, made, longest, strict=True)]
            yield sides if index.anchor == "u" else sides[::-1]

    def _list_closed(self, prepared: PreparedMaximalGpuListing) -> tuple[Iterable[Sequence[RowColumn]], int]:
        stars = prepared.searched.stars
        return list_stars(stars, prepared.ids_u, prepared.ids_v), stars.checksum
