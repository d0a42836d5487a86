"""What must hold of the answers of one engine, whatever another one says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import Partial
from papilio.motifs import (
    BalancedButterfly,
    Biclique,
    Census,
    Checkerboard,
    MaximalBiclique,
    Projection,
    Togetherness,
)
from papilio.parts import Layer
from papilio.registry import motif_row
from tests.tools.clique_parts import count_clique_parts, cut_cliques_by_definition
from tests.tools.differential.answers import Answer, Answerer, EngineAnswerer
from tests.tools.differential.cases import Case, Question
from tests.tools.differential.closed_forms import draw_closed
from tests.tools.differential.graphs import Graph, draw_bipartite, draw_unipartite
from tests.tools.parts import add_vectors, cut_closures, cut_grid
from tests.tools.root_parts import (
    count_parts,
    cut_by_definition,
    cut_maximal_by_definition,
    group_at_random,
)

_MOST_CUT = 4_000
"""Edges of graphs that are cut by plain loops."""


@dataclass(frozen=True)
class Asked:
    """A case, who answered it, and what."""

    case: Case
    answerer: Answerer
    answer: Answer
    random: Generator

    def again(self, graph: Graph, question: Question | None = None) -> Answer:
        """Ask of another graph."""
        return self.answerer(graph, question or self.case.question, self.case.tuning, None)

    def compare(self, graph: Graph, wanted: Answer, question: Question | None = None) -> str:
        """Compare with what another graph must give; empty as well where that takes too long."""
        got = self.again(graph, question)
        if got.items is not None and got.items != got.n_items:
            return ""
        return got.differs_from(replace(wanted, n_items=None, items=None))


def check_sums(asked: Asked) -> str:
    """The entries of a vector, modulo 2^64, sum to the number of motifs, times the vertices or edges of each."""
    case, answer = asked.case, asked.answer
    if case.question.peels or not answer.vectors:
        return ""
    wanted = motif_row(case.question.motif).vector_sums(case.question.motif, answer.total, answer.cells)
    for name, vector in answer.vectors.items():
        if ((found := sum(vector.tolist())) - wanted[name]) % (1 << 64):
            return f"the sum of {name} is {found}; it must be {wanted[name]}"
    return ""


def check_split(asked: Asked) -> str:
    """Any split of the items adds up to the whole."""
    case, answer = asked.case, asked.answer
    if not isinstance(asked.answerer, EngineAnswerer) or not answer.items:
        return ""
    cuts = np.unique(asked.random.integers(0, answer.items + 1, 4)).tolist()
    cuts = sorted({0, *cuts, answer.items})
    got = asked.answerer.split(case.graph, case.question, case.tuning, cuts)
    return got.differs_from(answer) and f"cuts {cuts}: {got.differs_from(answer)}"


def check_names(asked: Asked) -> str:
    """Other names of the vertices change nothing but the names."""
    graph, n = asked.case.graph, (asked.case.graph.n_u, asked.case.graph.n_v)
    if isinstance(graph, BipartiteGraph):
        to = [asked.random.permutation(each) for each in n]
        named: Graph = BipartiteGraph.from_edges(to[0][graph.u], to[1][graph.v], *n, graph.sign)
    else:
        to = [asked.random.permutation(n[0])]
        named = UnipartiteGraph.from_edges(to[0][graph.u], to[0][graph.v], n[0])
    held = {
        f"with_{side}": tuple(sorted(of[list(getattr(asked.case.question.listing, f"with_{side}"))].tolist()))
        for side, of in zip("uv", to, strict=False)
        if asked.case.question.listing is not None
    }
    return asked.compare(named, _name(asked, to), _with_held(asked.case.question, held))


def _with_held(question: Question, held: Mapping[str, tuple[int, ...]]) -> Question:
    return question if question.listing is None else replace(question, listing=replace(question.listing, **held))


def _name(asked: Asked, to: list[NDArray[Any]]) -> Answer:
    """Return the answer with other names; checksums and forests follow from names, and are left out."""
    graph, answer, question = asked.case.graph, asked.answer, asked.case.question
    peels = question.peels
    ends = np.stack((to[0][graph.u], to[-1][graph.v]))
    if isinstance(graph, UnipartiteGraph):
        ends = np.sort(ends, axis=0)
    by_place = {"edge": np.lexsort((ends[1], ends[0])), "u": np.argsort(to[0]), "v": np.argsort(to[-1])}
    by_place |= {"n": by_place["u"], "number": by_place["edge" if peels == "wing" else peels[-1:] or "u"]}
    vectors = {name: vector[by_place[name]] for name, vector in answer.vectors.items() if name in by_place}
    if isinstance(question.motif, Projection):  # its rows have vertices of one layer
        to = [to["uv".index(question.motif.layer)]]
    rows = (
        answer.rows
        and sorted(  # numbers stay
            (
                *(tuple(sorted(of[list(side)].tolist())) for of, side in zip(to, row, strict=False)),
                *row[len(to) :],
            )
            for row in answer.rows
        )
    )
    return replace(answer, vectors=vectors, checksum=None, rows=rows)


def check_layers(asked: Asked) -> str:
    """U and V may be exchanged, in the graph and in the question."""
    graph, question, answer = asked.case.graph, asked.case.question, asked.answer
    if not isinstance(graph, BipartiteGraph):
        return ""
    order = np.lexsort((graph.u, graph.v))
    vectors = {"edge": answer.vectors.get("edge", order)[order]} | {
        name: answer.vectors.get(other, order) for name, other in (("u", "v"), ("v", "u"))
    }
    if "number" in answer.vectors:
        numbers = answer.vectors["number"]
        vectors = {"number": numbers[order] if question.peels == "wing" else numbers}
    is_one_layer = isinstance(question.motif, Projection)
    cells = answer.cells if isinstance(question.motif, Census) else {cell[::-1]: n for cell, n in answer.cells.items()}
    wanted = replace(
        answer,
        cells=cells,
        vectors={name: each for name, each in vectors.items() if name in answer.vectors},
        checksum=None,
        rows=answer.rows and sorted(answer.rows if is_one_layer else (row[::-1] for row in answer.rows)),
    )
    return asked.compare(graph.swap_layers(), wanted, _swap(question))


def _swap(question: Question) -> Question:
    motif, other = question.motif, {"u": "v", "v": "u", "core u": "core v", "core v": "core u"}
    if isinstance(motif, Biclique):
        motif = replace(motif, p=motif.q, q=motif.p, max_p=motif.max_q, max_q=motif.max_p)
    elif isinstance(motif, MaximalBiclique):
        motif = MaximalBiclique(motif.min_v, motif.min_u, motif.max_v, motif.max_u)
    elif isinstance(motif, Census | BalancedButterfly) and motif != BalancedButterfly():
        motif = replace(motif, pair_side=other[motif.pair_side])  # type: ignore[arg-type]
    elif isinstance(motif, Projection | Togetherness):
        motif = replace(motif, layer=other[motif.layer])  # type: ignore[arg-type]
    options = tuple((name, other.get(value, value)) for name, value in question.options)
    swapped = replace(question, motif=motif, options=options, peels=other.get(question.peels, question.peels))
    listing = question.listing
    return swapped if listing is None else _with_held(swapped, {"with_u": listing.with_v, "with_v": listing.with_u})


def check_union(asked: Asked) -> str:
    """The motifs of two graphs side by side are those of both, except motifs of vertices without an edge between."""
    graph, question, ours = asked.case.graph, asked.case.question, asked.answer
    if question.listing is not None or isinstance(question.motif, Checkerboard | Togetherness):
        return ""
    most = 33 if isinstance(asked.answerer, EngineAnswerer) else 4
    if isinstance(graph, UnipartiteGraph):
        _, other = draw_unipartite(asked.random, most, most // 2 + 1)
        u, v = (np.concatenate((a, b + graph.n)) for a, b in ((graph.u, other.u), (graph.v, other.v)))
        both: Graph = UnipartiteGraph.from_edges(u, v, graph.n + other.n)
    else:
        _, other = draw_bipartite(asked.random, most, 6 * most, graph.signed)
        ends = [(graph.u, other.u + graph.n_u), (graph.v, other.v + graph.n_v)]
        if graph.sign is not None:
            ends.append((graph.sign, other.sign))
        u, v, *sign = map(np.concatenate, ends)
        both = BipartiteGraph.from_edges(u, v, graph.n_u + other.n_u, graph.n_v + other.n_v, *sign)
    theirs = asked.again(other)
    names = [name for name in ours.vectors if name in ("number", "edge", "u", "v", "n")]
    cells = {cell: ours.cells.get(cell, 0) + theirs.cells.get(cell, 0) for cell in {*ours.cells, *theirs.cells}}
    vectors = {name: np.concatenate((ours.vectors[name], theirs.vectors[name])) for name in names}
    return asked.compare(both, Answer(None, None, ours.total + theirs.total, cells, vectors))


def check_edge(asked: Asked) -> str:
    """Without an edge there are as many motifs less as the edge is in, modulo 2^64 where a count may pass that."""
    graph, answer = asked.case.graph, asked.answer
    if "edge" not in answer.vectors or not graph.n_edges:
        return ""
    support = answer.vectors["edge"]
    at = int(asked.random.choice([support.argmax(), asked.random.integers(graph.n_edges)]))
    u, v = np.delete(graph.u, at), np.delete(graph.v, at)
    if isinstance(graph, UnipartiteGraph):
        less: Graph = UnipartiteGraph.from_edges(u, v, graph.n)
    else:
        sign = None if graph.sign is None else np.delete(graph.sign, at)
        less = BipartiteGraph.from_edges(u, v, graph.n_u, graph.n_v, sign)
    got = asked.again(less, replace(asked.case.question, per="total"))
    missing = answer.total - got.total - int(support[at])
    if answer.total >> 64 and missing > 0:
        missing %= 1 << 64
    if not missing or (got.items is not None and got.items != got.n_items):
        return ""
    return f"total: {answer.total}; without edge {at}, which is in {support[at]}, {got.total}"


def check_closed_forms(asked: Asked) -> str:
    """Graphs with a formula have as many motifs as it says."""
    if not isinstance(asked.answerer, EngineAnswerer):
        return ""  # too large for others
    closed = draw_closed(asked.case.question, asked.random, asked.answerer.name == "gpu")
    if closed is None:
        return ""
    graph, wanted, options = closed
    return asked.compare(graph, wanted, replace(asked.case.question, options=options))


def _count_cliques(asked: Asked, engine: Any, n: int, *, outer: bool) -> Partial:
    graph, question = asked.case.graph, asked.case.question
    assert isinstance(graph, UnipartiteGraph)
    order, vertices = (asked.random.permutation(graph.n) for _ in range(2))
    groups = [group.tolist() for group in np.array_split(vertices, n)]
    cut = cut_cliques_by_definition(graph, order.tolist(), groups, outer=outer)
    return count_clique_parts(engine, graph, cut, question.motif, question.per)


def _count_wedges(asked: Asked, engine: Any, n: int) -> Partial:
    """Return half of both ways of cutting."""
    graph, motif, per = asked.case.graph, asked.case.question.motif, asked.case.question.per
    cut = cut_grid(graph, n, 2, per) + cut_closures(graph, n, asked.case.number, per)
    ran = [(part, engine.run(prepared, 0, prepared.n_items)) for part in cut
           for prepared in [engine.prepare(part, motif, per)]]  # fmt: skip
    total, vectors = sum(each.total for _, each in ran), add_vectors(graph, per, ran)
    halves = {name: vector // 2 for name, vector in vectors.items()}
    return Partial(0, total // 2 if total % 2 == 0 else -1, 0, halves)


def _count_roots(asked: Asked, engine: Any, n: int, cutter: Callable[..., Any]) -> Partial:
    graph, motif, per = asked.case.graph, asked.case.question.motif, asked.case.question.per
    assert isinstance(graph, BipartiteGraph)
    layer: Layer = asked.random.choice(["u", "v"])  # type: ignore[assignment]
    if isinstance(motif, Biclique) and max(motif.p or 1, motif.q or 1) > 5:  # the side of fewer is enumerated
        layer = "u" if (motif.p or 9) < (motif.q or 9) else "v"
    cut = cutter(graph, layer, group_at_random(graph, layer, n, asked.case.number))
    return count_parts(engine, graph, cut, motif, per)


PARTED: Mapping[str, Callable[[Asked, Any, int], Partial]] = {
    "wedges": _count_wedges,
    "cycles": _count_wedges,
    "roots": partial(_count_roots, cutter=cut_by_definition),
    "maximal-bicliques": partial(_count_roots, cutter=cut_maximal_by_definition),
    "cliques": partial(_count_cliques, outer=False),
    "maximal-cliques": partial(_count_cliques, outer=True),
}
"""What counts in n parts, cut by definition, by the kind of the partition."""


def check_parts(asked: Asked) -> str:
    """The parts of a graph, cut any way, add up to it."""
    graph, question = asked.case.graph, asked.case.question
    parted = motif_row(question.motif).parted
    if parted is None or question.peels or question.listing is not None:
        return ""
    if graph.n_edges > _MOST_CUT or not isinstance(asked.answerer, EngineAnswerer):
        return ""
    options = tuple(option for option in question.options if option[0] == "algorithm")
    engine = asked.answerer.make(replace(question, options=options), asked.case.tuning)
    n = int(asked.random.integers(1, 5))
    got = PARTED[parted.kind](asked, engine, n)
    checksum = got.checksum if asked.answer.checksum is not None else None
    found = Answer(None, None, got.total, got.cells, got.vectors, checksum)
    return found.differs_from(asked.answer) and f"{n} parts: {found.differs_from(asked.answer)}"


def check_memory(asked: Asked) -> str:
    """With little device memory the same comes out, in smaller groups, or nothing."""
    device = getattr(asked.answerer, "device", None)
    if device is None or not hasattr(device.xp, "get_default_memory_pool"):
        return ""
    pool = device.xp.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + (1 << int(asked.random.integers(20, 30))))
    try:
        got = asked.answerer(asked.case.graph, asked.case.question, asked.case.tuning, asked.answer.items)
        return got.differs_from(asked.answer)
    except MemoryError:
        return ""
    finally:
        pool.set_limit(size=0)


def check_limit(asked: Asked) -> str:
    """A listing of a few has as many different rows of the whole."""
    question, answer = asked.case.question, asked.answer
    if question.listing is None or answer.rows is None or answer.items != answer.n_items:
        return ""
    limit = int(asked.random.choice([1, 7, len(answer.rows) + 1]))
    listing = replace(question.listing, limit=limit)
    got = asked.again(asked.case.graph, replace(question, listing=listing))
    if got.items != got.n_items:
        return ""  # it took too long
    few = got.rows or []
    wanted = min(limit, len(answer.rows))
    if len(set(few)) == len(few) == wanted and set(few) <= set(answer.rows):
        return ""
    return f"of {len(answer.rows)} rows with limit {limit}: {len(few)}, {len(set(few))} of them different"


LAWS: Mapping[str, Callable[[Asked], str]] = {
    law.__name__.removeprefix("check_"): law
    for law in (
        check_split, check_parts, check_names, check_layers, check_union, check_edge, check_closed_forms,
        check_memory, check_limit,
    )
}  # fmt: skip
"""Those that ask again; the sums are always looked at."""
