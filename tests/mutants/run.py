"""Plant known faults, one at a time, and see that the tests named with each of them fail.

A fault is a patch in ``python`` or ``cuda`` beside this file. The lines before the first ``diff`` say what is known::

    # killed by: tests/kernels/wedge/test_butterfly.py::test_equals_the_oracle   (one or several; each must fail)
    # equivalent: why no test can tell it from the sound code

``python -m tests.mutants.run [-j PROCESSES] [PART OF A NAME ...]`` (``make mutants``) applies each patch to a copy of
the tree. Before the faults, all tests named are run on a sound copy, where they must pass.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "Outcome", "apply", "copy_tree", "read_mutants", "try_mutant"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent

LIMIT_S = 1800
"""Of the tests of one mutant; a fault that makes them endless counts as found."""

_LINE = re.compile(r"# (killed by|equivalent): *(.+)")
_TEST = re.compile(r"tests/\S+?::\w+(?:\[[^\]]*\])?")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[| |$)", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A fault to plant.

    Attributes
    ----------
    path : Path
        The patch.
    tests : tuple of str
        Each must fail.
    equivalent : str
        Why no test can fail, or empty.
    """

    path: Path
    tests: tuple[str, ...]
    equivalent: str

    @property
    def name(self) -> str:
        """Language and name of the patch."""
        return f"{self.path.parent.name}/{self.path.stem}"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: "killed", "equivalent", "survived" or "broken", why, and after how many seconds."""

    state: str
    reason: str
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the tests do what the patch says."""
        return self.state in ("killed", "equivalent")


def read_mutants(folder: Path = FOLDER) -> list[Mutant]:
    """Read the patches.

    Raises
    ------
    ValueError
        For a patch that names neither tests nor a reason, or both.
    """
    mutants = []
    for path in sorted(folder.glob("*/*.patch")):
        head = path.read_text().partition("\ndiff ")[0]
        found = _LINE.findall(head)
        tests = tuple(test for kind, text in found if kind == "killed by" for test in _TEST.findall(text))
        reasons = " ".join(text for kind, text in found if kind == "equivalent")
        kinds = {kind for kind, _ in found}
        if len(kinds) != 1 or bool(tests) == bool(reasons):
            raise ValueError(f"{path} begins neither with '# killed by: TEST' nor with '# equivalent: REASON'")
        mutants.append(Mutant(path, tests, reasons))
    return mutants


def apply(patch: Path, tree: Path, *options: str) -> str:
    """Apply a patch to a tree; return what git has against it, empty when it fits."""
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}  # no part of a repository around it
    command = ["git", "apply", *options, str(patch)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env=environment, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or "git apply failed"


@contextmanager
def copy_tree() -> Iterator[Path]:
    """Give a copy of the working tree: what git tracks, and new files that it does not ignore."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True)
    with tempfile.TemporaryDirectory(prefix="papilio-mutant-") as folder:
        tree = Path(folder) / "tree"
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        if (ROOT.parent / "shared").is_dir():
            (tree.parent / "shared").symlink_to((ROOT.parent / "shared").resolve())
        yield tree


def run_tests(tree: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy of the tree."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", "--tb=line", *tests]
    return subprocess.run(
        command, cwd=tree, env=environment | {"PYTHONPATH": str(tree)}, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip


def try_mutant(mutant: Mutant) -> Outcome:
    """Plant a fault in a copy of the tree and run the tests that must fail."""
    began = time.monotonic()

    def outcome(state: str, reason: str = "") -> Outcome:
        return Outcome(state, reason, time.monotonic() - began)

    with copy_tree() as tree:
        if problem := apply(mutant.path, tree):
            return outcome("broken", problem.splitlines()[0])
        if mutant.equivalent:
            return outcome("equivalent", mutant.equivalent)
        try:
            done = run_tests(tree, mutant.tests)
        except subprocess.TimeoutExpired:
            return outcome("killed", f"endless: over {LIMIT_S} s")
    if done.returncode not in (0, 1):
        return outcome("broken", (done.stderr or done.stdout).strip().splitlines()[-1])
    failed = set(_FAILED.findall(done.stdout))
    passed = [test for test in mutant.tests if test.partition("[")[0] not in failed]
    return outcome("survived", f"passed: {', '.join(passed)}") if passed else outcome("killed")


def main() -> int:
    """Try all mutants, or those of which the name holds one of the arguments; return 0 when all are found."""
    parser = argparse.ArgumentParser(description="Plant known faults and see that the tests find them.")
    parser.add_argument("-j", "--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    mutants = [m for m in read_mutants() if not asked.names or any(name in m.name for name in asked.names)]
    tests = tuple(sorted({test for mutant in mutants for test in mutant.tests}))
    if tests:
        with copy_tree() as tree:
            sound = run_tests(tree, tests)
        if sound.returncode != 0:
            print(sound.stdout + sound.stderr)
            print("the tests fail without any fault planted")
            return 1
    wrong = 0
    with ThreadPoolExecutor(asked.processes) as pool:
        for mutant, outcome in zip(mutants, pool.map(try_mutant, mutants), strict=True):
            wrong += not outcome.is_right
            print(
                f"{outcome.state:10} {outcome.seconds:6.0f} s  {mutant.name}  {outcome.reason}".rstrip(),
                flush=True,
            )
    print(f"{len(mutants)} mutants, {wrong} not as their patches say")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
