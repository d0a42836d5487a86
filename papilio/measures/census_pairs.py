"""The census of a signed graph by pairs of vertices that agree or conflict most, and vertex by vertex.

The groups of classes follow the drug-target study of Mekala et al. (G-BBC++, section VII): a pair is *coherent* at two
common neighbours when its signs are the same at each, *incoherent* when they differ at each, and *mixed*, which that
study calls conflicting interactions, when they are the same at one alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.api.call import CensusOptions, check_output
from papilio.api.count import CensusResult, census
from papilio.api.read import resolve_layers, split_options
from papilio.arguments import Count, Threads, checked, plural, read_argument
from papilio.cluster.events import PhaseStarted
from papilio.cluster.progress import shows_progress
from papilio.errors import ExecutionError
from papilio.graph import BipartiteGraph
from papilio.kernels.exact import require_room
from papilio.kernels.threads import choose_threads
from papilio.measures.signed_pairs import bytes_of_pairs, find_pairs, sum_vertices
from papilio.measures.values import Edges, first_of
from papilio.motifs import CENSUS_CLASSES, Census, PairSide, motif_to_json, sum_groups
from papilio.question import Question
from papilio.storage.answers import (
    Answer,
    Preview,
    Source,
    columns_table,
    file_metadata,
    pairs_table,
    preview,
    write_arrow,
)
from papilio.storage.labelled import Vectors, plain_labels
from papilio.tasks.fold import exact_sum
from papilio.tasks.job import require_graph
from papilio.tasks.machine import free_memory_bytes
from papilio.tasks.result import TopEntry, find_top, json_labels

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowTable

PairOrder = Literal["coherent", "incoherent", "conflicting"]

PAIR_ORDERS: dict[PairOrder, str] = {
    "coherent": "coherent",
    "incoherent": "incoherent",
    "conflicting": "mixed",
}
"""Orders of pairs, and the group of classes whose butterflies each one compares."""


@dataclass(frozen=True)
class CensusPair:
    """Two vertices of a layer, by the signs at their common neighbours: the numbers of ``++``, ``--`` and different."""

    ids: tuple[int, int]  # the lesser first
    labels: tuple[Any, Any]  # the ids in a graph without labels
    both_positive: int
    both_negative: int
    different: int

    @property
    def classes(self) -> dict[str, int]:
        """Butterflies of the pair by class name: every two of its common neighbours make one."""
        a, b, t = self.both_positive, self.both_negative, self.different
        return {
            "++/++": a * (a - 1) // 2,
            "++/--": a * b,
            "--/--": b * (b - 1) // 2,
            "+-/+-": t * (t - 1) // 2,
            "++/+-": a * t,
            "--/+-": b * t,
        }

    @property
    def groups(self) -> dict[str, int]:
        return sum_groups(self.classes)

    @property
    def common_neighbours(self) -> dict[str, int]:
        """Common neighbours by the signs of the pair there."""
        return {"++": self.both_positive, "--": self.both_negative, "+-": self.different}

    @property
    def columns(self) -> dict[str, int]:
        """Its numbers by column name: common neighbours, classes and groups."""
        return {**self.common_neighbours, **self.classes, **self.groups}

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as a JSON object; integers in full."""
        return {
            "ids": list(self.ids),
            "labels": json_labels(self.labels),
            "common_neighbours": self.common_neighbours,
            "classes": self.classes,
            "groups": self.groups,
        }


@dataclass(frozen=True, eq=False, repr=False)
class CensusPairs(Answer):
    """The pairs with the most butterflies of a group, by decreasing butterflies, ties by ids; none without any."""

    census: CensusResult  # of the whole graph
    by: PairOrder
    pairs: tuple[CensusPair, ...]
    asked: int  # largest number of pairs
    output: str | None = None

    @property
    def headline(self) -> str:
        whole = f"of {self.census.butterflies:,} butterflies"
        return f"{plural(len(self.pairs), 'pair')} with the most {self.by} butterflies, {whole}"

    def _preview(self) -> Preview:
        names = "++", "--", "+-", *sum_groups(CensusPair((0, 1), (0, 1), 0, 0, 0).classes)
        rows = [(*each.labels, *(f"{each.columns[name]:,}" for name in names)) for each in self.pairs]
        return preview(("first", "second", *names), rows)

    def to_arrow(self) -> ArrowTable:
        """Return a row for each pair: ids, labels, common neighbours by signs, classes and groups."""
        return pairs_table(*self._columns())

    def _columns(self) -> tuple[list[tuple[int, int]], list[tuple[Any, Any]], dict[str, list[int]]]:
        names = CensusPair((0, 1), (0, 1), 0, 0, 0).columns
        numbers = {name: [pair.columns[name] for pair in self.pairs] for name in names}
        return [pair.ids for pair in self.pairs], [pair.labels for pair in self.pairs], numbers

    def _draw(self, axes: Any) -> None:
        """Draw the butterflies of the first 20 pairs."""
        group = PAIR_ORDERS[self.by]
        shown = {" and ".join(map(str, each.labels)): each.groups[group] for each in self.pairs[:20]}
        charts.draw_numbers(axes, shown, f"{self.by} butterflies")

    def top(self, n: int = 10) -> tuple[CensusPair, ...]:
        """Return the first ``n`` pairs; InputError if more than requested in the call."""
        return first_of(self.pairs, n, self.asked, "pairs")

    def to_dict(self) -> dict[str, Any]:
        """Return the object of the census, and the pairs."""
        return {
            **self.census.to_dict(),
            "by": self.by,
            "pairs": [pair.to_dict() for pair in self.pairs],
            "output": self.output,
        }


