"""Counts are exact, and their jobs whole, whatever happens to the hosts of a cluster and the links between them.

``python -m benchmarks.faults`` runs all scenarios, longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb

import pytest

import papilio
from papilio.storage.graph_models import Complete
from tests.faults.laboratory import WORKERS, Count, Laboratory
from tests.faults.network import missing_for_network
from tests.faults.scenarios import (
    Scenario,
    cut_for_ever,
    cut_while_other_counts,
    kill_on_a_bad_link,
    observe,
)

missing = missing_for_network()
pytestmark = pytest.mark.skipif(missing is not None, reason=f"no network of hosts here: {missing}")

SIDE = 1800
BUTTERFLIES = comb(SIDE, 2) ** 2

SLOWER = "5"
"""How often the time of a kernel is slept after it: the count takes seconds, and little of the processors."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """A cluster on which a count takes some seconds, in leases of 0.1 s; after 2 s a worker is silent."""
    folder = tmp_path_factory.mktemp("lab")
    papilio.generate(Complete(SIDE, SIDE), folder / "graph")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAPILIO_TEST_SLOWER", SLOWER)
        patch.setenv("PAPILIO_SILENCE_SECONDS", "2")
        options = ("--preload", "tests.cluster.short_leases")
        with Laboratory(folder, folder / "graph", ("butterfly",), options) as laboratory:
            yield laboratory


@pytest.mark.parametrize("fault", [cut_while_other_counts, kill_on_a_bad_link, cut_for_ever])  # the last one stays
def test_a_fault_costs_time_only(fault: Callable[[Laboratory], list[Count]], lab: Laboratory) -> None:
    outcome = observe(lab, Scenario(fault.__name__, fault))
    assert (outcome.exit_code, outcome.count, outcome.is_sealed) == (0, BUTTERFLIES, True), outcome.messages
    if fault is cut_for_ever:
        assert any("has not answered for" in message for message in outcome.messages), outcome
    for name in WORKERS:
        lab[name].link.loss = lab[name].link.delay_s = 0.0
