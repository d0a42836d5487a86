"""The contract between a motif's kernels and everything that schedules them.

A motif has one engine per processor kind, with the same work items and the same partials, so that leases
of one job may run on either and be checked on the other:

* ``stage`` copies the data of a part to where the engine runs, while it runs another;
* ``prepare`` reduces, orders and builds the form that the kernels need, of a whole graph or of a part;
* ``work`` gives the exact or estimated cost of every work item, heaviest first;
* ``run`` is exact for exactly the items of ``[start, stop)``, or, when it is cut, for the first of them;
* partials fold associatively and commutatively (:func:`fold_partials`).

Laws, tested on every engine: any split of ``[0, n_items)`` folds to the same partial; CPU equals GPU equals
the oracle; the item order depends on the graph alone, never on the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from papilio.errors import EngineUnavailableError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.motifs import Granularity, Listing, Motif, choose_options
from papilio.parts import EndBlock, Part, RootPart, StartBlock

__all__ = [
    "ENGINES",
    "Cut",
    "Engine",
    "EngineName",
    "Loadable",
    "Partial",
    "Prepared",
    "decisions_of",
    "fold_partials",
    "load_engine",
    "load_lister",
    "never_cut",
    "require_interval",
    "require_request",
]

EngineName = Literal["cpu", "gpu"]
ENGINES: tuple[EngineName, ...] = ("cpu", "gpu")

Loadable = TypeVar("Loadable", StartBlock, EndBlock, RootPart)
"""What is read from storage and copied to a device as one: a block of a part, or a part that has no blocks."""

Cut = Callable[[], bool]
"""Asked by a run, again and again, from any of its threads: whether it should end early."""


def never_cut() -> bool:
    """Let a run go on to its end."""
    return False


@dataclass(frozen=True)
class Partial:
    """The exact answer for an interval of work items.

    Attributes
    ----------
    n_items : int
        Number of items that were counted.
    total : int
        Number of motifs that these items answer for; a Python integer of any size.
    work : int
        Units of work done: for the wedge engine wedges, exactly as predicted; for the others what was measured,
        which need not be what another engine does.
    vectors : dict of str to ndarray of uint64, host
        Empty for granularity ``total``; ``{"u": shape (n_u,), "v": shape (n_v,)}`` for ``vertex``;
        ``{"edge": shape (n_edges,)}``, in edge-id order, for ``edge``. Original dense ids throughout. Of a part:
        entry i is for the id that ``part.vector_ids(per)`` has there.
    cells : dict of (int, int) to int
        For a motif whose answer is a table: its counts by (p, q), in terms of U and V, Python integers of any size,
        without those that are 0; ``total`` is their sum. Empty for any other motif.
    capped : bool
        Whether a run that lists ended because it had listed as many as were asked for: its items then have more.
    """

    n_items: int
    total: int
    work: int
    vectors: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    cells: dict[tuple[int, int], int] = field(default_factory=dict)
    capped: bool = False


def fold_partials(a: Partial, b: Partial) -> Partial:
    """Add two partials of the same job; associative and commutative.

    Entries of vectors are exact modulo 2^64. An engine either refuses, when it prepares, a graph on which one could
    pass 2^63, or the finished sums are checked (see :class:`papilio.tasks.fold.PartialFold`). Totals and cells are
    Python integers.
    """
    if a.vectors.keys() != b.vectors.keys():
        raise UnsupportedError(
            f"partials of different granularities cannot be folded: {sorted(a.vectors)} and {sorted(b.vectors)}"
        )
    return Partial(
        a.n_items + b.n_items,
        a.total + b.total,
        a.work + b.work,
        {name: a.vectors[name] + b.vectors[name] for name in a.vectors},
        _add_cells(a.cells, b.cells),
    )


def _add_cells(a: dict[tuple[int, int], int], b: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Return the sums by (p, q); looks up the fewer cells in the others."""
    more, fewer = (a, b) if len(a) >= len(b) else (b, a)
    cells = dict(more)
    for cell, count in fewer.items():
        cells[cell] = cells.get(cell, 0) + count
    return cells


