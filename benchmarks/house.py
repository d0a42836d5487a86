"""How large the house is, and how many rooms a question passes through.

    python -m benchmarks.house lines                 # lines by package, of the files that git knows here
    python -m benchmarks.house ways STORE            # files that a size and a lease pass through, of a bipartite store
    python -m benchmarks.house walk STORE            # functions and files that this count passes through, and how deep

``ways`` counts bicliques of the store once by the command line, in this process, and looks at every call of a function
of the package. A file lies on the way of the size when one of its functions is given an argument that holds the motif,
or the size itself under its own name; on the way of a lease when it is given a lease, what is left of one, or its
result. Run it on another checkout by ``PYTHONPATH``; it needs nothing of the package but the command line.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import papilio

PACKAGE = Path(papilio.__file__).resolve().parent
SIZES = ("p", "p_size", "size_u", "n_left", "depth", "least_p")
LEASES = frozenset({"LeaseTask", "LeaseResult", "ItemRange"})
MOTIF = "Biclique"


def count_lines() -> Counter[str]:
    """Return the lines of Python and CUDA files by package; files of the top folder are ``papilio``."""
    listed = subprocess.run(
        ["git", "ls-files", "papilio/*.py", "papilio/*.cu", "papilio/*.cuh"],
        cwd=PACKAGE.parent, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    lines: Counter[str] = Counter()
    for name in listed:
        inside = Path(name).parts[1:-1]
        lines["/".join(inside[:1]) or "papilio"] += len((PACKAGE.parent / name).read_text().splitlines())
    return lines


def held(value: Any, depth: int) -> Iterator[str]:
    """Yield the names of the types of a value and of its contents, ``depth`` levels down."""
    yield type(value).__name__
    if depth and hasattr(type(value), "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from held(getattr(value, name, None), depth - 1)


def watch(ways: dict[str, set[str]]) -> Callable[[FrameType, str, Any], None]:
    """Return a profile function that records the files of the package on each way."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(str(PACKAGE)):
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        file = str(Path(code.co_filename).relative_to(PACKAGE.parent))
        for name in names:
            value = frame.f_locals.get(name)
            types = set(held(value, 2))
            if MOTIF in types or (name in SIZES and isinstance(value, int)):
                ways["size"].add(file)
            if types & LEASES:
                ways["lease"].add(file)

    return note


class Walk:
    """The functions of the package that are called, and the most of them that wait for each other in a thread.

    Bodies of classes count as functions, and are also counted apart; those of modules, expressions and lambdas do not.
    """

    def __init__(self) -> None:
        self.called: set[CodeType] = set()
        self.bodies: set[CodeType] = set()
        self.depth = 0
        self._lock = threading.Lock()

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; a profile function."""
        if event != "call" or not self._is_function(frame.f_code):
            return
        depth, above = 0, frame
        while above is not None:
            depth += self._is_function(above.f_code)
            above = above.f_back  # type: ignore[assignment]
        with self._lock:
            self.called.add(frame.f_code)
            if "__module__" in frame.f_code.co_names and "__qualname__" in frame.f_code.co_names:
                self.bodies.add(frame.f_code)
            self.depth = max(self.depth, depth)

    @staticmethod
    def _is_function(code: CodeType) -> bool:
        return code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<")


def follow(store: str, profile: Callable[[FrameType, str, Any], None]) -> None:
    """Count once by the command line, with a profile function."""
    from papilio.cli import main

    command = ["count", "biclique", store, "-p", "3", "-q", "4", "--cluster", "inline", "--engine", "cpu"]
    # Compiling passes through thousands of calls: it is done before.
    subprocess.run([sys.executable, "-m", "papilio", *command], check=True, capture_output=True)
    threading.setprofile(profile)
    sys.setprofile(profile)
    sys.argv = ["papilio", *command]
    try:
        main()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["lines", "ways", "walk"])
    parser.add_argument("store", nargs="?")
    given = parser.parse_args()
    if given.what == "lines":
        lines = count_lines()
        for package, number in sorted(lines.items()):
            print(f"{package:14} {number:7,}")
        print(f"{'all':14} {lines.total():7,}")
        return
    if given.store is None:
        parser.error(f"{given.what} needs a store")
    if given.what == "walk":
        walk = Walk()
        follow(given.store, walk.note)
        files = {code.co_filename for code in walk.called}
        print(f"{len(walk.called)} functions, {len(walk.called - walk.bodies)} without bodies of classes")
        print(f"{len(files)} files, {walk.depth} frames deep")
        return
    ways: dict[str, set[str]] = {"size": set(), "lease": set()}
    follow(given.store, watch(ways))
    for way, files in ways.items():
        print(f"{way}: {len(files)} files")
        for file in sorted(files):
            print(f"  {file}")


if __name__ == "__main__":
    main()
