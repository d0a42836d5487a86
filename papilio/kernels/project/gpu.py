"""Projections on a GPU: a sink of the wedge engine, whose kernels write pairs to device memory.

Each launch takes as many consecutive items as have room for all pairs that they can have, so that no launch is
repeated. Its pairs are sorted by the ranks of start and end: the rows of a launch have one order. ``project.cu`` turns
them into rows, with the weights that are sums. Other weights and p-values follow from degrees and common neighbours;
the host computes them, with the functions of the CPU engine and while the device goes on. Both engines give the same
bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import LeaseTooLargeError, UnsupportedError
from papilio.graph import BipartiteGraph, RowColumn
from papilio.kernels.announce import say_passed
from papilio.kernels.device.arrays import load_arrays, place_of
from papilio.kernels.device.protocol import Device, launch_over
from papilio.kernels.engine import (
    Engine,
    Loadable,
    Partial,
    StopCheck,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.listing import RowWriters, cut_chunks
from papilio.kernels.memory import DEVICE_PAIR_BYTES, TAIL_BYTES
from papilio.kernels.probe import Prober
from papilio.kernels.project.cpu import ask_pairs, refuse_held
from papilio.kernels.project.loops import SUMMED, PairBlock, PairQuestion, make_block, number_pairs
from papilio.kernels.project.tails import PValues, make_room
from papilio.kernels.rows.gpu_index import Counting, WedgeGraph
from papilio.kernels.threads import Outlet, RowSink, available_threads, drop_rows
from papilio.kernels.tuning import WedgeTuning
from papilio.kernels.wedge.gpu import PAIRS, ButterflyGpu, PreparedButterflyGpu
from papilio.motifs import Granularity, Listing, Motif, Projection
from papilio.parts import Part

_FIRST_ROWS = 1 << 12
"""Rows of the first chunks of a launch, where rows have p-values."""

_ROOM_FRACTION = 0.25
"""Largest share of free device memory for pairs, unless a single vertex may have more."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedProjectionGpu(PreparedButterflyGpu):
    """A graph ready for :meth:`ProjectionGpu.run`."""

    question: PairQuestion
    p_values: PValues
    most_pairs: NDArray[np.int64]  # of each item, an upper bound; host
    order: Any  # id of each rank of the layer: int32, device
    terms: Any  # of each middle, by rank, for weights that are sums: float64, device
    degrees: NDArray[np.int64]  # of the layer, by id; host
    # Ids of all vertices: a position is an id
    ids_u: NDArray[np.int32]
    ids_v: NDArray[np.int32]


