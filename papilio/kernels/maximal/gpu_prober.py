"""Copies of rows on a device for the probes of maximal bicliques on the host; see :mod:`.prober`."""

from __future__ import annotations

import numpy as np

from papilio.kernels.biclique.core import Ids32, Rows
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex
from papilio.kernels.biclique.gpu_prober import take_lists
from papilio.kernels.biclique.local import LeftGraph
from papilio.kernels.device.arrays import take, take_rows
from papilio.kernels.device.protocol import Device
from papilio.kernels.jit import Ints, compiled
from papilio.kernels.maximal.gpu_roots import MaximalRoots
from papilio.kernels.maximal.roots import Roots
from papilio.kernels.offsets import offsets_of


@compiled
def _lay_near(
    chosen: Ints, earlier: Rows, later: Rows, shared: Ids32, lefts: Rows, mark: Ids32, near: LeftGraph
) -> None:
    """Fill the rows around some roots: the earlier ones, then the later ones, with the columns shared with the root.

    ``shared`` counts them for the later ones; ``mark`` is 0 before and after.
    """
    for i in range(chosen.size):
        root, to = chosen[i], near.hop_indptr[chosen[i]]
        for at in range(lefts.indptr[root], lefts.indptr[root + 1]):
            mark[lefts.ids[at]] = 1
        for at in range(earlier.indptr[root], earlier.indptr[root + 1]):
            row = earlier.ids[at]
            near.hop[to], near.hop_common[to] = row, 0
            for place in range(lefts.indptr[row], lefts.indptr[row + 1]):
                near.hop_common[to] += mark[lefts.ids[place]]
            to += 1
        for at in range(later.indptr[root], later.indptr[root + 1]):
            near.hop[to], near.hop_common[to] = later.ids[at], shared[at]
            to += 1
        for at in range(lefts.indptr[root], lefts.indptr[root + 1]):
            mark[lefts.ids[at]] = 0


def compile_near() -> None:
    """Compile what the host does with rows; the same for all questions."""
    starts, none = np.zeros(1, np.int64), np.zeros(0, np.int32)
    rows = Rows(starts, none)
    near = LeftGraph(rows, rows, starts[:0], starts, none, none)
    _lay_near(starts[:0], rows, rows, none, rows, none, near)


def copy_roots(device: Device, index: BicliqueDeviceIndex, roots: MaximalRoots, items: Ints) -> Roots:
    """Copy what probes of some items read, as :func:`~papilio.kernels.maximal.roots.lay_roots`; the others are empty.

    That is the rows around each root, with the columns that they share; these rows and the root by columns; and the
    columns of the root by rows.
    """
    arrays, n_left = index.arrays, index.n_left
    chosen = np.unique(index.item_root[items]).astype(np.int64)
    chosen = chosen[chosen >= 0]
    is_left, is_right, later_at = (
        np.zeros(n_left, np.bool_),
        np.zeros(index.n_right, np.bool_),
        np.zeros(n_left, np.int64),
    )
    with device.guard():
        indptr, (hop, shared) = take_rows(device, arrays["hop_indptr"], chosen, arrays["hop"], arrays["hop_common"])
        later = Rows(indptr, hop)
        earlier = take_lists(device, roots.earlier_indptr, chosen, roots.earlier)
        later_at[chosen] = device.to_host(take(device, arrays["hop_indptr"], device.to_device(chosen)))
        is_right[take_lists(device, arrays["indptr"], chosen, arrays["columns"]).ids] = True
        rights = take_lists(device, roots.right_indptr, np.flatnonzero(is_right), roots.right_rows)
        is_left[chosen] = is_left[later.ids] = is_left[earlier.ids] = True
        lefts = take_lists(device, arrays["indptr"], np.flatnonzero(is_left), arrays["columns"])
    n_earlier = np.diff(earlier.indptr)
    near = offsets_of(n_earlier + np.diff(later.indptr))
    around, common = np.empty((2, int(near[-1])), np.int32)
    graph = LeftGraph(lefts, rights, rights.indptr[lefts.ids], near, around, common)
    _lay_near(chosen, earlier, later, shared, lefts, np.zeros(index.n_right, np.int32), graph)
    return Roots(graph, n_earlier, later_at, index.item_root, index.item_first, index.item_last)
