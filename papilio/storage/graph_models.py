"""The graph models: frozen descriptions of graphs to generate, checked on creation.

A model with no second layer size describes a unipartite graph; then ``n_u`` (or ``scale_u``, ``size_u``) is the size
of its only set of vertices.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from papilio.arguments import check_fields
from papilio.errors import CapacityError, InputError
from papilio.graph import MAX_VERTICES, GraphKind

_MAX_EDGES = 2**46
"""Maximum draws of one graph: a week at a hundred million edges per second."""

_MAX_SCALE = 30
"""2^31 vertices would exceed the maximum of a layer by one."""

_MAX_DEGREE = 2**24
"""Maximum bound of a drawn degree: the distribution is stored as a table."""


def count_pairs(n_u: int, n_v: int | None) -> int:
    """Return the number of possible edges; without ``n_v``, within one set of ``n_u`` vertices."""
    return n_u * (n_u - 1) // 2 if n_v is None else n_u * n_v


def _check_size(name: str, value: int | None, least: int, most: int) -> None:
    if value is None:
        return
    if value < least:
        raise InputError(f"{name} is {value}; expected at least {least}")
    if value > most:
        raise CapacityError(f"{name} is {value}; the maximum is {most}")


@dataclass(frozen=True)
class Model:
    """Base of all models; ``name`` is its name on the command line and in the provenance."""

    name: ClassVar[str]
    second_size: ClassVar[str] = "n_v"  # the field that is None in a unipartite graph

    @property
    def kind(self) -> GraphKind:
        return "unipartite" if getattr(self, self.second_size) is None else "bipartite"

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"model": name, <parameters>}``."""
        return {"model": self.name, **asdict(self)}


@dataclass(frozen=True)
class Rmat(Model):
    """Recursive matrix: each draw descends by quadrants of the adjacency matrix, of probabilities a, b, c, d.

    Duplicate draws (and self loops) are removed, so that the graph has fewer edges than draws. If the scales of the
    layers differ, the remaining levels follow the margin of the larger layer.

    Attributes
    ----------
    scale_u : int
        Layer U has 2^scale_u vertices, 0 to 30.
    scale_v : int or None
        Layer V has 2^scale_v vertices. Without it (None) the graph is unipartite, with 2^scale_u vertices.
    edges : int
        Number of draws.
    a : float
        Probability that a level appends 0 to u and 0 to v.
    b : float
        Probability that a level appends 0 to u and 1 to v.
    c : float
        Probability that a level appends 1 to u and 0 to v; both get 1 with the remaining probability, d = 1 - a - b -
        c.
    compact : bool
        Remove isolated vertices and renumber the others in order.

    References
    ----------
    Chakrabarti, Zhan, Faloutsos. R-MAT: a recursive model for graph mining. SDM 2004.
    """

    name: ClassVar[str] = "rmat"
    second_size: ClassVar[str] = "scale_v"
    scale_u: int
    scale_v: int | None
    edges: int
    a: float = 0.57
    b: float = 0.19
    c: float = 0.19
    compact: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        _check_size("scale_u", self.scale_u, 0, _MAX_SCALE)
        _check_size("scale_v", self.scale_v, 0, _MAX_SCALE)
        _check_size("edges", self.edges, 0, _MAX_EDGES)
        for name, value in (("a", self.a), ("b", self.b), ("c", self.c)):
            if not 0.0 <= value <= 1.0:
                raise InputError(f"{name} is {value}; expected a probability of 0 to 1")
        if self.a + self.b + self.c > 1.0 + 1e-9:
            raise InputError(f"a + b + c is {self.a + self.b + self.c}; expected at most 1 (d is the remainder)")

    @property
    def d(self) -> float:
        return max(0.0, 1.0 - self.a - self.b - self.c)


@dataclass(frozen=True)
class PowerLaw(Model):
    """Configuration model: degrees from truncated power laws, stubs matched at random, multi-edges erased.

    P(degree >= k) falls as k^(1 - exponent). If the sums of degrees of the layers differ, unmatched stubs of the larger
    one are erased as well.

    Attributes
    ----------
    n_u : int
        Number of vertices of layer U.
    n_v : int or None
        Number of vertices of layer V. Without it (None) the graph is unipartite, with n_u vertices.
    exponent_u, exponent_v : float
        Exponent of the layer's degree distribution, above 1 (V's is unused in a unipartite graph).
    min_degree_u, min_degree_v : int
        Smallest degree drawn in the layer.
    max_degree_u, max_degree_v : int
        Largest degree drawn in the layer.

    References
    ----------
    Newman. Networks: an introduction, chapter 13. Oxford University Press, 2010.
    """

    name: ClassVar[str] = "power-law"
    n_u: int
    n_v: int | None
    exponent_u: float = 2.5
    exponent_v: float = 2.5
    min_degree_u: int = 1
    min_degree_v: int = 1
    max_degree_u: int = 1000
    max_degree_v: int = 1000

    def __post_init__(self) -> None:
        check_fields(self)
        _check_size("n_u", self.n_u, 0, MAX_VERTICES)
        _check_size("n_v", self.n_v, 0, MAX_VERTICES)
        for layer, exponent, low, high in (
            ("u", self.exponent_u, self.min_degree_u, self.max_degree_u),
            ("v", self.exponent_v, self.min_degree_v, self.max_degree_v),
        ):
            if not 1.0 < exponent <= 20.0:
                raise InputError(f"exponent_{layer} is {exponent}; expected above 1 and at most 20")
            _check_size(f"min_degree_{layer}", low, 1, _MAX_DEGREE)
            _check_size(f"max_degree_{layer}", high, low, _MAX_DEGREE)