class ProjectionGpu(ButterflyGpu):
    """The GPU engine of :class:`~papilio.motifs.Projection`; with a ``listing`` it lists the pairs.

    Rows are the same as for :class:`~papilio.kernels.project.cpu.ProjectionCpu`.
    """

    takes_device_graphs = False
    max_pairs = 1 << 24
    """Pairs that a launch has room for, unless a single vertex may have more: 768 MiB while they are sorted."""
    max_wedges = 1 << 34
    """Wedges of a launch, unless a single vertex has more: some 0.1 s."""
    chunk_rows = 1 << 20
    """Rows that are made and passed on at a time."""

    def __init__(self, device: Device, listing: Listing | None = None, tuning: WedgeTuning | None = None) -> None:
        super().__init__(device, tuning)
        refuse_held(listing)
        self.listing = listing

    def stage(self, block: Loadable) -> Loadable:
        raise UnsupportedError(f"projections are made of whole graphs, not of a {type(block).__name__}")

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> PreparedProjectionGpu:
        """Rank, index and cost the graph on the device, with the layer of the pairs first."""
        require_request("projection", Projection, graph, motif, per)
        assert isinstance(motif, Projection)
        assert isinstance(graph, BipartiteGraph)
        device, is_u = self.device, motif.layer == "u"
        with device.guard():
            device.load("project", {})
            load_arrays(device)
            has_test = motif.significance is not None
            made = self._prepare_graph(
                graph, motif, per, Counting(gives=PAIRS), motif.layer, motif.min_common, by_degree=has_test
            )
            order, degrees, others = self._describe_layers(graph, made.graph, is_u)
            first = 0 if is_u else graph.n_u
            question = ask_pairs(graph, motif, first, np.empty(0, np.int32), others)
            ends = device.to_host(made.items).astype(np.int64) - first
            most = np.minimum(ends, self.work(made) // motif.min_common)
            ids, none = np.arange(degrees.size, dtype=np.int32), np.empty(0, np.int32)
            ids_u, ids_v = (ids, none) if is_u else (none, ids)
            prepared = PreparedProjectionGpu(
                **vars(made), question=question, p_values=PValues.shared(question.tail, TAIL_BYTES),
                most_pairs=most, order=order, terms=device.to_device(question.terms), degrees=degrees,
                ids_u=ids_u, ids_v=ids_v,
            )  # fmt: skip
        compile_completion(question, degrees)
        return prepared

    def _describe_layers(
        self, graph: BipartiteGraph, made: Any, is_u: bool
    ) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids of the layer by rank, on the device, its degrees by id, and the others' by rank."""
        device, n_u, n_v = self.device, graph.n_u, graph.n_v
        own, other = (slice(0, n_u), slice(n_u, None)) if is_u else (slice(n_u, None), slice(0, n_u))
        if made is None:
            sizes = (n_u, n_v) if is_u else (n_v, n_u)
            return device.xp.empty(0, dtype=np.int32), *(np.zeros(size, np.int64) for size in sizes)
        assert isinstance(made, WedgeGraph)
        rank = made.rank_u if is_u else made.rank_v
        degrees = device.to_host(made.degree[own][rank]), device.to_host(made.degree[other])
        return place_of(device, rank), *(each.astype(np.int64) for each in degrees)

    def prober(self, prepared: PreparedButterflyGpu) -> Prober:
        return Engine.prober(self, prepared)

    def run(
        self,
        prepared: PreparedButterflyGpu,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
        sink: RowSink = drop_rows,
    ) -> Partial:
        """Count, or list, exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        ``sink`` gets every row of a listing once, in blocks, from any thread; an exception in it ends the run. Where
        rows are made, for a listing or a test, ``bounds`` have no effect: the run is cut between launches.
        LeaseTooLargeError when the device has no room for the pairs of one vertex.
        """
        assert isinstance(prepared, PreparedProjectionGpu)
        if self.listing is None and not prepared.question.test:
            return super().run(prepared, start, stop, bounds, cut)
        require_interval(start, stop, prepared.n_items)
        end, outlet = start, Outlet(sink, None if self.listing is None else self.listing.limit)
        complete = _Completion(prepared, outlet)
        writers = RowWriters(complete)
        try:
            with self.device.guard():
                for last, rows in self._list_items(prepared, start, stop):
                    for columns in rows:
                        writers.write(columns)
                        if outlet.full:
                            break
                    end = last
                    say_passed(end - start)
                    if outlet.full or cut():
                        break
                work = int(prepared.costs[start:end].sum()) if start < end else 0
        finally:
            writers.close()
        found = Partial(end - start, outlet.rows, work)
        return found if self.listing is None else outlet.answer(stop - start, found)

    def _list_items(
        self, prepared: PreparedProjectionGpu, start: int, stop: int
    ) -> Iterator[tuple[int, Iterator[list[RowColumn]]]]:
        """Launch over items, some at a time; yield the end of these and their rows in chunks, to be taken at once."""
        xp, most = self.device.xp, prepared.most_pairs[start:stop]
        wedges = self.device.to_host(prepared.costs[start:stop]).astype(np.int64)
        room = self._find_room(int(most.max(initial=0)), int(most.sum()))
        pairs, commons = xp.empty(room, dtype=np.uint64), xp.empty(room, dtype=np.int32)
        load = max(1, min(room, self.max_wedges))
        loads = np.maximum(most, -(-wedges // (self.max_wedges // load)))
        for begin, end in cut_chunks(np, np.concatenate(([0], np.cumsum(loads))), load):
            results = self._make_results(prepared, pairs, commons)
            self._run_slices(prepared, [start + begin, start + end], never_cut, results)
            n_found = int(self.device.to_host(results[0])[0])
            yield start + end, self._make_rows(prepared, pairs[:n_found], commons)

    def _find_room(self, largest: int, total: int) -> int:
        """Return how many pairs a launch has room for: at least those of the vertex that may have most."""
        free_bytes = self.device.free_bytes()
        if largest * DEVICE_PAIR_BYTES > free_bytes:
            raise LeaseTooLargeError(
                f"a vertex may be in {largest} pairs, which take {largest * DEVICE_PAIR_BYTES} bytes of device memory; "
                f"{free_bytes} bytes are free: use a device with more memory, or --engine cpu"
            )
        return max(largest, min(total, self.max_pairs, int(_ROOM_FRACTION * free_bytes) // DEVICE_PAIR_BYTES))

    def _make_results(self, prepared: PreparedButterflyGpu, pairs: Any = None, commons: Any = None) -> tuple[Any, ...]:
        """Return the last arguments of the counting kernels; without room for pairs these are only counted."""
        assert isinstance(prepared, PreparedProjectionGpu)
        xp, writes = self.device.xp, pairs is not None
        if not writes:
            pairs, commons = xp.empty(1, dtype=np.uint64), xp.empty(1, dtype=np.int32)
        least = np.int32(prepared.question.min_common)
        return xp.zeros(2, dtype=np.uint64), pairs, commons, least, np.int32(writes)

    def _cut_rows(self, n_rows: int, *, has_test: bool) -> list[int]:
        """Cut the rows of a launch into chunks.

        With a test the first ones are small, and grow by 1.5 per processor: the vertices of the highest degrees come
        first, each of which has p-values of its own to compute.
        """
        bounds, size = [0], float(_FIRST_ROWS if has_test else self.chunk_rows)
        growth = 1 + 0.5 / available_threads()
        while bounds[-1] < n_rows:
            bounds.append(min(n_rows, bounds[-1] + min(int(size), self.chunk_rows)))
            size *= growth
        return bounds

    def _make_rows(self, prepared: PreparedProjectionGpu, pairs: Any, commons: Any) -> Iterator[list[RowColumn]]:
        """Yield chunks of rows on the host; see :func:`number_pairs` for the columns that are left open."""
        device, xp, question, graph = self.device, self.device.xp, prepared.question, prepared.graph
        assert isinstance(graph, WedgeGraph)
        module, first = device.load("project", {}), np.int32(question.first)
        places = xp.argsort(pairs)
        for begin, end in pairwise(self._cut_rows(places.size, has_test=question.test > 0)):
            chunk = places[begin:end]
            n = np.int64(chunk.size)
            ids, common = xp.empty((chunk.size, 2), dtype=np.int32), xp.empty(chunk.size, dtype=np.int32)
            launch_over(
                device, module, "pair_rows", chunk.size, pairs, commons, chunk, n, first, prepared.order, ids, common
            )  # fmt: skip
            columns: list[Any] = [device.to_host(ids), device.to_host(common)]
            if question.weighting >= SUMMED:
                sums = xp.empty(chunk.size, dtype=np.float64)
                launch_over(
                    device, module, "sum_terms", 32 * chunk.size, pairs, chunk, n, first, graph.indptr,
                    graph.adjacency, prepared.terms, sums,
                )  # fmt: skip
                columns.append(device.to_host(sums))
            elif question.weighting:
                columns.append(np.empty(chunk.size))
            if question.test:
                columns.append(np.empty(chunk.size))
            yield columns


def compile_completion(question: PairQuestion, degrees: NDArray[np.int64]) -> None:
    """Compile what the host does with rows; the same for all questions."""
    number_pairs(question, degrees, make_block(question, 0), np.empty(0), make_room(question.tail))


class _Completion:
    """Complete rows in the threads that write them, and pass those on that stay."""

    def __init__(self, prepared: PreparedProjectionGpu, outlet: Outlet) -> None:
        self._prepared, self._outlet = prepared, outlet

    def __call__(self, *columns: Any, part: int | None = None) -> None:
        prepared, none = self._prepared, np.empty(0)
        question, degrees = prepared.question, prepared.degrees
        pairs, common, *numbers = columns
        n = len(common)
        if numbers:
            weights = numbers[0] if question.weighting else none
            p_values = numbers[-1] if question.test else none
            block = PairBlock(pairs, common, weights, p_values, np.zeros(2, np.int64))
            room, table = make_room(question.tail), none
            degree = int(degrees[pairs[0]].min()) if question.test and n else -1
            while block.size[1] < n:
                if question.test:
                    table = prepared.p_values.find_table(degree)
                degree = number_pairs(question, degrees, block, table, room)
            n = int(block.size[0])
        self._outlet.take(*(each[:n] for each in columns), part=part)
