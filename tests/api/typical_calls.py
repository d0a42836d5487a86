"""Calls as users write them, with the type of each answer: mypy checks them (``make lint``), and a test runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import papilio


def count_and_plan(women: papilio.Graph, club: papilio.Graph) -> None:
    found = papilio.count(women, "biclique", p=3, q=4)
    assert_type(found, papilio.CountResult)
    assert_type(found.count, int)
    assert found.count == 36
    assert_type(papilio.count(club, papilio.Clique(3), per="vertex").top(3)[0].labels, tuple[Any, ...])
    assert_type(papilio.plan(women, papilio.Biclique(3, 4)), papilio.CountPlan)
    guessed = papilio.estimate(women, "biclique", p=3, q=3, error=0.05)
    assert_type(guessed, papilio.Estimate)
    assert_type(guessed.interval, tuple[float, float])


def compare(women: papilio.Graph) -> None:
    one = papilio.significance(women, "butterfly", samples=5)
    assert_type(one, papilio.SignificanceResult)
    assert_type(one.z, float | None)
    several = papilio.significance({"first": women, "again": women}, "butterfly", samples=5)
    assert_type(several, papilio.SignificanceResults)
    assert_type(several["first"], papilio.SignificanceResult)
    assert several["first"].observed == one.observed == 341
    random = papilio.randomize(women, samples=2)
    assert_type(random[0], papilio.Graph)
    assert [each.n_edges for each in random] == [89, 89]


def list_motifs(women: papilio.Graph, folder: Path) -> None:
    rows = papilio.enumerate(women, "biclique", p=3, q=4, containing=["Evelyn Jefferson"])
    assert_type(rows, papilio.Rows)
    assert len(rows.head(2)) == 2
    listed = papilio.enumerate(women, papilio.MaximalBiclique(), output=folder / "rows.csv")
    assert_type(listed, papilio.ListingResult)
    assert listed.rows == 63

    pairs = papilio.project(women, "u", min_common=3)
    assert_type(pairs, papilio.ProjectedRows)
    written = papilio.project(women, "woman", output=folder / "pairs.csv", weighting="jaccard")
    assert_type(written, papilio.ListingResult)
    friends = papilio.project(women, "woman", output=folder / "friends", as_store=True)
    assert_type(friends, papilio.GraphStore)
    assert friends.n_u == 18


def measure(women: papilio.Graph, club: papilio.Graph) -> None:
    assert_type(papilio.robins_alexander(women).value, float | None)
    assert_type(papilio.decompose(women, "wing").max_number, int)
    assert_type(papilio.core(club, k=4), papilio.Graph)
    assert papilio.core(club, k=4).n_u == 10
    assert_type(papilio.maximum_clique(club).size, int)
    assert papilio.maximum_clique(club).size == 5


def main(folder: Path) -> None:
    """Call everything, and write what is written to ``folder``."""
    women, club = papilio.example("southern-women"), papilio.example("karate-club")
    assert_type(women, papilio.Graph)
    count_and_plan(women, club)
    compare(women)
    list_motifs(women, folder)
    measure(women, club)
