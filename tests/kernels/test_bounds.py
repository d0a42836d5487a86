"""Bounds: what could pass its accumulator is refused when the graph is prepared."""

from __future__ import annotations

import numpy as np
import pytest

from papilio.errors import CapacityError
from papilio.graph import BipartiteGraph
from papilio.kernels import exact as bounds
from papilio.motifs import BalancedButterfly, Butterfly
from papilio.registry import load_engine
from tests.conftest import EngineCase
from tests.tools.strategies import complete_graph


def test_vertex_counts_that_could_pass_63_bits_are_refused() -> None:
    degrees = np.array([5, 2**31 - 1, 3, 1, 0], np.int64)
    wedges = np.array([10, 2**33 + 8, 0, 2**62, 0], np.int64)
    assert (2**33 + 8) * (2**31 - 2) // 2 < 2**63 <= (2**33 + 9) * (2**31 - 2) // 2
    bounds.check_vertex_bound(degrees, wedges)
    wedges[1] += 1
    with pytest.raises(CapacityError, match=f"degree {2**31 - 1} with {2**33 + 9} wedges.*{2**63 - 1}"):
        bounds.check_vertex_bound(degrees, wedges)


def test_what_is_refused_per_vertex_is_counted_otherwise_where_that_is_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "MAX_VERTEX_COUNT", 59)
    graph = complete_graph(5, 6)
    signed = BipartiteGraph.from_edges(graph.u, graph.v, sign=np.ones(graph.n_edges))
    for motif, instead in ((Butterfly(), "the total or per edge"), (BalancedButterfly(), "the total")):
        with pytest.raises(CapacityError, match=f"count {instead} instead"):
            load_engine(motif, "cpu", 1).prepare(signed, motif, "vertex")


def test_engines_refuse_exactly_what_could_pass_the_bound(engine: EngineCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """In K(5, 6) a U vertex is in 4 * C(6, 2) = 60 butterflies, which is also its bound."""
    graph = complete_graph(5, 6)
    for one in (graph, graph.swap_layers()):
        monkeypatch.setattr(bounds, "MAX_VERTEX_COUNT", 60)
        assert engine.count(one, "vertex").total == 150
        monkeypatch.setattr(bounds, "MAX_VERTEX_COUNT", 59)
        with pytest.raises(CapacityError, match="could be in 60 butterflies"):
            engine.engine.prepare(one, Butterfly(), "vertex")
        assert engine.engine.prepare(one, Butterfly(), "edge").n_items > 0
