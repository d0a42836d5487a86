"""Which tests the default run leaves out: the ones in ``tests/slow.txt``, and most combinations on the emulator.

``tests/slow.txt`` explains itself. On the emulator a test with several parameters runs for as many combinations as have
every value of every parameter once. All others run with the slow tests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["leave_out", "read_names"]

ROOT = Path(__file__).resolve().parents[2]
NAMES = ROOT / "tests" / "slow.txt"


def read_names(path: Path = NAMES) -> dict[str, bool]:
    """Return the names in the file, ``file::test`` or ``file::test[parameters]``, and whether each is left out."""
    names, file = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            name = line.strip()
            names[f"{file}::{name.removeprefix('!')}"] = not name.startswith("!")
        elif line and not line.startswith("#"):
            file = line.strip()
    return names


def leave_out(items: Iterable[pytest.Item], names: dict[str, bool]) -> set[str]:
    """Mark as slow what the default run leaves out, except on GPUs; return the names that no item has.

    Names in files that cannot be imported here are not among them.
    """
    unused, files = set(names), set[str]()
    by_test: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        if next(item.iter_markers("gpu"), None):
            continue
        test = item.nodeid.partition("[")[0]
        files.add(test.partition("::")[0])
        unused -= {item.nodeid, test}
        if names.get(item.nodeid, names.get(test, False)):
            item.add_marker(pytest.mark.slow)
        elif next(item.iter_markers("slow"), None) is None and _is_on_emulator(item):
            by_test[test].append(item)
    for combinations in by_test.values():
        for item in _without_new_values(combinations):
            item.add_marker(pytest.mark.slow)
    return {name for name in unused if (file := name.partition("::")[0]) in files or not (ROOT / file).is_file()}


def _is_on_emulator(item: Any) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and any(isinstance(each, str) and each == "emulator" for each in call.params.values())


def _without_new_values(combinations: list[Any]) -> list[Any]:
    """Return the combinations that are not needed to have every value of every parameter in one."""
    seen: set[tuple[str, object]] = set()
    left = list(combinations)

    def new_values(item: Any) -> set[tuple[str, object]]:
        given = item.callspec.params.items()
        return {(name, value if isinstance(value, str | int) else id(value)) for name, value in given} - seen

    while left and (new := new_values(best := max(left, key=lambda item: len(new_values(item))))):
        seen |= new
        left.remove(best)
    return left
