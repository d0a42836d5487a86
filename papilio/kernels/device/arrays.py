"""Sorting, selection, rows and hashes of device arrays (``arrays.cu``), used by every family between its kernels.

CuPy would compile each array expression separately, at first use, one after the other; these are a single module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.kernels.device.protocol import Device, Module, launch_over
from papilio.kernels.memory import available_bytes
from papilio.kernels.offsets import offsets_of


def load_arrays(device: Device) -> Module:
    """Return the kernels. First called when a graph is prepared, so that they compile meanwhile."""
    return device.load("arrays", {})


def _launch(device: Device, kernel: str, n_threads: int, *arguments: Any) -> None:
    launch_over(device, load_arrays(device), kernel, n_threads, *arguments)


def order_rising(device: Device, values: Any) -> Any:
    """Return the order of ascending ``values``, ties by place; int32 on the device.

    There are fewer than 2^31 values: nonnegative int32, or uint64 below 2^32, which are overwritten.
    """
    count = np.int64(values.size)
    keys = values
    if values.dtype == np.int32:
        keys = device.xp.empty(values.size, dtype=np.uint64)
        _launch(device, "number_values", values.size, values, count, keys)
    else:
        _launch(device, "number_keys", values.size, keys, count)
    keys.sort()
    return low_halves(device, keys)


def order_falling(device: Device, values: Any) -> Any:
    """Return the order of descending ``values``, int64, ties by place; int64 on the device."""
    keys = device.xp.empty(values.size, dtype=np.int64)
    _launch(device, "falling_keys", values.size, values, np.int64(values.size), keys)
    return device.xp.argsort(keys, kind="stable")


def low_halves(device: Device, keys: Any) -> Any:
    """Return the lower halves of ``keys``, uint64, as int32 on the device."""
    halves = device.xp.empty(keys.size, dtype=np.int32)
    _launch(device, "low_halves", keys.size, keys, np.int64(keys.size), halves)
    return halves


def place_of(device: Device, order: Any) -> Any:
    """Return the place of each element in ``order``, a permutation; both int32 on the device."""
    places = device.xp.empty(order.size, dtype=np.int32)
    _launch(device, "place_of", order.size, order, np.int64(order.size), places)
    return places


def fill_ints(device: Device, n: int, value: int, step: int = 0) -> Any:
    """Return ``n`` int32 values on the device: all equal, or increasing by ``step``."""
    values = device.xp.empty(n, dtype=np.int32)
    _launch(device, "fill_ints", n, np.int32(value), np.int32(step), np.int64(n), values)
    return values


def value_starts(device: Device, values: Any, n_values: int) -> Any:
    """Return the start of each value below ``n_values`` in ascending ``values`` (int32), and the end; int64."""
    starts = device.xp.empty(n_values + 1, dtype=np.int64)
    _launch(device, "value_starts", n_values + 1, values, np.int64(values.size), np.int64(n_values), starts)
    return starts


def take(device: Device, values: Any, places: Any) -> Any:
    """Return the ``values`` at the ``places``, on the device: both contiguous, integers of 4 or 8 bytes."""
    xp, sizes = device.xp, {4: np.int32, 8: np.int64}
    taken = xp.empty(places.size, dtype=values.dtype)
    whole = sizes[values.dtype.itemsize]
    _launch(
        device,
        f"take_{values.dtype.itemsize}_at_{places.dtype.itemsize}",
        places.size,
        values.view(whole),
        places.view(sizes[places.dtype.itemsize]),
        np.int64(places.size),
        taken.view(whole),
    )
    return taken


def copy_arrays(device: Device, name: str, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Copy arrays to the host; CapacityError if these need more than half of its memory."""
    needed, room = sum(each.nbytes for each in arrays.values()), available_bytes()
    if needed > room:
        raise CapacityError(f"{name} needs {needed} bytes of host memory; at most {room} may be taken")
    return {key: device.to_host(each) for key, each in arrays.items()}


def take_rows(
    device: Device, offsets: Any, rows: NDArray[np.int64], *columns: Any
) -> tuple[NDArray[np.int64], list[NDArray[np.int32]]]:
    """Return some rows on the host: offsets of all rows, the others empty, and their entries in each column, int32.

    ``offsets``, int64 of shape (n_rows + 1,), and ``columns`` are on the device, ``rows`` ascending on the host.
    """
    at = device.to_device(rows)
    begins, ends = (device.to_host(take(device, offsets, each)) for each in (at, device.to_device(rows + 1)))
    lengths = np.zeros(offsets.size - 1, np.int64)
    lengths[rows] = ends - begins
    kept = offsets_of(lengths)
    starts, found = device.to_device(kept[rows]), []
    for column in columns:
        taken = device.xp.empty(int(kept[-1]), dtype=np.int32)
        _launch(device, "take_rows", 32 * rows.size, offsets, at, starts, np.int64(rows.size), column, taken)
        found.append(device.to_host(taken))
    return kept, found


