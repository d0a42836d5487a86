"""Communities of cliques and bicliques: against the definition and NetworkX, their tables, and the command line."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import papilio
from papilio.errors import CapacityError, InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from tests.kernels.clique.test_clique import complete, edges_of, graphs, laws, make, random_graph, read, union
from tests.tools.commands import Run
from tests.tools.oracle_communities import biclique_communities, clique_communities
from tests.tools.strategies import bipartite_graphs, edge_list


def members_of(found: papilio.Communities, at: Any = None) -> list[tuple[int, ...]]:
    return sorted(found[i].ids["n"] for i in (range(len(found)) if at is None else at.tolist()))


def test_communities_of_cliques_follow_the_definition() -> None:
    @laws(30)
    @given(graphs(10), st.integers(1, 2))
    def law(graph: UnipartiteGraph, threads: int) -> None:
        tree = papilio.communities(graph, papilio.Clique(), threads=threads)
        for k in range(2, 7):
            expected = clique_communities(graph.n, edges_of(graph), k)
            assert members_of(papilio.communities(graph, papilio.Clique(k), threads=threads)) == expected
            assert members_of(tree, tree.at(k)) == expected
            some = papilio.communities(graph, "clique", k=None, max_k=4, threads=threads)
            assert members_of(some, some.at(k)) == (expected if k <= 4 else [])

    law()


def test_communities_of_bicliques_follow_the_definition() -> None:
    @laws(120)
    @given(bipartite_graphs(6), st.integers(1, 3), st.integers(1, 3), st.sampled_from(["smaller", "same"]))
    def law(graph: BipartiteGraph, p: int, q: int, shared: Any) -> None:
        if p == q == 1 and shared == "smaller":
            return
        found = papilio.communities(graph, papilio.Biclique(p, q), shared=shared, threads=2)
        expected = biclique_communities(edge_list(graph), p, q, shared)
        assert sorted((each.ids["u"], each.ids["v"]) for each in found) == expected
        turned = papilio.communities(graph.swap_layers(), papilio.Biclique(q, p), shared=shared, threads=2)
        assert sorted((each.ids["v"], each.ids["u"]) for each in turned) == expected

    law()


@pytest.mark.parametrize(("n", "share"), [(60, 0.3), (150, 0.15)])
def test_communities_of_cliques_are_those_of_networkx(n: int, share: float) -> None:
    graph = random_graph(n, n, share)
    for k in (3, 4, 5):
        expected = nx.community.k_clique_communities(nx.Graph(edges_of(graph)), k, backend="networkx")
        found = papilio.communities(graph, papilio.Clique(k), threads=2)
        assert members_of(found) == sorted(tuple(sorted(each)) for each in expected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "k"), [("ca-GrQc", 4), ("ca-HepTh", 3), ("email-Eu-core", 9), ("ca-AstroPh", 4)])
def test_real_graphs_are_those_of_networkx(shared_data: Path, name: str, k: int) -> None:
    graph = read(shared_data, name)
    expected = nx.community.k_clique_communities(nx.Graph(edges_of(graph)), k, backend="networkx")
    expected = sorted(tuple(sorted(each)) for each in expected)
    assert members_of(papilio.communities(graph, papilio.Clique(k))) == expected
    tree = papilio.communities(graph, papilio.Clique())
    assert members_of(tree, tree.at(k)) == expected
    assert tree.by_size()[k - 2] == (k, len(expected), max(map(len, expected)))


def test_closed_forms() -> None:
    one = papilio.communities(complete(7), papilio.Clique())
    assert [(each.k, each.parent, each.size) for each in one] == [(7, None, 7)]
    assert one.by_size() == [(k, 1, 7) for k in range(2, 8)]
    # Two of 5 vertices that share 3 are one up to k = 4.
    edges = {*combinations(range(5), 2), *combinations(range(2, 7), 2)}
    two = papilio.communities(make(7, sorted(edges)), papilio.Clique())
    assert [(each.k, each.parent, each.size) for each in two] == [(5, 2, 5), (5, 2, 5), (4, None, 7)]
    assert two.overlaps(5).to_pylist() == [{"first": 0, "second": 1, "common": 3}]
    assert papilio.communities(make(3, []), papilio.Clique()).by_size() == []
    path = papilio.communities(make(5, [(0, 1), (1, 2), (3, 4)]), "clique", k=2)
    assert [each.ids["n"] for each in path] == [(0, 1, 2), (3, 4)]


def test_graphs_beside_each_other_add() -> None:
    @laws(20)
    @given(graphs(8), graphs(8), st.integers(2, 4))
    def law(a: UnipartiteGraph, b: UnipartiteGraph, k: int) -> None:
        one, two, both = (
            members_of(papilio.communities(graph, papilio.Clique(k))) for graph in (a, b, union(a, b, joined=False))
        )
        assert both == sorted([*one, *(tuple(vertex + a.n for vertex in each) for each in two)])

    law()


NAMED = [*product("abc", "wxy"), *product("cde", "qz"), ("f", "w")]
FRIENDS = pd.DataFrame([*combinations(["ada", "bob", "cyd"], 2), ("cyd", "dot"), ("eve", "dot")], columns=["a", "b"])


def test_tables_have_labels() -> None:
    found = papilio.communities(NAMED, papilio.Biclique(2, 2))
    assert [each.labels for each in found] == [
        {"u": ("a", "b", "c"), "v": ("w", "x", "y")}, {"u": ("c", "d", "e"), "v": ("q", "z")},
    ]  # fmt: skip
    rows = found.to_arrow().to_pylist()
    assert rows[0] == {"community": 0, "layer": "u", "id": 0, "label": "a"}
    assert [(row["community"], row["layer"], row["label"]) for row in rows] == [
        (at, layer, name) for at, each in enumerate(found) for layer in "uv" for name in each.labels[layer]
    ]
    assert found.summary().to_pylist() == [{"community": 0, "u": 3, "v": 3}, {"community": 1, "u": 3, "v": 2}]
    assert found.overlaps().to_pylist() == [{"first": 0, "second": 1, "u": 1, "v": 0}]
    assert found.sizes.tolist() == [6, 5]
    assert found.top(1)[0].size == 6
    assert found.to_dict()["communities"] == 2
    tree = papilio.communities(FRIENDS, papilio.Clique(), kind="unipartite")
    assert tree.summary().to_pylist() == [
        {"community": 0, "k": 3, "parent": 1, "vertices": 3}, {"community": 1, "k": 2, "parent": None, "vertices": 5},
    ]  # fmt: skip
    frame = tree.to_pandas()
    assert list(frame.columns) == ["community", "k", "id", "label"]
    assert frame[frame.community == 0].label.tolist() == ["ada", "bob", "cyd"]
    assert tree.to_polars().shape == (8, 4)
    assert "2 k-clique communities" in repr(tree)
    numbers = papilio.communities(complete(4), papilio.Clique(3))
    assert numbers.to_arrow().column_names == ["community", "k", "id"]
    assert numbers[0].labels == {"n": (0, 1, 2, 3)}


def test_a_file_has_the_rows_and_the_question(tmp_path: Path) -> None:
    path = tmp_path / "members.parquet"
    found = papilio.communities(NAMED, papilio.Biclique(2, 2), shared="same", output=path)
    table = pq.read_table(path)
    assert table.to_pylist() == found.to_arrow().to_pylist()
    assert json.loads(table.schema.metadata[b"papilio.motif"])["p"] == 2
    assert json.loads(table.schema.metadata[b"papilio.shared"]) == "same"
    with pytest.raises(papilio.errors.StoreError, match="exists"):
        papilio.communities(NAMED, papilio.Biclique(2, 2), output=path)
    papilio.communities(NAMED, papilio.Biclique(2, 2), output=path, overwrite=True)


@pytest.mark.parametrize(
    ("motif", "options", "error", "text"),
    [
        (papilio.Butterfly(), {}, UnsupportedError, "communities are of cliques and bicliques; butterfly is neither"),
        (papilio.MaximalClique(), {}, UnsupportedError, "maximal clique is neither"),
        (papilio.BalancedBiclique(2, 2), {}, UnsupportedError, "is neither"),
        (papilio.Clique(1), {}, InputError, "k is 1; communities are of cliques of at least 2 vertices"),
        (papilio.Clique(max_k=1), {}, InputError, "max_k is 1"),
        (papilio.Clique(3), {"shared": "same"}, InputError, "shared is 'same', which is for bicliques"),
        (papilio.Biclique(3), {}, InputError, "need both sizes"),
        (papilio.Biclique(1, 1), {}, InputError, "any two edges share"),
        (papilio.Biclique(2, 2), {"shared": "none"}, InputError, "expected smaller or same"),
        (papilio.Clique(3), {"kind": "bipartite"}, UnsupportedError, "3-clique community is defined on unipartite"),
    ],
)
def test_what_does_not_apply(motif: Any, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        papilio.communities(NAMED, motif, **options)


def test_errors_of_answers() -> None:
    tree, pairs = papilio.communities(complete(3), papilio.Clique()), papilio.communities(NAMED, "biclique", p=2, q=2)
    with pytest.raises(InputError, match="choose one, as in overlaps"):
        tree.overlaps()
    with pytest.raises(InputError, match="k is 3, but there is one size"):
        pairs.overlaps(3)
    with pytest.raises(InputError, match="have no k"):
        pairs.at(2)


def test_motifs_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papilio.measures.communities.free_memory_bytes", lambda: 100)
    with pytest.raises(CapacityError, match=r"there are 1 or more \(maximal clique .*\) with 4 vertices, which need"):
        papilio.communities(complete(4), papilio.Clique(3), threads=1)
    monkeypatch.setattr("papilio.measures.communities.MAX_MOTIFS", 0)
    with pytest.raises(CapacityError, match=r"more than 0 \(maximal clique"):
        papilio.communities(complete(4), papilio.Clique(3), threads=1)


def test_the_commands(tmp_path: Path, run: Run) -> None:
    friends, pairs = tmp_path / "friends.csv", tmp_path / "pairs.csv"
    FRIENDS.to_csv(friends, index=False)
    pd.DataFrame(NAMED, columns=["who", "what"]).to_csv(pairs, index=False)
    code, out, err = run("communities", "clique", friends)
    assert code == 0, err
    assert [line.split() for line in out.splitlines()] == [
        ["k", "communities", "largest"],
        ["2", "1", "5"],
        ["3", "1", "3"],
    ]
    code, out, _ = run("communities", "clique", friends, "--rows", "communities", "--format", "csv")
    assert (code, out) == (0, '"community","k","parent","vertices"\n0,3,1,3\n1,2,,5\n')
    code, out, _ = run("communities", "clique", friends, "-k", 3, "--format", "tsv", "--output", "-")
    assert out.splitlines()[1:] == ["0\t3\t0\tada", "0\t3\t1\tbob", "0\t3\t2\tcyd"]
    code, out, _ = run("communities", "biclique", pairs, "-p", 2, "-q", 2, "--rows", "overlaps", "--format", "csv")
    assert (code, out) == (0, '"first","second","u","v"\n0,1,1,0\n')
    answer = json.loads(run("communities", "biclique", pairs, "-p", 3, "-q", 2, "--shared", "same", "--json")[1])
    assert (answer["communities"], answer["shared"], answer["measure"]) == (2, "same", "communities")
    target = tmp_path / "tree.csv"
    assert run("communities", "clique", friends, "--rows", "communities", "--output", target)[0] == 0
    assert target.read_text().count("\n") == 3
    code, _, err = run("communities", "clique", friends, "--rows", "overlaps")
    assert (code, "add -k with a number" in err) == (2, True)


def test_charts() -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed (papilio[report])")
    tree = papilio.communities(FRIENDS, papilio.Clique(), kind="unipartite")
    axes = tree.plot(figure.Figure().add_subplot())
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines == {"communities": [[2, 1], [3, 1]], "vertices of the largest": [[2, 5], [3, 3]]}
    axes = papilio.communities(NAMED, "biclique", p=2, q=2).plot(figure.Figure().add_subplot())
    assert axes.lines[0].get_xydata().tolist() == [[5, 2], [6, 1]]


def test_relabelled_graphs_have_the_same_communities() -> None:
    graph = random_graph(3, 40, 0.3)
    places = np.random.default_rng(4).permutation(40)
    moved = UnipartiteGraph.from_edges(places[graph.u], places[graph.v], 40)
    one, other = (papilio.communities(each, papilio.Clique()) for each in (graph, moved))
    for k in range(2, 7):
        back = sorted(tuple(sorted(places[list(each)].tolist())) for each in members_of(one, one.at(k)))
        assert back == members_of(other, other.at(k))
