"""Compile the CPU kernels into the machine code for the wheel, for each level of x86-64 processors.

python -m tools.build_machine_code

Runs all questions and the commands below on small graphs; the wheel holds the code compiled meanwhile. Other files in
the folder are removed.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

os.environ["NUMBA_CPU_NAME"] = "generic"  # read when Numba is imported; LLVM optimises for each level later

from papilio.families import resolve
from papilio.kernels import jit
from papilio.kernels.engine import Engine
from papilio.tasks.warming import list_questions, warm_everything

_GRAPH = "--scale-u 8 --edges 2000 --seed 1"

_PROBES = {"total": ("probe", "probe_counts"), "vertex": ("probe_vertices",), "edge": ()}
"""Methods of engines that estimate; most classes have one of them."""


def list_commands() -> Iterator[str]:
    """Yield the questions of all motifs as commands: counts, estimates where there are any, and listings."""
    for number, question in enumerate(list_questions("cpu")):
        motif, row = question.motif, question.family
        store = "signed" if motif.needs_signs else "votes" if row.graph_kind == "bipartite" else "friends"
        words = " ".join((motif.words[0], store, *motif.words[1:]))
        if question.listing is not None:
            yield f"enumerate {words} --output listed-{number}"
        elif not question.options:
            yield f"count {words} --per {question.per}"
            engine = resolve(row.engines["cpu"])
            if any(getattr(engine, name) is not getattr(Engine, name) for name in _PROBES[question.per]):
                yield f"estimate {words} --per {question.per}"


COMMANDS = (
    f"generate rmat {_GRAPH} --scale-v 8 votes", f"generate rmat {_GRAPH} --scale-v 8 --signs 0.5 signed",
    f"generate rmat {_GRAPH} friends", "info votes", *list_commands(),
    *(f"count biclique votes {sizes}" for sizes in ("-p 3 -q 4", "-p 3 --all-q", "--all-p -q 3")),
    "estimate biclique votes -p 3 -q 4", "estimate clique friends -k 5",
    "census signed --pair-side u --top 10 --by coherent",
    "count clique friends -k 5", "enumerate biclique votes -p 3 -q 4 --output listed-bicliques",
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
