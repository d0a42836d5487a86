"""How the CPU kernels are compiled, and the names of their array types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

Bools = NDArray[np.bool_]
Ids = NDArray[np.uint32]
Ints = NDArray[np.int64]
Sums = NDArray[np.uint64]
Place = int | np.signedinteger[Any]
"""A row, an entry of the index, or a number of them: int64 once compiled."""
Counters = NDArray[Any]
"""A table of uint8, uint16 or uint32."""
EdgeIds = NDArray[Any]
"""Edge ids, uint32 or int64."""


def compiled(function: Function) -> Function:
    """Compile for the CPU at the first call: serial, without the interpreter lock.

    The machine code is kept in Numba's cache (``NUMBA_CACHE_DIR``, else beside the module, else in the user's
    cache folder); where none of them can be written, each process compiles for itself.
    """
    try:
        return cast(Function, njit(nogil=True, cache=True)(function))
    except RuntimeError:
        return cast(Function, njit(nogil=True)(function))


def inlined(function: Function) -> Function:
    """Make part of each compiled caller: for a few lines on many arrays, whose references each call would count."""
    return cast(Function, njit(nogil=True, inline="always")(function))
