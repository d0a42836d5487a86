"""Numba's cache by content: compiled once for the same sources, whichever checkout and process comes first.

``share`` points Numba at a folder that is named after the sources of the compiled modules and of all that they import,
so that code compiled against another version of a called module is never used. It is set in the environment: commands
and Dask workers inherit it. A new folder begins with what older ones hold of modules for which nothing has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from papilio.kernels.stamps import imported_files, source_stamp, sources_of
from tests.tools.caches import cache_folder, content_key, locked, mark_used

__all__ = ["share"]

_DECORATOR = ("papilio", "kernels", "jit.py")
_MODULES = "modules.json"


def module_keys(root: Path) -> dict[str, str]:
    """Return the key of each module that compiled code may come from, by its path below ``root``.

    Those are the modules that compile and what they import; a key stands for the sources of one of them and of all
    that it imports itself, and for the versions of what compiles it.
    """
    decorator = root.joinpath(*_DECORATOR)
    files = sorted((root / "papilio").rglob("*.py"))
    reached = set[Path]().union(
        *(sources_of(path, root) for path in files if decorator in imported_files(path, root))
    )
    versions = [
        platform.python_version(),
        *(metadata.version(name) for name in ("numba", "llvmlite", "numpy")),
    ]
    return {
        path.relative_to(root).as_posix(): content_key([*versions, source_stamp(path, root)])
        for path in sorted(reached)
    }


def _begin(folder: Path, keys: dict[str, str]) -> None:
    """Take over from other folders, the newest first, the code of modules for which nothing has changed."""
    missing = dict(keys)
    others = (other for other in folder.parent.iterdir() if (other / _MODULES).is_file())
    for other in sorted(others, key=lambda other: other.stat().st_mtime, reverse=True):
        theirs = json.loads((other / _MODULES).read_text())
        for module in [module for module, key in missing.items() if theirs.get(module) == key]:
            place = Path(module)
            held = other / place.parent.name
            # The index (.nbi) comes first: what it names is complete by then.
            for file in sorted(held.glob(f"{place.stem}.*"), key=lambda file: file.suffix != ".nbi"):
                with suppress(FileExistsError):
                    os.link(file, folder / place.parent.name / file.name)
            del missing[module]
    (folder / _MODULES).write_text(json.dumps(keys))


def share(root: Path) -> None:
    """Set ``NUMBA_CACHE_DIR`` for this process and those that it starts, unless it is set; before Numba is imported.

    Of processes that call this one compiles a function, and the others wait for it.
    """
    assert "numba" not in sys.modules, "Numba has read its settings"
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(_open(root))
    _compile_once()


def _open(root: Path) -> Path:
    keys = module_keys(root)
    key = content_key(part for item in sorted(keys.items()) for part in item)
    folder = cache_folder("numba") / key
    sources = {(root / module).parent for module in keys}
    with locked(f"numba-{key}"):
        if not (folder / _MODULES).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            for source in sources:
                (folder / source.name).mkdir(parents=True)
            _begin(folder, keys)
        for source in sources:  # Numba names a folder after the path of the sources
            link = folder / f"{source.name}_{hashlib.sha1(str(source).encode()).hexdigest()}"
            if not os.path.lexists(link):
                link.symlink_to(source.name)
    mark_used(folder)
    return folder


def _compile_once() -> None:
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    whole = Dispatcher.compile

    def compile_locked(self: Any, signature: Any) -> Any:
        function = self.py_func
        if self.stats.cache_path is None:
            return whole(self, signature)
        # A function that another one calls is compiled below it: the caller's lock is always taken first.
        with (
            global_compiler_lock,
            locked(f"{function.__module__}.{function.__name__}-{content_key([str(signature)])}"),
        ):
            return whole(self, signature)

    Dispatcher.compile = compile_locked
