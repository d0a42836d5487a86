"""What can be counted: one frozen dataclass per motif.

A motif carries only what defines the question (never how it is computed), so that its JSON form is part
of the identity of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

from papilio.errors import InputError, UnsupportedError

__all__ = [
    "GRANULARITIES",
    "Biclique",
    "Butterfly",
    "EngineOptions",
    "Granularity",
    "Listing",
    "Motif",
    "choose_options",
    "motif_from_json",
    "motif_to_json",
]

Granularity = Literal["total", "vertex", "edge"]
"""What a count is given for: the whole graph, every vertex of both layers, or every edge (its support)."""

GRANULARITIES: tuple[Granularity, ...] = ("total", "vertex", "edge")

EngineOptions = tuple[tuple[str, str], ...]
"""How a motif is computed, as far as it was asked for: names and values, by name."""


@dataclass(frozen=True)
class Motif:
    """Base of all motifs.

    ``name`` is the stem of the motif's files in every folder, ``graph_kind`` the kind of graph (``bipartite`` or
    ``unipartite``) that it is defined on. ``choices`` are the options of its engines, which are no part of the
    question: what each may be, the default first. ``same_work`` says whether every engine does the same units of
    work for the same items, so that they can be compared.
    """

    name: ClassVar[str]
    graph_kind: ClassVar[str]
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    same_work: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """Name and parameters, for people."""
        return self.name

    @property
    def words(self) -> tuple[str, ...]:
        """What asks for it on the command line."""
        return (self.name,)

    @property
    def is_table(self) -> bool:
        """Whether the answer is a table of counts by (p, q), rather than one count."""
        return False

    @property
    def granularities(self) -> tuple[Granularity, ...]:
        """What it can be counted for."""
        return GRANULARITIES


@dataclass(frozen=True)
class Butterfly(Motif):
    """The complete bipartite graph K(2,2): two vertices of each layer, all four edges present."""

    name: ClassVar[str] = "butterfly"
    graph_kind: ClassVar[str] = "bipartite"


@dataclass(frozen=True)
class Biclique(Motif):
    """The complete bipartite graph K(p,q): p vertices of U and q vertices of V, all p * q edges present.

    Attributes
    ----------
    p, q : int or None
        Sizes of its sides. Without one of them, every size of that side is counted, from 1 up to the largest that
        the graph has; without both, every (p, q).
    max_p, max_q : int or None
        Largest size counted of a side that is not given.

    Raises
    ------
    InputError
        For a size below 1, and for a largest size beside a given one.
    """

    name: ClassVar[str] = "biclique"
    graph_kind: ClassVar[str] = "bipartite"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "algorithm": ("auto", "enumerate", "pivot"),
        "anchor": ("auto", "u", "v"),
    }
    same_work: ClassVar[bool] = False

    p: int | None = None
    q: int | None = None
    max_p: int | None = None
    max_q: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise InputError(f"{field.name} of a biclique is {value!r}; expected an integer")
            if value is not None and value < 1:
                raise InputError(f"{field.name} of a biclique is {value}; at least 1 is needed")
        for size, largest in (("p", "max_p"), ("q", "max_q")):
            if getattr(self, size) is not None and getattr(self, largest) is not None:
                raise InputError(
                    f"a biclique has {size} {getattr(self, size)} and {largest} {getattr(self, largest)}; "
                    f"give {largest} only where every {size} is counted"
                )

    @property
    def title(self) -> str:
        """``biclique (3, 4)``; ``biclique (3, q), q up to 9``; ``biclique (p, q)``."""
        sides = ", ".join(str(getattr(self, side) or side) for side in ("p", "q"))
        bounds = "".join(
            f", {side} up to {largest}" for side, largest in (("p", self.max_p), ("q", self.max_q)) if largest
        )
        return f"{self.name} ({sides}){bounds}"

    @property
    def words(self) -> tuple[str, ...]:
        """``biclique -p 3 -q 4``; ``biclique -p 3 --all-q --max-q 9``."""
        words = [self.name]
        for side, size, largest in (("p", self.p, self.max_p), ("q", self.q, self.max_q)):
            words += [f"--all-{side}"] if size is None else [f"-{side}", str(size)]
            words += [] if largest is None else [f"--max-{side}", str(largest)]
        return tuple(words)

    @property
    def is_table(self) -> bool:
        """Whether p, q or both are left open."""
        return self.p is None or self.q is None

    @property
    def granularities(self) -> tuple[Granularity, ...]:
        """In all, and for one (p, q) also for every vertex."""
        return ("total",) if self.is_table else ("total", "vertex")


@dataclass(frozen=True)
class Listing:
    """That the motifs themselves are asked for, one by one, and which of them.

    Attributes
    ----------
    limit : int or None
        Most of them that are listed; None for all.
    with_u, with_v : tuple of int
        Ids of vertices of U and of V, rising, that each must hold.
    labels : str
        Identity of the labels that the vertices are written with.

    Raises
    ------
    InputError
        For a limit below 1.
    """

    limit: int | None = None
    with_u: tuple[int, ...] = ()
    with_v: tuple[int, ...] = ()
    labels: str = ""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise InputError(f"limit is {self.limit}; at least 1, or None for no limit")

    @property
    def title(self) -> str:
        """``all``; ``up to 1,000``; ``all with vertices u 3, 4``."""
        held = "".join(
            f" {layer} {', '.join(map(str, ids))}"
            for layer, ids in (("u", self.with_u), ("v", self.with_v))
            if ids
        )
        number = "all" if self.limit is None else f"up to {self.limit:,}"
        return f"{number}{f' with vertices{held}' if held else ''}"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Listing:
        """Rebuild from the form that :func:`dataclasses.asdict` gives."""
        return cls(data["limit"], tuple(data["with_u"]), tuple(data["with_v"]), data["labels"])


_MOTIFS: dict[str, type[Motif]] = {Biclique.name: Biclique, Butterfly.name: Butterfly}


def choose_options(motif: Motif, options: Mapping[str, str]) -> EngineOptions:
    """Return what was asked for of the engines of ``motif``, by name and without what is the default.

    Raises
    ------
    InputError
        For an option or a value that the motif does not have.
    """
    for name, value in options.items():
        if name not in motif.choices:
            known = ", ".join(motif.choices) or "none"
            raise InputError(f"{motif.name} has no option {name!r}; its options: {known}")
        if value not in motif.choices[name]:
            raise InputError(f"{name} is {value!r}; expected one of {', '.join(motif.choices[name])}")
    return tuple((name, options[name]) for name in sorted(options) if options[name] != motif.choices[name][0])


def motif_to_json(motif: Motif) -> dict[str, Any]:
    """Return ``{"name": ..., <parameters>}``; the inverse of :func:`motif_from_json`."""
    return {"name": motif.name, **asdict(motif)}


def motif_from_json(data: dict[str, Any]) -> Motif:
    """Rebuild a motif from :func:`motif_to_json`'s form.

    Raises
    ------
    UnsupportedError
        When no motif of that name exists.
    InputError
        When it has no such parameters.
    """
    parameters = {key: value for key, value in data.items() if key != "name"}
    name = data.get("name")
    if name not in _MOTIFS:
        raise UnsupportedError(f"unknown motif {name!r}; known: {', '.join(sorted(_MOTIFS))}")
    try:
        return _MOTIFS[name](**parameters)
    except TypeError as error:
        raise InputError(f"motif {name!r} does not take {sorted(parameters)} ({error})") from error
