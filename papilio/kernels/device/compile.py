"""The CUDA sources, their compiler, and the machine code for them in a wheel.

Each source lies with its motif family and includes other sources by name alone. If machine code fits the GPU, nothing
is compiled. The file name of machine code identifies the source (the text with its includes, the defines in it that
differ from the defaults, the options), the architecture, the compiler and the content. Code of another source is thus
never loaded, and a damaged file never reaches the driver, which trusts the sizes in it and crashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from papilio.settings import CUPY_CACHE

FOLDER = Path(__file__).resolve().parent / "cubins"
"""Written by ``make wheel``; a checkout has none."""

OPTIONS = ("-std=c++17", "-ftz=true", "--device-as-default-execution-space")
"""Compiler options of the sources, as CuPy's."""

_DEFAULT = re.compile(r"^#ifndef (\w+)\n#define \1 (\S+)$", re.MULTILINE)
_WORD = re.compile(r"[A-Z]\w+")
_NAME = re.compile(r"(?P<source>\w+)\.(?P<content>\w+)\.cuda(?P<cuda>\d+)\.sm_(?P<arch>\d+)\.cubin")


def name_cubin(text: str, defines: Mapping[str, int], arch: int, cuda: int, content: bytes) -> str:
    """Return the name of a file that holds ``content``.

    ``text`` is a source with its includes expanded; ``arch`` the compute capability, 90 for 9.0; ``cuda`` the major
    version of the compiler.
    """
    return f"{_digest_source(text, defines)}.{_digest(content)}.cuda{cuda}.sm_{arch}.cubin"


def find_cubin(text: str, defines: Mapping[str, int], capability: str, cuda: int) -> Path | None:
    """Return an undamaged file for a compute capability, such as "90", and CUDA driver, or None.

    Code for an architecture also runs on later ones of the same major version, and a driver loads code from compilers
    of the same major version or an older one.
    """
    found = list(_list_fitting(_digest_source(text, defines), capability, cuda))
    for name, path in sorted(found, key=lambda each: int(each[0]["arch"]), reverse=True):
        if _digest(path.read_bytes()) == name["content"]:
            return path
    return None


def count_cubins(capability: str, cuda: int) -> int:
    """Return the number of sources that have a file which :func:`find_cubin` may return."""
    return len({name["source"] for name, _ in _list_fitting("*", capability, cuda)})


def _list_fitting(source: str, capability: str, cuda: int) -> Iterator[tuple[re.Match[str], Path]]:
    """Yield the parts of the name, and the path, of each file of a source that fits the architecture and compiler."""
    fitting = range(10 * int(capability[:-1]), int(capability) + 1)
    for path in FOLDER.glob(f"{source}.*.cubin"):
        name = _NAME.fullmatch(path.name)
        if name is not None and int(name["cuda"]) <= cuda and int(name["arch"]) in fitting:
            yield name, path


def _digest_source(text: str, defines: Mapping[str, int]) -> str:
    defaults, words = dict(_DEFAULT.findall(text)), set(_WORD.findall(text))
    given = [
        f"{name}={value}"
        for name, value in sorted(defines.items())
        if name in words and defaults.get(name) != str(value)
    ]
    return _digest("\0".join((text, *OPTIONS, *given)).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


SOURCES = {path.name: path for path in sorted(Path(__file__).resolve().parent.parent.glob("*/*.cu*"))}
"""Every ``.cu`` and ``.cuh`` file, by name."""

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


def read_source(name: str, included: set[str] | None = None) -> str:
    """Return the text of a source file with its includes expanded, each once.

    A single self-contained text makes the compiler's cache key cover the headers too.
    """
    seen = included if included is not None else set()

    def expand(match: re.Match[str]) -> str:
        header = match.group(1)
        if header in seen:
            return ""
        seen.add(header)
        return read_source(header, seen)

    text = SOURCES[name].read_text(encoding="utf-8").replace("#pragma once\n", "")
    return _INCLUDE.sub(expand, text)


_PROBE = 'extern "C" __global__ void probe(unsigned long long *out) { atomicAdd(out, 1ULL); }'


@dataclass(frozen=True)
class Toolchain:
    """The installed CuPy."""

    cupy: str  # version
    cuda: tuple[int, int]  # CUDA version that CuPy is built for, major and minor
    nvrtc: str | None  # version, if it compiled a small kernel
    nvrtc_problem: str  # why it did not, else empty


def inspect_toolchain() -> Toolchain:
    """Import CuPy and compile a small kernel; needs no GPU and creates no CUDA context.

    An ImportError or OSError of CuPy passes through, for example if it cannot create its kernel cache.
    """
    import cupy
    from cupy.cuda import nvrtc

    version = int(cupy.cuda.runtime.runtimeGetVersion())
    found, problem = None, ""
    try:
        program = nvrtc.createProgram(_PROBE, "probe.cu", (), ())
        nvrtc.compileProgram(program, (f"--gpu-architecture=sm_{min(nvrtc.getSupportedArchs())}",))
        if not nvrtc.getCUBIN(program):
            problem = "it returned no code"
        nvrtc.destroyProgram(program)
        found = "{}.{}".format(*nvrtc.getVersion())
    except (ImportError, RuntimeError, nvrtc.NVRTCError) as error:
        problem = str(error)
    return Toolchain(cupy.__version__, (version // 1000, version % 1000 // 10), None if problem else found, problem)


def kernel_cache_directory() -> Path:
    """Return where CuPy keeps compiled kernels: ``CUPY_CACHE_DIR``, else ``~/.cupy/kernel_cache``."""
    return Path(CUPY_CACHE.value or Path.home() / ".cupy" / "kernel_cache")
