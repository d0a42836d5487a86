"""Compile all CUDA sources, with all defines that are launched, into the machine code for the wheel.

python -m tools.build_cubins [-j THREADS] [ARCHITECTURE ...]

Needs NVRTC, not a GPU. A name of a file is its stamp, of the source, the defines, the architecture and the compiler's
major version: what lies in the folder is not compiled again, and files of other sources are removed. Launched kernels
have a budget of registers and memory, which the tests check: the entries of ``budgets.json`` name it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cupy.cuda import nvrtc

from papilio.kernels.device import compile as cubins
from papilio.kernels.device.compile import read_source
from papilio.kernels.device.constants import with_constants

BUDGET_FILE = Path(cubins.__file__).parent / "budgets.json"

ARCHITECTURES = (75, 80, 86, 90, 100, 120)
"""The oldest of each major version, and of those with less shared memory; others take the code of these."""

_LITTLE_SHARED = (75, 86, 120)
"""Where a block has less than 160 KiB of shared memory, for which ``kernels/tuning.py`` has rows of their own."""

_BLOCKS_THERE = {
    "biclique ALGORITHM=0": 2, "biclique ALGORITHM=1": 2, "biclique_blocks LEFT=3": 4,
    "biclique_blocks LEFT=4": 2, "biclique_vertices": 1, "clique": 1, "clique_maximal": 1,
}  # fmt: skip
"""Blocks of a multiprocessor there, by the source and the defines, or the source alone."""

_BLOCKS = re.compile(r" MIN_BLOCKS=\d+")


def read_variant(entry: str) -> tuple[str, dict[str, int]]:
    """Return the source and the defines of an entry such as ``"butterfly PER=1"``."""
    stem, *defines = entry.split()
    return stem, {name: int(value) for name, value in (define.split("=") for define in defines)}


def list_entries(arch: int) -> list[str]:
    """Return the launched kernels on an architecture, as entries of the budgets; for 8.6 the differences from 8.0."""
    budgets = json.loads(BUDGET_FILE.read_text())["budgets"]
    if arch not in _LITTLE_SHARED:
        return [*budgets]
    entries = {entry: _with_blocks_there(entry) for entry in budgets}
    return [fewer for entry, fewer in entries.items() if arch != 86 or fewer != entry]


def _with_blocks_there(entry: str) -> str:
    """Return the entry as launched on devices with little shared memory."""
    plain = _BLOCKS.sub("", entry)
    blocks = _BLOCKS_THERE.get(plain, _BLOCKS_THERE.get(plain.split()[0]))
    return entry if blocks is None or plain == entry else f"{plain} MIN_BLOCKS={blocks}"


def build_cubin(entry: str, arch: int, folder: Path) -> Path:
    """Compile an entry unless its file is there and whole; return its file."""
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


def build(asked: Iterable[tuple[str, int]], folder: Path, threads: int | None = None) -> list[Path]:
    """Compile entries for architectures, by default on all processors, and remove what else lies in the folder."""
    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(threads or len(os.sched_getaffinity(0))) as pool:
        made = list(pool.map(lambda each: build_cubin(each[0], each[1], folder), asked))
    for path in set(folder.glob("*.cubin")) - set(made):
        path.unlink()
    return list(dict.fromkeys(made))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", type=int, metavar="ARCHITECTURE")
    parser.add_argument("-j", type=int, metavar="THREADS", help="by default one for each processor")
    given = parser.parse_args()
    known = [arch for arch in ARCHITECTURES if arch in nvrtc.getSupportedArchs()]
    asked = ((entry, arch) for arch in given.architectures or known for entry in list_entries(arch))
    found = build(asked, cubins.FOLDER, given.j)
    size = sum(path.stat().st_size for path in found)
    print(f"{len(found)} files, {size / 2**20:.1f} MiB in {cubins.FOLDER}")
