"""Compile the CPU kernels into the machine code for the wheel, for each level of x86-64 processors.

python -m tools.build_machine_code

Runs all questions and the commands below on small graphs; the wheel holds the code compiled meanwhile. Other files in
the folder are removed.
"""

from __future__ import annotations

import os
import platform
import tempfile
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

os.environ["NUMBA_CPU_NAME"] = "generic"  # read when Numba is imported; LLVM optimises for each level later

from papilio.kernels import jit

_GRAPH = "--scale-u 8 --edges 2000 --seed 1"

COMMANDS = (
    f"generate rmat {_GRAPH} --scale-v 8 votes", f"generate rmat {_GRAPH} --scale-v 8 --signs 0.5 signed",
    f"generate rmat {_GRAPH} friends", "info votes",
    *(f"count butterfly votes --per {per}" for per in ("total", "vertex", "edge")),
    *(f"count biclique votes {sizes}" for sizes in ("-p 3 -q 4", "-p 6 -q 6", "-p 3 --all-q", "--all-p -q 3", "--all")),
    *(f"estimate biclique votes {sizes}" for sizes in ("-p 3 -q 4", "-p 6 -q 6", "--all")),
    "estimate maximal-biclique votes", "estimate clique friends -k 5", "estimate maximal-clique friends",
    "count maximal-biclique votes", "count balanced-butterfly signed -k 3 --pair-side u",
    "count balanced-biclique signed -p 3 -q 3",
    "census signed --pair-side u", "census signed --pair-side u --top 10 --by coherent",
    *(f"count clique friends {sizes}" for sizes in ("-k 3", "-k 5", "--all-k")), "count maximal-clique friends",
    "enumerate biclique votes -p 3 -q 4 --output listed-bicliques",
    "enumerate maximal-biclique votes --output listed-maximal",
    "enumerate clique friends -k 4 --output listed-cliques",
    "enumerate maximal-clique friends --output listed-maximal-cliques",
    "measure maximum-clique friends", "measure maximum-clique friends --per vertex",
    "measure maximal-biclique-top votes", "measure robins-alexander votes",
    "measure latapy votes", "measure local votes --per vertex", "measure local votes --per edge",
    "measure cohesion votes", "measure top votes --per vertex", "measure top votes --per edge",
    "decompose wing votes --output wings", "decompose tip votes --layer u --output tips",
)  # fmt: skip
"""Run in an empty folder, in this order."""


def build(folder: Path, commands: tuple[str, ...] = COMMANDS, *, ahead: bool = True) -> list[Path]:
    """Compile what the commands use, and with ``ahead`` all questions, into a folder; return its files."""
    from papilio.kernels.compiling import also_kept
    from papilio.tasks.warming import warm_everything

    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    jit.this_machine().levels.clear()  # already packaged code is not used
    if platform.machine() == "x86_64":
        also_kept.extend((folder.resolve(), jit.Target(name, name)) for name in jit.LEVELS)
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch), redirect_stdout(StringIO()):
        os.environ["NUMBA_CACHE_DIR"] = scratch
        for command in commands:
            _run(command)
        if ahead:
            warm_everything(("cpu",), lambda what, seconds: None)
    return sorted(folder.iterdir())


def _run(command: str) -> None:
    from papilio.cli import main

    try:
        main([*command.split(), "--quiet"])
    except SystemExit as end:
        if end.code:
            raise SystemExit(f"papilio {command} ended with {end.code}") from end


if __name__ == "__main__":
    found = build(jit.PACKAGED)
    size = sum(path.stat().st_size for path in found)
    print(f"{len(found)} files, {size / 2**20:.1f} MiB in {jit.PACKAGED}")
