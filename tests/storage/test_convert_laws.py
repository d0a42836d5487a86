"""Laws of conversion over drawn edge lists, and the sizes of the reference files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage import disk_sort as ordering
from papilio.storage import text as textlines
from papilio.storage.convert import convert
from tests.conftest import share_of_examples
from tests.storage.convert_helpers import labelled_edges, write_input

LAW = settings(
    max_examples=share_of_examples(40),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

EDGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), min_size=1, max_size=60)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even the smallest file into several blocks and batches."""
    monkeypatch.setattr(textlines, "BLOCK_BYTES", 50)
    monkeypatch.setattr(textlines, "_HEAD_BYTES", 100)
    monkeypatch.setattr(ordering, "_BATCH_ROWS", 5)


def with_header(edges: list[tuple[Any, ...]], delimiter: str = " ") -> str:
    lines = "".join(delimiter.join(map(str, edge)) + "\n" for edge in edges)
    return f"13 10 {len(edges)}\n{lines}"


@LAW
@given(
    edges=EDGES,
    delimiter=st.sampled_from([" ", "\t", "  ", " \t"]),
    end=st.sampled_from(["\n", "\r\n", " \n"]),
)
def test_text_converts_to_the_graph_of_its_edges(
    tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]], delimiter: str, end: str
) -> None:
    path = tmp_path_factory.mktemp("law")
    text = with_header(edges, delimiter).replace("\n", end)
    store = convert(write_input(path, text), path / "g", format="sizes")
    u, v = zip(*edges, strict=True)
    expected = BipartiteGraph.from_edges(u, v, 13, 10)
    assert store.read() == expected
    assert store.manifest.dropped["duplicates"] == len(edges) - expected.n_edges
    store.verify()


@LAW
@given(edges=EDGES, offset=st.sampled_from([-7, 1, 5, 10**10]), step=st.sampled_from([1, 4]))
def test_labels_map_back_to_the_input(
    tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]], offset: int, step: int
) -> None:
    path = tmp_path_factory.mktemp("law")
    shifted = [(u * step + offset, v * step + offset) for u, v in edges]
    text = "".join(f"{u},{v}\n" for u, v in shifted)
    store = convert(write_input(path, text), path / "g", header=False)
    assert labelled_edges(store) == sorted(set(shifted))
    assert store.n_u == len({u for u, _ in shifted})
    assert store.n_v == len({v for _, v in shifted})


@LAW
@given(edges=EDGES)
def test_unipartite_text_converts_to_the_graph_of_its_edges(
    tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("law")
    text = with_header(edges).replace("13 10", "13 13", 1)
    store = convert(write_input(path, text), path / "g", format="sizes", kind="unipartite")
    u, v = zip(*edges, strict=True)
    expected = UnipartiteGraph.from_edges(u, v, 13)
    found = store.read()
    np.testing.assert_array_equal(found.u, expected.u)
    np.testing.assert_array_equal(found.v, expected.v)
    loops = sum(a == b for a, b in edges)
    assert store.manifest.dropped["self_loops"] == loops
    assert store.manifest.dropped["duplicates"] == len(edges) - loops - expected.n_edges


@LAW
@given(
    edges=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([-2, 0, 1, 3]), st.integers(0, 5)),
        min_size=1,
        max_size=40,
    ),
    duplicates=st.sampled_from(["first", "last"]),
    timed=st.booleans(),
)
def test_signs_follow_the_policy(
    tmp_path_factory: pytest.TempPathFactory,
    edges: list[tuple[int, int, int, int]],
    duplicates: Any,
    timed: bool,
) -> None:
    path = tmp_path_factory.mktemp("law")
    text = "13 10 " + str(len(edges)) + "\n" + "".join(f"{u} {v} {w} {t}\n" for u, v, w, t in edges)
    store = convert(
        write_input(path, text),
        path / "g",
        format="sizes",
        positive_from=1,
        time=4 if timed else None,
        duplicates=duplicates,
    )
    expected: dict[tuple[int, int], tuple[int, int, int]] = {}
    for place, (u, v, w, t) in enumerate(edges):
        entry = (t if timed else 0, place, 1 if w >= 1 else -1)
        old = expected.get((u, v), entry)
        expected[u, v] = min(old, entry) if duplicates == "first" else max(old, entry)
    assert labelled_edges(store) == [(u, v, sign) for (u, v), (_, _, sign) in sorted(expected.items())]


