"""Copies of rows on a device for the probes of cliques on the host; see :mod:`.prober`."""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.kernels.clique.gpu_graph import DeviceLater
from papilio.kernels.clique.maximal_loops import Earlier
from papilio.kernels.clique.order import Later
from papilio.kernels.clique.prober import Roots
from papilio.kernels.device.arrays import take_rows
from papilio.kernels.device.protocol import Device


def copy_later(device: Device, later: DeviceLater, roots: Roots) -> Later:
    """Copy the rows of some roots, and of their later neighbours; all others are empty."""
    return _copy_rows(device, later, roots, None)[0]


def copy_both(device: Device, later: DeviceLater, earlier: tuple[Any, Any], roots: Roots) -> tuple[Later, Earlier]:
    """Copy the rows of some roots, and the later rows of their neighbours of both kinds; all others are empty."""
    return _copy_rows(device, later, roots, earlier)


def _copy_rows(
    device: Device, later: DeviceLater, roots: Roots, earlier: tuple[Any, Any] | None
) -> tuple[Later, Earlier]:
    roots = np.unique(roots)
    is_read = np.zeros(later.indptr.size - 1, np.bool_)
    back = Earlier(np.zeros(is_read.size + 1, np.int64), np.empty(0, np.int32))
    with device.guard():
        is_read[roots] = True
        is_read[take_rows(device, later.indptr, roots, later.ids)[1][0]] = True
        if earlier is not None:
            indptr, (ids,) = take_rows(device, earlier[0], roots, earlier[1])
            back = Earlier(indptr, ids)
            is_read[ids] = True
        indptr, (ids,) = take_rows(device, later.indptr, np.flatnonzero(is_read), later.ids)
    return Later(indptr, ids, np.empty(0, np.int64), np.empty(0, np.int32)), back