def require_interval(start: int, stop: int, n_items: int) -> None:
    """Refuse an interval that is not within the work items.

    Raises
    ------
    InputError
        Unless ``0 <= start <= stop <= n_items``.
    """
    if not 0 <= start <= stop <= n_items:
        raise InputError(f"items [{start}, {stop}) are not within [0, {n_items})")


def require_request(
    engine: str,
    motif_type: type[Motif] | tuple[type[Motif], ...],
    graph: object,
    motif: Motif,
    per: str,
    part_type: type[Part] | None = None,
) -> None:
    """Refuse what a bipartite engine of ``motif_type``, and of parts of ``part_type``, cannot count.

    Raises
    ------
    UnsupportedError
        For another motif, kind of graph or part, or granularity.
    """
    if not isinstance(motif, motif_type):
        raise UnsupportedError(f"the {engine} engine cannot count {motif.name!r}")
    if isinstance(graph, Part) and (part_type is None or not isinstance(graph, part_type)):
        raise UnsupportedError(f"the {engine} engine cannot count in a {type(graph).__name__}")
    if not isinstance(graph, BipartiteGraph | Part):
        raise UnsupportedError(f"{engine} counts need a bipartite graph, not a {type(graph).__name__}")
    if per not in motif.granularities:
        raise UnsupportedError(
            f"{motif.title} cannot be counted per {per!r}; known: {', '.join(motif.granularities)}"
        )
    if motif.needs_signs and isinstance(graph, BipartiteGraph) and graph.sign is None:
        raise UnsupportedError(f"{motif.title} needs a sign for every edge; the graph has none")


class Prepared(Protocol):
    """A graph in the form that one engine's kernels need; made by :meth:`Engine.prepare`, opaque otherwise.

    Where the engine had a choice, ``decisions`` (tuple of (str, str)) says what it decided and why; see
    :func:`decisions_of`.
    """

    @property
    def n_items(self) -> int:
        """Number of work items."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held (host memory for ``cpu``, device memory for ``gpu``)."""
        ...


def decisions_of(prepared: Prepared) -> tuple[tuple[str, str], ...]:
    """Return what the engine decided as it prepared a graph, with its reasons; nothing where it had no choice."""
    return getattr(prepared, "decisions", ())


class Engine(Protocol):
    """One motif on one kind of processor."""

    name: EngineName

    def prepare(self, graph: BipartiteGraph | Part, motif: Motif, per: Granularity) -> Any:
        """Reduce, order and build; see :class:`Prepared`. A part may be staged or not, and is left as it is."""
        ...

    def stage(self, block: Loadable) -> Loadable:
        """Return a block with its large arrays where the engine runs: on the device, or as it is on the CPU.

        Complete on return. May be called from another thread while the engine runs.
        """
        ...

    def work(self, prepared: Any) -> NDArray[np.int64]:
        """Cost of each work item, shape (n_items,), host; heaviest first, but for parts."""
        ...

    def slice_work(self, prepared: Any) -> int:
        """Least work of a slice of a run (see :meth:`run`), for what every slice costs beside its items'."""
        ...

    def run(
        self, prepared: Any, start: int, stop: int, bounds: Sequence[int] = (), cut: Cut = never_cut
    ) -> Partial:
        """Count exactly the items of ``[start, stop)``, or the first of them if the run is cut.

        Parameters
        ----------
        prepared : Prepared
        start, stop : int
            The interval.
        bounds : sequence of int
            Strictly rising, inside the interval: where slices end, so that the run can be cut about there.
        cut : callable
            Once it is true no further slice begins. What has begun is finished: the partial's ``n_items`` says
            how many items, from ``start`` on, it answers for.

        Raises
        ------
        InputError
            When the interval does not lie in ``[0, n_items]``.
        """
        ...


