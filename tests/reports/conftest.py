"""A measured experiment, jobs and stores, shared by the tests of the reports; and how pages are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import papilio
from papilio.storage.graph_models import Complete
from papilio.storage.store import GraphStore, write_store
from tests import conftest
from tests.conftest import read_edges
from tests.tools.commands import Result, call_command

SENATE = 25_666_956


def call(*args: object, code: int = 0) -> Result:
    """Run the command line in this process, and check its exit code."""
    done = call_command(*args)
    assert done.exit_code == code, done.stderr
    return done


def call_json(*args: object) -> Any:
    return json.loads(call(*args, "--json").stdout)


def parse_page(path: Path) -> ElementTree.Element:
    """Return the tree of a report page; fails unless it is well-formed."""
    return ElementTree.fromstring(path.read_text(encoding="utf-8").removeprefix("<!DOCTYPE html>"))


def text_of(page: ElementTree.Element) -> str:
    return " ".join(" ".join(page.itertext()).split())


@pytest.fixture(scope="session")
def votes(tmp_path_factory: pytest.TempPathFactory, example_data: Path) -> GraphStore:
    """The bundled votes of the Senate."""
    graph = read_edges(example_data / "senate-votes.txt.gz", skip_lines=1)
    return write_store(tmp_path_factory.mktemp("reports") / "votes", graph, provenance={})


def repetitions() -> int:
    """Return how often the experiment measures each point."""
    return 2 if conftest.thorough else 1


@pytest.fixture(scope="session")
def measured(votes: GraphStore) -> Path:
    """A finished experiment: one and two local workers, :func:`repetitions` of each; through the command line."""
    path = Path(votes.path).parent / "measured"
    call("scale", "count", "butterfly", votes.path, "--cluster", "local", "--workers", "2,1", "--repeat", repetitions(),
         "--no-warm-up", "--output", path)  # fmt: skip
    return path


@pytest.fixture(scope="session")
def odd_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished job on a graph whose path is full of what HTML must not see, and cannot be shown."""
    folder = tmp_path_factory.mktemp("odd") / "<b onclick='f()'>&amp;\"x\x01"
    folder.mkdir(parents=True)
    papilio.generate(Complete(40, 30), folder / "graph")
    papilio.count(folder / "graph", papilio.Butterfly(), job=folder / "job", engine="cpu")
    return folder / "job"
