"""Synthetic graphs, written straight to a store or made in memory; the same from the same seed everywhere.

A graph depends only on its model and seed, not on memory, threads, the machine or the version of NumPy. Edges are drawn
in sorted blocks (:mod:`papilio.storage.random_edges`), so a graph far larger than memory passes through in one stream,
with no external sort and no temporary files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

from papilio.arguments import Bytes, Seed, Share, Threads, checked, read_bytes, show_bytes
from papilio.errors import CapacityError, InputError
from papilio.graph import BipartiteGraph, UnipartiteGraph, deduplicate
from papilio.storage.files import check_replaceable, local_path
from papilio.storage.graph_models import Blocks, Complete, Model, Planted, PowerLaw, Rmat, count_pairs
from papilio.storage.random_edges import (
    BLOCK_EDGES,
    DRAW_BYTES,
    CompactSource,
    EdgeBlock,
    EdgeSource,
    Permutation,
    draw_below,
    draw_binomial,
    edge_signs,
    run_blocks,
    stream,
)
from papilio.storage.rmat import RmatSource
from papilio.storage.store import GraphStore, StoreWriter
from papilio.version import __version__

__all__ = ["Blocks", "Complete", "Model", "Planted", "PowerLaw", "Rmat", "generate", "generate_graph"]

DrawProgress = Callable[[int, int], None]
"""Called with (units done, total units); a unit is one draw of one pass."""

_WRITER_BYTES = 96 << 20
"""Host bytes of the store writer: a row group being filled and its encoding."""


@checked
def generate(
    model: Model,
    path: str | os.PathLike[str],
    *,
    seed: Seed = 0,
    signs: Share | None = None,
    memory_bytes: Bytes | None = None,
    workers: Threads | None = None,
    overwrite: bool = False,
    progress: DrawProgress | bool | None = None,
) -> GraphStore:
    """Generate a graph into a new store.

    Parameters
    ----------
    model : Rmat, PowerLaw, Planted, Blocks or Complete
    path : path-like
        Directory of the store; its parent must exist.
    seed : int
        0 to 2^63 - 1. The same model and seed give the same content hash on any machine.
    signs : float, optional
        Make a signed graph: each edge is positive with this probability, decided by a hash of (u, v, seed).
    memory_bytes : int, optional
        Host memory limit in bytes; by default a quarter of the machine's.
    workers : int, optional
        Threads that draw; by default one per CPU, as far as ``memory_bytes`` allows.
    overwrite : bool
        Replace an existing store.
    progress : bool or callable, optional
        True for a progress bar, on a terminal or in a notebook; a function is called with (units done, total units)
        after each block.

    Returns
    -------
    GraphStore
        Its provenance names the model, its parameters, the seed and the version of Papilio.

    Raises
    ------
    InputError
        If the seed, the fraction of signs or the number of workers is out of range.
    CapacityError
        If ``memory_bytes`` is too small for the model.
    StoreError
        If the path exists or cannot be written.
    """
    check_replaceable(local_path(path), overwrite)
    advance = _Advance(progress if callable(progress) else None)
    memory = read_bytes("memory_bytes", memory_bytes)
    source, threads = _prepare(model, seed, memory, workers, advance)
    provenance = {
        "source": "generated",
        **model.to_dict(),
        "seed": seed,
        "signs": signs,
        "papilio": __version__,
    }
    with StoreWriter(
        path,
        kind=model.kind,
        n_u=source.n_u,
        n_v=source.n_v,
        signed=signs is not None,
        provenance=provenance,
        overwrite=overwrite,
    ) as writer:
        dropped = Counter(source.dropped)
        for block in run_blocks(source, threads):
            dropped.update(block.dropped)
            sign = None if signs is None else edge_signs(block.keys, signs, seed)
            writer.append(*_split(block.keys), sign)
            advance(block.drawn)
        writer.dropped.update(dropped)
    return writer.store


@checked
def generate_graph(
    model: Model, seed: Seed = 0, *, signs: Share | None = None, workers: Threads | None = None
) -> BipartiteGraph | UnipartiteGraph:
    """Generate a graph in memory, with the same edges and signs as :func:`generate`; raises the same errors."""
    source, threads = _prepare(model, seed, None, workers, _Advance(None))
    parts = [block.keys for block in run_blocks(source, threads)]
    keys = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    u, v = _split(keys)
    sign = None if signs is None else edge_signs(keys, signs, seed)
    if model.kind == "unipartite":
        return UnipartiteGraph(source.n_u, u, v, sign)
    return BipartiteGraph(source.n_u, source.n_v, u, v, sign)


class _Advance:
    def __init__(self, progress: DrawProgress | None) -> None:
        self._progress = progress
        self._done = 0
        self.total = 0

    def __call__(self, drawn: int) -> None:
        self._done += drawn
        if self._progress is not None:
            self._progress(self._done, self.total)


def _prepare(
    model: Model, seed: int, memory_bytes: int | None, workers: int | None, advance: _Advance
) -> tuple[EdgeSource, int]:
    budget = psutil.virtual_memory().total // 4 if memory_bytes is None else memory_bytes
    make = _SOURCES.get(type(model))
    if make is None:
        raise InputError(
            f"no generator for {type(model).__name__}; expected Rmat, PowerLaw, Planted, Blocks or Complete"
        )
    _check_memory(model, "the vertices alone", make.state_bytes_of(model), budget)
    source = make(model, seed)
    compact = isinstance(model, Rmat) and model.compact
    held = source.state_bytes + (CompactSource.extra_bytes(source) if compact else 0) + _WRITER_BYTES
    one_worker = 3 * source.block_bytes
    _check_memory(model, "one worker", held + one_worker, budget)
    threads = min(workers or os.cpu_count() or 1, (budget - held) // max(one_worker, 1))
    advance.total = source.total_draws * (2 if compact else 1)
    if compact:
        source = CompactSource(source, unipartite=model.kind == "unipartite", workers=threads, on_block=advance)
    return source, threads


def _check_memory(model: Model, what: str, needed: int, budget: int) -> None:
    if needed > budget:
        raise CapacityError(
            f"generating {model} needs {show_bytes(needed)} for {what}; the limit is "
            f"{show_bytes(budget)}: raise the memory limit or make the model smaller"
        )


def _split(keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return (keys >> 32).astype(np.int32), keys.astype(np.int32)


_TREE_KEY, _NOISE_KEY, _MEMBER_KEY = 0x7472, 0x6E6F, 0x6D65


class PairSpace:
    """All pairs that an edge may join, numbered 0 .. ``size`` - 1 in (u, v) order; without ``n_v``, pairs u < v."""

    def __init__(self, n_u: int, n_v: int | None) -> None:
        self._n_u, self._n_v = n_u, n_v
        self.size = count_pairs(n_u, n_v)

    def keys(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pairs as ``u << 32 | v``, shape (k,)."""
        if self._n_v is not None:
            u = numbers // self._n_v
            return (u << 32) | (numbers - u * self._n_v)
        back = self.size - 1 - numbers
        row = ((np.sqrt(8.0 * back + 1.0) - 1.0) / 2.0).astype(np.int64)
        row -= row * (row + 1) // 2 > back
        row += (row + 1) * (row + 2) // 2 <= back
        u = self._n_u - 2 - row
        v = self._n_u - 1 - (back - row * (row + 1) // 2)
        return np.asarray((u << 32) | v, dtype=np.int64)

    def key(self, number: int) -> int:
        """Return one pair as ``u << 32 | v``."""
        return int(self.keys(np.array([number], dtype=np.int64))[0])


_PIECE = 1 << 14
"""Edges numbered at a time: the working arrays stay in the second-level cache."""


class _Placed(NamedTuple):
    """The edges of the copies of a complete graph, numbered in (u, v) order from ``first`` to ``stop`` - 1."""

    first: int
    stop: int
    pairs: PairSpace
    base: int  # key of the first vertices of the first copy
    step: int  # difference of the keys of consecutive copies


class CompleteSource(EdgeSource):
    """Sorted blocks of one complete graph, or of disjoint ones."""

    def __init__(self, model: Complete | Blocks, seed: int) -> None:
        super().__init__(model.n_u, model.n_v)
        self._placed: list[_Placed] = []
        first = base = 0
        for term in model.terms:
            copies, size_u, size_v = term
            step = size_u << 32 | (size_u if size_v is None else size_v)
            pairs = PairSpace(size_u, size_v)
            self._placed.append(_Placed(first, first + term.n_edges, pairs, base, step))
            first, base = first + term.n_edges, base + copies * step
        self.total_draws = first
        self.block_bytes = DRAW_BYTES * min(self.total_draws, BLOCK_EDGES)

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        for start in range(0, self.total_draws, BLOCK_EDGES):
            yield partial(self._draw, start, min(start + BLOCK_EDGES, self.total_draws))

    def _draw(self, start: int, stop: int) -> EdgeBlock:
        keys = np.empty(stop - start, dtype=np.int64)
        for first, end, pairs, base, step in self._placed:
            for low in range(max(start, first), min(stop, end), _PIECE):
                high = min(low + _PIECE, stop, end)
                copies, numbers = np.divmod(np.arange(low - first, high - first, dtype=np.int64), pairs.size)
                keys[low - start : high - start] = pairs.keys(numbers) + (base + step * copies)
        return EdgeBlock(keys, stop - start)


class PlantedSource(EdgeSource):
    """Sorted blocks of planted bicliques or cliques over noise.

    The possible pairs are numbered in (u, v) order, so a block is a range of numbers. Noise is divided among ranges by
    exact binomials; a planted block adds the pairs of its members.
    """

    def __init__(self, model: Planted, seed: int) -> None:
        super().__init__(model.n_u, model.n_v)
        self._seed = seed
        self._unipartite = model.n_v is None
        self._pairs = PairSpace(model.n_u, model.n_v)
        self._noise = model.noise
        self._width = model.size_u if model.size_v is None else model.size_v
        per_block = model.size_u * (self._width - 1) // 2 if self._unipartite else model.size_u * self._width
        self.total_draws = model.noise + model.count * per_block
        self.state_bytes = self.state_bytes_of(model)
        self.block_bytes = DRAW_BYTES * (min(self.total_draws, BLOCK_EDGES) + 2 * self._width)
        members = self._draw_members(model.count, model.size_u, self.n_u, 0)
        self._members_v = members if self._unipartite else self._draw_members(model.count, self._width, self.n_v, 1)
        order = np.argsort(members, axis=None, kind="stable")
        self._member_u = members.ravel()[order]
        self._member_block = order // max(model.size_u, 1)

    @staticmethod
    def state_bytes_of(model: Planted) -> int:
        return model.count * (16 * model.size_u + 4 * (0 if model.size_v is None else model.size_v))

    def _draw_members(self, count: int, size: int, n: int, layer: int) -> NDArray[np.int32]:
        members = np.empty((count, size), dtype=np.int32)
        if not size:
            return members
        first = np.arange(size, dtype=np.int64)
        for block in range(count):
            members[block] = Permutation(n, stream(self._seed, _MEMBER_KEY, layer, block)).forward(first)
        return members

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        pending = [(0, self._pairs.size, self._noise)] if self.total_draws else []
        while pending:
            start, stop, noise = pending.pop()
            load = noise + self._planted_within(start, stop)
            if not load:
                continue
            if load <= BLOCK_EDGES or stop - start == 1:
                yield partial(self._draw, start, stop, noise)
                continue
            middle = (start + stop) // 2
            source = stream(self._seed, _TREE_KEY, start, stop)
            left = draw_binomial(source, noise, ((middle - start) << 64) // (stop - start))
            pending += [(middle, stop, noise - left), (start, middle, left)]

    def _memberships(self, start: int, stop: int) -> slice:
        """Planted vertices u of the pairs [start, stop): a slice of ``_member_u`` and ``_member_block``."""
        ends = np.array([self._pairs.key(start) >> 32, (self._pairs.key(stop - 1) >> 32) + 1])
        low, high = np.searchsorted(self._member_u, ends)
        return slice(int(low), int(high))

    def _planted_within(self, start: int, stop: int) -> int:
        chosen = self._memberships(start, stop)
        n_members: int = chosen.stop - chosen.start
        return min(n_members * self._width, stop - start)

    def _draw(self, start: int, stop: int, noise: int) -> EdgeBlock:
        chosen = self._memberships(start, stop)
        u = np.repeat(self._member_u[chosen].astype(np.int64), self._width)
        planted = (u << 32) | self._members_v[self._member_block[chosen]].ravel()
        low, high = self._pairs.key(start), self._pairs.key(stop - 1)
        inside = (planted >= low) & (planted <= high)
        if self._unipartite:
            inside &= (planted & 0xFFFFFFFF) > u
        planted = planted[inside]
        source = stream(self._seed, _NOISE_KEY, start, stop)
        numbers = draw_below(source, min(noise, 1) if stop - start == 1 else noise, stop - start)
        numbers += start
        keys = deduplicate(np.concatenate((planted, self._pairs.keys(numbers))))
        drawn = int(planted.size) + noise
        return EdgeBlock(keys, drawn, {"duplicates": drawn - keys.size})


_DEGREE_KEY, _MATCH_KEY = 0x6465, 0x6D61
_DEGREE_BLOCK = 1 << 20
_FRACTION_BITS = 53
_LN2 = 0.6931471805599453


def portable_power(base: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """Return ``base ** exponent`` of positive numbers, using only additions, multiplications and divisions.

    Relative error about 1e-14, and the same bits on every IEEE machine, unlike ``numpy.power``.
    """
    mantissa, exponent2 = np.frexp(base)
    low = mantissa < 0.7071067811865476
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, series = s * s, np.zeros_like(s)
    for term in range(27, 0, -2):
        series = series * square + 1.0 / term
    logarithm = 2.0 * s * series + (exponent2 - low) * _LN2
    scaled = logarithm * exponent
    whole = np.rint(scaled / _LN2)
    rest, result = scaled - whole * _LN2, np.ones_like(s)
    for term in range(18, 0, -1):
        result = result * rest / term + 1.0
    return np.asarray(np.ldexp(result, whole.astype(np.int64)))


def draw_degrees(n: int, exponent: float, min_degree: int, max_degree: int, seed: int, layer: int) -> NDArray[np.int64]:
    """Return the stub offsets of a layer, shape (n + 1,): vertex i owns stubs [offsets[i], offsets[i + 1]).

    Degrees are floors of a Pareto variable truncated to [min_degree, max_degree + 1).
    """
    tails = portable_power(np.arange(min_degree, max_degree + 2, dtype=np.float64), 1.0 - exponent)
    survival = (tails[1:-1] - tails[-1]) / (tails[0] - tails[-1])
    table = np.floor(survival[::-1] * float(1 << _FRACTION_BITS)).astype(np.int64)
    offsets = np.zeros(n + 1, dtype=np.int64)
    for block, start in enumerate(range(0, n, _DEGREE_BLOCK)):
        stop = min(start + _DEGREE_BLOCK, n)
        words: NDArray[np.uint64] = stream(seed, _DEGREE_KEY, layer, block).random_raw(stop - start)
        fraction = (words >> np.uint64(64 - _FRACTION_BITS)).astype(np.int64)
        above = table.size - np.searchsorted(table, fraction, side="right")
        np.cumsum(min_degree + above, out=offsets[start + 1 : stop + 1])
        offsets[start + 1 : stop + 1] += offsets[start]
    return offsets


class PowerLawSource(EdgeSource):
    """Sorted blocks of a configuration model.

    Vertex i owns as many consecutive stubs as its degree. A keyed pseudo-random permutation of all stubs matches them.
    It is not stored but computed for single stubs: a block takes the stubs of consecutive vertices u and finds their
    partners and the vertices that own the partners, which gives all edges of its vertices. Only the degrees are in
    memory. In a unipartite graph, the partner of a stub is the stub whose image differs in the lowest bit only.
    """

    def __init__(self, model: PowerLaw, seed: int) -> None:
        super().__init__(model.n_u, model.n_v)
        self._unipartite = model.n_v is None
        self.state_bytes = self.state_bytes_of(model)
        self.block_bytes = DRAW_BYTES * (BLOCK_EDGES + model.max_degree_u)
        self._offsets_u = draw_degrees(self.n_u, model.exponent_u, model.min_degree_u, model.max_degree_u, seed, 0)
        self._offsets_v = (
            self._offsets_u
            if self._unipartite
            else draw_degrees(self.n_v, model.exponent_v, model.min_degree_v, model.max_degree_v, seed, 1)
        )
        self._stubs_u, self._stubs_v = int(self._offsets_u[-1]), int(self._offsets_v[-1])
        self._matching = Permutation(max(self._stubs_u, self._stubs_v, 1), stream(seed, _MATCH_KEY))
        self.total_draws = self._stubs_u
        unmatched = self._stubs_u % 2 if self._unipartite else abs(self._stubs_u - self._stubs_v)
        self.dropped = {"unmatched_stubs": unmatched}

    @staticmethod
    def state_bytes_of(model: PowerLaw) -> int:
        # The stub offsets and, while they are drawn, the table of the distribution.
        n_v = 0 if model.n_v is None else model.n_v
        return 8 * (model.n_u + n_v) + DRAW_BYTES * max(model.max_degree_u, model.max_degree_v, _DEGREE_BLOCK)

    def blocks(self) -> Iterator[Callable[[], EdgeBlock]]:
        cuts = np.searchsorted(self._offsets_u, np.arange(0, self._stubs_u, BLOCK_EDGES))
        bounds = [*np.unique(cuts).tolist(), self.n_u]
        for start, stop in pairwise(bounds):
            if start < stop:
                yield partial(self._draw, start, stop)

    def _draw(self, start: int, stop: int) -> EdgeBlock:
        offsets = self._offsets_u[start : stop + 1]
        stubs = np.arange(offsets[0], offsets[-1], dtype=np.int64)
        u = np.repeat(np.arange(start, stop, dtype=np.int64), np.diff(offsets))
        partner = self._matching.forward(stubs)
        if self._unipartite:
            partner ^= 1
            matched = partner < self._stubs_u
            u, partner = u[matched], self._matching.inverse(partner[matched])
        elif self._stubs_u > self._stubs_v:
            matched = partner < self._stubs_v
            u, partner = u[matched], partner[matched]
        v = self._owners(partner)
        dropped = {}
        if self._unipartite:
            dropped["self_loops"] = int(np.count_nonzero(u == v)) // 2
            upward = u < v
            u, v = u[upward], v[upward]
        u <<= 32
        u |= v
        keys = deduplicate(u)
        return EdgeBlock(keys, stubs.size, {**dropped, "duplicates": v.size - keys.size})

    def _owners(self, stubs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the vertices of layer V that own ``stubs``, shape (k,); searched in order, for the cache."""
        order = np.argsort(stubs)
        owners = np.empty(stubs.size, dtype=np.int64)
        owners[order] = np.searchsorted(self._offsets_v, stubs[order], side="right") - 1
        return owners


_SOURCES: dict[type[Model], type[Any]] = {
    Rmat: RmatSource,
    PowerLaw: PowerLawSource,
    Planted: PlantedSource,
    Blocks: CompleteSource,
    Complete: CompleteSource,
}
