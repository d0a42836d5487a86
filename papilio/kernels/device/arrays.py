"""Orders and choices of elements of device arrays (``arrays.cu``), for what every family does between its kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from papilio.kernels.device.protocol import Device, Module, launch_over


def load_arrays(device: Device) -> Module:
    """Return the kernels; first called where a graph is prepared, so that they are compiled meanwhile."""
    return device.load("arrays", {})


def order_rising(device: Device, keys: Any) -> Any:
    """Return the order of rising ``keys``, uint64 below 2^32, which are used up; ties by place. int64 on the device."""
    module, count = load_arrays(device), np.int64(keys.size)
    keys = device.xp.ascontiguousarray(keys)
    launch_over(device, module, "number_keys", keys.size, keys, count)
    keys.sort()
    order = device.xp.empty(keys.size, dtype=np.int64)
    launch_over(device, module, "low_halves", keys.size, keys, count, order)
    return order


def find_least(device: Device, values: Any, least: int) -> Any:
    """Return the places of ``values``, int32, that are at least ``least``, ascending; int64 on the device."""
    xp, module, count = device.xp, load_arrays(device), np.int64(values.size)
    upto = xp.empty(values.size, dtype=np.int64)
    launch_over(device, module, "mark_least", values.size, values, count, np.int32(least), upto)
    xp.cumsum(upto, out=upto)
    n_found = int(device.to_host(upto[-1:])[0]) if values.size else 0
    places = xp.empty(n_found, dtype=np.int64)
    launch_over(device, module, "gather_marked", values.size, upto, count, places)
    return places


def lengths_of(device: Device, offsets: Any) -> Any:
    """Return the length of each row, int32, from where each one begins and the last one ends."""
    lengths = device.xp.empty(offsets.size - 1, dtype=np.int32)
    launch_over(
        device, load_arrays(device), "row_lengths", lengths.size, offsets, np.int64(lengths.size), lengths
    )
    return lengths
