"""The search for wrong counts: some of its cases, and that it finds and shrinks what is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import comb
from typing import Any

import numpy as np
import pytest

from papilio.graph import UnipartiteGraph
from papilio.motifs import Clique
from tests.conftest import ROOT, share_of_examples
from tests.tools.devices import cuda_device
from tests.tools.differential.__main__ import Comparison
from tests.tools.differential.answers import Answer, EngineAnswerer
from tests.tools.differential.cases import DRAWS, Case, Question, draw_case
from tests.tools.differential.definition import OracleAnswerer
from tests.tools.differential.graphs import Graph
from tests.tools.differential.laws import Asked, check_edge

CPU, ORACLE = EngineAnswerer("cpu", None), OracleAnswerer()


def test_engines_on_cpus_answer_by_the_definition() -> None:
    comparison, asked = Comparison(CPU, ORACLE, {}), set[str]()
    for number in range(share_of_examples(360)):
        case = draw_case(number, "tiny")
        wrong, answer = comparison.examine(case)
        assert not wrong, comparison.explain(case, wrong, "tiny", 10)
        if answer is not None:
            asked.add(case.family)
    assert asked == set(DRAWS)


@pytest.mark.gpu
def test_the_gpu_keeps_the_laws() -> None:
    comparison = Comparison(EngineAnswerer("gpu", cuda_device()), None, {})
    for number in range(20):
        case = draw_case(number, "large")
        wrong, _ = comparison.examine(case)
        assert not wrong, comparison.explain(case, wrong, "large", 10)


class _Forgetful(OracleAnswerer):
    """Forgets one motif where there are as many as ``least``."""

    name = "forgetful"

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, graph: Graph, question: Question, tuning: Mapping[str, Any], items: int | None = None) -> Answer:
        answer = super().__call__(graph, question, tuning, items)
        return replace(answer, total=answer.total - 1) if answer.total >= self.least else answer


def _draw_butterflies() -> Case:
    cases = (draw_case(number, "tiny") for number in range(1000))
    return next(
        case for case in cases if case.family == "butterfly" and ORACLE(case.graph, case.question, {}).total > 9
    )


def test_what_is_wrong_is_found_and_shrunk() -> None:
    case = _draw_butterflies()
    comparison = Comparison(_Forgetful(1), ORACLE, {})
    wrong, _ = comparison.examine(case)
    assert wrong.startswith("forgetful and oracle differ: total: ")
    told = comparison.explain(case, wrong, "tiny", 60)
    assert "(2 x 2, 4 edges)" in told
    assert f"--engine forgetful --against oracle --size tiny --case {case.number}" in told


def test_laws_need_no_second_engine() -> None:
    failed = [
        wrong
        for number in range(share_of_examples(120))
        if (wrong := Comparison(_Forgetful(5), None, {}).examine(draw_case(number, "tiny"))[0])
    ]
    assert failed
    assert all("against the law of" in wrong or "the sum of" in wrong for wrong in failed)


def test_the_law_of_edges_holds_where_counts_pass_64_bits() -> None:
    graph = UnipartiteGraph.from_edges(*np.triu_indices(80, 1), 80)
    question = Question(Clique(40), "edge")
    answer = CPU(graph, question, {})
    assert answer.total == comb(80, 40)
    case = Case(0, "clique", "complete", graph, question, {})
    for total, holds in ((answer.total, True), (answer.total + (1 << 64), True), (answer.total + 1, False)):
        asked = Asked(case, CPU, replace(answer, total=total), np.random.default_rng(0))
        assert (check_edge(asked) == "") == holds


def test_the_command_records_and_compares(tmp_path: Any) -> None:
    def run(*words: str) -> str:
        command = [
            sys.executable,
            "-m",
            "tests.tools.differential",
            "--size",
            "tiny",
            "--engine",
            "oracle",
            *words,
        ]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout

    kept = tmp_path / "answers"
    assert run("--case", "7", "--record", str(kept)).startswith("1 cases, 0 failed")
    assert run("--recorded", str(kept)).startswith("1 cases, 0 failed")
