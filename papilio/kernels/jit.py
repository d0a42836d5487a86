"""How the CPU kernels are compiled, and the names of their array types.

Atomic additions that tell what was there before, for loops that several threads run on the same arrays.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from inspect import getfile
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite.binding import parse_bitcode  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils, event
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys
from numba.core.types.misc import unliteral
from numba.extending import intrinsic
from numpy.typing import NDArray

from papilio.kernels.announce import begin_compiling, end_compiling
from papilio.kernels.stamps import source_stamp

Function = TypeVar("Function", bound=Callable[..., Any])

Bools = NDArray[np.bool_]
Ids = NDArray[np.uint32]
Ints = NDArray[np.int64]
Sums = NDArray[np.uint64]
Index = int | np.signedinteger[Any]
"""A row, an entry of the index, or a number of them: int64 once compiled."""
Counters = NDArray[Any]
"""A table of uint8, uint16 or uint32."""
EdgeIds = NDArray[Any]
"""Edge ids, uint32 or int64."""


class _Compilations(event.Listener):  # type: ignore[misc]
    """Hears of functions that are compiled, not of those that a cache holds."""

    def on_start(self, event: Any) -> None:
        begin_compiling()

    def on_end(self, event: Any) -> None:
        end_compiling()


event.register("numba:compile", _Compilations())


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """A cache that is empty where another version wrote it: its classes may be gone."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # whatever Numba's index fails with
            return {}


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, as it is called by Python or by compiled code.

    It holds for the sources of all that the function's module imports, what it calls being part of its code, and for
    this one.
    """

    def __init__(self, function: Callable[..., Any], called: bool) -> None:
        super().__init__(function)
        self._called = called
        sources = getfile(function), __file__
        self._cache_file.__class__ = _CacheFile
        self._cache_file._source_stamp = [source_stamp(Path(file).resolve()) for file in sources]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load what is there, without all that only a compilation needs: importing that takes longer than a count."""
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return self._called, super()._index_key(sig, codegen)


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """Code that only compiled code calls: it is optimised, and machine code made of it, as part of its callers alone.

    Numba would do both for every function, and once more for each of those that call it.
    """

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, as for a function without a wrapper: nothing but compiled code calls this one."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return _CodegenOfParts(self._codegen)

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, _, code = state
        made = cls(codegen, name)
        made._final_module = parse_bitcode(code)
        made.finalize()
        return made


class _CodegenOfParts:
    """The code generator of a part, whose environment is set by the function that the part ends in."""

    def __init__(self, codegen: CPUCodegen) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None: ...


class _Compiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, which makes parts of all that a function calls."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        codegen = self.state.targetctx.codegen()
        is_part = self.state.flags.no_cpython_wrapper
        self.state.library = (_Part if is_part else JITCodeLibrary)(codegen, function.__qualname__)
        self.state.library.enable_object_caching()
        with _making_parts(codegen):
            made = super().compile_extra(function)
        if not is_part:
            for environment in made._find_referenced_environments():
                codegen.set_env(environment.env_name, environment)
        return made


@contextmanager
def _making_parts(codegen: CPUCodegen) -> Iterator[None]:
    """Make parts of what is compiled within; without looking for garbage, which takes a tenth of the time."""
    outer, collects = codegen._library_class, gc.isenabled()
    codegen._library_class = _Part
    gc.disable()
    try:
        yield
    finally:
        codegen._library_class = outer
        if collects:
            gc.enable()


class _CacheOnDemand:
    """The cache of a function, or none; made when it is asked for, which most functions of a module never are."""

    def __init__(self, function: Callable[..., Any], called: bool) -> None:
        self._function, self._called = function, called

    @cached_property
    def _cache(self) -> _Cache | NullCache:
        with suppress(RuntimeError, OSError):  # no folder can be written, or the sources are no files
            return _Cache(self._function, self._called)
        return NullCache()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def _make(function: Callable[..., Any], *, called: bool, **options: bool) -> Any:
    made = njit(
        nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=called, pipeline_class=_Compiler, **options
    )(function)
    made._cache = _CacheOnDemand(function, called)
    return made


def _make_both(function: Function, *, counts: bool) -> Function:
    """Compile for Python, and for compiled functions by themselves; ``counts``: references to arrays are counted."""
    made = _make(function, called=False, _nrt=counts, forceinline=False)

    @cache
    def make_called() -> Any:
        return _make(function, called=True, _nrt=counts, forceinline=False)

    def resolve_types(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        plain = {name: unliteral(each) for name, each in named.items()}
        return make_called().get_call_template(tuple(map(unliteral, given)), plain)

    made.get_call_template = resolve_types
    made.get_overload = lambda signature: make_called().get_overload(signature)
    return cast(Function, made)


def compiled(function: Function) -> Function:
    """Compile for the CPU at the first call: serial, without the interpreter lock. It makes and returns no array.

    What other compiled functions call is compiled for them alone, without what Python needs to call it. A constant
    that is given to a compiled function is a number like any other there: no function is compiled once more for it.
    The machine code is kept in Numba's cache (``NUMBA_CACHE_DIR``, else beside the module, else in the user's cache
    folder); where none of them can be written, each process compiles for itself.

    Arrays come from the caller, whose they stay: that nobody counts references to them makes code of half the size.
    """
    return _make_both(function, counts=False)


def allocating(function: Function) -> Function:
    """Compile as :func:`compiled` does a function that makes arrays."""
    return _make_both(function, counts=True)


def inlined(function: Function) -> Function:
    """Make part of each compiled caller, in the least time of a call: for what an inner loop does."""
    return cast(Function, _make(function, called=True, _nrt=False, forceinline=True))


def _type_fetch_add(_context: Any, array: Any, _at: Any, _amount: Any) -> tuple[Any, Callable[..., Any]]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        made = context.make_array(kind)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, kind, made, [arguments[1]], wraparound=False)
        return builder.atomic_rmw("add", place, arguments[2], "monotonic")

    return array.dtype(array, types.int64, array.dtype), emit


fetch_add: Callable[[NDArray[Any], Index, Any], Any] = intrinsic(_type_fetch_add)
"""``fetch_add(array, at, amount)`` in compiled code: ``array[at] += amount`` in one step; returns the value before.

``amount`` is of the dtype of the array.
"""
