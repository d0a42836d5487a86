"""Count checkerboards and togetherness by the engines for butterflies, on CPUs and GPUs.

Two vertices of each layer are a submatrix of two rows and two columns. A checkerboard has two edges without a common
vertex; togetherness of a layer has two edges from both of its vertices to one vertex, and none to the other one. With
m edges, the numbers follow from the butterflies:

* Of the C(m, 2) pairs of edges, some share a vertex: the wedges. Of the others, each path of three edges joins one
  pair, its first and last edge. Pairs that two edges join are opposite edges in a butterfly; they have two paths, and a
  butterfly has two of them. So checkerboards = C(m, 2) - wedges - paths of three edges + 2 butterflies.
* A wedge with both ends in a layer of n', opposite a layer of n vertices, and one more of these n vertices are a
  submatrix. A further edge between them makes a path of three edges, and two make a butterfly, which has two such
  wedges. So togetherness = (n - 1) wedges - paths of three edges + 2 butterflies.

The counts of vertices follow in the same way; below, w(x) is the number of wedges that start in x, the sum of
d(y) - 1 over its neighbours y, and z(x) is the sum of w(y).

The work items are the items of the butterflies, each with twice its butterflies, and a last one with the rest, which
may be negative. Vectors are sums modulo 2^64; a bound proves that no final entry reaches 2^63.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import (
    Choice,
    Engine,
    Partial,
    Prepared,
    StopCheck,
    never_cut,
    require_interval,
    require_request,
)
from papilio.kernels.exact import MAX_VERTEX_COUNT
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.motifs import Butterfly, Checkerboard, Granularity, Motif, Togetherness
from papilio.storage.files import slices_of
from papilio.storage.statistics import Degrees, count_three_paths, count_wedges

Vectors = dict[str, NDArray[np.uint64]]

_ONE, _TWO = np.uint64(1), np.uint64(2)


def count_middles(degrees: Degrees) -> dict[str, int]:
    """Return the wedges by the layer of their middle."""
    return {"u": int(_choose_two(degrees.u).sum()), "v": int(_choose_two(degrees.v).sum())}


def count_constant(motif: Motif, n_edges: int, sizes: dict[str, int], middles: dict[str, int]) -> int:
    """Return the number of a motif in a graph without paths of three edges, and so without butterflies.

    ``sizes`` are the vertices of each layer, ``middles`` its wedges by the layer of their middle.
    """
    if isinstance(motif, Togetherness):
        other = "v" if motif.layer == "u" else "u"
        return max(sizes[other] - 1, 0) * middles[other]
    return n_edges * (n_edges - 1) // 2 - middles["u"] - middles["v"]


def _choose_two(degrees: Any) -> Any:
    return degrees * (degrees - 1) // 2


@dataclass(frozen=True, eq=False)
class PreparedSubmatrices(Prepared):
    """A graph prepared for butterflies; the total is twice their number + constant - paths."""

    butterflies: Any
    constant: int  # the same for all graphs with these degrees
    paths: int  # of three edges
    vectors: Vectors  # the rest of the count of each vertex, besides twice its butterflies, modulo 2^64
    decisions: tuple[Choice, ...]

    @property
    def n_items(self) -> int:
        return int(self.butterflies.n_items) + 1


class SubmatrixEngine(Engine):
    """Counts :class:`~papilio.motifs.Checkerboard` and :class:`~papilio.motifs.Togetherness`.

    Parameters
    ----------
    engine : Engine
        Of butterflies.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name = engine, engine.name
        self.device: Device | None = getattr(engine, "device", None)
        self.takes_device_graphs = engine.takes_device_graphs  # type: ignore[misc]

    def prepare(self, graph: Any, motif: Motif, per: Granularity) -> PreparedSubmatrices:
        """Prepare the graph for butterflies, and count wedges and paths; O(n_u + n_v + n_edges) in addition.

        Raises
        ------
        CapacityError
            As for butterflies; per vertex also where an entry could exceed 2^63 - 1.
        """
        require_request("submatrix", (Checkerboard, Togetherness), graph, motif, per)
        butterflies = self.engine.prepare(graph, Butterfly(), per)
        with nullcontext() if self.device is None else self.device.guard():
            degrees, paths = self._count_paths(graph)
            middles = count_middles(degrees)
        constant = count_constant(motif, graph.n_edges, {"u": graph.n_u, "v": graph.n_v}, middles)
        vectors = _rest_of_vertices(self._take_to_host(graph), motif) if per == "vertex" else {}
        return PreparedSubmatrices(butterflies, constant, paths, vectors, butterflies.decisions)

    def _count_paths(self, graph: BipartiteGraph) -> tuple[Degrees, int]:
        """Return the degrees and the paths of three edges, where the edges are."""
        if isinstance(graph.u, np.ndarray):
            degrees = Degrees(graph.degree_u, graph.degree_v)
        else:
            assert self.device is not None
            bincount = self.device.xp.bincount
            degrees = Degrees(bincount(graph.u, minlength=graph.n_u), bincount(graph.v, minlength=graph.n_v))
        return degrees, count_three_paths(degrees, lambda: _slices_of(graph))

    def _take_to_host(self, graph: BipartiteGraph) -> BipartiteGraph:
        if isinstance(graph.u, np.ndarray):
            return graph
        assert self.device is not None
        return replace(graph, u=self.device.to_host(graph.u), v=self.device.to_host(graph.v))

    def work(self, prepared: PreparedSubmatrices) -> NDArray[np.int64]:
        return np.append(self.engine.work(prepared.butterflies), 1)

    def slice_work(self, prepared: PreparedSubmatrices) -> int:
        return self.engine.slice_work(prepared.butterflies)

    def in_butterflies(self, prepared: PreparedSubmatrices) -> tuple[int, int, int] | None:
        return (2, -1, prepared.constant) if prepared.constant < 2**62 else None

    def run(
        self,
        prepared: PreparedSubmatrices,
        start: int,
        stop: int,
        bounds: Sequence[int] = (),
        cut: StopCheck = never_cut,
    ) -> Partial:
        require_interval(start, stop, prepared.n_items)
        last = prepared.n_items - 1
        inner = [bound for bound in bounds if bound < last]
        found = self.engine.run(prepared.butterflies, min(start, last), min(stop, last), inner, cut)
        vectors = {name: each + each for name, each in found.vectors.items()}
        found = replace(found, total=2 * found.total, vectors=vectors)
        if not start + found.n_items == last < stop:
            return found
        vectors = {name: each + prepared.vectors[name] for name, each in vectors.items()}
        return replace(
            found,
            n_items=found.n_items + 1,
            total=found.total + prepared.constant - prepared.paths,
            work=found.work + 1,
            vectors=vectors,
        )


