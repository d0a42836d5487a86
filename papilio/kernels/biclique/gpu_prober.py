"""Copies of an index on a device for the probes on the host; see :mod:`.prober`."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.biclique.choice import Children
from papilio.kernels.biclique.core import Ids32, Rows, share_row
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.biclique.index import BicliqueIndex, lay_graph
from papilio.kernels.biclique.items import BicliqueItems
from papilio.kernels.biclique.local import LeftGraph
from papilio.kernels.biclique.probe_loops import Near, NearGraph
from papilio.kernels.biclique.prober import BicliqueProber
from papilio.kernels.device.arrays import copy_arrays, take, take_rows
from papilio.kernels.device.protocol import Device
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.probe import Rates


def probe_device(
    device: Device, index: BicliqueDeviceIndex, algorithm: str, rates: Rates, threads: int
) -> BicliqueProber:
    """Return the prober of an index on a device."""
    near_of = partial(rows_near_on_device, device, index)
    return BicliqueProber(index, algorithm, near_of, partial(copy_index, device, index), rates, threads)


@compiled
def _mark_shared(lefts: Rows, roots: Ints, kids: Ids32, shared: Ids32, marks: NDArray[np.bool_]) -> None:
    """Mark the columns that each root shares with its child; ``shared`` is room for a row."""
    for probe in range(roots.size):
        for at in range(share_row(lefts, roots[probe], kids[probe], shared)):
            marks[shared[at]] = True


def compile_marks() -> None:
    """Compile what the host does with rows; the same for all questions."""
    none = np.zeros(0, np.int32)
    _mark_shared(Rows(np.zeros(1, np.int64), none), np.zeros(0, np.int64), none, none, np.zeros(0, np.bool_))


def rows_near_on_device(device: Device, index: BicliqueDeviceIndex, children: Children) -> Near:
    """Copy the rows that probes read: of roots and children, and of the columns that both share."""
    arrays, has_root = index.arrays, children.roots >= 0
    roots, at = children.roots[has_root].astype(np.int64), children.places[has_root]
    places, ends, common = np.zeros((3, has_root.size), np.int64)
    is_left, is_right = np.zeros(index.n_left, np.bool_), np.zeros(index.n_right, np.bool_)
    with device.guard():
        kept, (hop,) = take_rows(device, arrays["hop_indptr"], np.unique(roots), arrays["hop"])
        begins = device.to_host(take(device, arrays["hop_indptr"], device.to_device(roots)))
        places[has_root], ends[has_root] = at - begins + kept[roots], kept[roots + 1]
        common[has_root] = device.to_host(take(device, arrays["hop_common"], device.to_device(at)))
        is_left[roots] = is_left[hop[places[has_root]]] = True
        lefts = take_lists(device, arrays["indptr"], np.flatnonzero(is_left), arrays["columns"])
        _mark_shared(lefts, roots, hop[places[has_root]], np.empty(index.n_right, np.int32), is_right)
        rights = take_lists(device, arrays["right_indptr"], np.flatnonzero(is_right), arrays["right_rows"])
    return Near(NearGraph(lefts, rights, hop, False), places, ends, common)


def take_lists(device: Device, offsets: Any, rows: NDArray[np.int64], ids: Any) -> Rows:
    """Copy some rows to the host, as :func:`~papilio.kernels.device.arrays.take_rows`."""
    indptr, (taken,) = take_rows(device, offsets, rows, ids)
    return Rows(indptr, taken)


def copy_index(device: Device, index: BicliqueDeviceIndex) -> tuple[BicliqueIndex, LeftGraph]:
    items: dict[str, Any] = {each.name: getattr(index, each.name) for each in fields(BicliqueItems)}
    names = ("indptr", "columns", "left_ids", "right_ids", "hop_indptr", "hop", "hop_common")
    with device.guard():
        copied = copy_arrays(device, "the index of the probes", {name: index.arrays[name] for name in names})
    whole = BicliqueIndex(**items | copied)
    return whole, lay_graph(whole)
