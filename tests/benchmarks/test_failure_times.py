"""The list of failure tests names tests that exist, and its table says what came of them."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.failure_times import TESTS, FailureTest, read_outcomes, write_table
from tests.conftest import ROOT


def test_every_test_that_is_named_exists() -> None:
    for file in {test.file for test in TESTS}:
        found = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
        missing = {test.test for test in TESTS if test.file == file} - found
        assert not missing, f"{file} has no {', '.join(sorted(missing))}"


def test_cases_of_a_test_are_added_up_and_skips_told(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.a.test_b" name="test_c[1]" time="1.25"/>
        <testcase classname="tests.a.test_b" name="test_c[x y]" time="0.5"/>
        <testcase classname="tests.a.test_b" name="test_d" time="0.1"><skipped/></testcase>
        <testcase classname="tests.a.test_b" name="test_e" time="0.1"><failure/></testcase>
        </testsuite></testsuites>"""
    )
    outcomes = read_outcomes(report)
    assert outcomes["tests/a/test_b.py::test_c"] == [("passed", 1.25), ("passed", 0.5)]
    tests = [FailureTest(f"f{name}", "tests/a/test_b.py", f"test_{name}", "right") for name in "cdez"]
    rows = write_table(tests, outcomes).splitlines()[-4:]
    assert [row.split(" | ")[2:4] for row in rows] == [
        ["2", "1.8"], ["1", "skipped"], ["1", "failed"], ["0", "not run"],
    ]  # fmt: skip
