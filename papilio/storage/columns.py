"""Columns of Arrow as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column as an array, read-only where it is one piece, which is not copied.

    Arrow's own ``to_numpy``, which imports pandas, is left for columns with nulls, or of anything but numbers.
    """
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    arrays = [np.from_dlpack(chunk) for chunk in chunks if len(chunk)]
    if len(arrays) == 1:
        return arrays[0]
    code = "f" if pa.types.is_floating(kind) else "u" if pa.types.is_unsigned_integer(kind) else "i"
    return np.concatenate(arrays) if arrays else np.empty(0, f"{code}{kind.bit_width // 8}")
