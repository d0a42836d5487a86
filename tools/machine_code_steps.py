"""What a process of :mod:`tools.build_machine_code` runs: commands and questions on small graphs, to compile for them.

python -m tools.machine_code_steps JSON

Several processes share one list: each runs the steps that no other one has begun, and waits where another one compiles
a function that it needs.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from papilio.errors import InputError, UnsupportedError
from papilio.kernels import code_files, jit
from tools.build_machine_code import STEP, USED

_GRAPH = "--scale-u 8 --edges 2000 --seed 1"

GRAPHS = (
    f"generate rmat {_GRAPH} --scale-v 8 votes", f"generate rmat {_GRAPH} --scale-v 8 --signs 0.5 signed",
    f"generate rmat {_GRAPH} friends",
)  # fmt: skip
"""Make the graphs that the commands name; run by every process, in a folder of its own."""

COMMANDS = (
    "count butterfly votes", "count biclique votes --all", "count butterfly votes --per vertex",
    "enumerate maximal-biclique votes --output listed-maximal", "decompose wing votes --output wings",
    "count biclique votes -p 3 -q 4", "count butterfly votes --per edge", "count clique friends -k 3",
    "plan butterfly votes", "significance butterfly votes --samples 2", "measure maximal-biclique-top votes",
    "measure robins-alexander votes", "count biclique votes --all-p --max-p 6 --all-q", "count clique friends --all-k",
    "count biclique votes -p 6 -q 6 --algorithm enumerate", "count maximal-biclique votes",
    "estimate biclique votes -p 3 -q 4", "project votes --layer u --output pairs", "plan biclique votes -p 6 -q 6",
    "decompose tip votes --layer u --output tips",
    *(f"count biclique votes {sizes}" for sizes in ("-p 6 -q 6", "-p 3 --all-q", "--all-p -q 3")),
    "count clique friends -k 5", "count maximal-clique friends", "info votes",
    "plan maximal-biclique votes", "plan clique friends -k 5",
    *(f"estimate biclique votes {sizes}" for sizes in ("-p 6 -q 6", "--all")),
    "estimate maximal-biclique votes", "estimate clique friends -k 5", "estimate maximal-clique friends",
    "enumerate biclique votes -p 3 -q 4 --output listed-bicliques",
    "enumerate clique friends -k 4 --output listed-cliques",
    "enumerate maximal-clique friends --output listed-maximal-cliques",
    "count balanced-butterfly signed -k 3 --pair-side u", "count balanced-biclique signed -p 3 -q 3",
    "census signed --pair-side u", "census signed --pair-side u --top 10 --by coherent",
    "measure maximum-clique friends", "measure maximum-clique friends --per vertex",
    "measure latapy votes", "measure local votes --per vertex", "measure local votes --per edge",
    "communities clique friends", "communities biclique votes -p 2 -q 2",
    "communities clique friends -k 3 --rows overlaps --output overlaps.csv",
    "measure cohesion votes", "measure top votes --per vertex", "measure top votes --per edge",
)  # fmt: skip
"""Commands, the most used first; each runs once, in whichever process is free."""


def work(folder: Path, here: bool, ahead: bool, commands: Sequence[str] = COMMANDS) -> None:
    """Run the steps that no other process has begun; parameters as of :func:`tools.build_machine_code.build`.

    The current folder is of this process, within one that all share.
    """
    shared, machine = Path.cwd().parent, code_files.this_machine()
    own, *others = choose_targets(here)
    machine.target = own  # compiled, kept and found for this one alone
    machine.levels.clear()
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    code_files.PACKAGED = folder
    _compile_once(folder, shared, [own, *others])
    with redirect_stdout(StringIO()):
        for command in GRAPHS:
            if any(command.split()[-1] in each.split() for each in commands):
                _run(command)
        for number, run in enumerate(_list_steps(commands, ahead)):
            if _claim(shared / f"{STEP}{number}"):
                run()


def _claim(step: Path) -> bool:
    """Return whether no process has begun a step."""
    with suppress(FileExistsError):
        step.touch(exist_ok=False)
        return True
    return False


def choose_targets(here: bool) -> list[code_files.Target]:
    """Return the target that this process compiles for and runs, then the others."""
    machine = code_files.this_machine()
    own = machine.packaged[0]
    if here or platform.machine() != "x86_64":
        return [own]
    return [own, *(code_files.Target(name, name) for name in code_files.LEVELS if name != own.name)]


def _compile_once(folder: Path, shared: Path, targets: list[code_files.Target]) -> None:
    """Let one process compile a function for all targets, while others that need it wait."""
    from papilio.kernels import compiling

    compiling.also_kept.extend((folder, other) for other in targets[1:])
    load = jit._Compiled._load

    def load_alone(self: Any, kind: str, given: Any, n_slots: int) -> Any:
        name = self._name(kind)
        with (shared / f"{USED}{name}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            pieces = [folder / f"{name}.{target.name}" for target in targets]
            if not all(map(Path.exists, pieces)):  # left by a run that was killed
                pieces[0].unlink(missing_ok=True)
            return load(self, kind, given, n_slots)

    jit._Compiled._load = load_alone  # type: ignore[method-assign]


def _list_steps(commands: Sequence[str], ahead: bool) -> Iterator[Callable[[], object]]:
    from papilio.tasks.warming import list_compilations

    yield from (partial(_run, command) for command in commands)
    if ahead:
        for _, ask in list_compilations(("cpu",)):

            def ask_if_possible(ask: Callable[[], object] = ask) -> None:
                with suppress(InputError, UnsupportedError):  # not every motif goes with every option
                    ask()

            yield ask_if_possible


def _run(command: str) -> None:
    from papilio.cli import main

    try:
        main([*command.split(), "--quiet"])
    except SystemExit as end:
        if end.code:
            raise SystemExit(f"papilio {command} ended with {end.code}") from end


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    work(Path(asked.pop("folder")), **asked)
