"""Columns of Arrow become arrays, in whatever pieces they come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from papilio.storage.edge_files import numbers_of


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float64()], ids=str)
def test_numbers_come_as_they_are(kind: pa.DataType) -> None:
    piece = pa.array([3, 1, 2, 5], kind)
    for column in (
        piece, piece.slice(1), pa.chunked_array([piece]), pa.chunked_array([piece, piece.slice(2)]),
        pa.chunked_array([piece.slice(0, 0), piece]), pa.chunked_array([], kind),
    ):  # fmt: skip
        found = numbers_of(column)
        assert found.dtype == kind.to_pandas_dtype()
        assert found.tolist() == column.to_pylist()


def test_one_piece_is_not_copied() -> None:
    values = np.arange(5)
    assert np.shares_memory(numbers_of(pa.chunked_array([pa.array(values)])), values)


def test_nulls_and_text_are_what_arrow_makes_of_them() -> None:
    assert np.isnan(numbers_of(pa.array([1, None, 3]))[1])
    assert numbers_of(pa.chunked_array([["a", "b"]])).tolist() == ["a", "b"]
