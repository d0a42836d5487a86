"""Launchers and CUDA sources have one source of the numbers that they share."""

from __future__ import annotations

import re

import pytest

from papilio.kernels.device import constants
from papilio.kernels.device.compile import SOURCES
from papilio.kernels.device.constants import CONSTANTS, with_constants
from tests.emulator.errors import EmulatorError
from tests.tools.devices import emulator


def test_sources_take_every_number_and_set_none() -> None:
    texts = {path.name: path.read_text() for path in SOURCES.values()}
    for name in CONSTANTS:
        used = [file for file, text in texts.items() if re.search(rf"\b{name}\b", text)]
        assert used, f"{name}: a constant that no source takes"
        assert not [file for file in used if re.search(rf"#\s*define\s+{name}\b", texts[file])], name


def test_every_number_of_the_module_is_passed() -> None:
    derived = {"CONSTANTS", "LEAF_WORDS"}
    assert set(CONSTANTS) == {name for name in vars(constants) if name.isupper()} - derived
    assert all(type(value) is int for value in CONSTANTS.values())
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
