"""How the CPU kernels are compiled, and the names of their array types."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from inspect import getfile
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys
from numba.core.types.misc import unliteral
from numpy.typing import NDArray

from papilio.kernels.announce import say_compiling
from papilio.kernels.stamps import source_stamp

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


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, as it is called by Python or by compiled code.

    It holds for the sources of all that the function's module imports: what it calls is part of its code.
    """

    def __init__(self, function: Callable[..., Any], called: bool) -> None:
        super().__init__(function)
        self._called = called
        self._cache_file._source_stamp = source_stamp(Path(getfile(function)).resolve())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load what is there, without all that only a compilation needs: importing that takes longer than a count."""
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return self._called, super()._index_key(sig, codegen)


def _make(function: Callable[..., Any], *, called: bool) -> Any:
    made = njit(nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=called)(function)
    with suppress(RuntimeError, OSError):  # no folder can be written, or the sources are no files
        made._cache = _Cache(function, called)
    return made


def compiled(function: Function) -> Function:
    """Compile for the CPU at the first call: serial, without the interpreter lock.

    What other compiled functions call is compiled for them alone, without what Python needs to call it. A constant
    that is given to a compiled function is a number like any other there: no function is compiled once more for it.
    The machine code is kept in Numba's cache (``NUMBA_CACHE_DIR``, else beside the module, else in the user's cache
    folder); where none of them can be written, each process compiles for itself.
    """
    made, called = _make(function, called=False), _make(function, called=True)

    def resolve_types(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        plain = {name: unliteral(each) for name, each in named.items()}
        return called.get_call_template(tuple(map(unliteral, given)), plain)

    made.get_call_template = resolve_types
    made.get_overload = called.get_overload
    return cast(Function, made)


def inlined(function: Function) -> Function:
    """Make part of each compiled caller: for a few lines on many arrays, whose references each call would count."""
    return cast(Function, njit(nogil=True, inline="always")(function))
