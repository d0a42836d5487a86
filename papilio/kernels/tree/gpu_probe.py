"""Launches of the kernels that walk probes on the device; see :mod:`papilio.kernels.probe` and ``probe.cuh``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.device.protocol import Device, Kernel
from papilio.kernels.tree.layout import add_aligned

_WARPS, _NEAR_WORDS = 4, 1024
"""Warps of a block, and words of shared memory of each."""

PROBE_WARPS = 8
"""Warps, of a probe each, that a multiprocessor holds at once whatever memory they take."""

_SLAB_FRACTION = 0.25
"""Maximum share of free device memory for the matrices of all warps."""

_MAX_INT = 2**31 - 1


def launch_probes(
    device: Device,
    kernel: Kernel,
    n_probes: int,
    parts: Sequence[NDArray[np.int64]],
    before: Sequence[Any],
    after: Sequence[Any],
) -> None:
    """Launch a kernel with a warp per probe, for as many warps as have room in memory.

    The kernel walks the probes, at least one, by ``for_each_probe`` of ``probe.cuh``. ``parts`` are the 32-bit words of
    each part of the memory that a probe takes; each array, int64, holds one value for every probe. ``before`` and
    ``after`` are the arguments before the number of probes, and after the working memory. Integers are passed as int32,
    larger ones as the largest int32.
    """
    far_words = max(4, int(add_aligned(parts).max(initial=0)))
    room = int(_SLAB_FRACTION * device.free_bytes()) // (4 * _WARPS * far_words)
    blocks = max(1, min(-(-n_probes // _WARPS), room))
    slab = device.xp.empty(blocks * _WARPS * far_words, dtype=np.uint32)
    arguments = *before, n_probes, _NEAR_WORDS, slab, np.int64(far_words), *after
    given = tuple(np.int32(min(each, _MAX_INT)) if isinstance(each, int) else each for each in arguments)
    kernel((blocks,), (32 * _WARPS,), given, shared_mem=4 * _WARPS * _NEAR_WORDS)
