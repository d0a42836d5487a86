"""Items dealt in hands: the same items in another order, on every engine, and hands that are alike."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papilio.kernels.engine import deal_items, find_hands, fold_partials
from papilio.motifs import BalancedBiclique, Granularity, Motif
from papilio.registry import load_engine, motif_row
from tests.kernels.clique.test_clique import random_graph
from tests.kernels.search.test_gpu import QUESTIONS, CutAfter, assert_same, run_until
from tests.kernels.wedge.test_balanced_butterfly import random_signs
from tests.tools.devices import emulator
from tests.tools.strategies import planted_graph

ASKED = [*QUESTIONS, (BalancedBiclique(3, 3), "total")]
BY_TITLE = {f"{motif.title} per {per}": (motif, per) for motif, per in ASKED}
each_question = pytest.mark.parametrize(("motif", "per"), BY_TITLE.values(), ids=BY_TITLE)


@given(st.integers(0, 300), st.integers(1, 70))
def test_every_item_is_dealt_once_and_a_hand_falls_from_heavy_to_light(n_items: int, hands: int) -> None:
    rank, starts = deal_items(n_items, hands), find_hands(n_items, hands)
    assert np.array_equal(np.sort(rank), np.arange(n_items))
    assert (starts[0], starts[-1], starts.size) == (0, n_items, hands + 1)
    for hand, (start, stop) in enumerate(pairwise(starts)):
        assert np.array_equal(rank[start:stop], np.arange(hand, n_items, hands))


def engines_of(motif: Motif, hands: int) -> list[Any]:
    made = [load_engine(motif, "cpu", 2), motif_row(motif).engines["gpu"]()(emulator(3))]
    for engine in made:
        engine.hands = hands
    return made


def graph_for(motif: Motif) -> Any:
    if motif_row(motif).graph_kind == "unipartite":
        return random_graph(5, 50, 0.3)
    graph = planted_graph(3, 40, 45, 3, 7, 200, 0.1)
    return random_signs(graph, 7) if motif.needs_signs else graph


@each_question
def test_hands_fold_to_the_whole_on_every_engine(motif: Motif, per: Granularity) -> None:
    graph = graph_for(motif)
    plain = [engine.prepare(graph, motif, per) for engine in engines_of(motif, 1)]
    whole = engines_of(motif, 1)[0].run(plain[0], 0, plain[0].n_items)
    orders = []
    for engine, undealt in zip(engines_of(motif, 3), plain, strict=True):
        prepared = engine.prepare(graph, motif, per)
        n = prepared.n_items
        assert np.array_equal(engine.work(prepared), engine.work(undealt)[deal_items(n, 3)])
        orders.append(engine.work(prepared).tolist())
        starts = find_hands(n, 3)
        parts = [engine.run(prepared, int(a), int(b)) for a, b in pairwise(starts)]
        assert_same(reduce(fold_partials, parts), whole)
        assert_same(engine.run(prepared, 0, n), whole)
        across = int(starts[1]) + 2
        halves = engine.run(prepared, 0, across), engine.run(prepared, across, n)
        assert_same(fold_partials(*halves), whole)
    assert orders[0] == orders[1]
    assert orders[0] != sorted(orders[0], reverse=True) or len(set(orders[0])) == 1


@each_question
def test_a_dealt_search_that_is_ended_has_searched_the_first_items(motif: Motif, per: Granularity) -> None:
    engine = engines_of(motif, 3)[1]
    prepared = engine.prepare(graph_for(motif), motif, per)
    for n_taken in (1, 40):
        first, _ = run_until(CutAfter, n_taken, engine, prepared, 2)
        assert first.n_items > 0
        assert_same(first, engine.run(prepared, 2, 2 + first.n_items))


@each_question
def test_probes_do_not_depend_on_the_hands(motif: Motif, per: Granularity) -> None:
    graph, found = graph_for(motif), []
    for hands in (1, 3):
        for engine in engines_of(motif, hands):
            prepared = engine.prepare(graph, motif, per)
            ranks = np.arange(min(prepared.n_items, 40))
            place = np.argsort(deal_items(prepared.n_items, hands))
            seeds = np.arange(ranks.size, dtype=np.uint64)
            found.append(np.array(engine.prober(prepared).walk(place[ranks], seeds)))
    assert all(np.array_equal(found[0], other) for other in found[1:])
