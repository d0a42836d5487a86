"""Random calls of the public functions and commands end in an answer or an error of Papilio."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.tools.fuzz_calls import Fuzzer


@pytest.mark.parametrize(("seconds", "most"), [(5.0, 100), (20.0, 2**31)], ids=["few", "many"])
def test_no_call_ends_badly(seconds: float, most: int) -> None:
    report = Fuzzer(int(os.environ.get("PAPILIO_SEED", "0"))).run(seconds, most)
    assert not report.faults, "\n\n".join(f"{each.call}\n{each.end}" for each in report.faults)
    ends = sum(report.ends.values(), start=Counter[str]())
    assert min(ends["answer"], ends["refused"]) > 10
