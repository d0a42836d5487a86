"""Files of machine code for CPUs.

There is one file per function and argument types. The file name identifies the sources and the processor, so other code
is never loaded; a digest in the file detects damage. A wheel contains such files for generic processors (``make
wheel``), or, built by ``pip install .``, for processors like the builder's.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm  # type: ignore[import-untyped]

from papilio.settings import NUMBA_CACHE

PACKAGED = Path(__file__).parent / "machine_code"
"""Of an installed package, and of a checkout after ``make wheel``."""


class Target(NamedTuple):
    """A kind of processor, named as in LLVM."""

    name: str  # in file names
    cpu: str
    features: str = ""


LEVELS = {
    "x86-64-v3": "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave",
    "x86-64-v2": "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3",
}
"""Levels that a wheel has code for, best first, and the features that a processor needs to run it."""


class _Machine:
    """This processor, and the memory of its loaded code."""

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

    @property
    def packaged(self) -> list[Target]:
        """The targets for which a package may have code that runs here, best first."""
        return [*self.levels, self.target]

    def link(self, code: bytes, entry: str) -> int:
        """Load an object file, for good, and return the address of one of its functions."""
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        return int(self._engine.get_function_address(entry))


this_machine = cache(_Machine)


def list_folders() -> list[Path]:
    """Return the folders of code compiled here; files are written to the first writable one."""
    if NUMBA_CACHE.value:
        return [Path(NUMBA_CACHE.value)]
    return [Path(__file__).parent / "__pycache__", Path.home() / ".cache" / "papilio"]


def read_code(name: str) -> bytes | None:
    """Return the content of an undamaged file for this processor, or None."""
    machine = this_machine()
    places = [(folder, machine.target) for folder in list_folders()]
    for folder, target in places + [(PACKAGED, target) for target in machine.packaged]:
        with suppress(OSError):
            content = (folder / f"{name}.{target.name}").read_bytes()
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return content[32:]
    return None


def count_packaged() -> tuple[str, int] | None:
    """Return the processor's best target with packaged code, and its number of functions. None without any."""
    counts = ((target.name, len(list(PACKAGED.glob(f"*.{target.name}")))) for target in this_machine().packaged)
    return next((each for each in counts if each[1]), None)


def write_code(folder: Path, name: str, target: Target, content: bytes) -> None:
    """Write the content under a temporary name, then rename it. Other processes may read meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{name}.{os.getpid()}.part"
    temporary.write_bytes(hashlib.sha256(content).digest() + content)
    temporary.replace(folder / f"{name}.{target.name}")
