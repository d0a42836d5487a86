"""Motifs: a frozen dataclass for each, and their common base.

A motif carries only what defines the question (never how it is computed), so that its JSON form is part
of the identity of a job.

Also: motifs by name or JSON, requests for listings, options of engines, and the census of butterflies of a signed graph
with its classes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict

from papilio.arguments import Between, Count, Samples, Seed, check_fields, did_you_mean
from papilio.errors import InputError, UnsupportedError

Granularity = Literal["total", "vertex", "edge"]
"""Granularity of a count: the whole graph, every vertex of both layers, or every edge (its support)."""

GRANULARITIES: tuple[Granularity, ...] = ("total", "vertex", "edge")

Cell = tuple[int, ...]
"""Key of a count in a table: (p, q), (k,), or as defined by the family of the motif."""

LAYER_FIELDS = ("layer", "pair_side")
"""Parameters that name a layer."""

EngineOptions = tuple[tuple[str, str], ...]
"""Requested options of engines: names and values, by name."""


@dataclass(frozen=True)
class Motif:
    """Base of all motifs.

    ``name`` is the name of its row in :mod:`papilio.registry`. ``choices`` has the options of its engines, which are
    not part of the question, with their values, the default first. ``needs_signs`` is true if every edge must have a
    sign. ``sizes`` has the fields that may be None, for every size; each has a matching field ``max_``. ``pattern`` is
    the title, with fields in braces. ``per_when_fixed`` has the granularities of a single count; tables have only
    totals. ``by_size`` marks motifs whose answer is a table for all values of their fields. ``noun`` is the motif in
    errors, by default its name.

    The command line has a flag for each field and each choice, with the text of the docstring as its help.
    """

    name: ClassVar[str]
    needs_signs: ClassVar[bool] = False
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    sizes: ClassVar[tuple[str, ...]] = ()
    pattern: ClassVar[str] = "{name}"
    per_when_fixed: ClassVar[tuple[Granularity, ...]] = GRANULARITIES
    by_size: ClassVar[bool] = False
    noun: ClassVar[str] = ""

    def __post_init__(self) -> None:
        noun = self.noun or self.name.replace("-", " ")
        check_fields(self, f" of a {noun}")
        for size in self.sizes:
            given, largest = getattr(self, size), getattr(self, f"max_{size}")
            if given is not None and largest is not None:
                raise InputError(
                    f"a {noun} has {size} {given} and max_{size} {largest}; set max_{size} only to count every {size}"
                )

    @property
    def title(self) -> str:
        """Name and parameters, for display: ``biclique (3, q), q up to 9``."""
        shown = {each.name: getattr(self, each.name) or each.name for each in fields(self)}
        largest = ((size, getattr(self, f"max_{size}")) for size in self.sizes)
        bounds = "".join(f", {size} up to {most}" for size, most in largest if most is not None)
        return self.pattern.format(name=self.name.replace("-", " "), **shown) + bounds

    @property
    def words(self) -> tuple[str, ...]:
        """The words that request it on the command line: ``biclique -p 3 --all-q --max-q 9``."""
        words = [self.name]
        sides = [each.name.rpartition("_")[2] for each in fields(self)]
        for field in sorted(fields(self), key=lambda field: sides.index(field.name.rpartition("_")[2])):
            name, value = field.name, getattr(self, field.name)
            if name in self.sizes and value is None:
                words.append(f"--all-{name}")
            elif name in self.sizes or value != field.default or isinstance(value, str):
                words += [f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}", str(value)]
        return tuple(words)

    @property
    def is_table(self) -> bool:
        """Whether the answer is a table of counts by size, not a single count."""
        return self.by_size or any(getattr(self, size) is None for size in self.sizes)

    @property
    def granularities(self) -> tuple[Granularity, ...]:
        return ("total",) if self.is_table else self.per_when_fixed

    @property
    def mirrored(self) -> Self:
        """The same question with the layers exchanged: values of U and V, and names of layers, change places."""
        other = {"p": "q", "q": "p", "u": "v", "v": "u"}
        values: dict[str, Any] = {}
        for field in fields(self):
            value, (stem, sign, side) = getattr(self, field.name), field.name.rpartition("_")
            name = f"{stem}{sign}{other.get(side, side)}"
            values[name] = other[value] if field.name in LAYER_FIELDS and value in other else value
        return replace(self, **values)

    @property
    def n_best(self) -> int:
        """Number of largest motifs in the answer."""
        return 0

    @cached_property
    def bounds(self) -> tuple[tuple[str, int, int | None], ...]:
        """Name, minimum and maximum of each entry of a cell."""
        given = ((size, getattr(self, size), getattr(self, f"max_{size}")) for size in self.sizes)
        return tuple((size, value or 1, value or largest) for size, value, largest in given)

    def has_cell(self, cell: Cell) -> bool:
        """Whether this cell is possible in the table of the answer."""
        return 0 < len(cell) == len(self.bounds) and all(
            least <= size <= (largest or size) for size, (_, least, largest) in zip(cell, self.bounds, strict=True)
        )

    def has_cells(self, cells: Collection[Cell]) -> bool:
        """Whether all of these cells are possible."""
        if type(self).has_cell is not Motif.has_cell or {*map(len, cells)} != {len(self.bounds)}:
            return all(map(self.has_cell, cells))
        columns = zip(*cells, strict=True)  # a table of all sizes has 10,000 cells
        return all(
            least <= min(sizes) and max(sizes) <= (largest or max(sizes))
            for sizes, (_, least, largest) in zip(columns, self.bounds, strict=True)
        )


@dataclass(frozen=True)
class Butterfly(Motif):
    """The complete bipartite graph K(2,2): two vertices of each layer, all four edges present."""

    name: ClassVar[str] = "butterfly"


MAX_SIDE = 2**31 - 1
"""Maximum number of vertices on a side of a motif."""

_NO_MORE = "a layer has no more vertices"

_Side = Annotated[int, Between(1, MAX_SIDE, _NO_MORE)]
_Cycle = Annotated[int, Between(2, MAX_SIDE, _NO_MORE)]


@dataclass(frozen=True)
class Biclique(Motif):
    """The complete bipartite graph K(p,q): p vertices of U and q vertices of V, all p * q edges present.

    Attributes
    ----------
    p : int or None
        Number of vertices of U. None counts every p, from 1 to the largest in the graph.
    q : int or None
        Number of vertices of V. None counts every q, from 1 to the largest in the graph.
    max_p : int or None
        Largest p counted. Only if p is None.
    max_q : int or None
        Largest q counted. Only if q is None.

    Other Parameters
    ----------------
    algorithm : {"auto", "enumerate", "pivot"}
        ``enumerate`` grows one side vertex by vertex, ``pivot`` covers many sizes at once; ``auto``, the default,
        uses pivot for tables over both sizes and otherwise decides by cost.
    anchor : {"auto", "u", "v"}
        Layer of the roots of the search; ``auto`` chooses by estimate.

    Raises
    ------
    InputError
        For a size below 1, or a maximum for a fixed size.
    """

    name: ClassVar[str] = "biclique"
    noun: ClassVar[str] = "biclique"
    sizes: ClassVar[tuple[str, ...]] = ("p", "q")
    pattern: ClassVar[str] = "{name} ({p}, {q})"
    per_when_fixed: ClassVar[tuple[Granularity, ...]] = ("total", "vertex")
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "algorithm": ("auto", "enumerate", "pivot"),
        "anchor": ("auto", "u", "v"),
    }

    p: _Side | None = None
    q: _Side | None = None
    max_p: _Side | None = None
    max_q: _Side | None = None


@dataclass(frozen=True)
class BalancedBiclique(Biclique):
    """A (p,q)-biclique of a signed graph where every cycle has an even number of negative edges.

    Equivalently, the signs of its edges at any two of its vertices of U are equal everywhere, or opposite everywhere. A
    star (p = 1 or q = 1) has no cycle and is balanced. Attributes and errors are the same as for :class:`Biclique`.
    """

    name: ClassVar[str] = "balanced-biclique"
    needs_signs: ClassVar[bool] = True


@dataclass(frozen=True)
class Clique(Motif):
    """The complete graph of k vertices, in a unipartite graph.

    Attributes
    ----------
    k : int or None
        Number of vertices. None counts every k, from 1 to the largest clique.
    max_k : int or None
        Largest k counted. Only if k is None.

    Other Parameters
    ----------------
    algorithm : {"auto", "orient", "pivot"}
        ``orient`` adds the vertices of a clique one by one, ``pivot`` counts many cliques at once; ``auto``, the
        default, uses ``orient`` for small k.
    order : {"auto", "degeneracy", "degree"}
        Order that defines the first vertex of a clique; ``auto``, the default, is the degeneracy order.

    Raises
    ------
    InputError
        For a k below 1, or a maximum for a fixed k.
    """

    name: ClassVar[str] = "clique"
    sizes: ClassVar[tuple[str, ...]] = ("k",)
    pattern: ClassVar[str] = "{k}-clique"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "algorithm": ("auto", "orient", "pivot"),
        "order": ("auto", "degeneracy", "degree"),
    }

    k: _Side | None = None
    max_k: _Side | None = None

    @property
    def granularities(self) -> tuple[Granularity, ...]:
        """As for any motif; a single vertex has no edge."""
        return ("total", "vertex") if self.k == 1 else super().granularities


@dataclass(frozen=True)
class FourCycle(Motif):
    """A cycle of four vertices of a unipartite graph, with or without edges between opposite ones (chords)."""

    name: ClassVar[str] = "four-cycle"
    pattern: ClassVar[str] = "4-cycle"


@dataclass(frozen=True)
class MaximalClique(Motif):
    """A clique of a unipartite graph that no vertex extends; a vertex without edges is one of size 1.

    The answer is their number by size, and a checksum of all.

    Attributes
    ----------
    min_size : int
        Minimum number of vertices.

    Raises
    ------
    InputError
        For a size below 1.
    """

    name: ClassVar[str] = "maximal-clique"
    by_size: ClassVar[bool] = True

    min_size: _Side = 1

    @property
    def title(self) -> str:
        return "maximal clique" + ("" if self.min_size == 1 else f" of at least {self.min_size} vertices")

    @cached_property
    def bounds(self) -> tuple[tuple[str, int, int | None], ...]:
        return (("size", self.min_size, None),)


@dataclass(frozen=True)
class MaximalBiclique(Motif):
    """A biclique that no vertex of either layer extends; both sides are non-empty.

    The answer is their number by the sizes of both sides, and a checksum of all.

    Attributes
    ----------
    min_u : int
        Minimum number of vertices of U.
    min_v : int
        Minimum number of vertices of V.
    max_u : int or None
        Maximum number of vertices of U. Larger bicliques are not counted.
    max_v : int or None
        Maximum number of vertices of V.

    Other Parameters
    ----------------
    anchor : {"auto", "u", "v"}
        Layer of the roots of the search; ``auto`` chooses by estimate.

    Raises
    ------
    InputError
        For a size below 1, or a maximum below the minimum.
    """

    name: ClassVar[str] = "maximal-biclique"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"anchor": ("auto", "u", "v")}
    by_size: ClassVar[bool] = True

    min_u: _Side = 1
    min_v: _Side = 1
    max_u: _Side | None = None
    max_v: _Side | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for side, least, largest in self.bounds:
            if largest is not None and largest < least:
                raise InputError(f"a maximal biclique has min_{side} {least} and max_{side} {largest}")

    @cached_property
    def bounds(self) -> tuple[tuple[str, int, int | None], ...]:
        return (("u", self.min_u, self.max_u), ("v", self.min_v, self.max_v))

    @property
    def title(self) -> str:
        bounds = ""
        for side, least, largest in self.bounds:
            if (least, largest) != (1, None):
                bounds += f", {side} from {least}" + ("" if largest is None else f" to {largest}")
        return "maximal biclique" + bounds


PairSide = Literal["u", "v"]
"""Layer of the pairs of vertices."""


@dataclass(frozen=True)
class BalancedButterfly(Motif):
    """The balanced (2,k)-biclique of a signed graph: each of its cycles has an even number of negative edges.

    Two vertices of a pair agree at a common neighbour when their edges to it have the same sign. A pair that agrees at
    s common neighbours and disagrees at t has C(s, k) + C(t, k) of these bicliques.

    Attributes
    ----------
    k : int or None
        Number of vertices on the side opposite the pair: 2, the balanced butterfly, or more. None counts every k, from
        2 to the largest in the graph.
    max_k : int or None
        Largest k counted. Only if k is None.
    pair_side : {"u", "v"}
        Layer of the two vertices. For butterflies, k = 2, both give the same count, and this is ``u``.

    Raises
    ------
    InputError
        For a k below 2, a maximum for a fixed k, or an unknown side.
    """

    name: ClassVar[str] = "balanced-butterfly"
    needs_signs: ClassVar[bool] = True
    sizes: ClassVar[tuple[str, ...]] = ("k",)

    k: _Cycle | None = 2
    max_k: _Cycle | None = None
    pair_side: PairSide = "u"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k == 2:
            object.__setattr__(self, "pair_side", "u")

    @property
    def title(self) -> str:
        if self.k == 2:
            return "balanced butterfly"
        side = "q" if self.pair_side == "u" else "p"
        p, q = self.cell(str(self.k or side))
        bound = "" if self.max_k is None else f", {side} up to {self.max_k}"
        return f"balanced biclique ({p}, {q}){bound}"

    @property
    def words(self) -> tuple[str, ...]:
        return (self.name,) if self.k == 2 else super().words

    @property
    def granularities(self) -> tuple[Granularity, ...]:
        return ("total", "vertex") if self.k == 2 else ("total",)

    def has_cell(self, cell: Cell) -> bool:
        """Whether (p, q) belongs to the question: 2 on the side of the pair, k on the other."""
        if len(cell) != 2:
            return False
        pair, k = cell if self.pair_side == "u" else reversed(cell)
        return pair == 2 <= k and super().has_cell((k,))

    def cell(self, k: Any) -> tuple[Any, Any]:
        """Return k as (p, q)."""
        return (2, k) if self.pair_side == "u" else (k, 2)


@dataclass(frozen=True)
class Checkerboard(Motif):
    """Two vertices of each layer, and two edges without a common vertex between them: [[1, 0], [0, 1]].

    Two species and two sites; each site has another one of the species (Stone and Roberts, Oecologia 85, 1990).
    """

    name: ClassVar[str] = "checkerboard"
    per_when_fixed: ClassVar[tuple[Granularity, ...]] = ("total", "vertex")


@dataclass(frozen=True)
class Togetherness(Motif):
    """Two vertices of a layer, a vertex adjacent to both, and one that is adjacent to neither: [[1, 0], [1, 0]].

    Two species that share one site and are both absent from another one (Stone and Roberts, Oecologia 91, 1992).

    Attributes
    ----------
    layer : {"u", "v"}
        Layer of the two vertices with a common neighbour.

    Raises
    ------
    InputError
        For another layer.
    """

    name: ClassVar[str] = "togetherness"
    pattern: ClassVar[str] = "togetherness of {layer}"
    per_when_fixed: ClassVar[tuple[Granularity, ...]] = ("total", "vertex")

    layer: PairSide


@dataclass(frozen=True)
class CensusClass:
    """One of the six classes of butterflies of a signed graph, by the signs of a pair at both neighbours.

    Attributes
    ----------
    name : str
        ``++``, ``--`` or ``+-`` (different signs, in any order) at either neighbour.
    cell : tuple of int
        Its cell in tables: 1 for ``++``, 2 for ``--``, 3 for ``+-``.
    group : str
        ``coherent``, ``incoherent`` or ``mixed``: same signs at both neighbours, different ones at both, or neither.
    """

    name: str
    cell: tuple[int, int]
    group: Literal["coherent", "incoherent", "mixed"]


CENSUS_CLASSES = (
    CensusClass("++/++", (1, 1), "coherent"),
    CensusClass("++/--", (1, 2), "coherent"),
    CensusClass("--/--", (2, 2), "coherent"),
    CensusClass("+-/+-", (3, 3), "incoherent"),
    CensusClass("++/+-", (1, 3), "mixed"),
    CensusClass("--/+-", (2, 3), "mixed"),
)
"""All classes; coherent and incoherent butterflies are balanced, mixed ones are not."""


_CENSUS_CELLS = frozenset(each.cell for each in CENSUS_CLASSES)


@dataclass(frozen=True)
class Census(Motif):
    """Butterflies of a signed graph by class: by the signs of a pair of vertices at both neighbours.

    See :class:`CensusClass`.

    Attributes
    ----------
    pair_side : {"u", "v"}
        Layer of the pair whose signs define the class: ``++/--`` and ``+-/+-`` depend on it, the others do not.

    Raises
    ------
    InputError
        For an unknown side.
    """

    name: ClassVar[str] = "census"
    needs_signs: ClassVar[bool] = True
    by_size: ClassVar[bool] = True

    pair_side: PairSide

    @property
    def title(self) -> str:
        return f"census of butterflies by pairs of {self.pair_side.upper()}"

    def has_cell(self, cell: Cell) -> bool:
        return cell in _CENSUS_CELLS


Weighting = Literal["jaccard", "cosine", "checkerboards", "togetherness", "hyperbolic", "resource"]
"""Weights of pairs, in addition to the number of common neighbours."""

CommonForm = Literal["count", "list"]
"""What the rows of a projection have of common neighbours: their number alone, or a list of them, too."""

PairTest = Literal["hypergeometric", "expected-degrees", "signs", "degrees"]
"""Null models of pairs."""

DEFAULT_FDR, DEFAULT_SAMPLES = 0.05, 1000


@dataclass(frozen=True)
class Projection(Motif):
    """A pair of vertices of one layer with enough common neighbours: an edge of the projection to this layer.

    Attributes
    ----------
    layer : {"u", "v"}
        Layer of both vertices.
    min_common : int
        Minimum number of common neighbours.
    weighting : {"jaccard", "cosine", "checkerboards", "togetherness", "hyperbolic", "resource"} or None
        Weight of a pair in addition to the number c of its common neighbours. With degrees d and e, and n vertices in
        the other layer: ``jaccard`` is c / (d + e - c), ``cosine`` c / sqrt(d e), ``checkerboards`` (d - c) (e - c),
        ``togetherness`` c (n - d - e + c). ``hyperbolic`` and ``resource`` are sums over the common neighbours, of
        1 / (k - 1) and 1 / k for one of degree k.
    significance : {"hypergeometric", "expected-degrees", "degrees", "signs"} or None
        Test of each pair: the probability of as many common neighbours or more, if both vertices chose theirs at random
        (``hypergeometric``), or in random graphs with the same expected degrees of all vertices; or the share of random
        graphs with the same degrees that have as many or more (``degrees``). ``signs``, of a signed graph: the
        probability of as many common neighbours with equal signs, or with different ones, or more (Fisher's exact
        test).
    fdr : float or None
        Largest q-value (Benjamini-Hochberg) of a pair, with ``significance``; 0.05 by default.
    samples : int or None
        Random graphs, with ``degrees``; 1,000 by default. The smallest p-value is 1 / (samples + 1).
    seed : int or None
        Seed of the random graphs, with ``degrees``; 0 by default.

    Raises
    ------
    InputError
        For another layer, weighting or test, fewer than 1 common neighbour, an ``fdr`` without ``significance``, or
        not above 0 and at most 1, ``samples`` or ``seed`` without ``degrees``, and a weighting with ``signs``.
    """

    name: ClassVar[str] = "projection"
    per_when_fixed: ClassVar[tuple[Granularity, ...]] = ("total",)

    layer: PairSide
    min_common: _Side = 2
    weighting: Weighting | None = None
    significance: PairTest | None = None
    fdr: float | None = None
    samples: Samples | None = None
    seed: Seed | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, default in (("samples", DEFAULT_SAMPLES), ("seed", 0)):
            given = getattr(self, name)
            if self.significance == "degrees":
                object.__setattr__(self, name, default if given is None else given)
            elif given is not None:
                raise InputError(
                    f"{name} is {given}, and significance is {self.significance!r}, which draws no random graphs: "
                    "leave it out, or give significance 'degrees'"
                )
        if self.needs_signs and self.weighting is not None:
            raise InputError(
                f"weighting is {self.weighting!r}, and significance 'signs', whose pairs have no weights: leave out one"
            )
        if self.fdr is None:
            if self.significance is not None:
                object.__setattr__(self, "fdr", DEFAULT_FDR)
        elif self.significance is None:
            raise InputError(f"fdr is {self.fdr}, but significance is not set; set both or neither")
        elif not 0 < self.fdr <= 1:
            raise InputError(f"fdr is {self.fdr}; expected a number above 0 and at most 1")

    @property
    def needs_signs(self) -> bool:  # type: ignore[override]
        """Whether the test is about the signs of edges."""
        return self.significance == "signs"

    @property
    def title(self) -> str:
        test = "" if self.significance is None else f", {self.significance} q up to {self.fdr:g}"
        drawn = "" if self.samples is None else f" ({self.samples:,} random graphs, seed {self.seed})"
        return f"pair of {self.layer.upper()} with {self.min_common} or more in common{test}{drawn}"

    @property
    def plain(self) -> Projection:
        """All pairs with enough common neighbours, without a test."""
        return replace(self, significance=None, fdr=None, samples=None, seed=None)


def sum_groups(classes: Mapping[str, Any]) -> dict[str, Any]:
    """Return coherent, incoherent and mixed butterflies from numbers, or arrays of them, by name of the class."""
    sums: dict[str, Any] = {}
    for each in CENSUS_CLASSES:
        number = classes[each.name]
        sums[each.group] = sums[each.group] + number if each.group in sums else number
    return sums


def rows_by_class(
    classes: tuple[CensusClass, ...], table: Mapping[Cell, int]
) -> tuple[tuple[CensusClass, int, float], ...]:
    """Return the classes with their counts in the table of an answer, and their shares of the sum."""
    total = sum(table.values())
    counts = [(each, table.get(each.cell, 0)) for each in classes]
    return tuple((each, count, count / total if total else 0.0) for each, count in counts)


@dataclass(frozen=True)
class Listing:
    """A request to list the motifs themselves, and which of them; InputError for a limit below 1.

    Attributes
    ----------
    limit : int or None
        Maximum number of motifs to list; None for all.
    with_u, with_v : tuple of int
        Ids of vertices of U and of V, increasing, that each motif must contain; ``with_u`` for a unipartite graph.
    labels : str
        Identity of the labels used to write the vertices.
    """

    limit: Count | None = None
    with_u: tuple[int, ...] = ()
    with_v: tuple[int, ...] = ()
    labels: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def is_plain(self) -> bool:
        """Whether no vertex of a layer is required."""
        return not (self.with_u or self.with_v)

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
        Checkerboard,
        Clique,
        FourCycle,
        MaximalBiclique,
        MaximalClique,
        Projection,
        Togetherness,
    )
}
"""All motifs, by name."""

_OTHER_NAMES = {
    "triangle": ("clique", "k = 3"),
    "square": ("four-cycle", ""),
    "4-cycle": ("four-cycle", ""),
    "rectangle": ("butterfly", ""),
    "c-score": ("checkerboard", ""),
    "t-score": ("togetherness", ""),
}
"""Other names in use for motifs: the name here, and its size."""


def suggest_motif(word: str, known: Collection[str]) -> str:
    """Return ``; did you mean 'clique' with k = 3?`` for an unknown name of a motif; empty if none is similar."""
    other = _OTHER_NAMES.get(word.lower().removesuffix("s"))
    if other is not None and other[0] in known:
        return f"; did you mean {other[0]!r}{other[1] and f' with {other[1]}'}?"
    return did_you_mean(word, known)


def choose_options(motif: Motif, options: Mapping[str, str]) -> EngineOptions:
    """Return the requested engine options of ``motif``, by name and without defaults.

    Raises InputError for an unknown option or value.
    """
    for name, value in options.items():
        if name not in motif.choices:
            known = ", ".join(motif.choices) or "none"
            near = did_you_mean(name, motif.choices)
            raise InputError(f"{motif.name} has no option {name!r}{near}; its options: {known}")
        if value not in motif.choices[name]:
            raise InputError(f"{name} is {value!r}; expected one of {', '.join(motif.choices[name])}")
    return tuple((name, options[name]) for name in sorted(options) if options[name] != motif.choices[name][0])


class SizeOptions(TypedDict, total=False):
    """The parameters of a motif given by name, as in the classes of :mod:`papilio.motifs`."""

    p: int | None
    q: int | None
    max_p: int | None
    max_q: int | None
    k: int | None
    max_k: int | None
    min_size: int | None
    min_u: int | None
    min_v: int | None
    max_u: int | None
    max_v: int | None
    pair_side: str | None
    layer: str | None
    min_common: int | None
    weighting: Weighting | None
    significance: PairTest | None
    fdr: float | None


def read_motif(motif: Motif | str, sizes: Mapping[str, Any] | None = None) -> Motif:
    """Return a motif, given directly or by name and parameters; InputError for anything else.

    A size without a default is required: None means every size.
    """
    given = dict(sizes or {})
    if isinstance(motif, Motif):
        if given:
            raise InputError(
                f"{', '.join(given)} and {motif!r} are both given; separate sizes are only for a motif given by name"
            )
        return motif
    if motif not in MOTIFS:
        raise InputError(
            f"motif is {motif!r}{suggest_motif(motif, MOTIFS)}; known: {', '.join(sorted(MOTIFS))}, as "
            "papilio.Butterfly() and so on"
        )
    kind = MOTIFS[motif]
    defaults = {field.name: field.default for field in fields(kind)}
    strange = [name for name in given if name not in defaults]
    if strange:
        known = f"has only {', '.join(defaults)}" if defaults else "has no sizes"
        raise InputError(f"{', '.join(strange)} is given, but {motif!r} {known}{did_you_mean(strange[0], defaults)}")
    missing = [
        name
        for name, default in defaults.items()
        if name not in given and (default is MISSING or (name in kind.sizes and default is None))
    ]
    if missing:
        example = ", ".join(f"{name}={'u' if name in LAYER_FIELDS else 3!r}" for name in missing)
        every = "" if {*LAYER_FIELDS} & set(missing) else ", with None for every size"
        raise InputError(f"motif is {motif!r}, which needs {' and '.join(missing)}{every}, as in {example}")
    return kind(**given)


def motif_to_json(motif: Motif) -> dict[str, Any]:
    """Return ``{"name": ..., <parameters>}``; the inverse of :func:`motif_from_json`."""
    return {"name": motif.name, **asdict(motif)}


def motif_from_json(data: dict[str, Any]) -> Motif:
    """Rebuild a motif from :func:`motif_to_json`'s form.

    Raises UnsupportedError for an unknown name, InputError for unknown parameters.
    """
    parameters = {key: value for key, value in data.items() if key != "name"}
    name = data.get("name")
    if name not in MOTIFS:
        raise UnsupportedError(f"unknown motif {name!r}; known: {', '.join(sorted(MOTIFS))}")
    try:
        return MOTIFS[name](**parameters)
    except TypeError as error:
        raise InputError(f"motif {name!r} does not take {sorted(parameters)} ({error})") from error
