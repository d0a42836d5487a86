"""Compiled things are shared by content, never used for other sources, and made once; skips are told in a few lines."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from papilio.kernels.stamps import sources_of
from tests.conftest import ROOT, SKIP_LINES, pytest_terminal_summary
from tests.tools import caches

NEEDED = ("jit", "compiling", "announce", "stamps")
LOW = "from papilio.kernels.jit import compiled\n\n\n@compiled\ndef low(x):\n    return x + {}\n"
HIGH = """from papilio.kernels.jit import compiled
from papilio.kernels.wedge.low import low


@compiled
def high(x):
    return 10 * low(x)
"""
APART = "from papilio.kernels.jit import compiled\n\n\n@compiled\ndef apart(x):\n    return -x\n"
CALLS = """
import os
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from tests.tools import numba_cache
numba_cache.share()
def count_files():
    names = os.listdir(os.environ["NUMBA_CACHE_DIR"]) if os.path.isdir(os.environ["NUMBA_CACHE_DIR"]) else ()
    return [sum(name.startswith(f"{each}-") for name in names) for each in ("high", "apart")]
before = count_files()
from papilio.kernels.wedge.apart import apart
from papilio.kernels.wedge.high import high
print(high(1), apart(1), *(now - old for now, old in zip(count_files(), before)))
"""


def write_package(root: Path, added: int) -> Path:
    """Write two modules that call each other and one that stands alone, all compiled as the package's are."""
    folder = root / "papilio" / "kernels" / "wedge"
    folder.mkdir(parents=True, exist_ok=True)
    for place in (folder, folder.parent, folder.parent.parent):
        (place / "__init__.py").touch()
    for name in NEEDED:
        (folder.parent / f"{name}.py").write_bytes((ROOT / "papilio" / "kernels" / f"{name}.py").read_bytes())
    for name, text in {"low": LOW.format(added), "high": HIGH, "apart": APART}.items():
        (folder / f"{name}.py").write_text(text)
    # Python takes its own cache of a file of the same size and second for the file; versions are seconds apart.
    os.utime(folder / "low.py", (time.time() + added,) * 2)
    return root


def call(root: Path, cache: Path, **settings: str) -> list[int]:
    """Return what the modules answer in a new process, and how often the two callers were compiled."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")
    } | settings
    done = subprocess.run(
        [sys.executable, "-c", CALLS, str(root), str(ROOT)], capture_output=True, text=True, timeout=600, check=True,
        cwd=root, env=environment | {"PAPILIO_TEST_CACHE": str(cache)},
    )  # fmt: skip
    return [int(word) for word in done.stdout.split()]


def test_an_upgrade_never_runs_code_of_the_version_before(tmp_path: Path) -> None:
    """Of what users have: one installed copy, one cache of Numba, and a module that changes below its caller."""
    root, folder = write_package(tmp_path / "installed", 1), str(tmp_path / "numba")
    assert call(root, tmp_path, NUMBA_CACHE_DIR=folder) == [20, -1, 1, 1]
    write_package(root, 2)
    assert call(root, tmp_path, NUMBA_CACHE_DIR=folder) == [30, -1, 1, 0]


def test_code_that_was_compiled_in_another_way_is_never_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even that of a module that knows nothing of compiling."""
    from papilio.kernels import exact, jit

    mixing = cast(Any, jit.compiled(exact.mix))
    name = mixing._name("<u8")
    assert Path(jit.__file__) not in sources_of(Path(exact.__file__))
    assert Path(jit.__file__).with_name("compiling.py") in sources_of(Path(jit.__file__))
    monkeypatch.setattr(jit, "_stamp_compiler", lambda: "other")
    assert mixing._name("<u8") != name
    assert mixing._name("<i8") != mixing._name("<u8")


@pytest.mark.slow
def test_checkouts_share_what_is_compiled_and_never_what_has_changed(tmp_path: Path) -> None:
    one, two, cache = (
        write_package(tmp_path / "one", 1),
        write_package(tmp_path / "two", 1),
        tmp_path / "cache",
    )
    assert call(one, cache) == [20, -1, 1, 1]
    assert call(two, cache) == [20, -1, 0, 0], "the same sources elsewhere are not compiled again"
    write_package(two, 2)
    assert call(two, cache) == [30, -1, 1, 0], "a caller is compiled again with what it calls, others are not"
    assert call(one, cache) == [20, -1, 0, 0]


def test_one_makes_and_the_others_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PAPILIO_TEST_CACHE", str(tmp_path))
    inside = []

    def make(number: int) -> None:
        with caches.locked("thing"):
            inside.append(number)
            os.sched_yield()
            assert inside.pop() == number
            assert not inside

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(200)))


def test_old_entries_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PAPILIO_TEST_CACHE", str(tmp_path))
    (tmp_path / "kind" / "old folder" / "inner").mkdir(parents=True)
    for name in ("old file", "new file", "used again"):
        (tmp_path / "kind" / name).touch()
    old = time.time() - 40 * 24 * 3600
    for name in ("old folder", "old file", "used again"):
        os.utime(tmp_path / "kind" / name, (old, old))
    caches.mark_used(tmp_path / "kind" / "used again")
    folder = caches.cache_folder("kind")
    assert sorted(path.name for path in folder.iterdir()) == ["new file", "used again"]


def test_a_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PAPILIO_TEST_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="set PAPILIO_TEST_CACHE to a folder of your own"):
        caches.cache_folder("kind")


def test_skips_are_told_by_reason_in_a_few_lines() -> None:
    lines: list[str] = []
    reasons = ["common"] * 900 + [f"rare {number}" for number in range(SKIP_LINES + 5)]
    skipped = [SimpleNamespace(longrepr=("test_x.py", 1, f"Skipped: {reason}\nmore")) for reason in reasons]
    pytest_terminal_summary(cast(Any, SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append)))
    told = [line for line in lines if line.startswith("skipped: ")]
    assert told[0] == "skipped: 900 times, common"
    assert told[-1] == "skipped: 6 times for other reasons; -rs shows them"
    assert len(told) == SKIP_LINES + 1
