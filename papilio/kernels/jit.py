"""Calling the CPU kernels, and the names of their array types.

Existing machine code (:mod:`papilio.kernels.code_files`) is called without importing Numba, which takes longer than
most counts; missing code is compiled at the first call (:mod:`papilio.kernels.compiling`), for this processor, and
kept.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_char, c_int32, c_void_p
from functools import cache, cached_property, update_wrapper
from inspect import signature
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from papilio.kernels.announce import compiling
from papilio.kernels.code_files import count_packaged, read_code, this_machine
from papilio.kernels.stamps import source_stamp

Function = TypeVar("Function", bound=Callable[..., Any])

Bools = NDArray[np.bool_]
Ids = NDArray[np.uint32]
Ints = NDArray[np.int64]
Sums = NDArray[np.uint64]
Index = int | np.signedinteger[Any]
"""A row, a place in the index, or a number of either: int64 once compiled."""
Counters = NDArray[Any]
"""A table of uint8, uint16 or uint32."""
EdgeIds = NDArray[Any]
"""Edge ids, uint32 or int64."""

_lock = RLock()


@cache
def _name_array(dtype: np.dtype[Any], ndim: int, flags: int) -> str:
    """Return the kind of an array; ``flags`` are those of NumPy's C interface."""
    order = "C" if flags & 0x1 else "F" if flags & 0x2 else "A"
    return f"{dtype.str}{ndim}{order}{'' if flags & 0x400 else 'r'}"


def _list_slots(given: tuple[Any, ...], kinds: list[str], slots: list[Any]) -> None:
    """Append the kind of each argument, and the 8-byte numbers that represent it in compiled code.

    The kinds distinguish all types that Numba compiles for.
    """
    for each in given:
        if isinstance(each, np.ndarray):
            kinds.append(_name_array(each.dtype, each.ndim, each.flags.num))
            slots += (0, 0, each.size, each.itemsize, each.ctypes.data, *each.shape, *each.strides)
        elif isinstance(each, tuple):
            kinds.append(f"{type(each).__qualname__}(")
            _list_slots(each, kinds, slots)
            kinds.append(")")
        elif isinstance(each, bool | np.bool_):
            kinds.append("?")
            slots.append(int(each))
        elif isinstance(each, int):
            kinds.append("<i8" if -(2**63) <= each < 2**63 else "<u8")
            slots.append(each)
        elif isinstance(each, float):
            kinds.append("<f8")
            slots.append(each)
        elif isinstance(each, np.integer):
            kinds.append(each.dtype.str)
            slots.append(int(each))
        elif each is None:
            kinds.append("none")
            slots.append(0)
        else:
            raise TypeError(f"compiled functions cannot take arguments of type {type(each).__name__}")


def _format_slots(kind: str) -> str:
    """Return the format of the slots of arguments of this kind, as :mod:`struct` takes it."""
    found = []
    for each in kind.split():
        array = re.fullmatch(r"(.*?)(\d)[CFA]r?", each)
        if array:
            found.append("q" * (5 + 2 * int(array[2])))
        elif not each.endswith(("(", ")")):
            found.append({"<u8": "Q", "<f8": "d"}.get(each, "q"))
    return "".join(found)


class _Code:
    """Loaded machine code of a function.

    It gets the address of a block of memory: 8 bytes for itself, its arguments in 8 bytes each, and its result. A
    nonzero status is an error, a division by zero or a failed assertion; the status does not distinguish them.
    """

    def __init__(self, content: bytes, entry: str, kind: str) -> None:
        result, code = content.split(b"\n", 1)
        self._result, self._is_tuple = struct.Struct("@" + result.decode().strip("()")), result.startswith(b"(")
        self._entry, self._slots = entry, struct.Struct("q" + _format_slots(kind))
        self._run = CFUNCTYPE(c_int32, c_void_p)(this_machine().link(code, entry))

    def __call__(self, slots: list[Any]) -> Any:
        size = self._slots.size
        memory = (c_char * (size + max(self._result.size, 8)))()  # None is a pointer there
        self._slots.pack_into(memory, 0, 0, *slots)
        status = self._run(memory)
        if status:
            raise ArithmeticError(
                f"{self._entry}: compiled code failed with status {status}, for example by a division by zero"
            )
        result = self._result.unpack_from(memory, size)
        return result if self._is_tuple else result[0] if result else None


