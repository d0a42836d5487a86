"""Listings of cliques as users ask for them: the files, labels, limits, required vertices, jobs; what is refused."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.errors import InputError
from papilio.graph import UnipartiteGraph
from papilio.storage.store import write_store
from tests.kernels.clique.test_clique import edges_of, random_graph
from tests.tools.commands import Run
from tests.tools.oracle_clique import cliques_of, maximal_cliques

HERE = ("--cluster", "inline")
MOTIFS = [papilio.Clique(3), papilio.Clique(1), papilio.MaximalClique(), papilio.MaximalClique(4)]


@pytest.fixture(scope="module")
def graph() -> UnipartiteGraph:
    """45 vertices with many edges, and one without any."""
    made = random_graph(4, 45, 0.35)
    return UnipartiteGraph(made.n + 1, made.u, made.v)


@pytest.fixture(scope="module")
def store(graph: UnipartiteGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cliques") / "graph"
    write_store(path, graph, provenance={}, labels_u=np.array([f"v{i:02}" for i in range(graph.n)], object))
    return path


def expected_rows(graph: UnipartiteGraph, motif: papilio.motifs.Motif) -> list[tuple[str, ...]]:
    if isinstance(motif, papilio.Clique):
        found = [each for each in cliques_of(graph.n, edges_of(graph)) if len(each) == motif.k]
    else:
        assert isinstance(motif, papilio.MaximalClique)
        found = [each for each in maximal_cliques(graph.n, edges_of(graph)) if len(each) >= motif.min_size]
    return sorted(tuple(f"v{i:02}" for i in each) for each in found)


def rows_of(path: Path | str | None) -> list[tuple[str, ...]]:
    assert path is not None
    files = sorted(Path(path).glob("*.parquet"))
    return sorted(tuple(row) for file in files for row in pq.read_table(file)["n"].to_pylist())


@pytest.mark.parametrize("motif", MOTIFS, ids=str)
def test_all_are_listed_with_their_labels(
    motif: papilio.motifs.Motif, graph: UnipartiteGraph, store: Path, tmp_path: Path
) -> None:
    result = papilio.enumerate(store, motif, output=tmp_path / "rows", limit=None)
    expected = expected_rows(graph, motif)
    assert rows_of(result.output) == expected
    assert (result.rows, result.checked, result.limit_reached) == (len(expected), True, False)
    fixed = pq.read_schema(tmp_path / "rows" / "part-00000.parquet").field("n").type
    assert fixed.list_size == motif.k if isinstance(motif, papilio.Clique) else not hasattr(fixed, "list_size")
    again = papilio.enumerate(graph, motif, output=tmp_path / "memory", limit=None)
    assert again.rows == result.rows
    limited = papilio.enumerate(store, motif, output=tmp_path / "few", limit=7)
    assert (limited.rows, limited.limit_reached) == (7, True)
    assert set(rows_of(limited.output)) <= set(expected)
    assert json.loads((tmp_path / "few" / "_listing.json").read_text())["limit_reached"]


@pytest.mark.parametrize("motif", MOTIFS, ids=str)
@pytest.mark.parametrize("held", [["v03"], ["v03", "v07"], ["v45"]], ids=str)
def test_required_vertices(
    motif: papilio.motifs.Motif, held: Collection[str], graph: UnipartiteGraph, store: Path, tmp_path: Path
) -> None:
    if motif == papilio.Clique(1) and len(held) > 1:
        with pytest.raises(InputError, match="2 vertices are required in each 1-clique, which has 1 of them"):
            papilio.enumerate(store, motif, output=tmp_path / "rows", limit=None, containing=held)
        return
    result = papilio.enumerate(store, motif, output=tmp_path / "rows", limit=None, containing=held)
    expected = [row for row in expected_rows(graph, motif) if set(held) <= set(row)]
    assert rows_of(result.output) == expected
    assert not result.limit_reached
    if motif == papilio.MaximalClique():
        assert result.checksum is not None


def test_the_command(graph: UnipartiteGraph, store: Path, tmp_path: Path, run: Run) -> None:
    asked = ("enumerate", "maximal-clique", store, "--min-size", 3, *HERE)
    code, said, err = run(*asked, "--containing", "v03", "--output", tmp_path / "a", "--job", tmp_path / "job")
    assert (code, said) == (0, f"{tmp_path / 'a'}\n"), err
    expected = [row for row in expected_rows(graph, papilio.MaximalClique(3)) if "v03" in row]
    assert rows_of(tmp_path / "a") == expected
    assert "all with vertices 3 in" in run("status", tmp_path / "job")[1]
    code, said, err = run(*asked, "--limit", 3, "--output", tmp_path / "b", "--json")
    data = json.loads(said)
    assert (data["count"], data["limit_reached"], data["listing"]["limit"]) == (3, True, 3)
    code, said, err = run("enumerate", "clique", store, "-k", 4, "--output", tmp_path / "c", *HERE)
    assert (code, rows_of(tmp_path / "c")) == (0, expected_rows(graph, papilio.Clique(4))), err
    code, said, err = run(*asked, "--limit", 3, "--dry-run", "--containing", "v03")
    assert code == 0, err
    assert "question    listing of maximal clique of at least 3 vertices, up to 3 with vertices 3" in said
    assert "only these are compatible with the required vertices" in said
    assert run("report", tmp_path / "job", "--no-figures")[0] == 0
    page = (tmp_path / "job" / "report" / "report.html").read_text()
    assert "--containing v03" in page


def test_what_the_command_refuses(store: Path, tmp_path: Path, run: Run) -> None:
    asked = ("enumerate", "clique", store, *HERE, "--output", tmp_path / "rows")
    for flags, code, message in (
        (("--limit", 3), 2, "a listing needs -k with a number"),
        (("-k", 3, "--cluster", "inlin"), 6, "cluster is 'inlin'; expected"),
        (
            ("-k", 3, "--limit", 3, "--containing", "nobody"),
            2,
            f"{store} has no vertex with the label 'nobody'",
        ),
        (("-k", 3, "--limit", 3, "--algorithm", "pivot"), 4, "use 'orient' to list"),
        (("-k", 3, "--limit", 3, "--with-v", "v03"), 2, "is unipartite and has no layer V"),
    ):
        found, _, err = run(*asked, *flags)
        assert (found, message in err) == (code, True), err
    assert not (tmp_path / "rows").exists()


def test_a_bipartite_graph_has_two_layers_to_look_in(tmp_path: Path) -> None:
    edges = papilio.BipartiteGraph.from_edges([0, 0, 1], [0, 1, 0])
    path = tmp_path / "graph"
    write_store(
        path,
        edges,
        provenance={},
        labels_u=np.array(["ada", "bob"], object),
        labels_v=np.array(["bob", "tea"], object),
    )

    def held(*containing: str) -> list[dict[str, list[str]]]:
        target = tmp_path / "-".join(containing)
        papilio.enumerate(path, papilio.Biclique(1, 1), output=target, limit=None, containing=containing)
        return sorted(pq.read_table(target).to_pylist(), key=str)

    assert held("ada") == [{"u": ["ada"], "v": ["bob"]}, {"u": ["ada"], "v": ["tea"]}]
    assert held("ada", "tea") == [{"u": ["ada"], "v": ["tea"]}]
    with pytest.raises(InputError, match=r"both layers of .* have a vertex 'bob'; choose one by with_u"):
        held("bob")
    with pytest.raises(InputError, match=r"layer U of .* no vertex with the label 'eve'.*layer V of"):
        held("eve")
