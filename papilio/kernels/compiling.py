"""Numba's compiler for the CPU kernels: one object file per entry, with its callees.

Imported only if something must be compiled.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from llvmlite import ir
from numba import njit, typeof, types
from numba.core import cgutils
from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.llvm_bindings import create_pass_builder
from numba.core.types.misc import unliteral
from numba.core.typing.templates import infer, make_intrinsic_template

from papilio.kernels.code_files import Target, list_folders, this_machine, write_code


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """Code that is optimised, and turned into machine code, only as part of an entry.

    Numba would do both for every function, and again for every caller.
    """

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, as for a function without a wrapper: only compiled code calls this one."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return _CodegenOfParts(self._codegen)


class _CodegenOfParts:
    """Code generator of a part; nothing reads its environment."""

    def __init__(self, codegen: CPUCodegen) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None: ...


class _Compiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, turning a function and everything it calls into parts."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = _Part(codegen, function.__qualname__)
        with _making_parts(codegen):
            return super().compile_extra(function)


@contextmanager
def _making_parts(codegen: CPUCodegen) -> Iterator[None]:
    """Compile to parts inside the block, without garbage collection, which takes a tenth of the time."""
    outer, collects = codegen._library_class, gc.isenabled()
    codegen._library_class = _Part
    gc.disable()
    try:
        yield
    finally:
        codegen._library_class = outer
        if collects:
            gc.enable()


def make_dispatcher(function: Callable[..., Any], *, inlined: bool) -> Any:
    """Return the dispatcher that compiles a function for compiled callers and entries, without reference counts."""
    made = njit(
        nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True, pipeline_class=_Compiler, _nrt=False,
        forceinline=inlined,
    )(function)  # fmt: skip
    resolve = made.get_call_template

    def resolve_types(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return resolve(tuple(map(unliteral, given)), {name: unliteral(each) for name, each in named.items()})

    made.get_call_template = resolve_types
    return made


_FORMATS = {
    types.int64: "q", types.uint64: "Q", types.int32: "i", types.uint32: "I", types.boolean: "?", types.float64: "d",
    types.float32: "f", types.uint8: "B", types.int8: "b", types.uint16: "H", types.int16: "h", types.none: "",
}  # fmt: skip


def _format_result(kind: Any) -> str:
    """Return the :mod:`struct` format of a result in memory; in parentheses for a tuple."""
    kind = unliteral(kind)
    if isinstance(kind, types.BaseTuple):
        return f"({''.join(_FORMATS[unliteral(each)] for each in kind)})"
    return _FORMATS[kind]


also_kept: list[tuple[Path, Target]] = []
"""Further folders and processors to compile all code for: the contents of a wheel."""


def compile_code(dispatcher: Any, given: tuple[Any, ...], n_slots: int, entry: str, *, keep: bool) -> bytes:
    """Return the file content of a function: result format, line feed, object file for this processor."""
    kinds = tuple(map(typeof, given))
    dispatcher.compile(kinds)
    made = dispatcher.overloads[kinds]
    begin = f"{_format_result(made.signature.return_type)}\n".encode()
    bitcode = made.library._final_module.as_bitcode()
    bitcode = _add_entry(bitcode, made.fndesc.llvm_func_name, n_slots, entry)
    target = this_machine().target
    content = begin + emit(bitcode, entry, target)
    for folder in list_folders() if keep else ():
        with suppress(OSError):
            write_code(folder, entry, target, content)
            break
    for folder, other in also_kept if keep else ():
        write_code(folder, entry, other, begin + emit(bitcode, entry, other))
    return content


def _add_entry(bitcode: bytes, name: str, n_slots: int, entry: str) -> bytes:
    """Add an entry that reads the arguments of a function from memory, 8 bytes each, and calls it."""
    module = llvm.parse_bitcode(bitcode)
    _, _, *arguments = module.get_function(name).arguments
    assert len(arguments) == n_slots, "all that an argument consists of has a slot"
    lines = [f"  %p{at} = getelementptr i64, ptr %memory, i64 {1 + at}" for at in range(n_slots + 1)]
    lines += [f"  %a{at} = load {each.type}, ptr %p{at}" for at, each in enumerate(arguments)]
    words = ["ptr", "ptr", *(str(each.type) for each in arguments)]
    values = [
        f"ptr %p{n_slots}",
        "ptr %memory",
        *(f"{each.type} %a{at}" for at, each in enumerate(arguments)),
    ]
    made = llvm.parse_assembly(
        f'declare i32 @"{name}"({", ".join(words)})\n'
        f'define i32 @"{entry}"(ptr %memory) {{\n'
        + "\n".join(lines)
        + f'\n  %status = call i32 @"{name}"({", ".join(values)})\n  ret i32 %status\n}}\n'
    )
    module.link_in(made)
    return bytes(module.as_bitcode())


def emit(bitcode: bytes, entry: str, target: Target) -> bytes:
    """Optimise a module for a kind of processor. Return its machine code, in which only the entry is visible."""
    module = llvm.parse_bitcode(bitcode)
    for function in module.functions:
        if not function.is_declaration and function.name != entry:
            function.linkage = "internal"
    machine = llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="static", codemodel="jitdefault", jit=True
    )
    builder = create_pass_builder(machine, opt=3, loop_vectorize=True, slp_vectorize=False)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _type_fetch_add(_context: Any, array: Any, _at: Any, _amount: Any) -> tuple[Any, Callable[..., Any]]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        made = context.make_array(kind)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, kind, made, [arguments[1]], wraparound=False)
        return builder.atomic_rmw("add", place, arguments[2], "monotonic")

    return array.dtype(array, types.int64, array.dtype), emit


def _type_popcount(_context: Any, _word: Any) -> tuple[Any, Callable[..., Any]]:
    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit


def _type_prefetch(_context: Any, array: Any, _at: Any) -> tuple[Any, Callable[..., Any]]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        made = context.make_array(kind)(context, builder, arguments[0])
        places = [arguments[1], *[ir.Constant(ir.IntType(64), 0)] * (kind.ndim - 1)]
        place = cgutils.get_item_pointer(context, builder, kind, made, places, wraparound=False)
        address, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        called = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [address, number, number, number]), "llvm.prefetch.p0"
        )
        for_writing, kept, data = (ir.Constant(number, each) for each in (1, 3, 1))
        builder.call(called, [builder.bitcast(place, address), for_writing, kept, data])
        return context.get_dummy_value()

    return types.none(array, types.int64), emit


INTRINSICS = {
    name: types.Function(infer(make_intrinsic_template(name, make, name)))
    for name, make in {"fetch_add": _type_fetch_add, "popcount": _type_popcount, "prefetch": _type_prefetch}.items()
}
"""Numba types of the instructions in ``jit.py``."""
