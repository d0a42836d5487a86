"""Percolation of any sets: against every pair, with few threads and many, with and without the quick first pass."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papilio.kernels.communities import percolate as module
from papilio.kernels.communities.percolate import Level, Percolated, Rows, find_overlaps, percolate
from tests.kernels.clique.test_clique import laws
from tests.tools.oracle_communities import groups_of

Sets = list[tuple[int, ...]]


def rows_of(sets: Sets) -> Rows:
    offsets = np.cumsum([0, *map(len, sets)])
    return offsets, np.array([vertex for each in sets for vertex in each], np.int32)


def sets_of(rows: Rows) -> Sets:
    return [tuple(rows[1][a:b].tolist()) for a, b in pairwise(rows[0].tolist())]


def unions_of(sets: list[tuple[Sets, ...]], shared: tuple[int, int]) -> list[tuple[tuple[int, ...], ...]]:
    """Compare every two motifs."""
    motifs = [tuple(map(frozenset, motif)) for motif in sets]

    def adjacent(one: tuple[frozenset[int], ...], other: tuple[frozenset[int], ...]) -> bool:
        return all(len(a & b) >= least for a, b, least in zip(one, other, shared, strict=False))

    groups = groups_of(motifs, adjacent)
    return sorted(
        tuple(tuple(sorted(frozenset().union(*layer))) for layer in zip(*group, strict=True))  # type: ignore[arg-type]
        for group in groups
    )


def found_by(percolated: Percolated) -> list[tuple[tuple[int, ...], ...]]:
    return sorted(zip(*map(sets_of, percolated.members), strict=True))


def sets(n: int, least: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.sets(st.integers(0, n - 1), min_size=least).map(lambda each: tuple(sorted(each)))


@pytest.fixture(params=["threads", "one thread", "no first pass"])
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Number of threads; without the first pass every pair must be found by the exact one."""
    if request.param == "no first pass":
        monkeypatch.setattr(module, "join_windows", lambda *given: None)
    monkeypatch.setattr(module, "_SERIAL_MOTIFS", 1)
    return 3 if request.param == "threads" else 1


def test_sets_of_one_layer_follow_the_definition(variant: int) -> None:
    @laws(80)
    @given(st.integers(1, 4), st.data())
    def law(shared: int, data: st.DataObject) -> None:
        given = data.draw(st.lists(sets(9, shared), max_size=14))
        found = percolate([rows_of(given)], [9], [Level(shared, (shared, 0))], variant)
        assert found_by(found) == unions_of([(each,) for each in given], (shared, 0))
        assert (found.parents == -1).all()

    law()


def test_sets_of_two_layers_follow_the_definition(variant: int) -> None:
    @laws(80)
    @given(st.integers(0, 3), st.integers(1, 3), st.booleans(), st.data())
    def law(s: int, t: int, turned: bool, data: st.DataObject) -> None:
        given = data.draw(st.lists(st.tuples(sets(7, max(s, 1)), sets(6, t)), max_size=14))
        shared = (t, s) if turned else (s, t)
        given = [each[::-1] for each in given] if turned else given
        sides = [[each[layer] for each in given] for layer in range(2)]
        sizes = [6, 7] if turned else [7, 6]
        found = percolate([rows_of(side) for side in sides], sizes, [Level(1, shared)], variant)
        assert found_by(found) == unions_of(given, shared)

    law()


def test_levels_are_what_each_would_be_alone(variant: int) -> None:
    @laws(60)
    @given(st.lists(sets(9, 2), max_size=14))
    def law(given: Sets) -> None:
        levels = [Level(k, (k - 1, 0)) for k in range(9, 1, -1)]
        tree = percolate([rows_of(given)], [9], levels, variant)
        members = sets_of(tree.members[0])
        above = np.append(tree.levels, 0)[tree.parents]
        assert (above < tree.levels).all()
        for level in levels:
            alone = unions_of([(each,) for each in given if len(each) >= level.k], level.shared)
            at = np.flatnonzero((tree.levels >= level.k) & (above < level.k))
            assert sorted((members[i],) for i in at) == alone
        for child, parent in enumerate(tree.parents.tolist()):
            assert parent < 0 or set(members[child]) <= set(members[parent])
        order = [(-k, -len(each), each[0]) for k, each in zip(tree.levels.tolist(), members, strict=True)]
        assert order == sorted(order)

    law()


def test_many_sets_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random sets of several sizes, with a large component, and many small ones beside it."""
    random = np.random.default_rng(5)
    given = [tuple(sorted(random.choice(60, random.integers(4, 9), replace=False).tolist())) for _ in range(900)]
    given += [tuple(range(60 + 5 * i, 65 + 5 * i)) for i in range(50)]
    expected = unions_of([(each,) for each in given], (3, 0))
    assert 50 < len(expected) < 300
    monkeypatch.setattr(module, "_SERIAL_MOTIFS", 1)
    answers = [percolate([rows_of(given)], [310], [Level(4, (3, 0))], threads) for threads in (1, 2, 4)]
    for found in answers:
        assert found_by(found) == expected
        assert sets_of(found.members[0]) == sets_of(answers[0].members[0])


def test_overlaps_are_common_vertices() -> None:
    @laws(60)
    @given(st.lists(st.tuples(sets(7, 1), sets(6, 1)), max_size=8), st.data())
    def law(given: list[tuple[tuple[int, ...], tuple[int, ...]]], data: st.DataObject) -> None:
        chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(given))))) if given else [])
        members = [rows_of([each[layer] for each in given]) for layer in range(2)]
        found = find_overlaps(members, [7, 6], np.array(chosen, np.int64))
        rows = zip(found.first.tolist(), found.second.tolist(), *(each.tolist() for each in found.common), strict=True)
        common = [
            (a, b, *(len({*given[a][layer]} & {*given[b][layer]}) for layer in range(2)))
            for b in chosen
            for a in chosen
            if a < b
        ]
        assert list(rows) == [each for each in common if each[2] or each[3]]

    law()


def test_progress_ends_at_the_whole() -> None:
    told: list[float] = []
    percolate([rows_of([(0, 1, 2), (1, 2, 3)])], [4], [Level(3, (2, 0)), Level(2, (1, 0))], 1, told.append)
    assert told == sorted(told)
    assert told[-1] == 1
