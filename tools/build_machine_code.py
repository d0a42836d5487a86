"""Compile the CPU kernels into machine code ahead of their first use, in several processes.

python -m tools.build_machine_code [-j PROCESSES]

For the wheel of ``make wheel``: for each level of x86-64 processors, into the folder that the wheel takes it from. Code
that lies there and fits the sources is not compiled again, and all other files are removed; after an update of Numba,
empty the folder. ``pip install .`` compiles for processors like the builder's alone (:mod:`tools.wheel_hook`), within a
limit of time. :mod:`tools.machine_code_steps` has what is compiled, the most used first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

MOST_PROCESSES = 8
"""More wait for the same functions, and each takes some 300 MB."""

USED, STEP = "used-", "step-"
"""Prefixes of files that the processes share: names of code that is needed, and numbers of steps that have begun."""


class Built(NamedTuple):
    """Machine code in a folder, and whether the time sufficed for all of it."""

    files: list[Path]
    finished: bool


class BuildError(Exception):
    """A process that compiles has failed; the message is the last line that it wrote."""


def build(
    folder: Path,
    *,
    here: bool = False,
    seconds: float | None = None,
    processes: int | None = None,
    commands: Iterable[str] | None = None,
    ahead: bool = True,
) -> Built:
    """Compile what the commands use, by default those of the steps, and with ``ahead`` all questions, into a folder.

    ``here`` is for processors like this one alone, and else for all levels of x86-64. After ``seconds`` the code that
    there is by then is returned; by default a process runs on each processor. Code in the folder that fits the sources
    is kept; if the time sufficed, all other files are removed. BuildError if a process fails.
    """
    number = min(processes or len(os.sched_getaffinity(0)), MOST_PROCESSES)
    deadline = None if seconds is None else monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    asked: dict[str, Any] = {"folder": str(folder.resolve()), "here": here, "ahead": ahead}
    if commands is not None:
        asked["commands"] = list(commands)
    words = [sys.executable, "-m", "tools.machine_code_steps", json.dumps(asked)]
    places = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    # Numba reads the name of the processor when it is imported; LLVM optimises for each target later.
    settings = {**os.environ, "PYTHONPATH": places, "NUMBA_CPU_NAME": "generic", "CUDA_VISIBLE_DEVICES": ""}
    begun: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as said:
        try:
            for each in range(number):
                own = Path(scratch, str(each))
                own.mkdir()
                begun.append(subprocess.Popen(words, cwd=own, env=settings, stdout=said, stderr=said))
            finished = all(_wait(process, deadline) for process in begun)
        finally:
            for process in begun:
                process.kill()
                process.wait()
        if finished and any(process.returncode for process in begun):
            said.seek(0)
            *_, last = ["it ended without a word", *said.read().decode(errors="replace").split("\n")[:-1]]
            raise BuildError(last)
        used = {path.name for path in Path(scratch).glob(f"{USED}*")}
    for path in folder.iterdir():
        if path.suffix == ".part" or (finished and USED + path.name.partition(".")[0] not in used):
            path.unlink()
    return Built(sorted(folder.iterdir()), finished)


def _wait(process: subprocess.Popen[bytes], deadline: float | None) -> bool:
    """Return whether a process ends before a time of the monotonic clock."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(None if deadline is None else max(0.0, deadline - monotonic()))
        return True
    return False


def main() -> None:
    from papilio.kernels.code_files import PACKAGED

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, metavar="PROCESSES", help="by default one for each processor")
    found = build(PACKAGED, processes=parser.parse_args().j).files
    size = sum(path.stat().st_size for path in found)
    print(f"{len(found)} files, {size / 2**20:.1f} MiB in {PACKAGED}")


if __name__ == "__main__":
    main()
