"""Copies to the device arrive whole, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest

from papilio.kernels.device.discovery import held_device_bytes, list_gpus
from tests.tools.devices import cuda_device

MIB = 1 << 20


@pytest.mark.gpu
@pytest.mark.parametrize("n_bytes", [0, 1000, 64 * MIB - 4, 64 * MIB, 64 * MIB + 4, 200 * MIB + 12])
def test_copies_are_equal_and_ordered_with_other_work(n_bytes: int) -> None:
    device = cuda_device()
    host = np.random.default_rng(n_bytes).integers(0, 2**32, n_bytes // 4, dtype=np.uint32)
    for part in (host, host[::-1], host[1:]):
        # Work on memory that the copy may be given next.
        spoilt = device.xp.zeros(max(1, part.size), np.uint32)
        for _ in range(50):
            spoilt += 1
        del spoilt
        copy = device.to_device(part)
        assert (copy.shape, copy.dtype) == (part.shape, part.dtype)
        assert np.array_equal(device.to_host(copy), part)


def test_a_process_without_a_gpu_holds_no_device_memory() -> None:
    pytest.importorskip("cupy")
    if list_gpus():
        pytest.skip("there is a GPU")
    assert held_device_bytes() == 0


@pytest.mark.gpu
def test_device_memory_that_was_held_is_told() -> None:
    array = cuda_device().xp.zeros(3 * MIB, np.uint8)
    assert held_device_bytes() >= array.nbytes
