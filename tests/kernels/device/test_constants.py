"""Launchers and CUDA sources have one source of the numbers that they share."""

from __future__ import annotations

import re

import pytest

from papilio.kernels.device import constants
from papilio.kernels.device.constants import CONSTANTS, with_constants
from papilio.kernels.device.sources import SOURCES
from tests.emulator.errors import EmulatorError
from tests.tools.devices import emulator

_DEFAULT = re.compile(r"^#ifndef (\w+)\n#define \1 (\S+)$", re.MULTILINE)


def defaults() -> list[tuple[str, str, int]]:
    """Return (file, macro, default) of every macro in the sources that a launcher may set to a number."""
    return [
        (path.name, name, int(value))
        for path in SOURCES.values()
        for name, value in _DEFAULT.findall(path.read_text())
    ]


def test_sources_compiled_alone_have_the_launchers_numbers() -> None:
    found = [each for each in defaults() if each[1] in CONSTANTS]
    assert [(file, name, value) for file, name, value in found if value != CONSTANTS[name]] == []
    assert {name for _, name, _ in found} == set(CONSTANTS), "a constant that no source takes"


def test_every_number_of_the_module_is_passed() -> None:
    derived = {"CONSTANTS", "LEAF_WORDS"}
    assert set(CONSTANTS) == {name for name in constants.__all__ if name.isupper()} - derived
    assert with_constants({"PER": 1}) == {**CONSTANTS, "PER": 1}
    assert CONSTANTS["LEAF_BINS"] * 32 // 2 == constants.LEAF_WORDS


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("biclique", "SUBSET_FRAME_WORDS"),
        ("biclique", "SIDE_BITS"),
        ("biclique_vertices", "VERTEX_FRAME_WORDS"),
        ("biclique_vertices", "SUM_WORDS"),
        ("butterfly", "DENSE_8_BELOW"),
        ("butterfly", "DENSE_16_BELOW"),
        ("wing", "COUNTER_LEAST"),
        ("wing", "COUNTER_WORDS"),
    ],
)
def test_a_number_that_a_source_cannot_have_does_not_compile(stem: str, name: str) -> None:
    with pytest.raises(EmulatorError, match="static assertion failed"):
        emulator(0).load(stem, {name: CONSTANTS[name] + 1})