@dataclass(frozen=True, eq=False, repr=False)
class CensusVertices(Answer):
    """The classes of the butterflies of every vertex of a layer.

    ``classes`` holds, by class name, the butterflies of all pairs with each vertex, shape (n,), by id;
    ``classes.aligned("++/--")`` has them by label. Their sum over the vertices is twice the butterflies of the class.
    """

    census: CensusResult  # of the whole graph
    pair_side: PairSide
    classes: Vectors[NDArray[np.uint64]]
    output: str | None = None
    source: Source | None = None  # the graph, if at hand

    @property
    def groups(self) -> Vectors[NDArray[np.uint64]]:
        """Coherent, incoherent and mixed butterflies of each vertex."""
        return self.classes.like(sum_groups({name: self.classes.by_id(name) for name in self.classes}))

    @property
    def graph(self) -> dict[str, Any]:
        """The graph, as in :class:`papilio.CountResult`."""
        return self.census.counted.graph

    @property
    def headline(self) -> str:
        n = next(iter(self.classes.by_id(name) for name in self.classes)).size
        return f"classes of {self.census.butterflies:,} butterflies by vertex: {n:,} of layer {self.pair_side.upper()}"

    def _preview(self) -> Preview:
        found = self.groups
        groups = {name: found.by_id(name) for name in found}
        shown = self.top(5) if self.source is not None else ()
        rows = [(each.labels[0], *(f"{of[each.ids[0]]:,}" for of in groups.values())) for each in shown]
        return preview(("label", *groups), rows)

    def to_arrow(self) -> ArrowTable:
        """Return a row for each vertex: layer, id, label (if there are labels), classes and groups."""
        values = {name: self.classes.by_id(name) for name in self.classes}
        return columns_table(self.held, {self.pair_side: values | sum_groups(values)})

    def _draw(self, axes: Any) -> None:
        """Draw how many vertices have at least a number of butterflies of each group."""
        groups = {name: self.groups.by_id(name) for name in self.groups}
        charts.draw_distribution(axes, groups, "butterflies of a vertex")

    def top(self, n: int = 10, *, by: PairOrder = "conflicting") -> tuple[TopEntry, ...]:
        """Return the ``n`` vertices with the most coherent, incoherent or conflicting butterflies, at least 1."""
        read_argument("n", n, Count)
        read_argument("by", by, PairOrder)
        return find_top({self.pair_side: self.groups.by_id(PAIR_ORDERS[by])}, self.held, n)

    def to_dict(self) -> dict[str, Any]:
        """Return the object of the census, and the path of the file."""
        return {**self.census.to_dict(), "per": "vertex", "output": self.output}


@checked
@shows_progress
def census_pairs(
    graph: Any,
    pair_side: str,
    *,
    by: PairOrder,
    n: Count = 100,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: Threads | None = None,
    **options: Unpack[CensusOptions],
) -> CensusPairs:
    """Find the pairs of a layer with the most coherent, incoherent or conflicting butterflies.

    Threads of this process walk the pairs and keep only the best, with no list of all. The classes must sum to the
    census of the whole graph, which is counted separately.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`; signed.
    by : {"coherent", "incoherent", "conflicting"}
        ``conflicting`` are the mixed butterflies.
    n : int
        Largest number of pairs.
    output : path-like, optional
        File (Parquet, CSV, ..., by its suffix) for the pairs: ``first``, ``second``, ``first_label``,
        ``second_label``, the common neighbours ``++``, ``--``, ``+-``, the six classes and the three groups. An
        existing file is replaced only with ``overwrite``.
    threads : int, optional
        By default the processors that this process may use; the answer does not depend on it.
    **options
        As for :func:`papilio.census`.

    Raises
    ------
    InputError
        For an invalid order, ``n`` or number of threads, or an output that cannot be written.
    CapacityError
        When the pairs need more memory than is free; raised before anything is counted.
    PapilioError
        As :func:`papilio.census`; ExecutionError if pairs and census do not agree.
    """
    walk = _Walk(graph, pair_side, (output, overwrite), threads, n, options)
    counted = walk.count()
    chosen = [each.group == PAIR_ORDERS[by] for each in CENSUS_CLASSES]
    rows, totals = find_pairs(walk.read(), walk.pair_side, chosen, n, walk.threads, walk.report)
    _require_census(counted, totals, 1)
    labels = walk.graph.labels(walk.pair_side)
    pairs = tuple(_make_pair(row, labels) for row in rows.tolist())
    found = CensusPairs(counted, by, pairs, n, walk.output)
    if walk.target is not None:
        metadata = file_metadata(counted.counted.graph["hash"], motif=walk.question(by=by, n=n))
        write_arrow(walk.target, found.to_arrow(), metadata, overwrite=overwrite)
    return found


