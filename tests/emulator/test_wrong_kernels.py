"""Every claim of the emulator: a kernel that breaks a rule fails, with the lines concerned."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.emulator import EmulatorDevice, EmulatorError, find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no GCC found ($CXX, g++, c++)")

_FOLDER = Path(__file__).parent / "wrong_kernels"
_FILES = sorted(path.stem for path in _FOLDER.glob("*.cu"))


@dataclass(frozen=True)
class _Launch:
    """How a wrong kernel is launched; by default one block of 64 threads."""

    grid: int = 1
    block: int = 64
    shared_bytes: int = 0
    uninitialized: bool = False
    seeds: int = 6


_LAUNCHES = {
    "implicit_warp_sync": _Launch(block=32),
    "shuffle_is_no_barrier": _Launch(block=32),
    "partial_syncwarp": _Launch(block=32),
    "unwritten_shared": _Launch(block=32),
    "wide_shift": _Launch(block=32),
    "unwritten_counter": _Launch(shared_bytes=32),
    "unwritten_global": _Launch(uninitialized=True),
    "mask_without_caller": _Launch(block=32),
    "mask_names_finished": _Launch(block=32),
    "mask_names_absent": _Launch(block=48),
    "masks_differ": _Launch(block=32),
    "warp_diverged": _Launch(block=32),
    "out_of_bounds_shared": _Launch(shared_bytes=256),
    "block_race": _Launch(grid=6),
    "plain_counter": _Launch(grid=2, block=1),
    "endless_loop": _Launch(seeds=1),
    "flag_without_fence": _Launch(grid=2),
    "fence_too_narrow": _Launch(grid=2),
}


def _run(name: str, seed: int) -> str:
    text = (_FOLDER / f"{name}.cu").read_text()
    launch = _LAUNCHES.get(name, _Launch())
    device = EmulatorDevice(seed=seed, max_steps=100_000)
    kernel = device.loads(text, f"{name}.cu", {}).get_function(name)
    given = np.arange(64, dtype=np.int32)
    out = device.xp.empty(128, np.int32) if launch.uninitialized else np.zeros(128, np.int32)
    with pytest.raises(EmulatorError) as caught:
        kernel((launch.grid,), (launch.block,), (given, out), shared_mem=launch.shared_bytes)
    return str(caught.value)


@pytest.mark.parametrize("name", _FILES)
def test_wrong_kernel_fails_with_its_lines(name: str) -> None:
    lines = (_FOLDER / f"{name}.cu").read_text().splitlines()
    expected = lines[0].removeprefix("// fails: ")
    marked = {f"{name}.cu:{number}" for number, line in enumerate(lines, 1) if line.endswith("// <-- here")}
    named: set[str] = set()
    for seed in range(_LAUNCHES.get(name, _Launch()).seeds):
        message = _run(name, seed)
        assert re.search(expected, message), message
        assert re.search(r"kernel \w+: thread \(\d+,0,0\) of block \(\d+,0,0\)", message), message
        found = set(re.findall(rf"{name}\.cu:\d+", message))
        assert not marked or found & marked, message
        named |= found
    assert marked <= named
