"""The driver of GPUs is started ahead by commands that may count on a GPU of their process, and by no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.tools.fake_driver import ASKS_ONLY, build_driver, calls_of, with_driver

CODE = """
from importlib import util
util.find_spec = lambda name: {found}
from papilio.cli.early import begin_driver
begin_driver({words})
"""


def called(folder: Path, words: list[str], visible: str, has_cupy: bool = True) -> set[str]:
    """Return what is called of a driver that lies in a folder."""
    build_driver(folder)
    log = folder / "calls"
    log.touch()
    code = CODE.replace("{found}", "name" if has_cupy else "None").replace("{words}", repr(words))
    environment = with_driver(folder, log, CUDA_VISIBLE_DEVICES=visible)
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment)
    assert process.wait(timeout=600) == 0
    return calls_of(log, process.pid)


@pytest.mark.parametrize(
    "words",
    [["count", "butterfly", "store"], ["decompose", "wing", "store", "--engine", "gpu"]],
    ids=" ".join,
)
def test_one_gpu_gets_a_context(tmp_path: Path, words: list[str]) -> None:
    assert called(tmp_path, words, "1") > {"cuInit", "cuDevicePrimaryCtxRetain"}


@pytest.mark.parametrize(("visible", "has_cupy"), [("0,1", True), ("", True), ("1", False)])
def test_gpus_of_workers_or_of_no_use_get_none(tmp_path: Path, visible: str, has_cupy: bool) -> None:
    calls = called(tmp_path, ["count", "butterfly", "store"], visible, has_cupy)
    assert {"cuInit"} < calls <= ASKS_ONLY


@pytest.mark.parametrize(
    "words",
    [
        [], ["--help"], ["info", "store"], ["plan", "butterfly", "store"], ["count", "--help"],
        ["count", "butterfly", "store", "--engine", "cpu"], ["count", "butterfly", "store", "--engine=cpu"],
        ["count", "butterfly", "store", "--cluster", "cuda"], ["count", "butterfly", "store", "--cluster=tcp://host:1"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_other_commands_leave_the_driver_alone(tmp_path: Path, words: list[str]) -> None:
    assert called(tmp_path, words, "1") == set()
