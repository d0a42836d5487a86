"""Correct kernels pass on every schedule, and give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emulator import EmulatorDevice, EmulatorKernel, find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no GCC found ($CXX, g++, c++)")

_FOLDER = Path(__file__).parent / "right_kernels"
Case = Callable[[EmulatorDevice, EmulatorKernel, np.random.Generator], None]
_CASES: dict[str, Case] = {}


def _case(function: Case) -> Case:
    _CASES[getattr(function, "__name__", "").removeprefix("_")] = function
    return function


def _ints(rng: np.random.Generator, size: int, below: int) -> NDArray[np.int32]:
    return rng.integers(0, below, size).astype(np.int32)


@_case
def _reduction(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, out = _ints(rng, 1000, 2**31 - 1), np.zeros(1, np.uint64)
    kernel((3,), (256,), (given, out, np.int32(1000)), shared_mem=2048)
    assert int(out[0]) == int(given.sum(dtype=np.int64))


@_case
def _warp_tree(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, out = _ints(rng, 128, 1000), device.xp.empty(4, np.int32)
    kernel((1,), (128,), (given, out))
    assert out.tolist() == given.reshape(4, 32).sum(axis=1).tolist()


@_case
def _histogram(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, out = rng.integers(0, 256, 2000).astype(np.uint8), np.zeros(256, np.uint32)
    kernel((3,), (96,), (given, out, np.int32(2000)))
    assert out.tolist() == np.bincount(given, minlength=256).tolist()


@_case
def _scan(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, out = _ints(rng, 1024, 1000), device.xp.empty(1024, np.int32)
    kernel((1,), (1024,), (given, out))
    assert out.tolist() == (np.cumsum(given) - given).tolist()


@_case
def _work_queue(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, counter, total = _ints(rng, 200, 40), np.zeros(1, np.int32), np.zeros(1, np.uint64)
    owner = device.xp.empty(200, np.int32)
    kernel((4,), (64,), (given, np.int32(200), counter, owner, total))
    assert int(total[0]) == int(given.sum())
    assert set(owner.tolist()) <= set(range(4))
    assert len(set(owner.tolist())) >= 3, "the resident blocks share the work"
    assert int(counter[0]) == 204


@_case
def _match_any(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, wide = _ints(rng, 256, 12), rng.integers(0, 6, 256).astype(np.int64)
    out, wide_out = np.zeros(12, np.uint32), np.zeros(6, np.uint32)
    kernel((2,), (128,), (given, wide << 40, out, wide_out))
    assert out.tolist() == np.bincount(given, minlength=12).tolist()
    assert wide_out.tolist() == np.bincount(wide, minlength=6).tolist()


@_case
def _split_warp(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, out = _ints(rng, 64, 100), device.xp.empty(128, np.int32)
    kernel((1,), (64,), (given, out))
    for first in (0, 32):
        warp = given[first : first + 32]
        sums = [int(warp[warp % 3 == value % 3].sum()) for value in warp]
        assert out[first : first + 32].tolist() == sums
        assert out[64 + first : 80 + first].tolist() == [sum(sums[:16])] * 16


@_case
def _last_block(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, done, out = _ints(rng, 320, 1000), np.zeros(1, np.uint32), device.xp.empty(1, np.uint64)
    kernel((10,), (32,), (given, device.xp.empty(10, np.uint64), done, out))
    assert int(out[0]) == int((given & 1).sum())


@_case
def _mailbox(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given, out = _ints(rng, 32, 1000), device.xp.empty(32, np.int32)
    kernel((1,), (64,), (given, out))
    assert out.tolist() == given[::-1].tolist()


@_case
def _spin_lock(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    given = _ints(rng, 192, 1000)
    lock, total, most = (np.zeros(4, np.int32) for _ in range(3))
    kernel((3,), (64,), (given, lock, total, most))
    assert total.tolist() == [int(given[given % 4 == k].sum()) for k in range(4)]
    assert most.tolist() == [int(given[given % 4 == k].max()) for k in range(4)]


@_case
def _vectors(device: EmulatorDevice, kernel: EmulatorKernel, rng: np.random.Generator) -> None:
    width, height = 21, 13
    given = rng.integers(0, 2**32, (height, width, 4)).astype(np.uint32)
    out = device.xp.empty((height, width, 2), np.uint64)
    shape = np.array((width, height), dtype=[("width", np.int32), ("height", np.int32)])[()]
    kernel((2, 4), (16, 4), (given, out, shape, np.bool_(True)))
    expected = 2 * (given.astype(np.uint64) * np.array([1, 10, 100, 1000], np.uint64)).sum(axis=2)
    assert (out[:, :, 0] == expected).all()
    assert (
        out[:, :, 1] == np.arange(width, dtype=np.uint64) + 1000 * np.arange(height, dtype=np.uint64)[:, None]
    ).all()


def test_every_kernel_has_a_case() -> None:
    assert {path.stem for path in _FOLDER.glob("*.cu")} == set(_CASES)


@pytest.mark.parametrize("arch", [750, 900])
@pytest.mark.parametrize("name", sorted(_CASES))
def test_right_kernel(name: str, arch: int) -> None:
    for seed in range(12):
        device = EmulatorDevice(seed=seed, arch=arch, max_steps=50_000_000)
        kernel = device.loads((_FOLDER / f"{name}.cu").read_text(), f"{name}.cu", {}).get_function(name)
        _CASES[name](device, kernel, np.random.default_rng(seed))


@pytest.mark.parametrize("name", ["reduction", "scan", "work_queue", "last_block"])
def test_portable_context_switch(name: str) -> None:
    for seed in range(3):
        device = EmulatorDevice(seed=seed, ucontext=True)
        kernel = device.loads((_FOLDER / f"{name}.cu").read_text(), f"{name}.cu", {}).get_function(name)
        _CASES[name](device, kernel, np.random.default_rng(seed))
