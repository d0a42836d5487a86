"""What is asked of any motif: which one, by name or JSON, which are listed, what its engines are to choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from papilio.arguments import Count, check_fields
from papilio.census_motif import Census
from papilio.errors import InputError, UnsupportedError
from papilio.motifs import (
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Butterfly,
    Clique,
    EngineOptions,
    MaximalBiclique,
    MaximalClique,
    Motif,
)


@dataclass(frozen=True)
class Listing:
    """That the motifs themselves are asked for, one by one, and which of them; InputError for a limit below 1.

    Attributes
    ----------
    limit : int or None
        Most of them that are listed; None for all.
    with_u, with_v : tuple of int
        Ids of vertices of U and of V, rising, that each must hold; those of a unipartite graph are ``with_u``.
    labels : str
        Identity of the labels that the vertices are written with.
    """

    limit: Count | None = None
    with_u: tuple[int, ...] = ()
    with_v: tuple[int, ...] = ()
    labels: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def title(self, kind: str) -> str:
        """Return ``all``; ``up to 1,000``; ``all with vertices u 3, 4``, or ``3, 4`` on unipartite graphs."""
        layers = (" u", " v") if kind == "bipartite" else ("", "")
        held = "".join(
            f"{layer} {', '.join(map(str, ids))}"
            for layer, ids in zip(layers, (self.with_u, self.with_v), strict=True)
            if ids
        )
        number = "all" if self.limit is None else f"up to {self.limit:,}"
        return f"{number}{f' with vertices{held}' if held else ''}"


MOTIFS: dict[str, type[Motif]] = {
    each.name: each
    for each in (
        BalancedBiclique,
        BalancedButterfly,
        Biclique,
        Butterfly,
        Census,
        Clique,
        MaximalBiclique,
        MaximalClique,
    )
}
"""All motifs, by name."""


def choose_options(motif: Motif, options: Mapping[str, str]) -> EngineOptions:
    """Return what was asked for of the engines of ``motif``, by name and without what is the default.

    InputError for an option or a value that the motif does not have.
    """
    for name, value in options.items():
        if name not in motif.choices:
            known = ", ".join(motif.choices) or "none"
            raise InputError(f"{motif.name} has no option {name!r}; its options: {known}")
        if value not in motif.choices[name]:
            raise InputError(f"{name} is {value!r}; expected one of {', '.join(motif.choices[name])}")
    return tuple((name, options[name]) for name in sorted(options) if options[name] != motif.choices[name][0])


def read_motif(motif: Motif | str) -> Motif:
    """Return a motif, which may be given by its name where no size and no side has to be chosen.

    InputError for anything else.
    """
    if isinstance(motif, Motif):
        return motif
    ready: dict[str, type[Motif]] = {
        each.name: each for each in (Butterfly, BalancedButterfly, MaximalBiclique, MaximalClique)
    }
    if motif in ready:
        return ready[motif]()
    if motif in MOTIFS:
        kind = MOTIFS[motif]
        parameters = ", ".join(field.name for field in fields(kind))
        raise InputError(
            f"motif is {motif!r}, whose parameters are not said; give papilio.{kind.__name__}({parameters}), with a "
            "value for each, or without"
        )
    raise InputError(
        f"motif is {motif!r}; known: {', '.join(sorted(MOTIFS))}, as papilio.Butterfly() and so on"
    )


def motif_to_json(motif: Motif) -> dict[str, Any]:
    """Return ``{"name": ..., <parameters>}``; the inverse of :func:`motif_from_json`."""
    return {"name": motif.name, **asdict(motif)}


def motif_from_json(data: dict[str, Any]) -> Motif:
    """Rebuild a motif from :func:`motif_to_json`'s form.

    UnsupportedError when no motif of that name exists. InputError when it has no such parameters.
    """
    parameters = {key: value for key, value in data.items() if key != "name"}
    name = data.get("name")
    if name not in MOTIFS:
        raise UnsupportedError(f"unknown motif {name!r}; known: {', '.join(sorted(MOTIFS))}")
    try:
        return MOTIFS[name](**parameters)
    except TypeError as error:
        raise InputError(f"motif {name!r} does not take {sorted(parameters)} ({error})") from error
