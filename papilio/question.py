"""A question about a graph: which motif is counted or listed, per what, on which engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from papilio import registry
from papilio.arguments import plural
from papilio.errors import InputError, UnsupportedError
from papilio.kernels.engine import ENGINES, Engine, EngineChoice, EngineName
from papilio.kernels.motif_row import ListingSupport, MotifRow
from papilio.kernels.null.ensemble import Ensemble
from papilio.motifs import GRANULARITIES, EngineOptions, Granularity, Listing, Motif, choose_options, read_motif


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
        columns = self.row.columns(self.motif)
        required = {
            "n" if self.row.graph_kind == "unipartite" else "u": listing.with_u,
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
    def row(self) -> MotifRow:
        """The row of the motif."""
        return registry.motif_row(self.motif)

    @property
    def of_layers(self) -> str:
        """Description of the question if its answer depends on which layer is U, else empty.

        All motifs are connected. If the question stays the same when the layers are exchanged, so does the answer when
        they are exchanged in one component, apart from the layer under which vertices are reported. Random graphs with
        other edges join the components.
        """
        alike = self.motif.mirrored == self.motif and (self.listing is None or self.listing.is_plain)
        same_edges = self.ensemble is None or (self.ensemble.model.keeps_signs and not self.motif.is_table)
        is_open = self.row.graph_kind == "bipartite" and not (alike and same_edges)
        return self.title.removesuffix(" per total") if is_open else ""

    @property
    def title(self) -> str:
        if self.ensemble is not None:
            graphs = f"{plural(self.ensemble.samples, 'random graph')} (null model {self.ensemble.null})"
            return f"{self.motif.title} per {self.per} against {graphs}"
        if self.listing is None:
            return f"{self.motif.title} per {self.per}"
        return f"listing of {self.motif.title}, {self.listing.title(self.row.graph_kind)}"

    @property
    def support(self) -> MotifRow | ListingSupport:
        """What counts the motif, or lists it: ``engines`` and their ``rates``."""
        return self.row if self.listing is None or self.row.listed is None else self.row.listed

    def settle_engine(self, choice: EngineChoice) -> tuple[EngineChoice, str]:
        """Return the engine to request, and the reason if only one counts, or lists, the motif.

        Raises UnsupportedError for an engine that does not.
        """
        names, does = list(self.support.engines), "counted" if self.listing is None else "listed"
        place = " and ".join({"cpu": "CPUs", "gpu": "GPUs"}[name] for name in names)
        rule = f"{self.motif.name}s{self.row.condition} are {does} on {place}"
        if choice in ENGINES and choice not in names:
            expected = " or ".join(map(repr, (*names, "auto")))
            raise UnsupportedError(
                f"{rule}, and engine is {choice!r}; give {expected} (papilio plan shows how long that takes)"
            )
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
            return registry.load_engine(self.motif, name, threads, listing=self.listing, **options)
        engine = registry.load_engine(self.motif, name, 1, **options)  # one per thread, each with separate samples
        from papilio.kernels.null.engine import SampleEngine

        return SampleEngine(engine, self.ensemble, threads)
