"""Random graphs out: those that ``significance`` counts, with the labels of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

import papilio
from papilio.errors import PapilioError, StoreError, UnsupportedError
from tests.tools.commands import Run
from tests.tools.strategies import skewed_graph

GRAPH = skewed_graph(5, 14, 11, 60)
CLIQUES = papilio.UnipartiteGraph.from_edges(np.array([0, 0, 0, 1, 1, 2, 3]), np.array([1, 2, 3, 2, 3, 4, 4]), 6)
HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu", "progress": False}


@pytest.mark.parametrize("null", ["degrees", "expected-degrees", "edges"])
@pytest.mark.parametrize(("graph", "motif"), [(GRAPH, ("butterfly", {})), (CLIQUES, ("clique", {"k": 3}))])
@pytest.mark.parametrize("samples", [5, 100])
def test_samples_are_those_that_significance_counts(graph: Any, motif: Any, null: Any, samples: int) -> None:
    name, sizes = motif
    found = papilio.significance(graph, name, null=null, samples=samples, seed=9, **sizes, **HERE)
    random = papilio.randomize(graph, null=null, samples=samples, seed=9)
    assert len(random) == samples
    assert random.trades == found.trades
    counts = [papilio.count(each, name, **sizes, **HERE).count for each in random[:5]]
    assert counts == list(found.samples[:5])


def test_trades_of_another_answer_give_its_samples() -> None:
    found = papilio.significance(GRAPH, "biclique", p=2, q=3, samples=4, steps=7, seed=2, **HERE)
    random = papilio.randomize(GRAPH, samples=4, trades=found.trades, seed=2)
    assert [papilio.count(each, "biclique", p=2, q=3, **HERE).count for each in random] == list(found.samples)


def test_degrees_and_labels_stay(example_data: Path) -> None:
    frame = papilio.read(example_data / "southern-women.txt.gz").to_pandas()
    frame["u"] = "woman " + frame["u"].astype(str)
    random = papilio.randomize(frame, seed=3)[0]
    drawn = random.to_pandas()
    for column in ("u", "v"):
        assert drawn[column].value_counts().to_dict() == frame[column].value_counts().to_dict()
    assert not drawn.equals(frame)
    assert papilio.randomize(frame, seed=3)[0].to_pandas().equals(drawn)


def test_signs_are_permuted_or_left_out() -> None:
    sign = np.where(np.arange(GRAPH.n_edges) % 3, 1, -1)
    signed = papilio.BipartiteGraph.from_edges(GRAPH.u, GRAPH.v, GRAPH.n_u, GRAPH.n_v, sign)
    permuted = papilio.randomize(signed, null="signs")[0].arrays()
    assert (permuted.u.tolist(), permuted.v.tolist()) == (GRAPH.u.tolist(), GRAPH.v.tolist())
    assert sorted(permuted.sign) == sorted(sign)
    assert papilio.randomize(signed)[0].arrays().sign is None
    with pytest.raises(UnsupportedError, match="permutes signs"):
        papilio.randomize(GRAPH, null="signs")


def test_a_sequence_of_graphs() -> None:
    random = papilio.randomize(GRAPH, samples=3)
    assert np.array_equal(random[-1].arrays().v, random[2].arrays().v)
    assert [each.n_edges for each in random[1:]] == [GRAPH.n_edges] * 2
    assert repr(random).startswith("3 random graphs of null model 'degrees' (seed 0, 20 trades each")
    with pytest.raises(IndexError):
        random[3]
    for options in ({"steps": 3, "trades": 4}, {"null": "edges", "steps": 3}, {"samples": 0}):
        with pytest.raises(PapilioError):
            papilio.randomize(GRAPH, **options)  # type: ignore[arg-type]


def test_files_and_stores(tmp_path: Path) -> None:
    one, several = papilio.randomize(GRAPH), papilio.randomize(GRAPH, samples=11)
    assert one.save(tmp_path / "one.csv") == [str(tmp_path / "one.csv")]
    assert pyarrow.csv.read_csv(tmp_path / "one.csv").num_rows == GRAPH.n_edges
    with pytest.raises(StoreError, match=r"one\.csv"):
        one.save(tmp_path / "one.csv")
    one.save(tmp_path / "one.csv", overwrite=True)
    (store,) = one.save(tmp_path / "store")
    assert papilio.read(store).hash == one[0].hash
    paths = several.save(tmp_path / "many")
    assert [Path(each).name for each in paths] == [f"{at:02}" for at in range(11)]
    assert papilio.count(paths[7], "butterfly", **HERE).count == papilio.count(several[7], "butterfly", **HERE).count
    with pytest.raises(PapilioError):
        several.save(tmp_path / "many")


def test_the_command(tmp_path: Path, run: Run) -> None:
    store = papilio.randomize(GRAPH, seed=1).save(tmp_path / "store")[0]
    done = run("randomize", store, tmp_path / "out.tsv", "--seed", 4)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'out.tsv'}\n"
    assert "1 random graph of null model 'degrees' (seed 4" in done.stderr
    refused = run("randomize", store, tmp_path / "x", "--steps", 3, "--trades", 2)
    assert refused.exit_code == 2
    assert "give one of them" in refused.stderr
    assert not (tmp_path / "x").exists()