@dataclass(frozen=True)
class Planted(Model):
    """Bicliques (or cliques) on random vertices, over uniform background edges.

    Attributes
    ----------
    n_u : int
        Number of vertices of layer U.
    n_v : int or None
        Number of vertices of layer V. Without it (None) the graph is unipartite, with n_u vertices, and has cliques.
    count : int
        Number of bicliques or cliques; they may overlap.
    size_u : int
        Number of vertices of U in each (all vertices of a clique).
    size_v : int or None
        Number of vertices of V in each; set if and only if n_v is set.
    noise : int
        Number of background edges drawn uniformly, with replacement; duplicates are removed.
    """

    name: ClassVar[str] = "planted"
    n_u: int
    n_v: int | None
    count: int
    size_u: int
    size_v: int | None
    noise: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        _check_size("n_u", self.n_u, 0, MAX_VERTICES)
        _check_size("count", self.count, 0, 2**31)
        _check_size("size_u", self.size_u, 0, self.n_u)
        _check_size("noise", self.noise, 0, _MAX_EDGES)
        if (self.n_v is None) != (self.size_v is None):
            raise InputError(
                f"n_v is {self.n_v} and size_v is {self.size_v}; give both for bicliques, neither for cliques"
            )
        _check_size("n_v", self.n_v, 0, MAX_VERTICES)
        _check_size("size_v", self.size_v, 0, self.n_v or 0)
        if self.noise and not count_pairs(self.n_u, self.n_v):
            raise InputError(f"noise is {self.noise} edges, but the graph has no pair of vertices to join")


@dataclass(frozen=True)
class Complete(Model):
    """The complete bipartite graph K(n_u, n_v), or the complete graph K(n_u).

    Attributes
    ----------
    n_u : int
        Number of vertices of layer U.
    n_v : int or None
        Number of vertices of layer V. Without it (None) the graph is K(n_u).
    """

    name: ClassVar[str] = "complete"
    n_u: int
    n_v: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        _check_size("n_u", self.n_u, 0, MAX_VERTICES)
        _check_size("n_v", self.n_v, 0, MAX_VERTICES)
        _check_size("the number of edges", count_pairs(self.n_u, self.n_v), 0, _MAX_EDGES)

    @property
    def terms(self) -> tuple[Shape, ...]:
        return (Shape(1, self.n_u, self.n_v),)


class Shape(NamedTuple):
    """Copies of a complete bipartite graph, or of a complete graph if ``size_v`` is None."""

    copies: int
    size_u: int
    size_v: int | None

    @property
    def n_edges(self) -> int:
        """Edges of all copies."""
        return self.copies * count_pairs(self.size_u, self.size_v)


_TERM = re.compile(
    r"(?:(?P<copies>\d{1,12}(?:e\d)?)\*)?(?P<size_u>\d{1,12}(?:e\d)?)(?:x(?P<size_v>\d{1,12}(?:e\d)?))?",
    re.ASCII,
)


def _read(number: str) -> int:
    return int(Fraction(number))


@dataclass(frozen=True)
class Blocks(Model):
    """Disjoint complete bipartite graphs (or cliques), with counts that follow from the sizes.

    The vertices of each block have consecutive ids, in the order of the blocks. A star is a block with one vertex in a
    layer.

    Attributes
    ----------
    shapes : str
        Sizes of the blocks: 64x22e6+2000*200x200 is one block of 64 by 22,000,000 vertices and 2,000 of 200 by 200;
        1000*50+7 is 1,000 cliques of 50 vertices and one of 7.
    """

    name: ClassVar[str] = "blocks"
    shapes: str

    def __post_init__(self) -> None:
        check_fields(self)
        if not all(_TERM.fullmatch(word) for word in self._words):
            raise InputError(
                f"shapes is {self.shapes!r}; expected blocks such as 64x1000+20*30x30, or cliques such as 50+20*7"
            )
        if len({term.size_v is None for term in self.terms}) > 1:
            raise InputError(f"shapes is {self.shapes!r}; a graph has either blocks (AxB) or cliques (A)")
        _check_size("n_u", self.n_u, 0, MAX_VERTICES)
        _check_size("n_v", self.n_v, 0, MAX_VERTICES)
        _check_size("the number of edges", sum(term.n_edges for term in self.terms), 0, _MAX_EDGES)

    @property
    def _words(self) -> list[str]:
        return [word.strip() for word in self.shapes.split("+")]

    @property
    def terms(self) -> tuple[Shape, ...]:
        """The blocks in the order of their vertices."""
        sizes = (match.groupdict().values() for match in map(_TERM.fullmatch, self._words) if match)
        return tuple(
            Shape(
                1 if copies is None else _read(copies),
                _read(size_u),
                None if size_v is None else _read(size_v),
            )
            for copies, size_u, size_v in sizes
        )

    @property
    def n_u(self) -> int:
        return sum(term.copies * term.size_u for term in self.terms)

    @property
    def n_v(self) -> int | None:
        sizes = [term.copies * term.size_v for term in self.terms if term.size_v is not None]
        return sum(sizes) if sizes else None

    def grow(self, factor: int) -> Blocks:
        """Return the model with ``factor`` times as many copies of each block."""
        terms = [
            f"{factor * term.copies}*{term.size_u}" + ("" if term.size_v is None else f"x{term.size_v}")
            for term in self.terms
        ]
        return Blocks("+".join(terms))
