"""``papilio.read``: one graph from whatever holds it, asked many questions."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.errors import InputError, InputWarning, PapilioError, StoreError, UnsupportedError
from papilio.storage.reading import cache_directory
from papilio.tasks.worker_state import worker_state
from tests.tools.commands import Run

pytestmark = pytest.mark.filterwarnings("ignore:.*read as csv:papilio.errors.InputWarning")

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}

EDGES = [("ann", 1), ("ann", 2), ("ann", 4), ("bob", 1), ("bob", 2), ("cid", 2), ("cid", 4), ("dot", 4)]
"""Two butterflies: of ann and bob at 1 and 2, of ann and cid at 2 and 4."""

FRIENDS = [(1, 2), (1, 3), (2, 3), (3, 4), (2, 4), (4, 5)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAPILIO_CACHE", str(tmp_path / "cache"))


def lines(edges: list[tuple[Any, Any]], names: str = "who,what") -> str:
    return f"{names}\n" + "".join(f"{u},{v}\n" for u, v in edges)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text(lines(EDGES), "utf-8")
    return path


def frame(**columns: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(
        columns or {"who": [u for u, _ in EDGES], "what": [v for _, v in EDGES]}
    )


def network() -> Any:
    graph = pytest.importorskip("networkx").Graph(EDGES)
    for node in graph:
        graph.nodes[node]["bipartite"] = int(isinstance(node, int))
    return graph


def frozen(kind: str) -> Any:
    """An igraph-like or SciPy object of the same edges."""
    users, items = sorted({u for u, _ in EDGES}), sorted({v for _, v in EDGES})
    matrix = np.zeros((len(users), len(items)), np.int64)
    for u, v in EDGES:
        matrix[users.index(u), items.index(v)] = 1
    if kind == "scipy":
        return pytest.importorskip("scipy.sparse").csr_array(matrix)
    return np.argwhere(matrix)


def lazy_polars() -> Any:
    polars = pytest.importorskip("polars")
    return polars.from_pandas(frame()).lazy()


def relation() -> Any:
    return pytest.importorskip("duckdb").from_df(frame())


def dask_frame() -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(frame(), npartitions=2)


NAMED: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "pandas": (frame, {"u": "who", "v": "what"}),
    "pandas, categories": (lambda: frame().astype("category"), {"u": "who", "v": "what"}),
    "pandas, strings": (lambda: frame().astype({"who": "string"}), {"u": "who", "v": "what"}),
    "pyarrow": (lambda: pytest.importorskip("pyarrow").Table.from_pandas(frame()), {"u": "who", "v": "what"}),
    "polars, lazy": (lazy_polars, {"u": "who", "v": "what"}),
    "duckdb": (relation, {"u": "who", "v": "what"}),
    "dask": (dask_frame, {"u": "who", "v": "what"}),
    "networkx": (network, {}),
    "pairs": (lambda: EDGES, {}),
    "scipy": (lambda: frozen("scipy"), {}),
    "numpy": (lambda: frozen("numpy"), {}),
}


@pytest.mark.parametrize("name", NAMED)
def test_every_object_gives_the_same_graph(name: str, file: Path) -> None:
    make, how = NAMED[name]
    source = make()
    graph = papilio.read(source, **how)
    assert (graph.kind, graph.n_u, graph.n_v, graph.n_edges) == ("bipartite", 4, 3, 8)
    assert graph.hash == papilio.read(file, u="who", v="what").hash
    if name not in ("scipy", "numpy"):
        found = graph.labels("u"), graph.labels("v")
        assert [each.tolist() for each in found if each is not None] == [
            ["ann", "bob", "cid", "dot"],
            [1, 2, 4],
        ]
    assert papilio.count(graph, "butterfly", **HERE).count == 2
    assert papilio.count(source, "butterfly", **how, **HERE).count == 2


PLACES: dict[str, Callable[[Path], Any]] = {
    "path": lambda file: file,
    "text": str,
    "pattern": lambda file: str(file.parent / "edges*.csv"),
    "several": lambda file: [file, file],
    "url": lambda file: file.as_uri(),
}


@pytest.mark.parametrize("name", PLACES)
def test_files_patterns_and_urls_are_read(name: str, file: Path) -> None:
    graph = papilio.read(PLACES[name](file), u="who", v="what")
    assert papilio.count(graph, "butterfly", **HERE).count == 2
    kept = [each.name for each in cache_directory().iterdir()]
    assert len(kept) == 1
    assert "edges.csv" in graph.source or "part" in graph.source or "edges" in graph.source
    is_aside = kept[0].startswith(".")
    assert is_aside == (name in ("pattern", "several", "url")) == (graph.path is None)
    del graph
    gc.collect()
    assert len([*cache_directory().iterdir()]) == (0 if is_aside else 1), "what no cache keeps goes with the graph"


def test_standard_input(file: Path) -> None:
    script = (
        "import papilio\nprint(papilio.count(papilio.read('-', u='who', v='what'), 'butterfly', engine='cpu').count)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        input=file.read_bytes(),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"2\n"
    done = subprocess.run(
        [sys.executable, "-m", "papilio", "count", "butterfly", "-", "--u", "who", "--v", "what", "--engine", "cpu"],
        input=file.read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == b"2\n"
    assert not [*cache_directory().iterdir()]


def test_a_store_is_a_graph_and_is_saved(file: Path, tmp_path: Path) -> None:
    graph = papilio.read(file, u="who", v="what")
    saved = graph.save(tmp_path / "store")
    again = papilio.read(tmp_path / "store")
    assert saved.hash == again.hash == graph.hash
    assert again.path == str(tmp_path / "store")
    assert saved.labels("u").tolist() == ["ann", "bob", "cid", "dot"]  # type: ignore[union-attr]
    with pytest.raises(StoreError, match="already exists"):
        graph.save(tmp_path / "store")
    memory = papilio.read(EDGES).save(tmp_path / "memory")
    assert memory.hash == graph.hash
    with pytest.raises(InputError, match=r"the graph is already read; pass u to papilio\.read"):
        papilio.count(saved, "butterfly", u="who", **HERE)


ASKED: dict[str, Callable[[Any], Any]] = {
    "count": lambda g: papilio.count(g, "butterfly", **HERE).count,
    "plan": lambda g: papilio.plan(g, "butterfly", **HERE).n_items,
    "estimate": lambda g: papilio.estimate(g, "butterfly", **HERE).count,
    "significance": lambda g: papilio.significance(g, "butterfly", samples=9, **HERE).samples,
    "rows": lambda g: sorted(papilio.enumerate(g, "biclique", p=2, q=2)),
    "decompose": lambda g: papilio.decompose(g, "wing", engine="cpu").max_number,
    "robins_alexander": lambda g: papilio.robins_alexander(g, **HERE).value,
    "latapy_clustering": lambda g: papilio.latapy_clustering(g).seconds.keys(),
    "top_butterflies": lambda g: [each.count for each in papilio.top_butterflies(g, **HERE).top()],
    "top_bicliques": lambda g: len(papilio.top_bicliques(g, n=3).bicliques),
}


@pytest.mark.parametrize("verb", ASKED)
def test_every_verb_takes_a_graph_and_whatever_read_takes(verb: str, file: Path) -> None:
    asked = ASKED[verb]
    assert asked(papilio.read(file, u="who", v="what")) == asked(papilio.read(EDGES)) == asked(EDGES)


def test_every_verb_takes_the_keywords_of_read(file: Path) -> None:
    how: dict[str, Any] = {"u": "who", "v": "what"}
    assert papilio.count(file, "butterfly", **how, **HERE).count == 2
    assert papilio.count(file, "biclique", p=2, q=2, **how, **HERE).count == 2
    assert papilio.plan(file, "biclique", p=2, q=2, **how, **HERE).job.motif == papilio.Biclique(2, 2)
    assert papilio.estimate(file, "biclique", p=2, q=2, **how, **HERE).exact == 2
    assert len([*papilio.enumerate(file, "biclique", p=2, q=2, **how)]) == 2
    assert papilio.decompose(file, "wing", engine="cpu", **how).max_number == 1
    assert papilio.top_butterflies(file, n=1, **how, **HERE).top()[0].labels == ("ann",)
    assert papilio.cohesion_profile(frame(), **how, **HERE).levels
    with pytest.raises(InputError, match="no column 'wer'"):
        papilio.count(frame(), "butterfly", u="wer", v="what", **HERE)


def test_motifs_by_name() -> None:
    graph = papilio.read(FRIENDS, kind="unipartite")
    assert papilio.count(graph, "clique", k=3, **HERE).motif == papilio.Clique(3)
    assert papilio.count(graph, "clique", k=None, max_k=3, **HERE).motif == papilio.Clique(max_k=3)
    assert papilio.count(graph, "maximal-clique", min_size=3, **HERE).count == 2
    for words, given, message in (
        ("clique", {}, "which needs k, with None for every size"),
        ("clique", {"p": 3}, "p is given, but 'clique' has only k, max_k"),
        (papilio.Clique(3), {"k": 4}, "sizes are only for a motif given by name"),
        ("cliqe", {}, "did you mean 'clique'"),
        ("clique", {"k": 2.5}, "k is 2.5; expected an integer or None"),
    ):
        with pytest.raises(InputError, match=message):
            papilio.count(graph, words, **given, **HERE)


REFUSED: list[tuple[Any, dict[str, Any], type[PapilioError], str]] = [
    (EDGES, {"header": True}, InputError, "header cannot be used with a list"),
    (
        EDGES,
        {"u": "who"},
        InputError,
        "u cannot be used with a list, which takes kind, sign, positive_from",
    ),
    (
        np.array([[0, 1]]),
        {"n_u": 4, "labels": "integer"},
        InputError,
        r"n_u and n_v are for ids \(labels='id'\)",
    ),
    (np.array([[0, -1]]), {}, PapilioError, "v holds ids -1 to -1; .* labels='integer'"),
    (
        np.array([["a", "b"]]),
        {"labels": "integer"},
        PapilioError,
        "holds text; labels='integer' is for integers",
    ),
    (np.ma.array([[0, 1], [1, 1]], mask=[[0, 0], [1, 0]]), {}, PapilioError, "the array has masked entries"),
    (np.array([[0, -1]]), {"n_v": 3}, PapilioError, "v holds ids -1 to -1; expected 0 to 2"),
    ("", {}, InputError, "graph is an empty path"),
    (5, {}, InputError, "cannot read a graph from builtins.int"),
    ("no/such.csv", {}, StoreError, "does not exist"),
    ("no*such.csv", {}, InputError, "matches no file"),
    (["no.csv", "such.csv"], {}, InputError, "does not exist"),
    ([], {"kind": "tripartite"}, InputError, "kind is 'tripartite'; expected bipartite or unipartite"),
]


@pytest.mark.parametrize(("source", "how", "error", "message"), REFUSED)
def test_what_is_no_graph_is_refused_in_words(
    source: Any, how: dict[str, Any], error: type[PapilioError], message: str
) -> None:
    with pytest.raises(error, match=message):
        papilio.read(source, **how)
    assert not cache_directory().exists() or not [*cache_directory().iterdir()], "nothing is left"


def test_a_frame_without_two_columns_is_refused() -> None:
    with pytest.raises(InputError, match="name two as u and v"):
        papilio.read(frame(price=[1], size=[2], colour=[3]))
    with pytest.raises(InputError, match="the endpoint columns of the data frame are unknown"):
        papilio.read(frame(only=[1]))
    with pytest.raises(InputError, match="the column 'who' cannot be both u and v"):
        papilio.read(frame(), u="who", v="who")


def test_names_that_several_vertices_have_are_refused() -> None:
    ring = pytest.importorskip("igraph").Graph.Ring(4)
    ring.vs["type"], ring.vs["name"] = [0, 1, 0, 1], ["a", "b", "a", "c"]
    with pytest.raises(PapilioError, match="vertices 0 and 2 have the same name 'a'"):
        papilio.read(ring)


def test_lazy_sources_of_arrow_are_read_by_column() -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    table = pytest.importorskip("pyarrow").table({"n": [1] * 8, **frame().to_dict("list")})
    for source in (dataset.dataset(table), dataset.dataset(table).scanner(), table.to_reader()):
        graph = papilio.read(source, u="who", v="what")
        assert papilio.count(graph, "butterfly", **HERE).count == 2
        assert len(papilio.count(graph, "butterfly", per="edge", **HERE).vectors.aligned("edge")) == len(EDGES)


def test_options_of_files_do_not_fit_ids(file: Path) -> None:
    with pytest.raises(InputError, match="n_u applies to ids only"):
        papilio.read(file, n_u=5)
    with pytest.raises(InputError, match="labels applies to ids only"):
        papilio.read(file, labels="id")


@pytest.mark.parametrize("is_store", [False, True])
def test_a_graph_that_changed_is_refused(file: Path, tmp_path: Path, is_store: bool) -> None:
    graph = papilio.read(file, u="who", v="what")
    if is_store:
        graph = graph.save(tmp_path / "store")
        papilio.read([(0, 1)]).save(tmp_path / "other")
        os.replace(tmp_path / "other" / "graph.json", tmp_path / "store" / "graph.json")
    else:
        file.write_text(lines(EDGES[:-1]), "utf-8")
    for verb in (
        lambda: papilio.count(graph, "butterfly", **HERE),
        lambda: graph.to_arrow(),
        graph.require_current,
    ):
        with pytest.raises(InputError, match=r"changed after it was read; read it again with papilio\.read"):
            verb()


def test_kinds_are_doubted_unless_said() -> None:
    things = [(f"user {i % 40}", f"item {i % 37}") for i in range(1500)]
    with pytest.raises(UnsupportedError, match=r"looks bipartite .* kind=.unipartite."):
        papilio.count(frame(user=[u for u, _ in things], item=[v for _, v in things]), "clique", k=3, **HERE)
    said = papilio.count(things, "clique", k=3, kind="unipartite", **HERE)
    assert said.graph["kind"] == "unipartite"
    people = [(i % 211, (i * i + 1) % 211) for i in range(1500)]
    people += [(b, a) for a, b in people]
    with pytest.warns(InputWarning, match="looks unipartite"):
        graph = papilio.read(people)
    assert "looks unipartite" in graph.reading["notes"][0]
    papilio.read(people, kind="bipartite")  # a warning is an error here


def test_a_graph_describes_itself(file: Path) -> None:
    graph = papilio.read(file, u="who", v="what")
    assert repr(graph) == f"<bipartite graph: 4 x 3 vertices, 8 edges, from {file}>"
    assert str(file) in graph._repr_html_()
    assert graph.reading["columns"] == {"u": "who", "v": "what"} or graph.reading["format"] == "csv"
    assert graph.to_arrow().to_pylist()[0] == {"u": "ann", "v": 1}
    assert graph.to_pandas().shape == (8, 2)
    assert graph.to_networkx().number_of_edges() == 8
    assert graph.to_scipy().shape == (4, 3)
    with pytest.raises(InputError, match="layer is 'w'; expected u, v, who or what"):
        graph.labels("w")
    with pytest.raises(InputError, match=r"use papilio\.read"):
        papilio.Graph(None)


def prepared() -> int:
    return len(worker_state.graphs["cpu"])


def test_what_was_prepared_serves_the_next_question() -> None:
    gc.collect()
    before = prepared()
    graph = papilio.read(EDGES)
    first = papilio.count(graph, "biclique", p=2, q=2, **HERE)
    kept = prepared()
    assert kept == before + 1
    second = papilio.count(graph, "biclique", p=2, q=2, **HERE)
    assert second.count == first.count == 2
    assert second.seconds["read"] == second.seconds["prepare"] == 0.0 < first.seconds["prepare"]
    assert papilio.count(EDGES, "biclique", p=2, q=2, **HERE).seconds["prepare"] == 0.0, "the same graph by its hash"
    assert prepared() == kept
    twin = papilio.read(EDGES)
    papilio.count(twin, "butterfly", **HERE)
    del graph, first, second
    gc.collect()
    assert prepared() == before + 2, "another owner keeps it"
    del twin
    gc.collect()
    assert prepared() == before


def test_what_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    before, graph = prepared(), papilio.read(EDGES)
    monkeypatch.setenv("PAPILIO_KEEP_MEMORY", "1")
    for q in (1, 2, 3):
        papilio.count(graph, "biclique", p=2, q=q, **HERE)
    assert prepared() <= max(before, 1), "the last one alone"
    monkeypatch.setenv("PAPILIO_KEEP_MEMORY", "much")
    with pytest.raises(InputError, match="'much' is not a size"):
        papilio.count(graph, "butterfly", **HERE)


def test_a_graph_that_is_not_kept_leaves_nothing() -> None:
    gc.collect()
    before = prepared()
    papilio.count(EDGES, "biclique", p=2, q=1, **HERE)
    assert prepared() == before


def test_rows_are_iterated_lazily_and_leave_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    ends = np.unique(rng.integers(0, 120, (3000, 2)), axis=0)
    graph = papilio.read(ends[ends[:, 0] < ends[:, 1]], kind="unipartite")
    n = papilio.count(graph, "clique", k=3, **HERE).count
    rows = papilio.enumerate(graph, "clique", k=3)
    found = [*rows]
    assert len(found) == len(set(found)) == n
    assert all(a < b < c for a, b, c in found)
    assert sum(batch.num_rows for batch in rows.to_batches()) == rows.to_arrow().num_rows == n
    assert {tuple(each) for each in rows.to_pandas()["n"]} == set(found)
    assert len(papilio.enumerate(graph, "clique", k=3, limit=7).to_arrow()) == 7
    assert len(rows.head(3)) == 3
    complete = papilio.read([(a, b) for a in range(60) for b in range(a)], kind="unipartite")
    threads = threading.active_count()
    iterator: Iterator[Any] = iter(papilio.enumerate(complete, "clique", k=6))  # of 50 million
    assert len(next(iterator)) == 6
    assert threading.active_count() > threads
    assert papilio.count(complete, "clique", k=6, **HERE).count == 50_063_860, "in the middle of a listing"
    del iterator
    gc.collect()
    assert threading.active_count() == threads, "half way: its threads are gone"
    assert not [*tmp_path.glob("*cliq*")]


def test_rows_have_labels_of_any_type() -> None:
    edges = [((1, "x"), "b"), ((1, "x"), "c"), (2, "b"), (2, "c")]
    ((left, right),) = papilio.enumerate(edges, "biclique", p=2, q=2)
    assert (set(left), set(right)) == ({(1, "x"), 2}, {"b", "c"})
    with pytest.raises(PapilioError, match="no common Arrow type"):
        papilio.enumerate(edges, "biclique", p=2, q=2).to_arrow()
    held = papilio.enumerate(EDGES, "biclique", p=1, q=2, with_u=["bob"])
    assert [*held] == [*held] == [(("bob",), (1, 2))]
    assert [*papilio.enumerate(EDGES, "biclique", p=3, q=3)] == []
    assert papilio.enumerate(EDGES, "biclique", p=3, q=3).to_arrow().num_rows == 0


@pytest.mark.parametrize("given", [{"cluster": "local"}, {"workers": 2}, {"job": "job"}, {"engine": "gpu"}])
def test_rows_are_of_this_process(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"iterated on the processors of this process; set output"):
        papilio.enumerate(EDGES, "biclique", p=2, q=2, **given)


def test_an_error_of_the_search_reaches_who_iterates(monkeypatch: pytest.MonkeyPatch) -> None:
    from papilio.kernels.biclique.list import BicliqueLister

    def fail(*_: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(BicliqueLister, "run", fail)
    with pytest.raises(MemoryError, match="no room"):
        [*papilio.enumerate(EDGES, "biclique", p=2, q=2)]


def test_commands_take_the_flags_of_reading(file: Path, run: Run) -> None:
    for words in (
        ("count", "butterfly", file), ("count", "butterfly", file.parent / "edge*.csv"),
        ("estimate", "butterfly", file), ("measure", "top", file), ("info", file), ("decompose", "wing", file),
        ("plan", "butterfly", file),
    ):  # fmt: skip
        code, said, err = run(*words, "--u", "who", "--v", "what")
        assert code == 0, err
        assert said
    code, _, err = run("count", "butterfly", file, "--u", "wer")
    assert code == 2
    assert "wer" in err
    code, _, err = run("count", "butterfly", file, "--input-format", "cvs")
    assert code == 2
    assert "format is 'cvs'; expected " in err


@pytest.mark.parametrize("value", [range(3), np.zeros(2), object(), {1}])
@pytest.mark.parametrize("option", ["sign", "weight", "u"])
def test_an_option_of_a_file_is_text_or_a_number(option: str, value: Any, file: Path) -> None:
    with pytest.raises(InputError, match=f"{option} is "):
        papilio.read(file, **{option: value})


def test_a_comparison_without_any_size_prints_its_headline(file: Path, run: Run) -> None:
    words = ("--min-u", "9", "--samples", "3", "--seed", "1", "--cluster", "inline")
    code, _, err = run("significance", "maximal-biclique", file, *words)
    assert code == 0
    assert "maximal" in err
