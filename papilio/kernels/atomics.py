"""Atomic additions that tell what was there before, for loops that several threads run on the same arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from papilio.kernels.jit import Place


def _type_fetch_add(_context: Any, array: Any, _at: Any, _amount: Any) -> tuple[Any, Callable[..., Any]]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        made = context.make_array(kind)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, kind, made, [arguments[1]], wraparound=False)
        return builder.atomic_rmw("add", place, arguments[2], "monotonic")

    return array.dtype(array, types.int64, array.dtype), emit


fetch_add: Callable[[NDArray[Any], Place, Any], Any] = intrinsic(_type_fetch_add)
"""``fetch_add(array, at, amount)`` in compiled code: ``array[at] += amount`` in one step; returns the value before.

``amount`` is of the dtype of the array.
"""
