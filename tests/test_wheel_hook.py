"""``pip install .`` packages machine code for this machine, in a limited time, and never fails for want of it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT
from tools import build_machine_code
from tools.build_machine_code import BuildError, Built

pytest.importorskip("hatchling", reason="hatchling is not installed")

from hatchling.builders.wheel import WheelBuilder

from tools import wheel_hook

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What has been asked to be compiled; a file is made instead."""
    monkeypatch.delenv(wheel_hook.VARIABLE, raising=False)
    calls: list[dict[str, Any]] = []

    def build(folder: Path, **given: Any) -> Built:
        calls.append(given)
        folder.mkdir()
        (folder / "code.x86-64-v3").write_bytes(b"code")
        return Built([folder / "code.x86-64-v3"], given["seconds"] >= 60)

    monkeypatch.setattr(build_machine_code, "build", build)
    return calls


Make = Callable[[Path], Any]


@pytest.fixture
def make_hook() -> Make:
    """Make the hook for a source folder as hatchling does, by the path in the project's settings."""

    def make(root: Path) -> Any:
        builder = WheelBuilder(str(ROOT))
        (settings,) = builder.config.hook_config.values()
        assert ROOT / settings["path"] == Path(wheel_hook.__file__)
        return wheel_hook.MachineCode(
            str(root), settings, builder.config, builder.metadata, "", builder.PLUGIN_NAME, builder.app
        )

    return make


def initialize(hook: Any, version: str = "standard") -> dict[str, str]:
    """Return the files that the hook adds to a wheel."""
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize(version, data)
    return dict(data["force_include"])


def test_code_is_put_into_the_wheel(
    make_hook: Make, asked: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = make_hook(tmp_path)
    ((path, place),) = initialize(hook).items()
    assert asked == [{"here": True, "seconds": 60.0}]
    assert place == "papilio/kernels/machine_code/code.x86-64-v3"
    assert Path(path).read_bytes() == b"code"
    assert "papilio: 1 kernels compiled in " in capsys.readouterr().err
    hook.finalize("standard", {}, "wheel")
    assert not Path(path).exists()


def test_the_limit_is_reported(
    make_hook: Make, asked: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv(wheel_hook.VARIABLE, "2.5")
    hook = make_hook(tmp_path)
    assert len(initialize(hook)) == 1
    hook.finalize("standard", {}, "wheel")
    assert asked == [{"here": True, "seconds": 2.5}]
    assert "the limit of 2.5 s was reached, and first calls compile the rest" in capsys.readouterr().err


@pytest.mark.parametrize("why", ["variable", "packaged", "editable"])
def test_nothing_is_compiled_where_it_is_not_wanted(
    why: str, make_hook: Make, asked: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "variable":
        monkeypatch.setenv(wheel_hook.VARIABLE, "0")
    if why == "packaged":
        (tmp_path / wheel_hook.FOLDER).mkdir(parents=True)
        (tmp_path / wheel_hook.FOLDER / "code.x86-64-v2").touch()
    hook = make_hook(tmp_path)

    def get_requires_for_build_editable() -> list[str]:
        required: list[str] = hook.dependencies()
        return required

    assert initialize(hook, "editable" if why == "editable" else "standard") == {}
    assert (get_requires_for_build_editable() if why == "editable" else hook.dependencies()) == []
    assert asked == []


def test_a_limit_that_is_no_number_is_an_error(
    make_hook: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wheel_hook.VARIABLE, "soon")
    with pytest.raises(ValueError, match="PAPILIO_COMPILE_SECONDS is 'soon'; set it to a number of seconds"):
        make_hook(tmp_path).dependencies()


def test_a_build_without_a_compiler_succeeds(
    make_hook: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path, **given: Any) -> Built:
        raise BuildError("ModuleNotFoundError: No module named 'numba'")

    monkeypatch.delenv(wheel_hook.VARIABLE, raising=False)
    monkeypatch.setattr(build_machine_code, "build", fail)
    assert initialize(make_hook(tmp_path)) == {}
    why = "ModuleNotFoundError: No module named 'numba'"
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"papilio: no kernels are compiled ahead ({why}); first calls compile them"


@pytest.mark.usefixtures("asked")
def test_an_isolated_build_gets_what_the_commands_import(make_hook: Make, tmp_path: Path) -> None:
    required = set(map(Requirement, make_hook(tmp_path).dependencies()))
    assert {each.name for each in required} == set(wheel_hook.IMPORTED)
    assert required < set(map(Requirement, PROJECT["project"]["dependencies"]))


def test_containers_are_built_with_what_the_hook_needs() -> None:
    """Its folder is copied beside the package."""
    copied = (ROOT / "deploy" / "container" / "Containerfile").read_text("utf-8")
    assert "COPY tools ./tools\n" in copied
    assert os.path.dirname(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["path"]) == "tools"
