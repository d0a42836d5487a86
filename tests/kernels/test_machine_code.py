"""Machine code is found by its sources and the processor, is never used when damaged, and is called as Numba would."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from papilio.kernels import code_files
from papilio.kernels.jit import compiled
from tests.conftest import ROOT
from tests.tools.commands import Run
from tools.build_machine_code import BuildError, build
from tools.machine_code_steps import COMMANDS, GRAPHS, choose_targets


class Row(NamedTuple):
    """As kernels are given."""

    first: int
    ids: Any


@compiled
def weigh(row: Row, grid: Any, word: np.uint64, share: float, signed: bool, nothing: None) -> Any:
    """Use every kind of argument, and return every kind of result."""
    total = row.first
    for i in range(row.ids.size):
        total += (i + 1) * np.int64(row.ids[i])
    corner = grid[grid.shape[0] - 1, 1]
    return total, word, share * 2, signed, corner


@compiled
def add_rest(values: Any, by: int, at: int) -> None:
    """Write the remainders of a division."""
    if at >= values.size:
        raise AssertionError
    values[at] += values[at] % by


def test_the_commands_that_a_wheel_is_compiled_by_are_commands(run: Run) -> None:
    for command in (*GRAPHS, *COMMANDS):  # help is printed where all other words are known
        done = run(*command.split(), "--help")
        assert done.exit_code == 0, done.stderr


WORD = np.uint64(2**63 + 5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("kind", ["whole", "strided", "read-only", "empty"])
def test_arguments_and_results_are_those_of_the_function(dtype: Any, kind: str) -> None:
    ids = np.arange(200, dtype=dtype)
    ids = {"strided": ids[::3], "empty": ids[:0]}.get(kind, ids)
    ids.flags.writeable = kind != "read-only"
    grid = np.arange(12).reshape(3, 4)
    for laid in (grid, np.asfortranarray(grid), grid[:, ::2]):
        given = Row(-7, ids), laid, WORD, -0.25, np.bool_(True), None
        found = weigh(*given)
        assert found == cast(Any, weigh).__wrapped__(*given)
        assert list(map(type, found)) == [int, int, float, bool, int]


def test_arguments_may_be_named_and_numbers_have_all_widths() -> None:
    values = np.array([7, 8], np.int64)
    assert add_rest(values, at=1, by=np.uint8(5)) is None
    assert values.tolist() == [7, 11]
    for by, at in ((0, 1), (5, 2)):
        with pytest.raises(ArithmeticError, match=r"add_rest.*failed with status 1"):
            add_rest(values, by, at)
    with pytest.raises(TypeError, match="cannot take arguments of type str"):
        add_rest(values, "5", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        add_rest(values, 5)  # type: ignore[call-arg]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty place for machine code."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


def double(x: int) -> int:
    return 2 * x


def call_anew(folder: Path) -> tuple[int, list[str]]:
    """Call a function that this process has not loaded, and return the answer and the files written."""
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    answer = compiled(double)(21)
    after = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    return answer, [name for name, written in after.items() if before.get(name) != written]


@pytest.mark.parametrize("damage", [lambda code: b"", lambda code: code[:-1], lambda code: code.replace(b"q", b"d", 1)])
def test_a_damaged_file_is_compiled_again(damage: Any, folder: Path) -> None:
    answer, (name,) = call_anew(folder)
    assert answer == 42
    assert call_anew(folder) == (42, [])
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(damage(whole))
    assert (folder / name).read_bytes() != whole
    assert call_anew(folder) == (42, [name])
    assert call_anew(folder) == (42, [])


def test_code_for_another_processor_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = call_anew(folder)[1]
    (folder / name).rename(folder / f"{name.split('.')[0]}.other")
    assert call_anew(folder) == (42, [name])
    monkeypatch.setattr(code_files, "PACKAGED", folder)
    (folder / name).rename(folder / f"{name.split('.')[0]}.x86-64-v3")
    monkeypatch.setattr(code_files.this_machine(), "levels", [])
    assert call_anew(folder) == (42, [name])


def test_levels_are_those_that_the_processor_has() -> None:
    """A feature that LLVM has another name for would never be found."""
    import llvmlite.binding as llvm

    if not llvm.get_process_triple().startswith("x86_64"):
        pytest.skip("the levels are of x86-64")
    features = llvm.get_host_cpu_features()
    assert {name for needed in code_files.LEVELS.values() for name in needed.split()} <= set(features)
    assert set(code_files.LEVELS["x86-64-v2"].split()) < set(code_files.LEVELS["x86-64-v3"].split())


def test_a_wheel_holds_what_is_built() -> None:
    """The folders are no part of the repository; without their lines the build tool would leave them out."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert f"/{code_files.PACKAGED.relative_to(ROOT).as_posix()}/*" in build["artifacts"]
    assert f"/{code_files.PACKAGED.relative_to(ROOT).as_posix()}/\n" in (ROOT / ".gitignore").read_text()


ANSWER = """
import sys
from pathlib import Path
from papilio.kernels import code_files, jit
code_files.PACKAGED = Path(sys.argv[1])
from papilio.cli import main
try:
    main(["count", "butterfly", sys.argv[2], "--engine", "cpu", "--quiet"])
finally:
    print("numba" in sys.modules)
"""

COUNT = ("count butterfly votes --engine cpu",)


def answer(packaged: Path, cache: Path) -> list[str]:
    """Count with packaged code in a new process; return the count, and whether the compiler was imported."""
    graph = ROOT / "papilio" / "data" / "southern-women.csv"
    done = subprocess.run(
        [sys.executable, "-c", ANSWER, str(packaged), str(graph)], capture_output=True, text=True, timeout=600,
        check=True, cwd=ROOT, env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
    )  # fmt: skip
    return done.stdout.split()


def test_packaged_code_answers_without_a_compiler(tmp_path: Path) -> None:
    """It is compiled once: a second build compiles what is missing for a target, and removes what is not needed."""
    packaged, cache = tmp_path / "packaged", tmp_path / "cache"
    built = build(packaged, commands=COUNT, ahead=False, processes=1)
    assert built.finished
    assert len(built.files) >= len(choose_targets(here=False)) * 5
    assert answer(packaged, cache) == ["341", "False"]
    assert not cache.exists(), "nothing was compiled"

    written = {path.name: path.stat().st_mtime_ns for path in built.files}
    missing = sorted(written)[-1]
    (packaged / missing).unlink()
    (packaged / f"other.{choose_targets(here=True)[0].name}").touch()
    (packaged / "cut.part").touch()
    again = build(packaged, commands=COUNT, ahead=False, processes=1)
    assert {path.name for path in again.files} == set(written)
    stem = missing.partition(".")[0]
    for path in again.files:
        assert (path.stat().st_mtime_ns == written[path.name]) is not path.name.startswith(f"{stem}.")

    for path in packaged.glob(f"{stem}.*"):
        path.write_bytes(path.read_bytes()[:-1])
    assert answer(packaged, cache) == ["341", "True"]
    (compiled_here,) = cache.iterdir()
    assert compiled_here.name.startswith(f"{stem}.")


def test_a_limit_of_time_ends_a_build(tmp_path: Path) -> None:
    (tmp_path / "kept.x86-64-v3").touch()
    built = build(tmp_path, here=True, seconds=0)
    assert built == ([tmp_path / "kept.x86-64-v3"], False), "what fits the sources is not known"


def test_a_build_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="papilio count butterfly nothing ended with 3"):
        build(tmp_path, commands=("count butterfly nothing",), ahead=False, processes=1)


def test_code_for_this_very_processor_may_be_packaged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As ``pip install`` makes it where there are no levels."""
    (name,) = call_anew(folder)[1]
    monkeypatch.setattr(code_files, "PACKAGED", tmp_path / "packaged")
    code_files.PACKAGED.mkdir()
    (folder / name).rename(code_files.PACKAGED / name)
    monkeypatch.setattr(code_files.this_machine(), "levels", [])
    assert call_anew(folder) == (42, [])
    assert code_files.count_packaged() == (code_files.this_machine().target.name, 1)
