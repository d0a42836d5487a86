"""The memory that each family is predicted to take, for one graph and one part, as recorded."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from papilio.kernels.engine import EngineName
from papilio.motifs import (
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Butterfly,
    Census,
    Checkerboard,
    Clique,
    FourCycle,
    Granularity,
    Listing,
    MaximalBiclique,
    MaximalClique,
    Motif,
    Projection,
    Togetherness,
)
from papilio.parts import PartSizes
from papilio.registry import motif_row

THREADS = 3


@dataclass(frozen=True)
class Job:
    """A signed graph of 1,037 vertices and 12,345 edges."""

    motif: Motif
    per: Granularity
    listing: Listing | None
    n_u: int = 1000
    n_v: int = 37
    n_vertices: int = 1037
    n_edges: int = 12_345
    signed: bool = True

    @property
    def vector_entries(self) -> int:
        return {"total": 0, "vertex": self.n_vertices, "edge": self.n_edges}[self.per]


def predict(motif: Motif, listing: Listing | None, engine: EngineName, per: Granularity) -> tuple[int, ...]:
    """Return host and device bytes of the graph; then of a part, its arrays, staged arrays, host and device bytes."""
    family = motif_row(motif)
    memory, sizes = family.memory, PartSizes(100, 1001, 10_007, 100_003)
    whole = memory.predict_graph(Job(motif, per, listing), engine, THREADS)
    if family.parted is None:
        return whole
    part = (memory.raw(per), memory.staged, *memory.predict_part(motif, engine, per, THREADS))
    return (*whole, *(each.of(sizes) for each in part))


CASES: dict[str, tuple[Motif, Listing | None]] = {  # every motif: tests/families/test_places.py
    "butterfly": (Butterfly(), None),
    "balanced butterfly": (BalancedButterfly(), None),
    "census": (Census("u"), None),
    "biclique": (Biclique(3, 3), None),
    "listed biclique": (Biclique(2, 3), Listing()),
    "balanced biclique": (BalancedBiclique(3, 3), None),
    "clique": (Clique(4), None),
    "four-cycle": (FourCycle(), None),
    "checkerboard": (Checkerboard(), None),
    "togetherness": (Togetherness("u"), None),
    "listed maximal clique": (MaximalClique(), Listing()),
    "maximal biclique": (MaximalBiclique(), None),
    "projection": (Projection("u"), None),
    "listed projection": (Projection("u"), Listing()),
    "tested projection": (Projection("u", significance="hypergeometric", fdr=0.05), Listing()),
    "signed projection": (Projection("u", significance="signs", fdr=0.05), Listing()),
}

RECORDED: dict[str, tuple[tuple[int, ...], ...]] = {
    "butterfly": (
        (431289, 0, 566544, 528372, 3319448, 0),
        (464473, 0, 566544, 528372, 3642872, 0),
        (826329, 0, 1374576, 528372, 4127480, 0),
        (111105, 778329, 566544, 528372, 101712672, 50471740),
        (127697, 794921, 566544, 528372, 101793528, 50552596),
        (308625, 1074609, 1374576, 528372, 102520704, 51279772),
    ),
    "balanced butterfly": (
        (674049, 0),
        (707233, 0),
        (111105, 877089),
        (127697, 893681),
    ),
    "census": ((674049, 0), (111105, 877089)),
    "biclique": (
        (104396129, 0, 849660, 809056, 55429254, 0),
        (104429313, 0, 849660, 809056, 55752678, 0),
        (3732833, 2149636321, 849660, 809056, 17032384, 57177132),
        (3749425, 2149652913, 849660, 809056, 18810160, 57257988),
    ),
    "listed biclique": (
        (205109201, 0, 849660, 809056, 55044870, 0),
        (205142385, 0, 849660, 809056, 55752678, 0),
        (255440849, 2418088369, 849660, 809056, 17032384, 56600556),
        (255457441, 2418104961, 849660, 809056, 18810160, 57257988),
    ),
    "balanced biclique": (
        (108215377, 0),
        (108248561, 0),
        (7552081, 2151875409),
        (7568673, 2151892001),
    ),
    "clique": (
        (101350223, 0, 849660, 809056, 51062552, 0),
        (101383407, 0, 849660, 809056, 51385976, 0),
        (101745263, 0, 1657692, 809056, 55102712, 0),
        (131944, 269094384, 849660, 809056, 16780416, 118740080),
        (148536, 269110976, 849660, 809056, 16942128, 118901792),
        (329464, 269291904, 1657692, 809056, 18396480, 120356144),
    ),
    "checkerboard": ((447881, 0), (522545, 0), (127697, 778329), (185769, 794921)),
    "togetherness": ((447881, 0), (522545, 0), (127697, 778329), (185769, 794921)),
    "four-cycle": (
        (431289, 0, 566544, 528372, 3319448, 0),
        (464473, 0, 566544, 528372, 3642872, 0),
        (1023849, 0, 1374576, 528372, 4127480, 0),
        (111105, 778329, 566544, 528372, 101712672, 50471740),
        (127697, 794921, 566544, 528372, 101793528, 50552596),
        (308625, 1074609, 1374576, 528372, 102520704, 51279772),
    ),
    "listed maximal clique": (
        (202174499, 0, 849660, 809056, 53890664, 0),
        (251951164, 537546432, 849660, 809056, 16780416, 122376224),
    ),
    "maximal biclique": (
        (107556449, 0, 889688, 809056, 58783512, 0),
        (3732833, 2152854317, 889688, 809056, 19779904, 125832898),
    ),
    "projection": ((539289, 0), (144289, 838773)),
    "listed projection": ((101252361, 0), (251852305, 269290821)),
    "tested projection": ((369687817, 0), (520287761, 269290821)),
    "signed projection": ((101495121, 0),),
}


@pytest.mark.parametrize("name", CASES)
def test_predicted_memory_is_what_was_recorded(name: str) -> None:
    motif, listing = CASES[name]
    engines = motif_row(motif).engines
    found = [predict(motif, listing, engine, per) for engine in engines for per in motif.granularities]
    assert tuple(found) == RECORDED[name]
