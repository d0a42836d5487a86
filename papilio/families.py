"""The registry: one frozen row per motif, with all its facts for the layers above the kernels.

A new family is a folder in ``kernels``, a dataclass in :mod:`papilio.motifs` and a row here. Names of the form
``module:attribute`` in a row are imported when first needed, so that planning loads no kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import comb
from typing import Any, Literal

from papilio.arguments import plural
from papilio.errors import InputError, UnsupportedError
from papilio.extras import missing_package
from papilio.graph import GraphKind
from papilio.kernels.engine import ENGINES, Engine, EngineName
from papilio.kernels.memory import BICLIQUES, CLIQUES, MAXIMAL_BICLIQUES, PROJECTIONS, WEDGES, Memory
from papilio.kernels.null.ensemble import Ensemble
from papilio.motifs import (
    CENSUS_CLASSES,
    GRANULARITIES,
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Butterfly,
    Cell,
    Census,
    CensusClass,
    Clique,
    EngineOptions,
    Granularity,
    Listing,
    MaximalBiclique,
    MaximalClique,
    Motif,
    Projection,
    choose_options,
    read_motif,
)

EngineChoice = Literal["auto", "cpu", "gpu"]
"""``auto`` uses GPUs on workers that have them; ``cpu`` and ``gpu`` are used as given, or raise."""

Names = Mapping[EngineName, str]
"""The import name for each kind of processor."""


@dataclass(frozen=True)
class WorkRate:
    """Speed of one motif on one kind of processor, for items without timed probes; counts do not depend on it."""

    unit: str  # of work, in the plural
    per_second: float  # of one CPU thread, or of one device, for a plain count
    share: Mapping[str, float]  # of ``per_second``, by granularity: vectors need further traversals

    def speed(self, engine: EngineName, per: str, threads: int) -> float:
        """Return the predicted work units per second of one worker."""
        return self.per_second * self.share[per] * (threads if engine == "cpu" else 1)


_CPU_SHARE = {"total": 1.0, "vertex": 0.45, "edge": 0.15}
"""Measured on MovieLens-1M, an R-MAT graph and a complete graph: 0.39 to 0.46 and 0.13 to 0.23."""

_GPU_SHARE = {"total": 1.0, "vertex": 0.15, "edge": 0.15}
"""Measured on one H200, on R-MAT and MovieLens-1M: 0.13 to 0.21; only a total can use the hub columns."""


def _rates(unit: str, cpu: float, gpu: float) -> dict[EngineName, WorkRate]:
    return {"cpu": WorkRate(unit, cpu, _CPU_SHARE), "gpu": WorkRate(unit, gpu, _GPU_SHARE)}


_SEARCH_RATES = _rates("set operations", 2.0e7, 2.0e9)
"""For searches without timed probes, such as searches in parts: predicted operations, which ignore the depth of the
search. Depending on motif and graph, one thread does 5e6 to 2e8 of them a second, one H200 7e6 to 2e10."""

_LISTING_RATES = _rates("steps", 5.0e6, 1.0e8)
"""The same with rows: most of the time is spent writing them."""


_PAIR_RATES = _rates("wedges", 1.3e8, 7e9)
"""CPU: on yelp2018, both layers, pairs with 2 or more in common. GPU: the same, one H200, while listing."""

_PAIR_LISTING_RATES = _rates("steps", 4e7, 3.5e8)
"""The same with the rows, which are steps as wedges are, and written to files. GPU: one H200, 16 cores."""


@dataclass(frozen=True)
class ListingSupport:
    """How the motifs of a family are listed.

    ``columns`` gives the content of a row: the vertices of a layer (``u``, ``v``, or ``n`` of a unipartite graph), and
    their number, None for rows of variable length; empty for a question that cannot be listed. A lister is created with
    threads, or a device, then the :class:`~papilio.motifs.Listing` and the options of the motif.

    ``numbers`` are the numbers that a lister returns after the vertices, with their types; files then have a column
    for each vertex. ``call`` is the class of the calls that list.
    """

    engines: Names
    columns: Callable[[Any], Mapping[str, int | None]]
    numbers: Callable[[Any], Mapping[str, str]] = lambda motif: {}
    call: str = "papilio.api.listing:ListingCall"
    rates: Mapping[EngineName, WorkRate] = field(default_factory=lambda: _LISTING_RATES)


@dataclass(frozen=True)
class PartitionSupport:
    """How a graph beyond memory is cut into parts for a family.

    ``kind`` is the family of its partitions, see :data:`papilio.partitioning.store.Family`. ``cutter`` cuts them, see
    :func:`papilio.partitioning.root_parts.cut_roots`. ``least_sizes`` gives the least p and q of a question; for
    cliques the least k, and 1.
    """

    kind: str
    cutter: str
    least_sizes: Callable[[Any], tuple[int, int]]


@dataclass(frozen=True)
class Family:
    """One motif, as all layers above its kernels see it."""

    motif: type[Motif]
    engines: Names  # classes: cpu ones are made with threads, gpu ones with a device
    memory: Memory
    # vertices or edges of one motif, by vector, of one cell
    members: Callable[[Any, Cell], Mapping[str, int]]
    rates: Mapping[EngineName, WorkRate] = field(default_factory=lambda: _SEARCH_RATES)
    graph_kind: GraphKind = "bipartite"
    key: tuple[str, ...] = ("p", "q")  # names of the parts of a cell's key
    classes: tuple[CensusClass, ...] = ()  # meaning of cells that are not sizes
    same_work: bool = True  # whether all engines do the same units of work for the same items
    listed: ListingSupport | None = None
    parted: PartitionSupport | None = None
    # why a listing is rejected
    condition: str = ""  # what an error adds to the name where it applies to some of its motifs
    not_listed: str = "bicliques of one p and one q, cliques of one k, and maximal ones of both can"
    has_checksum: bool = False  # whether partials have the sum of the hashes of all motifs

    def columns(self, motif: Motif) -> Mapping[str, int | None]:
        """Return the columns of a listing of ``motif``, see :class:`ListingSupport`.

        Raises UnsupportedError if it cannot be listed.
        """
        columns = {} if self.listed is None else self.listed.columns(motif)
        if not columns:
            raise UnsupportedError(f"{motif.title} cannot be listed; {self.not_listed}")
        return columns

    def numbers(self, motif: Motif) -> Mapping[str, str]:
        """Return the numbers in the rows of a listing of ``motif``, and their types."""
        return {} if self.listed is None else self.listed.numbers(motif)

    def vector_sums(self, motif: Motif, total: int, cells: Mapping[Cell, int]) -> dict[str, int]:
        """Return the sum of the entries of each vector: every motif adds 1 at each of its members."""
        sums: dict[str, int] = {}
        for cell, count in (cells or {(): total}).items():
            for name, size in self.members(motif, cell).items():
                sums[name] = sums.get(name, 0) + size * count
        return sums


def family_of(motif: Motif) -> Family:
    """Return the row of a motif, or raise UnsupportedError."""
    if motif.name not in FAMILIES:
        raise UnsupportedError(f"motif {motif.name!r} has no engine; known: {', '.join(FAMILIES)}")
    family = FAMILIES[motif.name]
    if isinstance(motif, Projection) and motif.samples is not None:
        assert family.listed is not None
        listed = replace(family.listed, engines=_SAMPLED_PAIRS)
        return replace(family, engines=_SAMPLED_PAIRS, listed=listed, condition=' with significance "degrees"')
    return family


@dataclass(frozen=True)
class Question:
    """A motif to count or to list, with options: created and checked once, and passed to the engines.

    Raises UnsupportedError or InputError for a granularity or a listing that the motif does not support.
    """

    motif: Motif
    per: Granularity
    # how its engines compute it, as :func:`papilio.motifs.choose_options` returns it; not in the identity
    options: EngineOptions = ()
    listing: Listing | None = None  # which motifs are listed; None when they are counted
    ensemble: Ensemble | None = None  # random graphs in which they are also counted

    def __post_init__(self) -> None:
        motif = self.motif
        if self.per not in motif.granularities:
            if self.per not in GRANULARITIES:
                raise UnsupportedError(f"per is {self.per!r}; expected one of {', '.join(GRANULARITIES)}")
            asked = "a table of counts" if motif.is_table else f"a {motif.name}"
            raise UnsupportedError(f"{asked} cannot be counted per {self.per}; use {' or '.join(motif.granularities)}")
        if self.listing is not None:
            self._require_listable(self.listing)
        if self.ensemble is not None:
            self._require_comparable(self.ensemble)
        if self.options != choose_options(motif, dict(self.options)):
            raise UnsupportedError(f"options {self.options!r} are not sorted, or hold a default or a name twice")

    @classmethod
    def of(
        cls,
        motif: Motif | str,
        per: Granularity = "total",
        options: Mapping[str, str] | None = None,
        listing: Listing | None = None,
        sizes: Mapping[str, Any] | None = None,
        ensemble: Ensemble | None = None,
    ) -> Question:
        """Return the question of a call; InputError for an unknown motif, parameter or option."""
        motif = read_motif(motif, sizes)
        return cls(motif, per, choose_options(motif, options or {}), listing, ensemble)

    def _require_comparable(self, ensemble: Ensemble) -> None:
        motif = self.motif
        if self.per == "edge":
            raise UnsupportedError("random graphs have different edges: set per to 'total' or 'vertex'")
        if motif.needs_signs != ensemble.model.keeps_signs:
            why = "is defined by signs" if motif.needs_signs else "does not depend on signs"
            instead = "null 'signs'" if motif.needs_signs else "null 'degrees', 'expected-degrees' or 'edges'"
            raise UnsupportedError(f"null is {ensemble.null!r}, and a {motif.title} {why}: use {instead}")

    def _require_listable(self, listing: Listing) -> None:
        columns = self.family.columns(self.motif)
        required = {
            "n" if self.family.graph_kind == "unipartite" else "u": listing.with_u,
            "v": listing.with_v,
        }
        for layer, ids in required.items():
            size = columns.get(layer, 0)
            if size is not None and len(ids) > size:
                raise InputError(
                    f"{len(ids)} vertices{'' if layer == 'n' else f' of {layer.upper()}'} are required in each "
                    f"{self.motif.title}, which has {size} of them"
                )

    @property
    def family(self) -> Family:
        return family_of(self.motif)

    @property
    def of_layers(self) -> str:
        """Description of the question if its answer depends on which layer is U, else empty.

        All motifs are connected. If the question stays the same when the layers are exchanged, so does the answer when
        they are exchanged in one component, apart from the layer under which vertices are reported. Random graphs with
        other edges join the components.
        """
        alike = self.motif.mirrored == self.motif and (self.listing is None or self.listing.is_plain)
        same_edges = self.ensemble is None or (self.ensemble.model.keeps_signs and not self.motif.is_table)
        is_open = self.family.graph_kind == "bipartite" and not (alike and same_edges)
        return self.title.removesuffix(" per total") if is_open else ""

    @property
    def title(self) -> str:
        if self.ensemble is not None:
            graphs = f"{plural(self.ensemble.samples, 'random graph')} (null model {self.ensemble.null})"
            return f"{self.motif.title} per {self.per} against {graphs}"
        if self.listing is None:
            return f"{self.motif.title} per {self.per}"
        return f"listing of {self.motif.title}, {self.listing.title(self.family.graph_kind)}"

    @property
    def support(self) -> Family | ListingSupport:
        """What counts the motif, or lists it: ``engines`` and their ``rates``."""
        return self.family if self.listing is None or self.family.listed is None else self.family.listed

    def settle_engine(self, choice: EngineChoice) -> tuple[EngineChoice, str]:
        """Return the engine to request, and the reason if only one counts, or lists, the motif.

        Raises UnsupportedError for an engine that does not.
        """
        names, does = list(self.support.engines), "counted" if self.listing is None else "listed"
        place = " and ".join({"cpu": "CPUs", "gpu": "GPUs"}[name] for name in names)
        rule = f"{self.motif.name}s{self.family.condition} are {does} on {place}"
        if choice in ENGINES and choice not in names:
            expected = " or ".join(map(repr, (*names, "auto")))
            raise UnsupportedError(f"{rule}, and engine is {choice!r}; give {expected}")
        return (names[0], rule) if choice in ("auto", *names) and len(names) == 1 else (choice, "")

    @property
    def engine_options(self) -> EngineOptions:
        """The options that its engine is made with."""
        return self.options

    @property
    def engine_key(self) -> tuple[Motif, EngineOptions, Listing | None, Ensemble | None]:
        """What its engine depends on: equal for all granularities and graphs."""
        return self.motif, self.engine_options, self.listing, self.ensemble

    def load_engine(self, name: EngineName, threads: int, memory_bytes: int | None) -> Engine:
        """Return the engine that counts or lists; parameters and errors as for :func:`load_engine`."""
        options: dict[str, Any] = {"memory_bytes": memory_bytes, **dict(self.engine_options)}
        if self.ensemble is None:
            return load_engine(self.motif, name, threads, listing=self.listing, **options)
        engine = load_engine(self.motif, name, 1, **options)  # one per thread, each with separate samples
        sampler: Engine = resolve(_SAMPLER)(engine, self.ensemble, threads)
        return sampler


_SAMPLER = "papilio.kernels.null.engine:SampleEngine"


def resolve(name: str) -> Any:
    """Import an object from its name, ``module:attribute``."""
    module, attribute = name.split(":")
    return getattr(import_module(module), attribute)


def load_engine(
    motif: Motif,
    name: EngineName,
    threads: int | None = None,
    *,
    memory_bytes: int | None = None,
    listing: Listing | None = None,
    **options: str,
) -> Engine:
    """Return the engine that counts ``motif`` on ``name``, or lists it; imports CuPy or Numba only now.

    Raises EngineUnavailableError if CuPy or a device is missing, UnsupportedError or InputError if the motif has no
    such engine or option.

    Parameters
    ----------
    threads : int, optional
        Number of threads of the cpu engine; by default all processors that this process may use.
    memory_bytes : int, optional
        Maximum device memory for arrays of the gpu engine, for all engines of this process together.
    listing : Listing, optional
        If set, the engine lists: its ``run`` has an additional parameter ``sink`` for the rows.
    **options : str
        See ``Motif.choices``.
    """
    if name not in ENGINES:
        raise UnsupportedError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    family, chosen = family_of(motif), dict[str, Any](choose_options(motif, options))
    engines = family.engines
    if listing is not None:
        family.columns(motif)
        assert family.listed is not None
        engines, chosen["listing"] = family.listed.engines, listing
    if name not in engines:
        can = "" if listing is None else f" for listings, only for {' or '.join(engines)}"
        raise UnsupportedError(f"motif {motif.name!r} has no {name} engine{can}")
    if name == "cpu":
        engine: Engine = resolve(engines[name])(threads, **chosen)
        return engine
    try:
        from papilio.kernels.device.cuda import shared_device

        gpu_class = resolve(engines[name])
    except ImportError as error:
        raise missing_package("the gpu engine needs", "cupy", f"use --engine cpu ({error})") from error
    gpu_engine: Engine = gpu_class(shared_device(memory_bytes), **chosen)
    return gpu_engine


_SAMPLED_PAIRS: Names = {"cpu": "papilio.kernels.project.sampled:SampledProjectionCpu"}
_SIGNED_WEDGES: Names = {
    "cpu": "papilio.kernels.wedge.cpu:BalancedButterflyCpu",
    "gpu": "papilio.kernels.wedge.gpu:BalancedButterflyGpu",
}
_PROJECTIONS: Names = {
    "cpu": "papilio.kernels.project.cpu:ProjectionCpu",
    "gpu": "papilio.kernels.project.gpu:ProjectionGpu",
}
_BICLIQUES: Names = {
    "cpu": "papilio.kernels.biclique.cpu:BicliqueCpu",
    "gpu": "papilio.kernels.biclique.gpu:BicliqueGpu",
}


def _wedge_members(motif: Butterfly | BalancedButterfly | Census, cell: Cell) -> dict[str, int]:
    return {"u": 2, "v": 2, "edge": 4}


def _biclique_members(motif: Biclique, cell: Cell) -> dict[str, int]:
    return {"u": motif.p, "v": motif.q} if motif.p and motif.q else {}


def _clique_members(motif: Clique, cell: Cell) -> dict[str, int]:
    return {"n": motif.k, "edge": comb(motif.k, 2)} if motif.k else {}


def _pair_numbers(motif: Projection) -> dict[str, str]:
    weight = {} if motif.weighting is None else {"weight": "double"}
    return {"common": "int32", **weight, **({} if motif.significance is None else {"p": "double"})}


def _clique_columns(motif: Clique) -> dict[str, int | None]:
    return {"n": motif.k} if motif.k else {}


def _biclique_columns(motif: Biclique) -> dict[str, int | None]:
    return {"u": motif.p, "v": motif.q} if motif.p and motif.q else {}


_ROWS = (
    Family(
        Butterfly,
        engines={
            "cpu": "papilio.kernels.wedge.cpu:ButterflyCpu",
            "gpu": "papilio.kernels.wedge.gpu:ButterflyGpu",
        },
        memory=WEDGES,
        members=_wedge_members,
        # CPU, on the graphs of the shares: 2.5e8 (sparse) to 1.4e9 (dense) per second and thread. One H200: 4.8e11 on
        # MovieLens-1M, 5.5e11 on R-MAT.
        rates=_rates("wedges", 5.0e8, 5.0e11),
        parted=PartitionSupport(
            "wedges",
            cutter="papilio.partitioning.wedge_parts:cut_wedges",
            least_sizes=lambda motif: (2, 2),
        ),
    ),
    Family(
        BalancedButterfly,
        engines=_SIGNED_WEDGES,
        memory=WEDGES,
        members=_wedge_members,
        # 0.9 of the rate of butterflies on a CPU, on the same graphs. GPU: by the same ratio; measured on one H200: 0.5
        # to 1.0.
        rates=_rates("wedges", 4.5e8, 4.5e11),
    ),
    Family(
        Census,
        engines=_SIGNED_WEDGES,
        memory=WEDGES,
        members=_wedge_members,
        # 0.3 of the rate of butterflies on a CPU. GPU: by the same ratio; measured on one H200: 0.1 to 1.1.
        rates=_rates("wedges", 1.5e8, 1.5e11),
        classes=CENSUS_CLASSES,
    ),
    Family(
        Biclique,
        engines=_BICLIQUES,
        memory=BICLIQUES,
        members=_biclique_members,
        same_work=False,
        listed=ListingSupport(
            {"cpu": "papilio.kernels.biclique.list:BicliqueLister"},
            columns=_biclique_columns,
        ),
        parted=PartitionSupport(
            "roots",
            cutter="papilio.partitioning.root_parts:cut_roots",
            least_sizes=lambda motif: (motif.p or 1, motif.q or 1),
        ),
    ),
    Family(
        BalancedBiclique,
        engines=_BICLIQUES,
        memory=BICLIQUES,
        members=_biclique_members,
        same_work=False,
    ),
    Family(
        Clique,
        engines={
            "cpu": "papilio.kernels.clique.cpu:CliqueCpu",
            "gpu": "papilio.kernels.clique.gpu:CliqueGpu",
        },
        memory=CLIQUES,
        members=_clique_members,
        graph_kind="unipartite",
        key=("k",),
        same_work=False,
        listed=ListingSupport(
            {
                "cpu": "papilio.kernels.clique.list:CliqueLister",
                "gpu": "papilio.kernels.clique.list_gpu:CliqueGpuLister",
            },
            columns=_clique_columns,
        ),
        parted=PartitionSupport(
            "cliques",
            cutter="papilio.partitioning.clique_parts:cut_cliques",
            least_sizes=lambda motif: (motif.k or 1, 1),
        ),
    ),
    Family(
        MaximalClique,
        engines={
            "cpu": "papilio.kernels.clique.cpu:MaximalCliqueCpu",
            "gpu": "papilio.kernels.clique.gpu:MaximalCliqueGpu",
        },
        memory=CLIQUES,
        members=lambda motif, cell: {},
        graph_kind="unipartite",
        key=("k",),
        same_work=False,
        listed=ListingSupport(
            {
                "cpu": "papilio.kernels.clique.list:MaximalCliqueLister",
                "gpu": "papilio.kernels.clique.list_gpu:MaximalCliqueGpuLister",
            },
            columns=lambda motif: {"n": None},
        ),
        parted=PartitionSupport(
            "maximal-cliques",
            cutter="papilio.partitioning.clique_parts:cut_maximal_cliques",
            least_sizes=lambda motif: (motif.min_size, 1),
        ),
        has_checksum=True,
    ),
    Family(
        MaximalBiclique,
        engines={
            "cpu": "papilio.kernels.maximal.cpu:MaximalBicliqueCpu",
            "gpu": "papilio.kernels.maximal.gpu:MaximalBicliqueGpu",
        },
        memory=MAXIMAL_BICLIQUES,
        members=lambda motif, cell: {},
        same_work=False,
        listed=ListingSupport(
            {
                "cpu": "papilio.kernels.maximal.list:MaximalBicliqueLister",
                "gpu": "papilio.kernels.maximal.list_gpu:MaximalBicliqueGpuLister",
            },
            columns=lambda motif: {"u": None, "v": None},
        ),
        parted=PartitionSupport(
            "maximal-bicliques",
            cutter="papilio.partitioning.root_parts:cut_maximal_roots",
            least_sizes=lambda motif: (motif.min_u, motif.min_v),
        ),
        has_checksum=True,
    ),
    Family(
        Projection,
        engines=_PROJECTIONS,
        memory=PROJECTIONS,
        members=lambda motif, cell: {},
        rates=_PAIR_RATES,
        listed=ListingSupport(
            _PROJECTIONS,
            columns=lambda motif: {motif.layer: 2},
            numbers=_pair_numbers,
            call="papilio.api.project:ProjectionCall",
            rates=_PAIR_LISTING_RATES,
        ),
    ),
)

FAMILIES: dict[str, Family] = {row.motif.name: row for row in _ROWS}
"""The rows, by the name of the motif."""
