"""What the kernels count becomes numbers of bicliques: closed forms against sums over all subsets."""

from __future__ import annotations

from collections import Counter
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.errors import CapacityError
from papilio.kernels.biclique.forms import (
    Degrees,
    closed_cells,
    count_stars,
    expand_leaves,
    expand_sizes,
    turn,
)
from papilio.kernels.exact import choose_modulo
from papilio.motifs import Biclique
from tests.conftest import share_of_examples

sizes = st.integers(0, 9)
leaf = st.tuples(sizes, sizes, sizes, sizes)
ranges = st.tuples(st.integers(1, 6), st.integers(0, 25)).map(lambda pair: range(pair[0], sum(pair)))
counts = st.integers(1, 2**70)


@settings(max_examples=share_of_examples(150), deadline=None, derandomize=True, database=None)
@given(st.dictionaries(leaf, counts, max_size=12), ranges, ranges)
def test_leaves_stand_for_every_choice_of_their_free_vertices(
    leaves: dict[tuple[int, int, int, int], int], lefts: range, rights: range
) -> None:
    wanted: Counter[tuple[int, int]] = Counter()
    for (held_left, free_left, held_right, free_right), count in leaves.items():
        for more_left in range(free_left + 1):
            for more_right in range(free_right + 1):
                cell = held_left + more_left, held_right + more_right
                if cell[0] in lefts and cell[1] in rights:
                    wanted[cell] += count * comb(free_left, more_left) * comb(free_right, more_right)
    assert expand_leaves(leaves, lefts, rights) == wanted


@pytest.mark.parametrize("lefts", [range(1, 1 << 40), range(2, 5), range(90, 1000)])
@pytest.mark.parametrize("rights", [range(1, 1 << 40), range(3, 4), range(60, 62)])
def test_leaves_that_are_large_on_either_side_are_exact(lefts: range, rights: range) -> None:
    leaves = {
        (2, 150, 1, 3): 2**64 - 1,
        (0, 2, 3, 170): 3,
        (2, 150, 3, 3): 1,
        (40, 60, 40, 60): 7,
        (3, 0, 5, 0): 1,
    }
    for turned in (False, True):
        wanted: Counter[tuple[int, int]] = Counter()
        for (h, f, i, g), count in leaves.items():
            for p in range(max(h, lefts.start), min(h + f + 1, lefts.stop)):
                for q in range(max(i, rights.start), min(i + g + 1, rights.stop)):
                    wanted[p, q] += count * comb(f, p - h) * comb(g, q - i)
        if turned:
            got = expand_leaves({(i, g, h, f): n for (h, f, i, g), n in leaves.items()}, rights, lefts)
        else:
            got = expand_leaves(leaves, lefts, rights)
        assert turn(got, "v" if turned else "u") == wanted


@settings(max_examples=share_of_examples(100), deadline=None, derandomize=True, database=None)
@given(st.dictionaries(st.integers(0, 40), counts, max_size=10), st.integers(1, 5), ranges)
def test_left_sets_stand_for_every_choice_of_what_they_share(
    histogram: dict[int, int], left: int, rights: range
) -> None:
    wanted = {
        (left, size): ways
        for size in rights
        if (ways := sum(count * comb(shared, size) for shared, count in histogram.items()))
    }
    got = expand_sizes(histogram, left, rights)
    assert {cell: count for cell, count in got.items() if count} == wanted
    assert turn(turn(got, "v"), "v") == turn(got, "u") == got


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 8), st.integers(1, 40))
def test_stars_are_sets_of_neighbours(degrees: list[int], least: int, most: int) -> None:
    wanted = {size: ways for size in range(least, most + 1) if (ways := sum(comb(degree, size) for degree in degrees))}
    assert count_stars(np.array(degrees, np.int64), least, most) == wanted


@given(st.integers(0, 200), st.integers(0, 120))
def test_binomials_modulo_two_to_the_64th(most: int, size: int) -> None:
    got = choose_modulo(most, size)
    assert got.dtype == np.uint64
    assert got.tolist() == [comb(n, size) % 2**64 for n in range(most + 1)]


@pytest.mark.parametrize("side", ["p", "q"])
def test_stars_that_would_fill_gigabytes_are_refused_with_the_size_that_would_do(side: str) -> None:
    hub, leaves = np.array([200_000, 3]), np.ones(200_000, np.int64)
    graph = Degrees(2, 200_000, hub, leaves) if side == "q" else Degrees(200_000, 2, leaves, hub)
    with pytest.raises(CapacityError, match=rf"200000 bits each, 4768 MiB in all: limit .* to --max-{side} 42949 or"):
        closed_cells(graph, Biclique())
    few = Biclique(max_q=4) if side == "q" else Biclique(max_p=4)
    cells = {key if side == "q" else key[::-1]: count for key, count in closed_cells(graph, few).items()}
    assert cells[1, 3] == comb(200_000, 3) + 1
    assert closed_cells(graph, Biclique(1, 5) if side == "q" else Biclique(5, 1)) != {}
