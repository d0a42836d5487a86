"""Objects in the memory of a GPU, copied to the host once: arrays, sparse matrices and frames.

Reading checks every entry, drops duplicates and labels vertices, and planning probes the graph, all on the host. The
copy is small beside that: 16 bytes for an edge of 64-bit ids, at the 25 GB/s or more of the bus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_COPIES: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("cupy", "ndarray"): lambda array: array.get(),
    ("cupyx", "spmatrix"): lambda matrix: matrix.get(),
    ("cudf", "DataFrame"): lambda frame: frame.to_pandas(nullable=True),
    ("cudf", "Series"): lambda series: series.to_pandas(nullable=True),
    ("numba", "DeviceNDArray"): lambda array: array.copy_to_host(),
    ("torch", "Tensor"): lambda tensor: tensor.cpu().numpy(),
}
"""How to copy an object to the host, by package and class; no package is imported."""


def copy_to_host(source: Any) -> Any:
    """Return an array, sparse matrix or frame of a GPU as one of NumPy, SciPy or pandas; any other object as given."""
    for base in type(source).__mro__:
        copy = _COPIES.get((base.__module__.partition(".")[0], base.__name__))
        if copy is not None:
            return copy(source)
    return source
