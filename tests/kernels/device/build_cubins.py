"""Compile all CUDA sources, with all defines that are launched, into the machine code that a wheel brings along.

python -m tests.kernels.device.build_cubins [ARCHITECTURE ...]

Needs NVRTC, not a GPU. What lies in the folder from other sources is removed. The defines are those of
``budgets.json``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cupy.cuda import nvrtc

from papilio.kernels.device import cubins
from papilio.kernels.device.constants import with_constants
from papilio.kernels.device.sources import read_source
from tests.kernels.device.test_compile import BUDGETS, read_variant

ARCHITECTURES = (75, 80, 90, 100, 120)
"""The oldest of each major version; what else there is compiles at its first run."""


def build_cubin(entry: str, arch: int, folder: Path) -> Path:
    """Compile an entry such as ``"butterfly PER=1"`` unless its file is there and whole; return its file."""
    stem, own = read_variant(entry)
    text, defines, cuda = read_source(f"{stem}.cu"), with_constants(own), nvrtc.getVersion()[0]
    found = cubins.find_cubin(text, defines, str(arch), cuda)
    if found is not None and found.name.endswith(f".cuda{cuda}.sm_{arch}.cubin"):
        return found
    program = nvrtc.createProgram(text, f"{stem}.cu", (), ())
    given = tuple(f"-D{name}={value}" for name, value in sorted(defines.items()))
    nvrtc.compileProgram(program, (*cubins.OPTIONS, *given, f"-arch=sm_{arch}"))
    content = nvrtc.getCUBIN(program)
    nvrtc.destroyProgram(program)
    path = folder / cubins.name_cubin(text, defines, arch, cuda, content)
    path.write_bytes(content)
    return path


def build(entries: Iterable[str], architectures: Sequence[int], folder: Path) -> list[Path]:
    """Compile entries for architectures, in all processors, and remove what else lies in the folder."""
    folder.mkdir(exist_ok=True)
    asked = [(entry, arch, folder) for entry in entries for arch in architectures]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda each: build_cubin(*each), asked))
    for path in set(folder.glob("*.cubin")) - set(made):
        path.unlink()
    return made


if __name__ == "__main__":
    known = [arch for arch in ARCHITECTURES if arch in nvrtc.getSupportedArchs()]
    found = build(BUDGETS, [int(word) for word in sys.argv[1:]] or known, cubins.FOLDER)
    size = sum(path.stat().st_size for path in found)
    print(f"{len(found)} files, {size / 2**20:.1f} MiB in {cubins.FOLDER}")
