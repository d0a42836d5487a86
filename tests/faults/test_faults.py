"""Counts are exact, and their jobs whole, whatever happens to the hosts of a cluster and the links between them.

``python -m benchmarks.faults`` runs all scenarios, longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import papilio
from tests.faults.laboratory import WORKERS, Count, Laboratory, write_dense
from tests.faults.network import missing_for_network
from tests.faults.scenarios import (
    Scenario,
    count_undisturbed,
    cut_for_ever,
    cut_while_other_counts,
    kill_on_a_bad_link,
    observe,
)

missing = missing_for_network()
pytestmark = pytest.mark.skipif(missing is not None, reason=f"no network of hosts here: {missing}")

N_U, P = 200, 5


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A graph and the number of its bicliques, as counted in this process."""
    graph = tmp_path_factory.mktemp("dense") / "graph"
    write_dense(graph, N_U)
    return graph, papilio.count(graph, papilio.Biclique(p=P, q=P), cluster="inline", engine="cpu").count


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, wanted: tuple[Path, int]) -> Iterator[Laboratory]:
    with Laboratory(tmp_path_factory.mktemp("lab"), wanted[0], P) as laboratory:
        yield laboratory


@pytest.fixture(scope="module")
def undisturbed_s(lab: Laboratory) -> float:
    return observe(lab, Scenario("none", count_undisturbed)).seconds


@pytest.mark.parametrize("fault", [cut_while_other_counts, kill_on_a_bad_link, cut_for_ever])  # the last one stays
def test_a_fault_costs_time_only(
    fault: Callable[[Laboratory], list[Count]], lab: Laboratory, wanted: tuple[Path, int], undisturbed_s: float
) -> None:
    outcome = observe(lab, Scenario(fault.__name__, fault))
    print(f"{outcome.seconds:.1f} s, undisturbed {undisturbed_s:.1f} s; seen: {outcome.messages}")
    assert (outcome.exit_code, outcome.count, outcome.is_sealed) == (0, wanted[1], True)
    if fault is cut_for_ever:
        assert any("has not answered for" in message for message in outcome.messages)
    for name in WORKERS:
        lab[name].link.loss = lab[name].link.delay_s = 0.0
