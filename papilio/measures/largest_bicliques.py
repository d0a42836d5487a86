"""The largest maximal bicliques of a graph, by their edges or by their smaller side; see docs/maximal-bicliques.md."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from papilio.api.inputs import Question
from papilio.arguments import Between, Threads, checked
from papilio.cluster.events import Listener
from papilio.graph import BipartiteGraph
from papilio.kernels.maximal.best import find_best
from papilio.kernels.maximal.list import MaximalBicliqueLister
from papilio.kernels.maximal.memory import predict_graph
from papilio.kernels.threads import choose_threads
from papilio.measures.edges import Edges
from papilio.measures.values import LargestBiclique, LargestBicliques
from papilio.motifs import MaximalBiclique
from papilio.questions import Listing
from papilio.storage.origins import plain_labels

MOST = 1_000_000
"""Bicliques that may be asked for: they are all in memory."""


@checked
def top_bicliques(
    graph: Any,
    *,
    by: Literal["edges", "balanced"] = "edges",
    n: Annotated[int, Between(1, MOST, "they are held in memory; list them all instead")] = 100,
    motif: MaximalBiclique | None = None,
    threads: Threads | None = None,
    progress: Listener | None = None,
) -> LargestBicliques:
    """Find the largest maximal bicliques of a graph, exactly, in this process; the same ones at every call.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`. Signs are ignored.
    by : {"edges", "balanced"}
        What is large: the number of edges, or the number of vertices of the smaller side.
    n : int
        How many; all, where there are fewer. Of equal ones those whose ids come first, U before V.
    motif : MaximalBiclique, optional
        Least and largest sizes of both sides.
    threads : int, optional
        By default the processors that this process may use.
    progress : callable, optional
        Called with events of :mod:`papilio.cluster.events`.

    Raises
    ------
    InputError
        For numbers that make no sense.
    UnsupportedError
        For a unipartite graph.
    CapacityError
        When the graph does not fit the memory.
    """
    asked, used = motif or MaximalBiclique(), choose_threads(threads)
    edges = Edges(graph, "the largest bicliques", progress)
    job = edges.source.job(Question(asked, "total"), "memory:")
    edges.require_memory(predict_graph(job, "cpu", used)[0], "whose search needs", used)
    with edges.phase("read"):
        whole = edges.source.read()
        assert isinstance(whole, BipartiteGraph)
        prepared = MaximalBicliqueLister(used, Listing()).prepare(whole, asked, "total")
    with edges.phase("search"):
        best = find_best(prepared, by, n, used)
    columns = edges.source.given.labels("u"), edges.source.given.labels("v")
    found = []
    for each in best:
        labels = (
            tuple(ids if column is None else plain_labels(column[list(ids)]))
            for ids, column in zip(each.members, columns, strict=True)
        )
        found.append(LargestBiclique(each.value, *each.members, *labels))
    return LargestBicliques(asked, by, tuple(found), edges.describe(), edges.seconds)
