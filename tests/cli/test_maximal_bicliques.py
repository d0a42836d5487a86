"""Maximal bicliques as users ask for them: the command line, Python, jobs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.cluster.events import RowsKnown
from papilio.errors import CapacityError, InputError, PapilioError, UnsupportedError
from papilio.graph import BipartiteGraph
from papilio.kernels.exact import hash_rows, sum_hashes
from papilio.storage.store import write_store
from tests.tools.commands import Run
from tests.tools.oracle_maximal import maximal_bicliques_of
from tests.tools.strategies import edge_list, skewed_graph

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
    code, out, _ = run("count", "maximal-biclique", store, "--max-u", 2, "--min-v", 2, "--anchor", "v", *INLINE)
    assert (code, out.split()) == (0, ["p", "\\", "q", "2", "3", "1", "0", "1", "2", "1", "0"])


def test_what_is_refused(graph: BipartiteGraph, store: Path, tmp_path: Path, run: Run) -> None:
    motif = papilio.MaximalBiclique()
    with pytest.raises(PapilioError, match="is defined on bipartite graphs"):
        papilio.count(papilio.UnipartiteGraph.from_edges([0], [1], 2), motif)
    with pytest.raises(InputError, match="min_u 3 and max_u 2"):
        papilio.MaximalBiclique(min_u=3, max_u=2)
    with pytest.raises(InputError, match="min_v of a maximal biclique is 0"):
        papilio.MaximalBiclique(min_v=0)
    with pytest.raises(UnsupportedError, match="use total"):
        papilio.count(graph, motif, per="vertex")
    with pytest.raises(CapacityError, match="a part of one edge needs"):
        papilio.count(store, motif, host_memory="1MiB")
    assert run("count", "maximal-biclique", store, "--min-u", 0, *INLINE)[0] == 2


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[BipartiteGraph, Path]:
    """A graph with labels and some hundred maximal bicliques."""
    graph = skewed_graph(3, 40, 50, 500)
    path = tmp_path_factory.mktemp("maximal") / "many"
    labels_u, labels_v = (
        np.array([f"{layer}{i:02}" for i in range(n)], object) for layer, n in (("u", graph.n_u), ("v", graph.n_v))
    )
    write_store(path, graph, provenance={}, labels_u=labels_u, labels_v=labels_v)
    return graph, path


def expected_rows(graph: BipartiteGraph, motif: papilio.MaximalBiclique) -> list[tuple[list[str], list[str]]]:
    return sorted(
        ([f"u{i:02}" for i in u], [f"v{i:02}" for i in v])
        for u, v in maximal_bicliques_of(edge_list(graph))
        if motif.has_cell((len(u), len(v)))
    )


def rows_of(path: Path | str | None) -> list[tuple[list[str], list[str]]]:
    assert path is not None
    found = (row for file in Path(path).glob("*.parquet") for row in pq.read_table(file).to_pylist())
    return sorted((row["u"], row["v"]) for row in found)


def test_all_are_listed_with_their_labels(many: tuple[BipartiteGraph, Path], tmp_path: Path, run: Run) -> None:
    graph, store = many
    motif = papilio.MaximalBiclique(min_v=2)
    result = papilio.enumerate(store, motif, output=tmp_path / "rows", limit=None)
    expected = expected_rows(graph, motif)
    assert rows_of(result.output) == expected
    assert (result.rows, result.checked, result.limit_reached) == (len(expected), True, False)
    assert result.checksum == papilio.count(store, motif).checksum
    asked = ("enumerate", "maximal-biclique", store, "--min-v", 2, *INLINE)
    code, out, err = run(*asked, "--limit", 7, "--output", tmp_path / "few", "--json")
    assert code == 0, err
    assert (json.loads(out)["count"], json.loads(out)["limit_reached"]) == (7, True)
    few = rows_of(tmp_path / "few")
    assert len(few) == 7
    assert all(row in expected for row in few)
    code, _, err = run(*asked, "--containing", "u01", "--with-v", "v02", "--output", tmp_path / "held")
    assert code == 0, err
    held = [row for row in expected if "u01" in row[0] and "v02" in row[1]]
    assert held
    assert rows_of(tmp_path / "held") == held


def test_a_count_tells_before_a_listing_how_many_rows_there_will_be(
    many: tuple[BipartiteGraph, Path], tmp_path: Path, run: Run
) -> None:
    graph, store = many
    seen: list[object] = []
    asked = ("maximal-biclique", store, "--min-u", 2)
    assert run("count", *asked, "--job", tmp_path / "counted", *INLINE)[0] == 0
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "result.json").write_text("no job")
    rows = expected_rows(graph, papilio.MaximalBiclique(2))
    letters = sum(len(u) + len(v) for u, v in rows)
    code, _, err = run("enumerate", *asked, "--output", tmp_path / "rows", *INLINE)
    assert code == 0, err
    assert f"{len(rows):,} rows to write, " in err
    assert f"as counted by {tmp_path / 'counted'}" in err
    papilio.enumerate(store, papilio.MaximalBiclique(2), output=tmp_path / "few", limit=5, progress=seen.append)
    (known,) = [each for each in seen if isinstance(each, RowsKnown)]
    assert known.rows == 5
    assert 3 * letters <= known.n_bytes * len(rows) // 5 <= 16 * letters
    code, _, err = run("enumerate", "maximal-biclique", store, "--limit", 5, "--output", tmp_path / "all", *INLINE)
    assert (code, "rows to write" in err) == (0, False)


def test_the_largest_with_their_labels(many: tuple[BipartiteGraph, Path], run: Run) -> None:
    graph, store = many
    every = maximal_bicliques_of(edge_list(graph))
    code, out, err = run("measure", "maximal-biclique-top", store, "-n", 3, "--min-u", 3, "--json")
    assert code == 0, err
    data = json.loads(out)
    largest = sorted((row for row in every if len(row[0]) >= 3), key=lambda row: (-len(row[0]) * len(row[1]), row))
    assert [(tuple(each["u"]), tuple(each["v"])) for each in data["bicliques"]] == largest[:3]
    assert (data["by"], data["motif"]["min_u"], data["graph"]["n_edges"]) == ("edges", 3, graph.n_edges)
    code, out, err = run("measure", "maximal-biclique-top", store, "-n", 2, "--by", "balanced", "--threads", 1)
    assert code == 0, err
    balanced = sorted(every, key=lambda row: (-min(map(len, row)), row))[:2]
    assert out == "".join(
        f"{min(map(len, row))}\t{' '.join(f'u{i:02}' for i in row[0])}\t{' '.join(f'v{i:02}' for i in row[1])}\n"
        for row in balanced
    )
    assert papilio.top_bicliques(graph, n=1).bicliques[0].labels_u == min(largest_by_edges(every))[1][0]
    with pytest.raises(UnsupportedError, match="the largest bicliques is defined on bipartite graphs"):
        papilio.top_bicliques(papilio.UnipartiteGraph.from_edges([0], [1], 2))
    assert run("measure", "maximal-biclique-top", store, "-n", 0)[0] == 2
    assert run("measure", "maximal-biclique-top", store, "--min-u", 3, "--max-u", 2)[0] == 2


def largest_by_edges(every: set[tuple[tuple[int, ...], tuple[int, ...]]]) -> list[tuple[int, Any]]:
    return [(-len(u) * len(v), (u, v)) for u, v in every]
