"""What compiled functions must not hold, since it takes seconds to compile."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT


def functions_with(decorator: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted((ROOT / "papilio").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and decorator in map(ast.unparse, node.decorator_list):
                yield f"{path.relative_to(ROOT)}:{node.name}", node


ALLOCATING = dict(functions_with("allocating"))
FUNCTIONS = dict(functions_with("compiled")) | dict(functions_with("inlined")) | ALLOCATING

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


def test_no_compiled_function_brings_text_along() -> None:
    assert len(FUNCTIONS) > 200
    found = [
        f"{name}: {ast.unparse(node)}"
        for name, function in FUNCTIONS.items()
        for node in ast.walk(function)
        if is_slow(node)
    ]
    assert found == []


ARRAYS = {"Bools", "Counters", "EdgeIds", "Ids", "Ids32", "Ints", "NDArray", "Rows", "Pairs", "Sums", "Words"}


def test_arrays_are_made_by_callers() -> None:
    """What makes arrays takes twice as long to compile; and a view in a tuple that is returned would not be kept."""
    assert [name for name in ALLOCATING if name.startswith("papilio/kernels")] == []
    returning = [
        name
        for name, function in FUNCTIONS.items()
        if name not in ALLOCATING
        and function.returns is not None
        and ARRAYS & {each.id for each in ast.walk(function.returns) if isinstance(each, ast.Name)}
    ]
    assert returning == []
