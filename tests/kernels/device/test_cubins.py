"""Machine code of a wheel is found by content and architecture, never used for another source, and not needed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papilio.kernels.device import compile as cubins
from papilio.kernels.device.compile import find_cubin, name_cubin, read_source
from papilio.kernels.device.constants import with_constants
from tests.conftest import ROOT
from tests.tools.devices import cuda_device

TEXT = "#ifndef SIDE\n#define SIDE 0\n#endif\n"
CODE = b"code"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(cubins, "FOLDER", tmp_path)
    return tmp_path


def test_names_follow_text_defines_architecture_compiler_and_content() -> None:
    names = [
        name_cubin(TEXT, {}, 90, 13, CODE), name_cubin(TEXT + " ", {}, 90, 13, CODE),
        name_cubin(TEXT, {"SIDE": 1}, 90, 13, CODE), name_cubin(TEXT + "OTHER", {"OTHER": 0}, 90, 13, CODE),
        name_cubin(TEXT, {}, 80, 13, CODE), name_cubin(TEXT, {}, 90, 12, CODE), name_cubin(TEXT, {}, 90, 13, b""),
    ]  # fmt: skip
    assert len(set(names)) == len(names)
    assert name_cubin(TEXT, {"SIDE": 0}, 90, 13, CODE) == names[0], "a default that is given changes no code"
    assert name_cubin(TEXT, {"OTHER": 0}, 90, 13, CODE) == names[0], "nor does what it does not name"


def test_code_runs_on_later_devices_of_its_major_version(folder: Path) -> None:
    for arch in (80, 86, 100):
        (folder / name_cubin(TEXT, {}, arch, 13, CODE)).write_bytes(CODE)
    found = {
        capability: None if path is None else int(path.suffixes[-2].removeprefix(".sm_"))
        for capability in ("75", "80", "86", "89", "90", "100", "103", "120")
        for path in [find_cubin(TEXT, {}, capability, 13)]
    }
    assert found == {
        "75": None, "80": 80, "86": 86, "89": 86, "90": None, "100": 100, "103": 100, "120": None,
    }  # fmt: skip
    assert find_cubin(TEXT, {"SIDE": 1}, "80", 13) is None


def test_code_of_a_newer_compiler_than_the_driver_is_not_used(folder: Path) -> None:
    path = folder / name_cubin(TEXT, {}, 90, 13, CODE)
    path.write_bytes(CODE)
    assert [find_cubin(TEXT, {}, "90", cuda) for cuda in (12, 13, 14)] == [None, path, path]


@pytest.mark.parametrize("damaged", [b"", CODE[:-1], CODE + b"\0", CODE.upper()])
def test_a_file_that_was_altered_is_not_used(folder: Path, damaged: bytes) -> None:
    """The driver trusts the sizes in a file, and crashes on one that was cut."""
    path = folder / name_cubin(TEXT, {}, 90, 13, CODE)
    path.write_bytes(CODE)
    assert find_cubin(TEXT, {}, "90", 13) == path
    path.write_bytes(damaged)
    assert find_cubin(TEXT, {}, "90", 13) is None


def test_what_is_built_is_found_and_what_is_left_is_removed(folder: Path) -> None:
    pytest.importorskip("tests.kernels.device.test_compile", reason="NVRTC cannot be used")
    from tools.build_cubins import build

    (folder / name_cubin(TEXT, {}, 90, 13, CODE)).write_bytes(CODE)
    (made,) = build([("arrays", 90)], folder)
    assert list(folder.iterdir()) == [made]
    assert made.read_bytes()[:4] == b"\x7fELF"
    assert find_cubin(read_source("arrays.cu"), with_constants({}), "90", 99) == made
    written = made.stat().st_mtime_ns
    assert build([("arrays", 90)], folder) == [made]
    assert made.stat().st_mtime_ns == written, "what is there is not compiled again"


@pytest.mark.gpu
@pytest.mark.parametrize("damaged", [False, True])
def test_a_device_runs_what_the_wheel_has_and_compiles_the_rest(
    monkeypatch: pytest.MonkeyPatch, folder: Path, damaged: bool
) -> None:
    from papilio.kernels.device import cuda
    from papilio.kernels.device.arrays import order_rising
    from tools.build_cubins import build

    cuda_device()
    device = cuda.CudaDevice()
    (made,) = build([("arrays", int(cuda.cupy.cuda.Device().compute_capability))], folder)
    if damaged:
        made.write_bytes(made.read_bytes()[:100])
    compiled = []
    whole = cuda.cupy.RawModule

    def make(**given: Any) -> Any:
        compiled.append("code" in given)
        return whole(**given)

    monkeypatch.setattr(cuda.cupy, "RawModule", make)
    keys = np.array([5, 3, 9, 3], dtype=np.uint64)
    assert device.to_host(order_rising(device, device.to_device(keys))).tolist() == [1, 3, 0, 2]
    assert compiled == [damaged]


def test_a_package_holds_what_is_built() -> None:
    """The folder is no part of the repository; without its line the build tool would leave it out."""
    pattern = f"/{cubins.FOLDER.relative_to(ROOT).as_posix()}/*.cubin"
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert pattern in build["artifacts"]
    assert f"{pattern.removesuffix('*.cubin')}\n" in (ROOT / ".gitignore").read_text()
