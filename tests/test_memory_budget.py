"""Budgets of memory hold: measured peaks of whole processes stay below what was allowed, and the count is the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.storage import edge_files as edges
from papilio.storage.generate import Rmat, generate
from papilio.storage.store import write_store
from papilio.tasks.memory import PROCESS_BYTES
from tests.conftest import ROOT
from tests.tools.devices import cuda_device

ROOM = 40 << 20
"""Bytes beside the process for a graph that takes three times as much as a whole."""


CLIQUE_ROOM = 80 << 20
"""The same for a unipartite graph, of which two threads search a half each."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph without hubs, so that counting it takes no time."""
    path = tmp_path_factory.mktemp("graph") / "even"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "ROW_GROUP_EDGES", 1 << 16)
        generate(Rmat(18, 18, 3_000_000, a=0.25, b=0.25, c=0.25), path, seed=2)
    return path


MEASURED = """
import atexit, sys
from papilio.cli import main
from papilio.tasks.run import peak_memory_bytes
atexit.register(lambda: print(peak_memory_bytes(), file=sys.stderr))
main()
"""
"""The command, which says on standard error at its end how large it was."""


def call(*args: object) -> tuple[dict[str, Any], int]:
    """Count in a process of its own; return its answer and the largest resident size that it had, in bytes."""
    words = [sys.executable, "-c", MEASURED, "count", *map(str, args), "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), int(done.stderr.split()[-1])


@pytest.fixture(scope="module")
def whole(graph: Path) -> dict[str, Any]:
    """The answer on the whole graph."""
    return call("butterfly", graph, "--cluster", "inline", "--engine", "cpu")[0]


@pytest.mark.skipif(sys.platform != "linux", reason="resident sizes are in other units elsewhere")
@pytest.mark.slow
@pytest.mark.parametrize("per", ["total", "vertex", "edge"])
def test_host_memory_stays_within_the_budget(graph: Path, whole: dict[str, Any], per: str, tmp_path: Path) -> None:
    budget = PROCESS_BYTES["cpu"] + ROOM * (2 if per == "edge" else 1)
    output = () if per == "total" else ("--output", tmp_path / "counts.parquet", "--overwrite")
    asked = ("butterfly", graph, "--cluster", "inline", "--engine", "cpu", "--per", per, *output)
    # A process that compiles takes memory for that, once: the first call does where no other has.
    call(*asked, "--host-memory", budget)
    parts, peak = call(*asked, "--host-memory", budget)
    assert parts["count"] == whole["count"]
    assert parts["strategy"] != whole["strategy"] == "replicate"
    assert peak <= budget


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A unipartite graph whose vertices are next to others near them."""
    path = tmp_path_factory.mktemp("graph") / "ring"
    random, n = np.random.default_rng(1), 100_000
    a = np.repeat(np.arange(n), 32)
    b = (a + random.integers(1, 100, a.size)) % n
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "ROW_GROUP_EDGES", 1 << 16)
        write_store(path, UnipartiteGraph.from_edges(a, b, n), provenance={})
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="resident sizes are in other units elsewhere")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "per"),
    [
        (("clique", "-k", 4), "total"),
        (("clique", "-k", 4), "vertex"),
        (("clique", "-k", 4), "edge"),
        (("maximal-clique",), "total"),
    ],
)
def test_cliques_stay_within_the_host_memory(ring: Path, asked: tuple[str, ...], per: str, tmp_path: Path) -> None:
    budget = PROCESS_BYTES["cpu"] + CLIQUE_ROOM * (2 if per == "edge" else 1)
    output = () if per == "total" else ("--per", per, "--output", tmp_path / "counts.parquet", "--overwrite")
    name, *sizes = asked
    here = (name, ring, *sizes, "--cluster", "inline", "--engine", "cpu")
    whole, _ = call(*here)
    call(*here, *output, "--host-memory", budget)
    parts, peak = call(*here, *output, "--host-memory", budget)
    assert (parts["count"], parts.get("checksum")) == (whole["count"], whole.get("checksum"))
    assert parts["strategy"] != whole["strategy"] == "replicate"
    assert peak <= budget


@pytest.mark.skipif(sys.platform != "linux", reason="resident sizes are in other units elsewhere")
@pytest.mark.slow
def test_maximal_bicliques_stay_within_the_host_memory(tmp_path: Path) -> None:
    random, n = np.random.default_rng(1), 60_000
    u = np.repeat(np.arange(n), 8)
    graph = BipartiteGraph.from_edges(u, (u + random.integers(0, 20, u.size)) % n, n, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "ROW_GROUP_EDGES", 1 << 16)
        write_store(tmp_path / "graph", graph, provenance={})
    here = ("maximal-biclique", tmp_path / "graph", "--cluster", "inline", "--engine", "cpu")
    budget = PROCESS_BYTES["cpu"] + 2 * CLIQUE_ROOM
    whole, _ = call(*here)
    call(*here, "--host-memory", budget)
    parts, peak = call(*here, "--host-memory", budget)
    assert (parts["count"], parts["checksum"]) == (whole["count"], whole["checksum"])
    assert parts["strategy"] != whole["strategy"] == "replicate"
    assert peak <= budget


def device_bytes_in_use() -> int:
    """Return the memory of the first device that is in use, by this process and whoever shares it."""
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout) << 20


@pytest.mark.gpu
@pytest.mark.parametrize(("asked", "budget"), [(("butterfly",), 1 << 30), (("biclique", "-p", 3, "-q", 3), 2 << 30)])
def test_device_memory_stays_within_the_budget(asked: tuple[object, ...], budget: int, tmp_path: Path) -> None:
    cuda_device()
    graph = tmp_path / "graph"
    generate(Rmat(21, 21, 30_000_000, a=0.3, b=0.25, c=0.25), graph, seed=2)
    name, *sizes = asked
    here = (name, graph, *sizes, "--cluster", "inline", "--engine", "gpu")
    whole, _ = call(*here)
    before = device_bytes_in_use()
    parts, _ = call(*here, "--device-memory", budget)
    assert parts["count"] == whole["count"]
    assert parts["strategy"] != "replicate"
    assert 0 < parts["peak_device_bytes"] <= budget
    assert before < parts["used_device_bytes"] <= before + budget
