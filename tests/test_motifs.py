"""Motifs: their JSON form is part of a job's identity."""

from __future__ import annotations

import dataclasses

import pytest

from papilio.errors import InputError, UnsupportedError
from papilio.motifs import GRANULARITIES, Biclique, Butterfly, choose_options, motif_from_json, motif_to_json


@pytest.mark.parametrize("data", [{"name": "moth"}, {}, {"name": None}])
def test_unknown_motifs_are_refused_with_the_known_ones(data: dict[str, object]) -> None:
    with pytest.raises(
        UnsupportedError, match="known: balanced-biclique, balanced-butterfly, biclique, butterfly, census"
    ):
        motif_from_json(data)


def test_motifs_are_values() -> None:
    assert Butterfly() == Butterfly()
    assert len({Butterfly(), Butterfly()}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        Butterfly().name = "moth"  # type: ignore[misc]


def test_granularities() -> None:
    assert GRANULARITIES == ("total", "vertex", "edge")


def test_all_parameters_are_in_the_json() -> None:
    assert motif_to_json(Butterfly()) == {"name": "butterfly"}
    assert motif_to_json(Biclique(3, None)) == {
        "name": "biclique", "p": 3, "q": None, "max_p": None, "max_q": None
    }  # fmt: skip


def test_a_biclique_is_a_table_unless_both_sizes_are_given() -> None:
    assert [Biclique(*sizes).is_table for sizes in ((3, 4), (3,), (None, 4), ())] == [False, True, True, True]
    assert not Butterfly().is_table
    assert Biclique(3, 4).granularities == ("total", "vertex")
    assert Biclique(3).granularities == ("total",)
    assert Butterfly().granularities == GRANULARITIES


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"p": 0, "q": 1}, "p of a biclique is 0; the minimum is 1"),
        ({"p": 1, "q": -3}, "q of a biclique is -3; the minimum is 1"),
        ({"max_p": 0}, "max_p of a biclique is 0"),
        ({"p": 3, "max_p": 4}, "p 3 and max_p 4; set max_p only"),
        ({"q": 3, "max_q": 4}, "q 3 and max_q 4; set max_q only"),
        ({"p": 2.0}, r"p of a biclique is 2\.0; expected an integer"),
        ({"q": True}, "q of a biclique is True; expected an integer"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Biclique(**sizes)


def test_parameters_of_another_motif_are_refused() -> None:
    with pytest.raises(InputError, match=r"motif 'butterfly' does not take \['p'\]"):
        motif_from_json({"name": "butterfly", "p": 3})


def test_options_are_sorted_and_defaults_are_left_out() -> None:
    options = {"anchor": "v", "algorithm": "pivot"}
    assert choose_options(Biclique(2, 2), options) == (("algorithm", "pivot"), ("anchor", "v"))
    assert choose_options(Biclique(2, 2), {"anchor": "auto", "algorithm": "enumerate"}) == (("algorithm", "enumerate"),)


def test_unknown_options_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="biclique has no option 'order'; its options: algorithm, anchor"):
        choose_options(Biclique(2, 2), {"order": "degree"})
    with pytest.raises(InputError, match="anchor is 'w'; expected one of auto, u, v"):
        choose_options(Biclique(2, 2), {"anchor": "w"})
    with pytest.raises(InputError, match="butterfly has no option 'anchor'; its options: none"):
        choose_options(Butterfly(), {"anchor": "u"})
