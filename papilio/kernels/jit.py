"""How the CPU kernels are compiled, and the names of their array types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import event
from numba.core.types.misc import unliteral
from numpy.typing import NDArray

from papilio.kernels.announce import say_compiling

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


class _Compilations(event.Listener):  # type: ignore[misc]
    """Hears of functions that are compiled, not of those that a cache holds."""

    def on_start(self, event: Any) -> None:
        say_compiling()

    def on_end(self, event: Any) -> None: ...


event.register("numba:compile", _Compilations())


def compiled(function: Function) -> Function:
    """Compile for the CPU at the first call: serial, without the interpreter lock.

    A constant that is given to another compiled function is a number like any other there: no function is compiled
    once more for it. The machine code is kept in Numba's cache (``NUMBA_CACHE_DIR``, else beside the module, else in
    the user's cache folder); where none of them can be written, each process compiles for itself.
    """
    try:
        made = njit(nogil=True, cache=True, no_cfunc_wrapper=True)(function)
    except RuntimeError:
        made = njit(nogil=True, no_cfunc_wrapper=True)(function)
    resolve = made.get_call_template

    def resolve_types(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return resolve(tuple(map(unliteral, given)), {name: unliteral(each) for name, each in named.items()})

    made.get_call_template = resolve_types
    return cast(Function, made)


def inlined(function: Function) -> Function:
    """Make part of each compiled caller: for a few lines on many arrays, whose references each call would count."""
    return cast(Function, njit(nogil=True, inline="always")(function))