@checked
@shows_progress
def census_vertices(
    graph: Any,
    pair_side: str,
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: Threads | None = None,
    **options: Unpack[CensusOptions],
) -> CensusVertices:
    """Count, for every vertex of a layer, the butterflies of each class that its pairs are in.

    Threads of this process walk the pairs. The sums over the vertices must be twice the census of the whole graph,
    which is counted separately.

    ``output`` is a file as for :func:`census_pairs`, with ``layer``, ``id``, ``label`` (if there are labels), the six
    classes and the three groups. Other parameters and errors are as for :func:`census_pairs`; CapacityError also when a
    vertex could be in more than 2^63 - 1 butterflies.
    """
    walk = _Walk(graph, pair_side, (output, overwrite), threads, 0, options)
    counted = walk.count()
    counts = sum_vertices(walk.read(), walk.pair_side, walk.threads, walk.report)
    _require_census(counted, [exact_sum(each) for each in counts], 2)
    classes = {each.name: counts[at] for at, each in enumerate(CENSUS_CLASSES)}
    columns = {walk.pair_side: {**classes, **sum_groups(classes)}}
    walk.write(columns, {"motif": walk.question(per="vertex")}, overwrite)
    vectors = Vectors(classes, walk.graph.labelled, walk.pair_side)
    return CensusVertices(counted, walk.pair_side, vectors, walk.output, walk.graph.held)


class _Walk(Edges):
    """A graph whose pairs are walked; all invalid inputs are rejected before anything is counted."""

    def __init__(
        self,
        graph: Any,
        pair_side: str,
        output: tuple[str | os.PathLike[str] | None, bool],
        threads: int | None,
        k: int,
        options: CensusOptions,
    ) -> None:
        target = check_output(output[0], Census("u"), "total", overwrite=output[1])
        self.threads = choose_threads(threads)
        reading, self._where = split_options(options)
        graph, reading, named = resolve_layers(graph, reading, {"pair_side": pair_side})
        motif = Census(named["pair_side"])
        self.pair_side = motif.pair_side
        super().__init__(graph, f"motif {motif.name!r}", options.get("progress"), target=target, reading=reading)
        sizes = self.graph
        require_graph(Question(motif, "total"), sizes.kind, signed=sizes.signed, source=self.graph.name)
        n_side = self.n_u if self.pair_side == "u" else self.n_v
        needed = bytes_of_pairs(self.n_u + self.n_v, n_side, self.n_edges, self.threads, k)
        require_room(
            f"the pairs of {self.graph.name}, with {self.threads} threads{f' and {k} to keep' if k else ''}, need",
            needed,
            free_memory_bytes(),
            f"use fewer threads{' or pairs' if k else ''}, or a machine with more memory",
        )

    def question(self, **asked: Any) -> dict[str, Any]:
        return {**motif_to_json(Census(self.pair_side)), **asked}

    def count(self) -> CensusResult:
        return census(self.graph, self.pair_side, **self._where)

    def read(self) -> BipartiteGraph:
        """Return the graph; the walk begins."""
        graph = self.graph.arrays()
        assert isinstance(graph, BipartiteGraph)
        self._listener(PhaseStarted("pairs"))
        return graph


def _make_pair(row: list[int], labels: NDArray[Any] | None) -> CensusPair:
    _, first, second, positive, negative, different = row
    names = (first, second) if labels is None else plain_labels(labels[[first, second]])
    return CensusPair((first, second), (names[0], names[1]), positive, negative, different)


def _require_census(counted: CensusResult, totals: Any, times: int) -> None:
    """Raise unless the classes of a walk are ``times`` the classes of the census."""
    for (each, number, _), walked in zip(counted.rows, totals, strict=True):
        if walked != times * number:
            raise ExecutionError(
                f"the pairs have {walked // times} butterflies {each.name}, the census {number}: the graph may have "
                f"changed meanwhile: count again, and report it if they still differ"
            )