class SubmatrixCpu(SubmatrixEngine):
    """The CPU engine."""

    def __init__(self, threads: int | None = None) -> None:
        super().__init__(ButterflyCpu(threads))


class SubmatrixGpu(SubmatrixEngine):
    """The GPU engine."""

    def __init__(self, device: Device) -> None:
        from papilio.kernels.wedge.gpu import ButterflyGpu

        super().__init__(ButterflyGpu(device))


def _slices_of(graph: BipartiteGraph) -> Iterator[Any]:
    return zip(slices_of(graph.u), slices_of(graph.v), strict=True)


def _rest_of_vertices(graph: BipartiteGraph, motif: Motif) -> Vectors:
    """Return the rest of the count of each vertex, of degree d, besides twice its butterflies, modulo 2^64.

    With w and z as above and m edges, for checkerboards d (m - 1 - w) - z. For togetherness of a layer opposite n
    vertices, with W wedges between two vertices of the layer, (n - d) w + d (d - 1) - z at a vertex of the layer, and
    n C(d, 2) + W - (d - 1) w - z at another one.
    """
    wedges = count_wedges(Degrees(graph.degree_u, graph.degree_v), lambda: _slices_of(graph))
    _require_bound(graph, motif, wedges)
    further = Degrees(np.zeros(graph.n_u, np.uint64), np.zeros(graph.n_v, np.uint64))
    for u, v in _slices_of(graph):
        np.add.at(further.u, u, wedges.v[v].astype(np.uint64))
        np.add.at(further.v, v, wedges.u[u].astype(np.uint64))
    vectors = {}
    for layer, degrees in (("u", graph.degree_u), ("v", graph.degree_v)):
        d, pairs = degrees.astype(np.uint64), _choose_two(degrees).astype(np.uint64)
        w, z = getattr(wedges, layer).astype(np.uint64), getattr(further, layer)
        if not isinstance(motif, Togetherness):
            vectors[layer] = d * (np.uint64(max(graph.n_edges - 1, 0)) - w) - z
        elif motif.layer == layer:
            vectors[layer] = (np.uint64(graph.n_v if layer == "u" else graph.n_u) - d) * w + _TWO * pairs - z
        else:
            vectors[layer] = np.uint64(d.size) * pairs + pairs.sum() - (d - _ONE) * w - z
    return vectors


def _require_bound(graph: BipartiteGraph, motif: Motif, wedges: Degrees) -> None:
    """Raise CapacityError if the count of a vertex could exceed 2^63 - 1."""
    degrees = {"u": graph.degree_u, "v": graph.degree_v}
    largest = {name: int(each.max(initial=0)) for name, each in degrees.items()}
    bound = max(largest.values()) * graph.n_edges  # edges of the vertex, and any other edge
    if isinstance(motif, Togetherness):
        other = "v" if motif.layer == "u" else "u"
        n = degrees[other].size  # of a wedge, or of a pair of edges, and any other vertex
        of_ends = n * int(getattr(wedges, motif.layer).max(initial=0))
        bound = max(of_ends, n * largest[other] * (largest[other] - 1) // 2 + int(_choose_two(degrees[other]).sum()))
    if bound > MAX_VERTEX_COUNT:
        raise CapacityError(
            f"a vertex could be in {bound} of {motif.title}; counts per vertex are limited to {MAX_VERTEX_COUNT}: "
            "count the total instead"
        )