@LAW
@given(edges=EDGES)
def test_arrays_and_tables_convert_to_the_same_graph(
    tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("law")
    text = "".join(f"{u}\t{v}\n" for u, v in edges)
    hashes = {convert(write_input(path, text), path / "t", header=False, layout="edges").hash}
    array = np.array(edges, np.int32)
    file = io.BytesIO()
    np.save(file, array)
    hashes.add(convert(write_input(path, file.getvalue(), "a.npy"), path / "a", layout="edges").hash)
    pq.write_table(pa.table({"x": array[:, 0], "y": array[:, 1]}), path / "p.parquet")
    hashes.add(convert(path / "p.parquet", path / "p", layout="edges").hash)
    matrix = "%%MatrixMarket matrix coordinate pattern general\n13 10 " + str(len(edges)) + "\n"
    matrix += "".join(f"{u + 1} {v + 1}\n" for u, v in edges)
    by_matrix = convert(write_input(path, matrix, "m.mtx"), path / "m")
    u, v = zip(*edges, strict=True)
    assert by_matrix.read() == BipartiteGraph.from_edges(u, v, 13, 10)
    assert len(hashes) == 1


@LAW
@given(
    words=st.lists(st.tuples(st.text(min_size=1, max_size=4), st.text(min_size=1, max_size=4)), min_size=1, max_size=20)
)
def test_any_text_survives_as_a_label_in_parquet(
    tmp_path_factory: pytest.TempPathFactory, words: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("law")
    u, v = zip(*words, strict=True)
    pq.write_table(pa.table({"u": u, "v": v}), path / "p.parquet")
    store = convert(path / "p.parquet", path / "g")
    assert set(labelled_edges(store)) == set(words)


BIPARTITE = {
    "southern-women": (18, 14, 89),
    "moreno-crime": (829, 551, 1_476),
    "opsahl-ucforum": (899, 522, 7_089),
    "senate": (145, 1_056, 27_083),
    "bonanza": (7_919, 1_973, 36_543),
    "marvel": (6_486, 12_942, 96_662),
    "movielens-100k": (943, 1_682, 100_000),
    "youtube-groupmemberships": (94_238, 30_087, 293_360),
}
UNIPARTITE = {
    "ca-GrQc": (5_241, 14_484),
    "email-Eu-core": (986, 16_064),
    "ca-HepTh": (9_875, 25_973),
    "facebook_combined": (4_039, 88_234),
    "wiki-Vote": (7_115, 100_762),
    "soc-Epinions1": (75_879, 405_740),
}
RAW: dict[str, tuple[dict[str, Any], str, tuple[int, int, int]]] = {
    "out.moreno_crime_crime": ({}, "konect", (829, 551, 1_476)),
    "Wiki-Vote.txt": ({"kind": "unipartite"}, "snap", (7_115, 7_115, 100_762)),
    "ml-100k_u.data": ({"positive_from": 4}, "movielens", (943, 1_682, 100_000)),
    "senate1to10.txt": ({"sign": 3}, "sizes", (145, 1_056, 27_083)),
    "ml-1m_ratings_head.dat": ({"positive_from": 4}, "movielens", (4, 14, 19)),
}


@pytest.fixture
def whole_blocks(small_pieces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the cutting, for files of a real size."""
    monkeypatch.undo()


@pytest.mark.parametrize("name", BIPARTITE)
def test_bipartite_reference_sizes(whole_blocks: None, shared_data: Path, tmp_path: Path, name: str) -> None:
    store = convert(shared_data / "bipartite" / f"{name}.txt.gz", tmp_path / "g")
    assert (store.n_u, store.n_v, store.n_edges) == BIPARTITE[name]
    assert store.labels("u") is None
    assert sum(store.manifest.dropped.values()) == 0


@pytest.mark.parametrize("name", UNIPARTITE)
def test_unipartite_reference_sizes(whole_blocks: None, shared_data: Path, tmp_path: Path, name: str) -> None:
    store = convert(shared_data / "unipartite" / f"{name}.txt.gz", tmp_path / "g", kind="unipartite")
    assert (store.n_u, store.n_edges) == UNIPARTITE[name]
    assert store.labels("u") is None


@pytest.mark.parametrize("name", RAW)
def test_raw_reference_files(whole_blocks: None, shared_data: Path, tmp_path: Path, name: str) -> None:
    options, format_name, sizes = RAW[name]
    store = convert(shared_data / "raw" / name, tmp_path / "g", **options)
    assert store.manifest.provenance["format"] == format_name
    assert (store.n_u, store.n_v, store.n_edges) == sizes


def test_bundled_examples(whole_blocks: None, example_data: Path, tmp_path: Path) -> None:
    women = convert(example_data / "southern-women.txt.gz", tmp_path / "w")
    assert (women.n_u, women.n_v, women.n_edges) == (18, 14, 89)
    votes = convert(example_data / "senate-votes.txt.gz", tmp_path / "v", sign=3)
    assert (votes.n_u, votes.n_v, votes.n_edges) == (145, 1056, 27083)
    assert votes.manifest.provenance["format"] == "sizes"


def test_raw_and_cleaned_files_hold_the_same_graph(whole_blocks: None, shared_data: Path, tmp_path: Path) -> None:
    pairs = {"raw/out.moreno_crime_crime": "moreno-crime", "raw/ml-100k_u.data": "movielens-100k"}
    for raw, name in pairs.items():
        one = convert(shared_data / raw, tmp_path / f"{name}-raw")
        two = convert(shared_data / "bipartite" / f"{name}.txt.gz", tmp_path / name)
        assert one.hash == two.hash
