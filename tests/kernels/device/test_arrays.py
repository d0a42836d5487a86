"""Steps on device arrays are those of NumPy on the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio.kernels.device import arrays
from papilio.kernels.exact import mix
from tests.tools.devices import cuda_device, emulator

RNG = np.random.default_rng(5)
SIZES = [0, 1, 31, 700]


@pytest.fixture(params=["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Any:
    return emulator(3) if request.param == "emulator" else cuda_device()


def run(device: Any, step: Any, *given: Any) -> Any:
    """Call a step with host arrays, and return what it gives on the host."""
    on_device = [device.to_device(each) if isinstance(each, np.ndarray) else each for each in given]
    found = step(device, *on_device)
    return [device.to_host(each) for each in found] if isinstance(found, tuple) else device.to_host(found)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_rising_orders_are_stable(device: Any, n: int, dtype: Any) -> None:
    values = RNG.integers(0, 2**31 - 1 if n % 2 else 9, n).astype(dtype)
    wanted = np.argsort(values, kind="stable")
    found = run(device, arrays.order_rising, values)
    assert found.dtype == np.int32
    assert np.array_equal(found, wanted)
    assert np.array_equal(run(device, arrays.place_of, found), np.argsort(wanted))


@pytest.mark.parametrize("n", SIZES)
def test_falling_orders_are_stable_over_all_of_int64(device: Any, n: int) -> None:
    values = RNG.choice(np.array([-(2**63), -1, 0, 1, 2**32, 2**63 - 1]), n)
    wanted = sorted(range(n), key=lambda place: -int(values[place]))
    assert run(device, arrays.order_falling, values).tolist() == wanted


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("value", [np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("place", [np.int32, np.int64])
def test_what_is_taken_is_that_of_its_place(device: Any, n: int, value: Any, place: Any) -> None:
    values = RNG.integers(0, 2**62, n + 1).astype(value)
    places = RNG.integers(0, n + 1, n).astype(place)
    found = run(device, arrays.take, values, places)
    assert found.dtype == value
    assert np.array_equal(found, values[places])


@pytest.mark.parametrize("n", SIZES)
def test_places_are_found_by_value(device: Any, n: int) -> None:
    values = RNG.integers(-2, 3, n).astype(np.int32)
    counts = RNG.choice(np.array([0, 1, 2**64 - 1], np.uint64), n)
    assert np.array_equal(run(device, arrays.find_least, values, 1), np.flatnonzero(values >= 1))
    assert np.array_equal(run(device, arrays.find_counted, counts), np.flatnonzero(counts))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_offsets_and_lengths_are_each_others_inverse(device: Any, n: int, dtype: Any) -> None:
    lengths = RNG.integers(0, 2**31 - 1, n).astype(dtype)
    offsets = run(device, arrays.make_offsets, lengths)
    assert np.array_equal(offsets, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))))
    assert np.array_equal(run(device, arrays.lengths_of, offsets), lengths)


def rows_of(pairs: NDArray[Any], n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return offsets and ids of pairs (row, id), in the order of rows and ids."""
    pairs = np.unique(pairs.reshape(-1, 2), axis=0)
    return np.searchsorted(pairs[:, 0], np.arange(n_rows + 1)).astype(np.int64), pairs[:, 1].astype(np.int32)


@pytest.mark.parametrize(("n_rows", "n_ids", "n"), [(1, 1, 0), (4, 3, 5), (40, 60, 500)])
@pytest.mark.parametrize("with_more", [False, True])
def test_rows_turn_and_take_in_more(device: Any, n_rows: int, n_ids: int, n: int, with_more: bool) -> None:
    pairs = np.unique(np.stack((RNG.integers(0, n_rows, n), RNG.integers(0, n_ids, n)), axis=1), axis=0)
    turned = pairs[:, ::-1]
    more = None
    if with_more:  # others of the same rows, with ids of their own
        own = np.unique(np.stack((RNG.integers(0, n_ids, n), n_rows + RNG.integers(0, 9, n)), axis=1), axis=0)
        more = tuple(map(device.to_device, rows_of(own, n_ids)))
        turned = np.concatenate((turned, own))
    found = run(device, arrays.turn_rows, *rows_of(pairs, n_rows), n_ids, more)
    for got, wanted in zip(found, rows_of(turned, n_ids), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("layer", [0, 1])
def test_hashes_are_those_of_the_host(device: Any, layer: int) -> None:
    ids = RNG.integers(0, 2**31 - 1, 100).astype(np.int32)
    wanted = mix(ids.astype(np.uint64) | np.uint64(layer << 32))
    assert np.array_equal(run(device, arrays.hash_vertices, ids, layer), wanted)
    assert run(device, arrays.fill_ints, 3, 7, -2).tolist() == [7, 5, 3]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("n_values", [1, 5, 90])
def test_ascending_values_begin_where_they_are_first(device: Any, n: int, n_values: int) -> None:
    values = np.sort(RNG.integers(0, n_values, n)).astype(np.int32)
    wanted = np.searchsorted(values, np.arange(n_values + 1))
    assert np.array_equal(run(device, arrays.value_starts, values, n_values), wanted)
