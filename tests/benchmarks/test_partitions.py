"""The benchmark of parts on a small graph: every way of cutting counts the same, and growth copies least."""

from __future__ import annotations

import pytest

from benchmarks.partitions import HEADS, PartCase, community_graph, groups_table, parts_table
from papilio.motifs import Biclique, Butterfly, Motif

CASE = PartCase("community", "u", counted_parts=(4,))


@pytest.mark.parametrize("motif", [Biclique(3, 3), Butterfly()], ids=lambda motif: str(motif.name))
def test_parts_count_what_the_graph_counts(motif: Motif) -> None:
    rows = [dict(zip(HEADS["parts"], row, strict=True)) for row in parts_table(CASE, community_graph(8, 60, 10), motif)]
    assert len(rows) == 5
    assert {row["same count"] for row in rows[1:]} == {"yes"}
    replication = {row["strategy"]: float(row["replication"]) for row in rows}
    assert replication["bcpar"] < replication["hash"]


def test_growth_makes_fewest_parts() -> None:
    rows = [dict(zip(HEADS["groups"], row, strict=True)) for row in groups_table(CASE, community_graph(8, 60, 10))]
    assert {row["closure"] for row in rows} == {"columns", "paper's"}
    for row in rows:
        parts = {name: int(row[name].split(" / ")[0]) for name in ("growth", "hash") if "/" in row[name]}
        assert parts["growth"] == min(parts.values())
