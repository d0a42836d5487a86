"""Maximal bicliques as users ask for them: the command line, Python, jobs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import papilio
from papilio.errors import CapacityError, InputError, PapilioError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.checksum import hash_rows, sum_hashes
from papilio.storage.store import write_store
from tests.tools.commands import Run

INLINE = ("--cluster", "inline", "--engine", "cpu")


@pytest.fixture(scope="module")
def graph() -> BipartiteGraph:
    """Three vertices of U, of which all have v 0, two have v 1, and one has v 2; and an edge beside them.

    Maximal: {0,1,2}/{0}, {0,1}/{0,1}, {0}/{0,1,2}, {3}/{3}.
    """
    return BipartiteGraph.from_edges([0, 1, 2, 0, 1, 0, 3], [0, 0, 0, 1, 1, 2, 3], 4, 4)


@pytest.fixture(scope="module")
def store(graph: BipartiteGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("maximal") / "graph"
    write_store(path, graph, provenance={})
    return path


def test_a_table_by_size_with_its_checksum(store: Path, run: Run) -> None:
    code, out, _ = run("count", "maximal-biclique", store, "--json", *INLINE)
    assert code == 0
    answer = json.loads(out)
    assert answer["table"] == [[1, 1, "1"], [1, 3, "1"], [2, 2, "1"], [3, 1, "1"]]
    u = (np.array([0, 3, 5, 6, 7]), np.array([0, 1, 2, 0, 1, 0, 3], np.int32))
    v = (np.array([0, 1, 3, 6, 7]), np.array([0, 0, 1, 0, 1, 2, 3], np.int32))
    assert answer["checksum"] == sum_hashes(hash_rows(u, v))


def test_sizes_bound_what_is_counted(store: Path, run: Run) -> None:
    code, out, _ = run("count", "maximal-biclique", store, "--min-u", 2, *INLINE)
    assert (code, out.split()) == (0, ["p", "\\", "q", "1", "2", "2", "0", "1", "3", "1", "0"])
    code, out, _ = run(
        "count", "maximal-biclique", store, "--max-u", 2, "--min-v", 2, "--anchor", "v", *INLINE
    )
    assert (code, out.split()) == (0, ["p", "\\", "q", "2", "3", "1", "0", "1", "2", "1", "0"])


def test_a_job_is_planned_resumed_and_verified(store: Path, tmp_path: Path) -> None:
    motif = papilio.MaximalBiclique(min_v=1, max_v=2)
    whole = papilio.count(store, motif)
    assert papilio.plan(store, motif).n_items == 1
    job = tmp_path / "job"
    first = papilio.count(store, motif, job=job)
    again = papilio.resume_job(job)
    assert (first.count, first.table, again.checksum) == (whole.count, whole.table, whole.checksum)
    assert papilio.verify_job(job)[0].count == whole.count == 3


def test_what_is_refused(graph: BipartiteGraph, store: Path, tmp_path: Path, run: Run) -> None:
    motif = papilio.MaximalBiclique()
    with pytest.raises(PapilioError, match="is defined on bipartite graphs"):
        papilio.count(papilio.UnipartiteGraph.from_edges([0], [1], 2), motif)
    with pytest.raises(InputError, match="min_u 3 and max_u 2"):
        papilio.MaximalBiclique(min_u=3, max_u=2)
    with pytest.raises(InputError, match="min_v of a maximal biclique is 0"):
        papilio.MaximalBiclique(min_v=0)
    with pytest.raises(UnsupportedError, match="it can per total"):
        papilio.count(graph, motif, per="vertex")
    with pytest.raises(
        CapacityError, match="maximal biclique is counted on the whole graph only: raise the budget"
    ):
        papilio.count(store, motif, host_memory="1MiB")
    assert run("count", "maximal-biclique", store, "--min-u", 0, *INLINE)[0] == 2
