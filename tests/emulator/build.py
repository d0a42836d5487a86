"""Compiling: the runtime once, each (source, defines, architecture) once, kept in a cache by content.

The cache is shared by all tests (``tests/tools/caches.py``). When several processes or threads need the same file, one
builds it, in a separate folder that is renamed into place, and the others wait.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.emulator.errors import EmulatorError
from tests.emulator.source import Source
from tests.tools.caches import cache_folder, content_key, locked, mark_used

__all__ = ["build_kernels", "build_runtime", "find_compiler", "resolve_locations"]

_HERE = Path(__file__).resolve().parent
_HEADER = _HERE / "cuda_emulator.h"
_RUNTIME_FLAGS = ("-std=c++17", "-g1", "-fPIC", "-shared")
# The instrumentation is ThreadSanitizer's and UndefinedBehaviorSanitizer's, the functions that it calls are the
# runtime's own. The -fno- flags of _KERNEL_FLAGS keep one machine call per call of a barrier in the source, and whole
# vector loads; _SKIPPED are passes that take nearly half of GCC's time and change little in instrumented code.
_SKIPPED = (
    "-fno-tree-pta",
    "-fno-split-wide-types",
    "-fno-forward-propagate",
    "-fno-dce",
    "-fno-dse",
    "-fno-if-conversion",
    "-fno-if-conversion2",
    "-fno-shrink-wrap",
    "-fno-cprop-registers",
    "-fno-ipa-modref",
    "-fno-ipa-pure-const",
    "-fno-ipa-reference",
    "-fira-region=one",
)
_KERNEL_FLAGS = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-fPIC",
    "-w",
    "-fmax-errors=3",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-tree-sra",
    "-fno-thread-jumps",
    "-fno-tree-dominator-opts",
    "-fno-crossjumping",
    "-fno-optimize-sibling-calls",
    *_SKIPPED,
    "-fsanitize=thread",
    "-fsanitize=alignment,bounds,shift-exponent,signed-integer-overflow,integer-divide-by-zero,return,unreachable",
    "-fsanitize-coverage=trace-pc",
)
_LOCATION = re.compile(r"@\{([0-9a-f]+)\}")


@cache
def find_compiler() -> tuple[str, str] | None:
    """Path and version line of GCC (``$CXX``, ``g++`` or ``c++``), or None.

    Only GCC: the emulator depends on where its optimiser leaves the calls of barriers.
    """
    for name in (os.environ.get("CXX"), "g++", "c++"):
        path = shutil.which(name) if name else None
        if path is None:
            continue
        macros = subprocess.run([path, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True)
        if macros.returncode == 0 and "__GNUC__" in macros.stdout and "__clang__" not in macros.stdout:
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
            return path, version.stdout.splitlines()[0]
    return None


def _compiler() -> tuple[str, str]:
    found = find_compiler()
    if found is None:
        raise EmulatorError("no GCC found ($CXX, g++, c++); the emulator compiles kernels with it")
    return found


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise EmulatorError(f"{what} does not compile:\n{done.stderr[:8000]}")


def _cached(name: str, build: Callable[[Path], None]) -> Path:
    """Return the folder ``name`` of the cache; when it is missing, ``build`` fills a new one first."""
    cache = cache_folder("emulator")
    target = cache / name
    if not target.is_dir():
        with locked(f"emulator-{name}"):
            if not target.is_dir():  # no other process was faster
                built = Path(tempfile.mkdtemp(dir=cache))
                try:
                    build(built)
                except EmulatorError:
                    shutil.rmtree(built)
                    raise
                built.rename(target)
    mark_used(target)
    return target


@cache
def build_runtime(ucontext: bool = False) -> Path:
    """The runtime library; ``ucontext`` forces the portable context switch."""
    compiler, version = _compiler()
    files = sorted((_HERE / "runtime").glob("*.cpp"))
    flags = [*_RUNTIME_FLAGS, *(["-O0", "-DPAPILIO_EMU_UCONTEXT"] if ucontext else ["-O2"])]
    texts = [path.read_text() for path in sorted((_HERE / "runtime").iterdir())]

    def build(folder: Path) -> None:
        included = [word for file in files for word in ("-include", str(file))]  # together: their headers once
        unit = ["-x", "c++", os.devnull, "-o", str(folder / "runtime.so"), "-ldl", "-lrt"]
        _run([compiler, *flags, *included, *unit], "the emulator's runtime")

    return _cached(f"runtime-{content_key([version, *flags, *texts])}", build) / "runtime.so"


def build_kernels(sources: Sequence[Source], defines: Mapping[str, int], arch: int, runtime: Path) -> Path:
    """Compile ``sources[0]``, which may include the others, to a library that is linked against ``runtime``.

    Defines that the preprocessor makes the same code of share one library.
    """
    compiler, version = _compiler()
    macros = [f"-D{name}={value}" for name, value in sorted({**defines, "__CUDA_ARCH__": arch}.items())]
    texts = [part for source in sources for part in (source.name, source.text)]
    headers = [_HEADER.read_text(), (_HERE / "runtime" / "abi.h").read_text()]
    main, common = sources[0].name, [version, str(runtime), *_KERNEL_FLAGS, *headers, *texts]

    def compile_in(folder: Path, *step: str) -> None:
        for source in sources:
            file = folder / source.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source.text)
        command = [compiler, *_KERNEL_FLAGS, *macros, "-include", str(_HEADER), f"-I{folder}", *step]
        _run([*command, "-x", "c++", str(folder / main)], main)

    def expand(folder: Path) -> None:
        compile_in(folder, "-E", "-P", "-o", str(folder / "expanded"))

    def build(folder: Path) -> None:
        unit, library = folder / "unit.o", folder / "kernels.so"
        compile_in(folder, "-c", "-o", str(unit))
        _run([compiler, "-shared", str(unit), str(runtime), "-o", str(library)], main)
        unit.unlink()

    expanded = (_cached(f"expanded-{content_key([*macros, *common])}", expand) / "expanded").read_text()
    return _cached(content_key([expanded, *common]), build) / "kernels.so"


def _frames(library: Path, offset: int) -> list[str]:
    """``file:line (function)`` of an instruction, innermost inlined function first, the header's own left out."""
    tool = shutil.which("addr2line")
    if tool is None:
        return []
    command = [tool, "-f", "-C", "-i", "-e", str(library), hex(offset - 1)]  # an address to return to
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    frames = []
    for function, place in zip(lines[::2], lines[1::2], strict=False):
        file, _, line = place.split(" ")[0].rpartition(":")
        if Path(file).name != _HEADER.name and file != "??":
            frames.append(f"{Path(file).name}:{line} ({function.split('(')[0]})")
    return frames


def resolve_locations(message: str, library: Path) -> str:
    """Replace every ``@{offset}`` of the runtime's message by file and line of the kernel source."""

    def name(match: re.Match[str]) -> str:
        frames = _frames(library, int(match[1], 16))
        if not frames:
            return f"{library}+0x{match[1]}"
        return " called from ".join(dict.fromkeys((frames[0], frames[-1])))

    return _LOCATION.sub(name, message)
