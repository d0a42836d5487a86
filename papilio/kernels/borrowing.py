"""Arrays whose references compiled code does not count, for searches that pass many arrays to small functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_Value = TypeVar("_Value")


def _type_borrowed(_context: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
    def strip(context: Any, builder: Any, kind: Any, item: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value=item)
            array.meminfo, array.parent = (
                cgutils.get_null_value(each.type) for each in (array.meminfo, array.parent)
            )
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            items = cgutils.unpack_tuple(builder, item, len(kind))
            parts = [strip(context, builder, *each) for each in zip(kind, items, strict=True)]
            return context.make_tuple(builder, kind, parts)
        return item

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return strip(context, builder, value, arguments[0])

    return value(value), emit


borrowed = cast(Callable[[_Value], _Value], intrinsic(_type_borrowed))
"""``borrowed(value)`` in compiled code: the same arrays, in tuples too, whose references nobody counts any more.

Calls count the references of every array that they are given, in steps that other processors see: three fifths of the
time of a search of small nodes. Whoever borrows must keep the value itself until the end, by returning it or as an
argument of the function that Python calls.
"""
