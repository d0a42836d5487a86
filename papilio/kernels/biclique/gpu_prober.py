"""Copies of an index on a device for the probes on the host; see :mod:`.prober`."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from papilio.kernels.biclique.core import Rows
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.biclique.index import BicliqueIndex, lay_graph
from papilio.kernels.biclique.items import BicliqueItems
from papilio.kernels.biclique.local import LeftGraph
from papilio.kernels.biclique.probe import Children
from papilio.kernels.biclique.probe_loops import Near
from papilio.kernels.biclique.prober import BicliqueProber
from papilio.kernels.device.arrays import copy_arrays, take, take_rows
from papilio.kernels.device.protocol import Device
from papilio.kernels.probe import Rates


def probe_device(
    device: Device, index: BicliqueDeviceIndex, algorithm: str, rates: Rates, threads: int
) -> BicliqueProber:
    """Return the prober of an index on a device."""
    near_of = partial(rows_near_on_device, device, index)
    return BicliqueProber(index, algorithm, near_of, partial(copy_index, device, index), rates, threads)


def rows_near_on_device(device: Device, index: BicliqueDeviceIndex, children: Children) -> Near:
    """Copy the rows that probes read, as :func:`~papilio.kernels.biclique.probe_loops.rows_near`."""
    arrays, has_root = index.arrays, children.roots >= 0
    roots = children.roots[has_root].astype(np.int64)
    places, ends, common = np.zeros((3, has_root.size), np.int64)
    with device.guard():
        kept, (hop,) = take_rows(device, arrays["hop_indptr"], np.unique(roots), arrays["hop"])
        is_read = np.zeros(index.n_left, np.bool_)
        is_read[hop] = is_read[roots] = True
        lefts, (columns,) = take_rows(device, arrays["indptr"], np.flatnonzero(is_read), arrays["columns"])
        begins = device.to_host(take(device, arrays["hop_indptr"], device.to_device(roots)))
        at = children.places[has_root]
        common[has_root] = device.to_host(take(device, arrays["hop_common"], device.to_device(at)))
    places[has_root], ends[has_root] = at - begins + kept[roots], kept[roots + 1]
    return Near(Rows(lefts, columns), hop, places, ends, common)


def copy_index(device: Device, index: BicliqueDeviceIndex) -> tuple[BicliqueIndex, LeftGraph]:
    items: dict[str, Any] = {each.name: getattr(index, each.name) for each in fields(BicliqueItems)}
    names = ("indptr", "columns", "left_ids", "right_ids", "hop_indptr", "hop", "hop_common")
    with device.guard():
        copied = copy_arrays(device, "the index of the probes", {name: index.arrays[name] for name in names})
    whole = BicliqueIndex(**items | copied)
    return whole, lay_graph(whole)
