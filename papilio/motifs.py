"""What can be counted: one frozen dataclass per motif.

A motif carries only what defines the question (never how it is computed), so that its JSON form is part
of the identity of a job.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from papilio.errors import UnsupportedError

__all__ = ["GRANULARITIES", "Butterfly", "Granularity", "Motif", "motif_from_json", "motif_to_json"]

Granularity = Literal["total", "vertex", "edge"]
"""What a count is given for: the whole graph, every vertex of both layers, or every edge (its support)."""

GRANULARITIES: tuple[Granularity, ...] = ("total", "vertex", "edge")


@dataclass(frozen=True)
class Motif:
    """Base of all motifs.

    ``name`` is the stem of the motif's files in every folder, ``graph_kind`` the kind of graph (``bipartite`` or
    ``unipartite``) that it is defined on.
    """

    name: ClassVar[str]
    graph_kind: ClassVar[str]


@dataclass(frozen=True)
class Butterfly(Motif):
    """The complete bipartite graph K(2,2): two vertices of each layer, all four edges present."""

    name: ClassVar[str] = "butterfly"
    graph_kind: ClassVar[str] = "bipartite"


_MOTIFS: dict[str, type[Motif]] = {Butterfly.name: Butterfly}


def motif_to_json(motif: Motif) -> dict[str, Any]:
    """Return ``{"name": ..., <parameters>}``; the inverse of :func:`motif_from_json`."""
    return {"name": motif.name, **asdict(motif)}


def motif_from_json(data: dict[str, Any]) -> Motif:
    """Rebuild a motif from :func:`motif_to_json`'s form.

    Raises
    ------
    UnsupportedError
        When no motif of that name exists.
    """
    parameters = {key: value for key, value in data.items() if key != "name"}
    name = data.get("name")
    if name not in _MOTIFS:
        raise UnsupportedError(f"unknown motif {name!r}; known: {', '.join(sorted(_MOTIFS))}")
    return _MOTIFS[name](**parameters)
