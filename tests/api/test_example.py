"""The graphs of the package: read as named, written by the command, and where the wheel takes them."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

import papilio
from papilio.api.example import EXAMPLES, ExampleName
from papilio.errors import InputError
from tests.conftest import ROOT
from tests.tools.commands import Run

SIZES = {"southern-women": (18, 14, 89), "senate-votes": (145, 1056, 27_083), "karate-club": (34, 34, 78)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_sizes_of_the_graphs(name: ExampleName) -> None:
    graph = papilio.example(name)
    assert (graph.n_u, graph.n_v, graph.n_edges) == SIZES[name]
    assert graph.signed == (name == "senate-votes")
    assert graph.kind == ("unipartite" if name == "karate-club" else "bipartite")


def test_graphs_are_those_of_networkx() -> None:
    women, davis = papilio.example("southern-women").to_networkx(), nx.davis_southern_women_graph()
    assert nx.utils.graphs_equal(nx.Graph(women.edges), nx.Graph(davis.edges))
    club = papilio.example("karate-club")
    zachary = {(min(a, b) + 1, max(a, b) + 1) for a, b in nx.karate_club_graph().edges()}
    assert {tuple(sorted(row.values())) for row in club.to_arrow().to_pylist()} == zachary
    assert papilio.count(club, "clique", k=3).count == sum(nx.triangles(nx.karate_club_graph()).values()) // 3


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(InputError, match="expected southern-women, senate-votes or karate-club"):
        papilio.example("southern-men")  # type: ignore[arg-type]


def test_the_command_lists_and_writes(run: Run, tmp_path: Path) -> None:
    listed = run("example").stdout.splitlines()
    assert [line.split()[0] for line in listed] == [*EXAMPLES]
    printed = run("example", "southern-women").stdout
    assert printed.startswith("woman,event\nEvelyn Jefferson,E1\n")
    votes = tmp_path / "votes.txt"
    assert run("example", "senate-votes", "-o", votes).stdout == f"{votes}\n"
    assert len(votes.read_text().splitlines()) == 27_084
    assert run("count", "butterfly", votes).stdout == "25666956\n"
    assert run("example", "karate-club", "-o", votes).exit_code == 3
    run("example", "karate-club", "-o", votes, "--overwrite")
    assert votes.read_text().startswith("member,friend\n")


def test_the_wheel_contains_the_graphs() -> None:
    builders = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    shipped = {each.distribution_path for each in builders.WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {f"papilio/data/{graph.file}" for graph in EXAMPLES.values()} <= shipped
