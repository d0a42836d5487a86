"""Motifs: their JSON form is part of a job's identity."""

from __future__ import annotations

import dataclasses
import json

import pytest

from papilio.errors import UnsupportedError
from papilio.motifs import GRANULARITIES, Butterfly, motif_from_json, motif_to_json


def test_json_round_trip() -> None:
    data = motif_to_json(Butterfly())
    assert data == {"name": "butterfly"}
    assert motif_from_json(json.loads(json.dumps(data))) == Butterfly()


@pytest.mark.parametrize("data", [{"name": "moth"}, {}, {"name": None}])
def test_unknown_motifs_are_refused_with_the_known_ones(data: dict[str, object]) -> None:
    with pytest.raises(UnsupportedError, match="known: butterfly"):
        motif_from_json(data)


def test_motifs_are_values() -> None:
    assert Butterfly() == Butterfly()
    assert len({Butterfly(), Butterfly()}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        Butterfly().name = "moth"  # type: ignore[misc]


def test_granularities() -> None:
    assert GRANULARITIES == ("total", "vertex", "edge")
