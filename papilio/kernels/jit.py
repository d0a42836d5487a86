"""How the CPU kernels are compiled, found and called, and the names of their array types.

Machine code is a file per function and types of arguments. Its name tells the sources that it was made of and the
processor that it is for, so that no other code is ever found, and a digest in it tells damage. A wheel brings such
files for processors in general (``make wheel``); what is missing is compiled at the first call, for this processor, and
kept. Code that is found is called without importing Numba, which takes longer than most counts.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from ctypes import CFUNCTYPE, c_char, c_int32, c_void_p
from functools import cache, cached_property, update_wrapper
from inspect import signature
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, TypeVar, cast

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

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

PACKAGED = Path(__file__).parent / "machine_code"
"""Written by ``make wheel``; a checkout has none."""


class Target(NamedTuple):
    """A kind of processors, as LLVM names it."""

    name: str  # in names of files
    cpu: str
    features: str = ""


LEVELS = {
    "x86-64-v3": "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave",
    "x86-64-v2": "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3",
}
"""What a wheel has code for, the best first, and the features that a processor must have to run it."""


class _Machine:
    """This processor, and the memory of the code that was loaded for it."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        written, triple = features.flatten(), llvm.get_process_triple()
        cpu = llvm.get_host_cpu_name()
        digest = hashlib.sha256(f"{triple} {written}".encode()).hexdigest()[:12]
        self.target = Target(f"{cpu}-{digest}", cpu, written)
        self.levels = [
            Target(name, name)
            for name, needed in LEVELS.items()
            if triple.startswith("x86_64") and "linux" in triple and all(map(features.get, needed.split()))
        ]
        machine = llvm.Target.from_triple(triple).create_target_machine(jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)

    def link(self, code: bytes, entry: str) -> int:
        """Return the address of a function of an object file, which stays loaded."""
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        return int(self._engine.get_function_address(entry))


this_machine = cache(_Machine)
_lock = RLock()


def list_folders() -> list[Path]:
    """Return where code compiled here is kept, the first where files can be written."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return [Path(named)]
    return [Path(__file__).parent / "__pycache__", Path.home() / ".cache" / "papilio"]


def read_code(name: str) -> bytes | None:
    """Return the content of a whole file for this processor, if there is one."""
    machine = this_machine()
    places = [(folder, machine.target) for folder in list_folders()]
    for folder, target in places + [(PACKAGED, level) for level in machine.levels]:
        with suppress(OSError):
            content = (folder / f"{name}.{target.name}").read_bytes()
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return content[32:]
    return None


def count_packaged() -> tuple[str, int] | None:
    """Return the best level of this processor that there is packaged code for, and the number of functions."""
    counts = ((level.name, len(list(PACKAGED.glob(f"*.{level.name}")))) for level in this_machine().levels)
    return next((each for each in counts if each[1]), None)


def write_code(folder: Path, name: str, target: Target, content: bytes) -> None:
    """Keep the content under another name until it is whole: other processes may read meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{name}.{os.getpid()}.part"
    temporary.write_bytes(hashlib.sha256(content).digest() + content)
    temporary.replace(folder / f"{name}.{target.name}")


def _list_slots(given: tuple[Any, ...], kinds: list[str], slots: list[Any]) -> None:
    """Append the kind of each argument, and the numbers of 8 bytes that compiled code takes for it.

    The kinds are as fine as the types that Numba compiles for.
    """
    for each in given:
        if isinstance(each, np.ndarray):
            flags = each.flags
            order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
            kinds.append(f"{each.dtype.str}{each.ndim}{order}{'' if flags.writeable else 'r'}")
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


def _format_slot(slot: Any) -> str:
    return "d" if isinstance(slot, float) else "q" if slot < 2**63 else "Q"


class _Code:
    """Machine code of a function, loaded.

    It is given one place in memory: 8 bytes of its own, its arguments in 8 bytes each, and what it returns. A status
    other than 0 is an error, a division by zero or a failed assertion; it does not tell which.
    """

    def __init__(self, content: bytes, entry: str) -> None:
        kind, code = content.split(b"\n", 1)
        self._result, self._is_tuple = struct.Struct("@" + kind.decode().strip("()")), kind.startswith(b"(")
        self._entry = entry
        self._run = CFUNCTYPE(c_int32, c_void_p)(this_machine().link(code, entry))

    def __call__(self, slots: list[Any]) -> Any:
        size = 8 + 8 * len(slots)
        memory = (c_char * (size + max(self._result.size, 8)))()  # None is a pointer there
        struct.pack_into("q" + "".join(map(_format_slot, slots)), memory, 0, 0, *slots)
        status = self._run(memory)
        if status:
            raise ArithmeticError(
                f"{self._entry}: compiled code failed with status {status}, for example by a division by zero"
            )
        result = self._result.unpack_from(memory, size)
        return result if self._is_tuple else result[0] if result else None


class _Compiled:
    """A function that is compiled for the types that it is called with.

    Numba takes what it needs to compile callers (``_numba_type_``) when it comes to that.
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
            from papilio.kernels.compiling import compile_code

            content = compile_code(self._dispatcher, given, n_slots, entry, keep=name is not None)
        return _Code(content, entry)

    def _name(self, kind: str) -> str | None:
        """Return a name for the sources and the types, or None where the sources are no files of the package."""
        try:
            code = self._function.__code__
            sources = source_stamp(Path(code.co_filename).resolve()), _stamp_compiler()
        except (ValueError, OSError):
            return None
        text = "\0".join((code.co_qualname, str(code.co_firstlineno), kind, *sources))
        return f"{self._function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@cache
def _stamp_compiler() -> str:
    return source_stamp(Path(__file__).resolve().parent / "compiling.py")


def compiled(function: Function) -> Function:
    """Compile for the CPU at the first call: serial, without the interpreter lock. It makes and returns no array.

    Python may call it with arrays, numbers, None and tuples of these; it returns a number, a tuple of numbers or None.
    What other compiled functions call is compiled for them alone. A constant that is given to a compiled function is a
    number like any other there: no function is compiled once more for it.

    Arrays come from the caller, whose they stay: that nobody counts references to them makes code of half the size.
    """
    return cast(Function, _Compiled(function, inlined=False))


def inlined(function: Function) -> Function:
    """Make part of each compiled caller, in the least time of a call: for what an inner loop does."""
    return cast(Function, _Compiled(function, inlined=True))


@cache
def make_ready() -> None:
    """Import the compiler where no code came with the package: before threads begin, which would import it else."""
    if count_packaged() is None:
        import papilio.kernels.compiling  # noqa: F401


class Instruction:
    """What :mod:`papilio.kernels.compiling` makes an instruction or two of; only compiled code calls it."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _numba_type_(self) -> Any:
        from papilio.kernels.compiling import INTRINSICS

        return INTRINSICS[self._name]


fetch_add = cast(Callable[[NDArray[Any], Index, Any], Any], Instruction("fetch_add"))
"""``fetch_add(array, at, amount)`` in compiled code: ``array[at] += amount`` in one step; returns the value before.

``amount`` is of the dtype of the array.
"""
