"""Synthetic graphs, written straight to a store or made in memory; the same from the same seed everywhere.

A graph depends on its model and its seed alone: not on memory, threads, the machine or the version of NumPy.
Edges are drawn in sorted blocks (:mod:`papilio.storage.generators`), so a graph far larger than memory passes
through in one stream, with no external sort and no temporary files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from papilio.arguments import Bytes, Seed, Share, Threads, checked, read_bytes
from papilio.errors import CapacityError, InputError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage.generators.blocks import CompactSource, EdgeSource, run_blocks
from papilio.storage.generators.models import Complete, Model, Planted, PowerLaw, Rmat
from papilio.storage.generators.planted import CompleteSource, PlantedSource
from papilio.storage.generators.powerlaw import PowerLawSource
from papilio.storage.generators.randomness import edge_signs
from papilio.storage.generators.rmat import RmatSource
from papilio.storage.location import check_replaceable, local_path
from papilio.storage.store import GraphStore, StoreWriter
from papilio.version import __version__
from papilio.wording import show_bytes

__all__ = ["Complete", "Model", "Planted", "PowerLaw", "Rmat", "generate", "generate_graph"]

DrawProgress = Callable[[int, int], None]
"""Called with (units done, units in all); a unit is one draw of one pass."""

_SOURCES: dict[type[Model], Callable[[Any, int], EdgeSource]] = {
    Rmat: RmatSource,
    PowerLaw: PowerLawSource,
    Planted: PlantedSource,
    Complete: lambda model, seed: CompleteSource(model),
}

_STATE_BYTES: dict[type[Model], Callable[[Any], int]] = {
    PowerLaw: PowerLawSource.state_bytes_of, Planted: PlantedSource.state_bytes_of
}  # fmt: skip
"""Host bytes that a source takes for its vertices, where it takes any."""

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
    progress: DrawProgress | None = None,
) -> GraphStore:
    """Generate a graph into a new store.

    Parameters
    ----------
    model : Rmat, PowerLaw, Planted or Complete
    path : path-like
        Directory of the store; its parent must exist.
    seed : int
        0 to 2^63 - 1. The same model and seed give the same content hash on any machine.
    signs : float, optional
        Make a signed graph: each edge is positive with this probability, decided by a hash of (u, v, seed).
    memory_bytes : int, optional
        Host memory to stay within; by default a quarter of the machine's.
    workers : int, optional
        Threads that draw; by default one per CPU, as far as ``memory_bytes`` allows.
    overwrite : bool
        Replace an existing store.
    progress : callable, optional
        Called with (units done, units in all) after each block.

    Returns
    -------
    GraphStore
        Its provenance names the model, its parameters, the seed and the version of Papilio.

    Raises
    ------
    InputError
        For a seed, a fraction of signs or a number of workers out of range.
    CapacityError
        When ``memory_bytes`` is too little for the model.
    StoreError
        When the path exists or cannot be written to.
    """
    check_replaceable(local_path(path), overwrite)
    advance = _Advance(progress)
    memory = read_bytes("memory_bytes", memory_bytes)
    source, threads = _prepare(model, seed, memory, workers, advance)
    provenance = {
        "source": "generated",
        **model.to_json(),
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
        for keys, lost in _edges(source, threads, advance):
            dropped.update(lost)
            u, v = _split(keys)
            writer.append(u, v, None if signs is None else edge_signs(keys, signs, seed))
        writer.dropped.update(dropped)
    return writer.store


@checked
def generate_graph(
    model: Model, seed: Seed = 0, *, signs: Share | None = None, workers: Threads | None = None
) -> BipartiteGraph | UnipartiteGraph:
    """Generate a graph in memory, with exactly the edges and signs that :func:`generate` stores; errors as there."""
    advance = _Advance(None)
    source, threads = _prepare(model, seed, None, workers, advance)
    parts = [keys for keys, _ in _edges(source, threads, advance)]
    keys = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    u, v = _split(keys)
    sign = None if signs is None else edge_signs(keys, signs, seed)
    if model.kind == "unipartite":
        return UnipartiteGraph(source.n_u, u, v, sign)
    return BipartiteGraph(source.n_u, source.n_v, u, v, sign)


class _Advance:
    """Adds up the draws of all passes and tells the caller's ``progress``."""

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
    """Make the source, with as many threads as the memory allows, and make its first pass if it needs one."""
    budget = psutil.virtual_memory().total // 4 if memory_bytes is None else memory_bytes
    if type(model) not in _SOURCES:
        raise InputError(
            f"no generator for {type(model).__name__}; expected Rmat, PowerLaw, Planted or Complete"
        )
    _check_memory(model, "the vertices alone", _STATE_BYTES.get(type(model), lambda _: 0)(model), budget)
    source = _SOURCES[type(model)](model, seed)
    compact = isinstance(model, Rmat) and model.compact
    held = source.state_bytes + (CompactSource.extra_bytes(source) if compact else 0) + _WRITER_BYTES
    one_worker = 3 * source.block_bytes
    _check_memory(model, "one worker", held + one_worker, budget)
    threads = min(workers or os.cpu_count() or 1, (budget - held) // max(one_worker, 1))
    advance.total = source.total_draws * (2 if compact else 1)
    if compact:
        source = CompactSource(
            source, unipartite=model.kind == "unipartite", workers=threads, on_block=advance
        )
    return source, threads


def _check_memory(model: Model, what: str, needed: int, budget: int) -> None:
    if needed > budget:
        raise CapacityError(
            f"generating {model} needs {show_bytes(needed)} for {what}; the limit is "
            f"{show_bytes(budget)}: raise the memory or make the model smaller"
        )


def _edges(
    source: EdgeSource, workers: int, advance: _Advance
) -> Iterator[tuple[NDArray[np.int64], dict[str, int]]]:
    """Yield the edges in order as keys ``u << 32 | v``, with what was dropped on the way."""
    for block in run_blocks(source, workers):
        yield block.keys, block.dropped
        advance(block.drawn)


def _split(keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return (keys >> 32).astype(np.int32), keys.astype(np.int32)
