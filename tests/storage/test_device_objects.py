"""Arrays, matrices and frames of a GPU are read as what they are on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import papilio
from papilio.storage.device_objects import copy_to_host

EDGES = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1]])
MATRIX = sparse.csr_matrix(np.array([[1, 1], [1, 1], [0, 1]]))
FRAME = pd.DataFrame({"user": ["a", "a", "b", "b"], "item": [7, 8, 7, 8]})


def on_device(package: str, name: str, method: str, content: Any) -> Any:
    """Return an object of a class of ``package`` that gives its content by ``method`` alone."""
    kind = type(name, (), {method: lambda self, **options: content, "__module__": f"{package}.core"})
    return kind()


class Tensor:
    """A tensor of PyTorch; NumPy reads those of the host alone."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def cpu(self) -> Any:
        return on_device("torch", "Host", "numpy", self._array)


Tensor.__module__ = "torch"


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (on_device("cupy", "ndarray", "get", EDGES), EDGES),
        (on_device("cupyx.scipy.sparse", "spmatrix", "get", MATRIX), MATRIX),
        (on_device("cudf", "DataFrame", "to_pandas", FRAME), FRAME),
        (on_device("numba.cuda", "DeviceNDArray", "copy_to_host", EDGES), EDGES),
        (Tensor(EDGES), EDGES),
    ],
)
def test_objects_of_a_device_are_read_like_those_of_the_host(given: Any, same: Any) -> None:
    ours, theirs = papilio.read(given), papilio.read(same)
    assert (ours.n_u, ours.n_v, ours.n_edges) == (theirs.n_u, theirs.n_v, theirs.n_edges)
    assert papilio.count(given, "butterfly").count == papilio.count(same, "butterfly").count == 1
    assert str(ours.labels("u")) == str(theirs.labels("u"))


def test_other_objects_stay() -> None:
    for each in (EDGES, MATRIX, FRAME, [(1, 2)], "edges.csv"):
        assert copy_to_host(each) is each


def test_signs_in_a_third_column_are_found() -> None:
    signed = np.array([[0, 0, 1], [0, 1, 1], [1, 0, -1], [1, 1, -1]])
    assert papilio.count(on_device("cupy", "ndarray", "get", signed), "balanced-butterfly").count == 1


@pytest.mark.gpu
def test_cupy_arrays_and_matrices_are_read() -> None:
    import cupy
    import cupyx.scipy.sparse

    edges, matrix = cupy.asarray(EDGES), cupyx.scipy.sparse.csr_matrix(MATRIX.astype(float))
    for given, same in ((edges, EDGES), (matrix, MATRIX), (matrix.tocoo(), MATRIX), (matrix.tocsc(), MATRIX)):
        assert papilio.count(given, "butterfly").count == papilio.count(same, "butterfly").count == 1
