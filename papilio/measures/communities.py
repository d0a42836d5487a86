"""Communities by percolation: the function, and its answer.

See docs/communities.md; :mod:`papilio.kernels.communities.percolate` has the definitions.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.api.read import AskedOptions, ask
from papilio.arguments import Count, Threads, checked, read_argument
from papilio.cluster.events import Progress
from papilio.cluster.progress import shows_progress
from papilio.errors import CapacityError, InputError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.communities.percolate import (
    MAX_MOTIFS,
    Level,
    Percolated,
    Report,
    Rows,
    find_overlaps,
    joining_bytes,
    percolate,
)
from papilio.kernels.communities.question import LEAST_K, Percolation, Shared
from papilio.kernels.exact import require_room
from papilio.kernels.threads import choose_threads
from papilio.measures.values import Edges, describe_as_json
from papilio.motifs import Listing, Motif, motif_to_json
from papilio.question import Question
from papilio.registry import load_engine, motif_row
from papilio.storage.answers import (
    Answer,
    Preview,
    Source,
    file_metadata,
    integer_table,
    members_table,
    preview,
    write_arrow,
)
from papilio.storage.labelled import plain_labels
from papilio.storage.tables import check_table_file
from papilio.tasks.job import job_of
from papilio.tasks.machine import free_memory_bytes


@dataclass(frozen=True)
class Community:
    """One community; vertices by layer, ``u`` and ``v``, or ``n`` of a unipartite graph."""

    k: int | None  # largest size of cliques at which it is a community; None for bicliques
    parent: int | None  # place of the community of smaller cliques that contains it; None if there is none
    ids: Mapping[str, tuple[int, ...]]  # ascending
    labels: Mapping[str, tuple[Any, ...]]  # the ids in a graph without labels

    @property
    def size(self) -> int:
        """Number of vertices."""
        return sum(map(len, self.ids.values()))


@dataclass(frozen=True, eq=False, repr=False)
class Communities(Answer):
    """The communities of a graph: a sequence of :class:`Community`, by falling k, then by falling size.

    With cliques of every size they form a tree. Each is listed once, at the largest k at which it is a community; it
    remains one at smaller k, down to the k of its parent.
    """

    motif: Motif  # as asked for
    shared: Shared
    levels: NDArray[np.int64]  # k of each community, shape (n,)
    parents: NDArray[np.int32]  # place of the parent of each, -1 for none; shape (n,)
    # By layer, ``u`` and ``v``, or ``n``: offsets of shape (n + 1,) and ids; the vertices of community i are
    # ``ids[offsets[i] : offsets[i + 1]]``, ascending.
    members: Mapping[str, Rows]
    maximal: int  # number of maximal cliques or bicliques that were joined
    graph: dict[str, Any]  # as in CountResult
    # wall time by phase: ``read``, ``search``, ``join``, ``write``, and ``total``
    seconds: dict[str, float] = field(repr=False)
    output: str | None = None
    source: Source | None = field(default=None, repr=False)  # the graph, if at hand

    def __len__(self) -> int:
        return int(self.levels.size)

    def __getitem__(self, at: int) -> Community:
        at = range(len(self))[at]
        ids = {layer: found[offsets[at] : offsets[at + 1]] for layer, (offsets, found) in self.members.items()}
        labels = {layer: self.held.labels("v" if layer == "v" else "u") for layer in ids}
        return Community(
            int(self.levels[at]) if self.has_k else None,
            int(self.parents[at]) if self.parents[at] >= 0 else None,
            {layer: tuple(found.tolist()) for layer, found in ids.items()},
            {
                layer: tuple(found.tolist() if (of := labels[layer]) is None else plain_labels(of[found]))
                for layer, found in ids.items()
            },
        )

    def __iter__(self) -> Iterator[Community]:
        return map(self.__getitem__, range(len(self)))

    @property
    def has_k(self) -> bool:
        """Whether they are communities of cliques."""
        return "n" in self.members

    @property
    def _is_tree(self) -> bool:
        return self.motif.is_table

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of vertices of each community, shape (n,)."""
        return cast("NDArray[np.int64]", np.sum([np.diff(offsets) for offsets, _ in self.members.values()], axis=0))

    @property
    def headline(self) -> str:
        noun = "community" if len(self) == 1 else "communities"
        largest = f", the largest of {self.sizes.max():,} vertices" if len(self) else ""
        of = f"{self.maximal:,} maximal {'cliques' if self.has_k else 'bicliques'}"
        return f"{len(self):,} {self.motif.title} {noun}{largest} ({of}, {self.seconds['total']:.2f} s)"

    def _preview(self) -> Preview:
        names = [*self.members]
        rows = (
            (at, *[each.k, each.parent][: 2 * self._is_tree], each.size, *(each.labels[name] for name in names))
            for at, each in enumerate(self)
        )
        return preview(["", *["k", "parent"][: 2 * self._is_tree], "vertices", *names], rows, len(self))

    def at(self, k: int) -> NDArray[np.int64]:
        """Return the places of the communities of k-cliques, ascending; InputError for bicliques."""
        read_argument("k", k, Count)
        if not self.has_k:
            raise InputError(f"k is {k}, but {self.motif.title} communities have no k; all of them are of one size")
        above = np.append(self.levels, 0)[self.parents]
        return np.flatnonzero((self.levels >= k) & (above < k)) if k >= LEAST_K else np.zeros(0, np.int64)

    def by_size(self) -> list[tuple[int, int, int]]:
        """Return each k, the number of communities, and the vertices of the largest, by increasing k; as :meth:`at`."""
        least = getattr(self.motif, "k", None) or LEAST_K
        found = [(k, self.at(k)) for k in range(least, int(self.levels.max(initial=0)) + 1)]
        return [(k, at.size, int(self.sizes[at].max())) for k, at in found]

    def top(self, n: int = 10) -> tuple[Community, ...]:
        """Return the ``n`` communities with the most vertices."""
        read_argument("n", n, Count)
        return tuple(self[at] for at in np.argsort(-self.sizes, kind="stable")[:n].tolist())

    def to_arrow(self) -> Any:
        """Return a row for each vertex of each community.

        Columns: community, k (of cliques), layer (of bicliques), id, and label (if there are labels).
        """
        return members_table(self.held, "community", self.members, {"k": self.levels} if self.has_k else {})

    def summary(self) -> Any:
        """Return a row for each community: community, k and parent (of cliques), and vertices or u and v."""
        columns: dict[str, NDArray[Any]] = {"community": np.arange(len(self))}
        if self.has_k:
            columns |= {"k": self.levels, "parent": np.ma.masked_less(self.parents, 0)}
        sizes = {layer: np.diff(offsets) for layer, (offsets, _) in self.members.items()}
        return integer_table(columns | ({"vertices": sizes["n"]} if self.has_k else sizes))

    def overlaps(self, k: int | None = None) -> Any:
        """Return a row for each two communities with common vertices: first, second, and common or u and v.

        Communities of every size need a ``k``, whose communities are compared.
        """
        read_argument("k", k, Count | None)
        if (k is None) == self._is_tree:
            raise InputError(
                "the communities are of cliques of every size; choose one, as in overlaps(k=4)"
                if self._is_tree
                else f"k is {k}, but there is one size of communities; leave k out"
            )
        chosen = np.arange(len(self)) if k is None else self.at(k)
        n_vertices = [self.graph["n_v" if layer == "v" else "n_u"] for layer in self.members]
        found = find_overlaps([*self.members.values()], n_vertices, chosen)
        names = ["common"] if self.has_k else ["u", "v"]
        columns = dict(zip(names, found.common, strict=True))
        return integer_table({"first": found.first, "second": found.second} | columns)

    def _draw(self, axes: Any) -> None:
        """Draw how many communities have at least each size; with cliques of every size, the communities of each k."""
        if self._is_tree:
            sizes = self.by_size()
            lines = {"communities": [n for _, n, _ in sizes], "vertices of the largest": [most for _, _, most in sizes]}
            charts.draw_lines(axes, [k for k, _, _ in sizes], lines, "k")
        else:
            charts.draw_distribution(axes, {"communities": self.sizes}, "vertices")

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the members as one JSON object."""
        own = {
            "motif": motif_to_json(self.motif),
            "shared": self.shared,
            "communities": len(self),
            "largest": int(self.sizes.max(initial=0)),
            "maximal": self.maximal,
            "sizes": self.by_size() if self.has_k else None,
        }
        return describe_as_json("communities", self, **own)


@checked
@shows_progress
def communities(
    graph: Any,
    motif: Motif | str,
    *,
    shared: Shared = "smaller",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: Threads | None = None,
    progress: Progress = None,
    **asked: Unpack[AskedOptions],
) -> Communities:
    """Find communities by percolation, exactly, in this process; deterministic.

    Two k-cliques are adjacent if they share k - 1 vertices. A community is the union of k-cliques that are connected by
    adjacent ones; communities may share vertices. The same holds for (p, q)-bicliques.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    motif : Motif or str
        ``Clique(k)`` with k at least 2, or ``Clique()`` for every k (``max_k`` is the largest), on a unipartite graph;
        ``Biclique(p, q)`` on a bipartite one.
    shared : {"smaller", "same"}
        What adjacent (p, q)-bicliques share: ``smaller`` is p - 1 vertices of U and q - 1 of V (Lehmann et al. 2008),
        ``same`` is p - 1 of U and q of V, or p and q - 1: these communities join maximal bicliques that share a
        (p, q)-biclique (Zeng et al. 2025).
    output : path-like, optional
        File (Parquet, CSV, ..., by its suffix) for the vertices of the communities: the table of
        :meth:`Communities.to_arrow`. An existing file is replaced only with ``overwrite``.
    threads : int, optional
        By default the processors that this process may use.
    progress : bool or callable, optional
        As for :func:`papilio.count`.
    **asked
        As for :func:`papilio.count`.

    Raises
    ------
    InputError
        For sizes that do not apply.
    UnsupportedError
        For another motif, or a graph of the other kind.
    CapacityError
        When the graph or its maximal cliques or bicliques do not fit in memory.

    Examples
    --------
    >>> papilio.communities(friends, "clique", k=4)[0].labels
    {'n': ('Ada', 'Bea', 'Cleo', 'Dina', 'Eve')}
    """
    graph, question = ask(graph, motif, asked, partial(_question, shared))
    percolation = Percolation(question.motif, shared)
    target = None if output is None else check_table_file(output, overwrite)
    used, maximal = choose_threads(threads), percolation.maximal
    kind, of = question.row.graph_kind, f"a {question.motif.title} community"
    edges = Edges(graph, of, progress, kind, target, of_layers="")
    listing = Question.of(maximal, listing=Listing())
    job = job_of(edges.graph.store or edges.graph.arrays(), listing, "memory:", edges.graph.hash)
    edges.require_memory(job.row.memory.predict_graph(job, "cpu", used)[0], "whose search needs", used)
    with edges.phase("read"):
        arrays = edges.graph.arrays()
    with edges.phase("search"):
        found = _Found(arrays, maximal, used)
    with edges.phase("join"):
        joined = found.join(percolation.levels(found.largest), edges.report)
    result = Communities(
        question.motif, shared, joined.levels, joined.parents, dict(zip(found.layers, joined.members, strict=True)),
        found.n_motifs, edges.describe(), edges.seconds, edges.output, edges.graph.held,
    )  # fmt: skip
    if target is not None:
        with edges.phase("write"):
            asked_for = {"motif": motif_to_json(question.motif), "shared": shared}
            write_arrow(target, result.to_arrow(), file_metadata(edges.graph.hash, **asked_for), overwrite=overwrite)
        result.seconds.update(edges.seconds)
    return result


def _question(shared: Shared, motif: Motif) -> Question:
    """Return the question of a motif that has communities."""
    Percolation(motif, shared)
    return Question.of(motif)


class _Found:
    """The maximal cliques or bicliques of a graph, in memory."""

    def __init__(self, graph: BipartiteGraph | UnipartiteGraph, maximal: Motif, threads: int) -> None:
        self.layers = (*motif_row(maximal).columns(maximal),)
        self._what, self._threads = maximal.title, threads
        self._blocks: list[tuple[Rows, ...]] = []  # sizes instead of offsets
        self.n_motifs, self._n_members, self._room = 0, 0, free_memory_bytes()
        self._lock = threading.Lock()
        lister: Any = load_engine(maximal, "cpu", threads, listing=Listing())
        prepared = lister.prepare(graph, maximal, "total")
        lister.run(prepared, 0, prepared.n_items, sink=self._keep)
        self._ids = [getattr(prepared, f"ids_{layer}") for layer in self.layers]
        self._columns = [self._join_blocks(at) for at in range(len(self.layers))]
        self.largest = int(np.diff(self._columns[0][0]).max(initial=0))

    def _keep(self, *columns: Rows, part: int | None = None) -> None:
        copies = tuple((np.diff(offsets), values[: offsets[-1]].copy()) for offsets, values in columns)
        with self._lock:
            self._blocks.append(copies)
            self.n_motifs += copies[0][0].size
            self._n_members += sum(values.size for _, values in copies)
            if self.n_motifs > MAX_MOTIFS:
                raise CapacityError(f"there are more than {MAX_MOTIFS:,} ({self._what}): ask for larger sizes")
            what = f"there are {self.n_motifs:,} or more ({self._what}) with {self._n_members:,} vertices, which need"
            needed = joining_bytes(self.n_motifs, self._n_members, self._threads)
            require_room(what, needed, self._room, "ask for larger sizes, or use a machine with more memory")

    def _join_blocks(self, at: int) -> Rows:
        sizes = [np.zeros(1, np.int64), *(block[at][0] for block in self._blocks)]
        values = [np.zeros(0, np.int32), *(block[at][1] for block in self._blocks)]
        return np.cumsum(np.concatenate(sizes)), np.concatenate(values)

    def join(self, levels: list[Level], report: Report) -> Percolated:
        """Join them, and return the communities with the ids of the graph."""
        self._blocks.clear()
        joined = percolate(self._columns, [ids.size for ids in self._ids], levels, self._threads, report)
        members = zip(joined.members, self._ids, strict=True)
        return replace(joined, members=tuple((offsets, ids[places]) for (offsets, places), ids in members))