_SIGNED: dict[EngineName, tuple[str, str]] = {
    "cpu": ("papilio.kernels.wedge.signed_cpu", "BalancedButterflyCpu"),
    "gpu": ("papilio.kernels.wedge.signed_gpu", "BalancedButterflyGpu"),
}

_BICLIQUES: dict[EngineName, tuple[str, str]] = {
    "cpu": ("papilio.kernels.biclique.cpu", "BicliqueCpu"),
    "gpu": ("papilio.kernels.biclique.gpu", "BicliqueGpu"),
}

_MODULES: dict[str, dict[EngineName, tuple[str, str]]] = {
    "balanced-biclique": _BICLIQUES,
    "balanced-butterfly": _SIGNED,
    "biclique": _BICLIQUES,
    "butterfly": {
        "cpu": ("papilio.kernels.wedge.cpu", "ButterflyCpu"),
        "gpu": ("papilio.kernels.wedge.gpu", "ButterflyGpu"),
    },
    "census": _SIGNED,
}
"""Module and class of each engine: ``cpu`` classes are made with threads, ``gpu`` classes with a device."""


def load_engine(
    motif: Motif,
    name: EngineName,
    threads: int | None = None,
    *,
    memory_bytes: int | None = None,
    **options: str,
) -> Engine:
    """Return the engine of ``motif`` on ``name``; imports CuPy or Numba only now.

    Parameters
    ----------
    motif : Motif
    name : str
    threads : int, optional
        Bounds the threads of the cpu engine; by default all processors that this process may use.
    memory_bytes : int, optional
        Most device memory that arrays of the gpu engine may take, all engines of this process together.
    **options : str
        Options of the motif, see ``Motif.choices``.

    Raises
    ------
    EngineUnavailableError
        When the GPU engine is asked for and CuPy or a device is missing.
    UnsupportedError
        When the motif has no such engine.
    InputError
        For an option that the motif does not have.
    """
    if name not in ENGINES:
        raise UnsupportedError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    if name not in _MODULES.get(motif.name, {}):
        raise UnsupportedError(f"motif {motif.name!r} has no {name} engine")
    chosen = dict(choose_options(motif, options))
    module, made = _MODULES[motif.name][name]
    if name == "cpu":
        engine: Engine = getattr(import_module(module), made)(threads, **chosen)
        return engine
    try:
        from papilio.kernels.device.cuda import shared_device

        gpu_class = getattr(import_module(module), made)
    except ImportError as error:
        raise EngineUnavailableError(
            f"the gpu engine needs CuPy ({error}); install papilio[cuda13] or papilio[cuda12], or use --engine cpu"
        ) from error
    gpu_engine: Engine = gpu_class(shared_device(memory_bytes), **chosen)
    return gpu_engine


def load_lister(
    motif: Motif,
    listing: Listing,
    name: EngineName,
    threads: int | None = None,
    algorithm: str = "auto",
    anchor: str = "auto",
) -> Engine:
    """Return the engine that lists ``motif``: its ``run`` takes a ``sink`` for the rows, beside what all take.

    Parameters
    ----------
    motif : Motif
    listing : Listing
        Which of them.
    name, threads
        As for :func:`load_engine`.
    algorithm, anchor : str
        Options of the motif.

    Raises
    ------
    UnsupportedError
        For another engine than ``cpu``, another motif than bicliques, and an algorithm that only counts.
    """
    if name != "cpu":
        raise UnsupportedError(f"bicliques are listed on CPUs; the {name} engine only counts them")
    if motif.name != "biclique":
        raise UnsupportedError(f"{motif.name!r} cannot be listed; bicliques of one p and one q can")
    if algorithm == "pivot":
        raise UnsupportedError(
            "algorithm 'pivot' counts without visiting every biclique; list with 'enumerate'"
        )
    lister = import_module("papilio.kernels.biclique.list").BicliqueLister
    engine: Engine = lister(threads, anchor, listing.with_u, listing.with_v, listing.limit)
    return engine