class _Compiled:
    """A function that is compiled for each combination of argument types it is called with.

    Numba reads ``_numba_type_`` when it compiles a caller.
    """

    def __init__(self, function: Callable[..., Any], *, inlined: bool) -> None:
        update_wrapper(self, function)
        self._function, self._inlined = function, inlined
        self._codes: dict[str, _Code] = {}

    @cached_property
    def _signature(self) -> Any:
        return signature(self._function)

    @cached_property
    def _dispatcher(self) -> Any:
        from papilio.kernels.compiling import make_dispatcher

        return make_dispatcher(self._function, inlined=self._inlined)

    @property
    def _numba_type_(self) -> Any:
        return self._dispatcher._numba_type_

    def __call__(self, *given: Any, **named: Any) -> Any:
        if named or len(given) != self._function.__code__.co_argcount:
            bound = self._signature.bind(*given, **named)
            bound.apply_defaults()
            given = bound.args
        kinds: list[str] = []
        slots: list[Any] = []
        _list_slots(given, kinds, slots)
        kind = " ".join(kinds)
        code = self._codes.get(kind)
        if code is None:
            with _lock:
                code = self._codes.get(kind) or self._load(kind, given, len(slots))
                self._codes[kind] = code
        return code(slots)

    def _load(self, kind: str, given: tuple[Any, ...], n_slots: int) -> _Code:
        name = self._name(kind)
        content = None if name is None else read_code(name)
        entry = name or f"entry_{id(self)}_{len(self._codes)}"
        if content is None:
            with compiling():
                from papilio.kernels.compiling import compile_code

                content = compile_code(self._dispatcher, given, n_slots, entry, keep=name is not None)
        return _Code(content, entry, kind)

    def _name(self, kind: str) -> str | None:
        """Return a name from the sources and the types, or None if the sources are not files of the package."""
        try:
            code = self._function.__code__
            sources = source_stamp(Path(code.co_filename).resolve()), _stamp_compiler()
        except (ValueError, OSError):
            return None
        text = "\0".join((code.co_qualname, str(code.co_firstlineno), kind, *sources))
        return f"{self._function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@cache
def _stamp_compiler() -> str:
    return source_stamp(Path(__file__).resolve())


def compiled(function: Function) -> Function:
    """Compile for the CPU at the first call: serial, without the interpreter lock or new arrays.

    Python may call the function with arrays, numbers, None and tuples of these; it returns a number, a tuple of numbers
    or None. Functions that it calls are compiled into it. Constants passed to a compiled function are treated like any
    other number: they do not cause another compilation.

    The caller owns all arrays; without reference counts the code is half as large.
    """
    return cast(Function, _Compiled(function, inlined=False))


def inlined(function: Function) -> Function:
    """Inline into each compiled caller, for functions called in inner loops."""
    return cast(Function, _Compiled(function, inlined=True))


@cache
def make_ready() -> None:
    """Import the compiler if the package has no machine code, before threads would."""
    if count_packaged() is None:
        with compiling():
            import papilio.kernels.compiling  # noqa: F401


class Instruction:
    """Operation that :mod:`papilio.kernels.compiling` turns into an instruction or two; for compiled code only."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _numba_type_(self) -> Any:
        from papilio.kernels.compiling import INTRINSICS

        return INTRINSICS[self._name]


fetch_add = cast(Callable[[NDArray[Any], Index, Any], Any], Instruction("fetch_add"))
"""``fetch_add(array, at, amount)`` in compiled code: ``array[at] += amount`` atomically; returns the previous value.

``amount`` has the dtype of the array.
"""

prefetch = cast(Callable[[NDArray[Any], Index], None], Instruction("prefetch"))
"""``prefetch(array, at)`` in compiled code: load the entry, or the row, into the cache for a later change.

``at`` is within the array.
"""
