"""The indices of (p,q)-bicliques that the CPU and the device build, compared."""

from __future__ import annotations

import numpy as np

from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.gpu_index import BicliqueDeviceIndex, build_device_index
from papilio.kernels.biclique.index import BicliqueIndex, build_biclique_index
from papilio.kernels.device.protocol import Device
from papilio.motifs import Biclique

__all__ = ["assert_equal", "assert_same"]


def assert_equal(
    device: Device, graph: BipartiteGraph, motif: Biclique, anchor: str = "auto", **options: object
) -> tuple[BicliqueDeviceIndex, BicliqueIndex]:
    """Build both and compare every array, with its type, and every number."""
    tuning = options.pop("tuning", None)
    wanted = build_biclique_index(graph, motif, 1, anchor, **options)  # type: ignore[arg-type]
    got = build_device_index(device, graph, motif, anchor, tuning=tuning, **options)  # type: ignore[arg-type]
    for name in ("anchor", "sizes", "n_left", "n_right", "n_items", "closed_cells", "closed_total"):
        assert getattr(got, name) == getattr(wanted, name), name
    for name in ("item_root", "item_first", "item_last", "costs"):
        assert_same(getattr(got, name), getattr(wanted, name), name)
    for name, array in got.arrays.items():
        assert_same(device.to_host(array), getattr(wanted, name), name)
    assert got.n_pairs == wanted.hop.size
    if wanted.item_ptr is not None:
        assert got.item_ptr is not None
        assert_same(got.item_ptr, wanted.item_ptr, "item_ptr")
    stars = wanted.item_root < 0
    root = np.where(stars, 0, wanted.item_root)
    if not stars.any():
        assert_same(got.item_later, wanted.hop_indptr[root + 1] - wanted.item_first, "item_later")
        assert_same(got.item_degree, np.diff(wanted.indptr)[root], "item_degree")
        spans = zip(wanted.item_first.tolist(), wanted.item_last.tolist(), strict=True)
        assert got.item_common.tolist() == [wanted.hop_common[a:b].max() for a, b in spans]
    return got, wanted


def assert_same(got: np.ndarray, wanted: np.ndarray, name: str) -> None:
    """Compare arrays with their types."""
    assert got.dtype == wanted.dtype, name
    np.testing.assert_array_equal(got, wanted, err_msg=name)
