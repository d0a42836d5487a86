"""How the CPU kernels are compiled, and the names of their array types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["Bools", "Counters", "EdgeIds", "Ids", "Ints", "Place", "Sums", "add_atomically", "compiled"]

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


def _type_atomic_add(_context: Any, array: Any, _at: Any, _amount: Any) -> tuple[Any, Callable[..., Any]]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = cgutils.get_item_pointer(
            context,
            builder,
            signature.args[0],
            context.make_array(signature.args[0])(context, builder, arguments[0]),
            [arguments[1]],
            wraparound=False,
        )
        builder.atomic_rmw("add", place, arguments[2], "monotonic")
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), emit


add_atomically: Callable[[Sums, Place, np.uint64], None] = intrinsic(_type_atomic_add)
"""``add_atomically(array, at, amount)`` in compiled code: ``array[at] += amount``, whole beside those of other
threads."""
