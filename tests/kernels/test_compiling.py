"""What compiled functions must not hold, since it takes seconds to compile."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def compiled_functions() -> dict[str, ast.FunctionDef]:
    """All functions of the package that are compiled; only the process that runs these tests reads it."""
    return {
        f"{path.relative_to(ROOT)}:{node.name}": node
        for path in sorted((ROOT / "papilio").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and {"compiled", "inlined"} & set(map(ast.unparse, node.decorator_list))
    }


SLOW_CALLS = {"np.diff", "np.searchsorted", "np.cumsum"}
"""Half a second and more each; a loop compiles in a tenth of it."""

PLAIN = (ast.Constant, ast.Name, ast.UnaryOp)
"""What a slice may be filled with: Numba brings text along for arrays, to say in an error what shapes they have."""


def is_slow(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        slices = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Slice)]
        return bool(slices) and (isinstance(node, ast.AugAssign) or not isinstance(node.value, PLAIN))
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in SLOW_CALLS
    return isinstance(node, ast.JoinedStr)


@pytest.mark.parametrize(
    ("code", "slow"),
    [
        ("a[:n] = b[:n]", True), ("a[:, 0] = b.c", True), ("a[1:] += 1", True), ("x = np.diff(a)", True),
        ("at = np.searchsorted(a, b)", True),
        ("a[:n] = 0", False), ("a[:] = _NONE", False), ("a[i] = b[i]", False), ("x = a[1:].copy()", False),
    ],
)  # fmt: skip
def test_slow_code_is_known(code: str, slow: bool) -> None:
    assert any(map(is_slow, ast.walk(ast.parse(code)))) is slow


def test_no_compiled_function_brings_text_along(compiled_functions: dict[str, ast.FunctionDef]) -> None:
    assert len(compiled_functions) > 200
    found = [
        f"{name}: {ast.unparse(node)}"
        for name, function in compiled_functions.items()
        for node in ast.walk(function)
        if is_slow(node)
    ]
    assert found == []


ARRAYS = {"Bools", "Counters", "EdgeIds", "Ids", "Ids32", "Ints", "NDArray", "Rows", "Pairs", "Sums", "Words"}


def test_arrays_are_made_by_callers(compiled_functions: dict[str, ast.FunctionDef]) -> None:
    """What makes arrays takes twice as long to compile; and a view in a tuple that is returned would not be kept."""
    returning = [
        name
        for name, function in compiled_functions.items()
        if function.returns is not None
        and ARRAYS & {each.id for each in ast.walk(function.returns) if isinstance(each, ast.Name)}
    ]
    assert returning == []


FIRST = """
import papilio
from numba.core import event
from papilio.kernels import compiling, code_files, jit
code_files.this_machine().levels.clear()  # no machine code of a wheel
heard = {"compiled": 0, "machine code": 0}

class Compilations(event.Listener):
    def on_start(self, event):
        heard["compiled"] += 1
    def on_end(self, event): ...

event.register("numba:compile", Compilations())
emit = compiling.emit

def emit_and_count(*given):
    heard["machine code"] += 1
    return emit(*given)

compiling.emit = emit_and_count
pairs = [(i, j) for i in range(12) for j in range(12) if (i * j) %% 5 < 3]
bipartite = papilio.BipartiteGraph.from_edges(*zip(*pairs))
signed = papilio.BipartiteGraph.from_edges(*zip(*pairs), sign=[1 if (i + j) %% 3 else -1 for i, j in pairs])
unipartite = papilio.UnipartiteGraph.from_edges(*zip(*[(i, j) for i, j in pairs if i < j]))
%s
print(*heard.values())
"""
"""Prints how many functions a first question compiles, Numba's own included, and of how many it makes machine code."""


BUDGETS = (
    ("papilio.count(bipartite, papilio.Butterfly(), engine='cpu')", 23, 8),
    ("papilio.count(signed, papilio.BalancedButterfly(), engine='cpu')", 24, 8),
    ("papilio.count(signed, papilio.Census('u'), engine='cpu')", 27, 8),
    ("papilio.count(bipartite, papilio.Biclique(3, 3), engine='cpu')", 30, 15),
    ("papilio.count(bipartite, papilio.Biclique(6, 6), engine='cpu')", 47, 16),
    ("papilio.count(bipartite, papilio.Biclique(None, None), engine='cpu')", 49, 16),
    ("papilio.count(signed, papilio.BalancedBiclique(3, 3), engine='cpu')", 30, 14),
    ("papilio.count(bipartite, papilio.MaximalBiclique(), engine='cpu')", 76, 17),
    ("papilio.count(bipartite, papilio.Projection('u'), engine='cpu')", 35, 7),
    ("papilio.count(bipartite, papilio.Checkerboard(), engine='cpu')", 23, 8),
    ("papilio.count(bipartite, papilio.Togetherness('u'), engine='cpu')", 23, 8),
    ("papilio.decompose(bipartite, 'wing', engine='cpu')", 48, 25),
    ("papilio.decompose(unipartite, 'core', engine='cpu')", 11, 6),
    ("papilio.count(unipartite, papilio.Clique(5), engine='cpu')", 30, 8),
    ("papilio.count(unipartite, papilio.FourCycle(), engine='cpu')", 21, 8),
    ("papilio.count(unipartite, papilio.MaximalClique(), engine='cpu')", 27, 8),
    ("papilio.communities(unipartite, papilio.Clique())", 47, 15),
)
"""A first question of every motif, and the most functions and modules that it may compile."""


@pytest.mark.parametrize(
    ("question", "functions", "modules"),
    [BUDGETS[0], *(pytest.param(*budget, marks=pytest.mark.slow) for budget in BUDGETS[1:])],
)
def test_a_first_question_compiles_few_functions(question: str, functions: int, modules: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST % question], capture_output=True, text=True, timeout=600, check=True, cwd=ROOT,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    compiled, made = map(int, done.stdout.split())
    assert 0 < made <= modules < compiled <= functions