def find_least(device: Device, values: Any, least: int) -> Any:
    """Return the places of ``values``, int32, that are at least ``least``, ascending; int64 on the device."""
    upto = device.xp.empty(values.size, dtype=np.int64)
    _launch(device, "mark_least", values.size, values, np.int64(values.size), np.int32(least), upto)
    return _gather_marked(device, upto)


def find_counted(device: Device, counts: Any) -> Any:
    """Return the places of ``counts``, uint64, that are not 0, ascending; int64 on the device."""
    upto = device.xp.empty(counts.size, dtype=np.int64)
    _launch(device, "mark_counted", counts.size, counts, np.int64(counts.size), upto)
    return _gather_marked(device, upto)


def _gather_marked(device: Device, upto: Any) -> Any:
    """Return the places of marks that are 1, ascending; overwrites the marks."""
    xp = device.xp
    xp.cumsum(upto, out=upto)
    n_found = int(device.to_host(upto[-1:])[0]) if upto.size else 0
    places = xp.empty(n_found, dtype=np.int64)
    _launch(device, "gather_marked", upto.size, upto, np.int64(upto.size), places)
    return places


def lengths_of(device: Device, offsets: Any) -> Any:
    """Return the length of each row, int32, from the row offsets."""
    lengths = device.xp.empty(offsets.size - 1, dtype=np.int32)
    _launch(device, "row_lengths", lengths.size, offsets, np.int64(lengths.size), lengths)
    return lengths


def make_offsets(device: Device, lengths: Any) -> Any:
    """Return the row offsets from integer lengths; int64, shape (n_rows + 1,)."""
    xp = device.xp
    if lengths.dtype == np.int32:
        offsets = xp.empty(lengths.size + 1, dtype=np.int64)
        _launch(device, "shift_lengths", lengths.size + 1, lengths, np.int64(lengths.size),
            offsets,
        )  # fmt: skip
        xp.cumsum(offsets, out=offsets)
    else:
        offsets = xp.zeros(lengths.size + 1, dtype=np.int64)
        xp.cumsum(lengths, dtype=np.int64, out=offsets[1:])
    return offsets


def turn_rows(
    device: Device, offsets: Any, ids: Any, n_ids: int, more: tuple[Any, Any] | None = None
) -> tuple[Any, Any]:
    """Return the rows of the other layer, which has ``n_ids`` vertices: offsets (int64) and ids (int32), ascending.

    ``more`` are rows of that layer with further entries. Takes one sort of 64-bit keys.
    """
    xp = device.xp
    n, n_more = ids.size, 0 if more is None else more[1].size
    keys = xp.empty(n + n_more, dtype=np.uint64)
    _launch_entry_keys(device, offsets, ids, keys[:n], turned=True)
    if more is not None:
        _launch_entry_keys(device, *more, keys[n:], turned=False)
    return rows_of(device, keys, n_ids)


def sort_rows(device: Device, offsets: Any, ids: Any) -> Any:
    """Return the ``ids`` (int32) with those of each row ascending. Takes one sort of 64-bit keys."""
    keys = device.xp.empty(ids.size, dtype=np.uint64)
    _launch_entry_keys(device, offsets, ids, keys, turned=False)
    keys.sort()
    return low_halves(device, keys)


def _launch_entry_keys(device: Device, offsets: Any, ids: Any, keys: Any, *, turned: bool) -> None:
    _launch(device, "entry_keys", ids.size, offsets, np.int64(offsets.size - 1), ids, np.int64(ids.size),
        np.int32(turned), keys,
    )  # fmt: skip


def rows_of(device: Device, keys: Any, n_rows: int) -> tuple[Any, Any]:
    """Return rows from sorted ``keys``, with (row, id) in the halves of a word: offsets (int64), ids (int32)."""
    keys.sort()
    offsets = device.xp.empty(n_rows + 1, dtype=np.int64)
    _launch(device, "row_starts", n_rows + 1, keys, np.int64(keys.size), np.int64(n_rows), offsets)
    return offsets, low_halves(device, keys)


def hash_vertices(device: Device, ids: Any, layer: int) -> Any:
    """Return the hashes of vertices of a layer, 0 or 1, by their ids, int32 (kernels/exact.py); uint64."""
    hashes = device.xp.empty(ids.size, dtype=np.uint64)
    _launch(device, "hash_vertices", ids.size, ids, np.int64(ids.size), np.int32(layer), hashes)
    return hashes


def sum_row_hashes(device: Device, ones: Any, offsets: Any, others: Any, layer: int) -> int:
    """Return the checksum of motifs of one vertex of ``layer``, 0 or 1, and a row of the other one; ids int32.

    As :func:`~papilio.kernels.exact.sum_hashes`; row i is ``others[offsets[i]:offsets[i + 1]]``.
    """
    total, n = device.xp.zeros(1, dtype=np.uint64), int(ones.size)
    _launch(
        device, "sum_row_hashes", 32 * n, ones, offsets, others, np.int64(n), np.int32(layer), total
    )  # fmt: skip
    return int(device.to_host(total)[0])
