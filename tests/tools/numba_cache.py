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
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.tools.caches import cache_folder, content_key, locked, mark_used

__all__ = ["share"]

_DECORATOR = ("papilio", "kernels", "jit.py")
_MODULES = "modules.json"
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^(\n]+)|import[ \t]+([^\n]+))", re.MULTILINE
)
_NAMES = re.compile(r"[,()]|#[^\n]*")


def _imports(path: Path) -> Iterator[str]:
    """Yield what a file imports, and now and then what a text in it says as an import would: a cause too many."""
    for whole, parts, plain in _IMPORT.findall(path.read_text(encoding="utf-8")):
        names = [name.split()[0] for name in _NAMES.split(parts or plain) if name.strip()]
        yield from (f"{whole}.{name}" for name in names) if whole else names
        if whole:
            yield whole


def imports_by_module(root: Path) -> dict[Path, set[Path]]:
    """Return which files of the package below ``root`` each of its files imports directly."""
    graph = {}
    for path in sorted((root / "papilio").rglob("*.py")):
        places = [root.joinpath(*name.split(".")) for name in _imports(path)]
        choices = {choice for place in places for choice in (place.with_suffix(".py"), place / "__init__.py")}
        graph[path] = {choice for choice in choices if choice.is_file()}
    return graph


def sources_of(path: Path, graph: dict[Path, set[Path]]) -> set[Path]:
    """Return a file and all that it imports, directly or not."""
    found, waiting = set[Path](), [path]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += graph[file]
    return found


def module_keys(root: Path) -> dict[str, str]:
    """Return the key of each module that compiled code may come from, by its path below ``root``.

    Those are the modules that compile and what they import; a key stands for the sources of one of them and of all
    that it imports itself, and for the versions of what compiles it.
    """
    graph = imports_by_module(root)
    decorator = root.joinpath(*_DECORATOR)
    reached = set[Path]().union(*(sources_of(path, graph) for path in graph if decorator in graph[path]))
    versions = [
        platform.python_version(),
        *(metadata.version(name) for name in ("numba", "llvmlite", "numpy")),
    ]
    keys = {}
    for path in sorted(reached):
        sources = sorted(sources_of(path, graph))
        texts = [part for file in sources for part in (str(file.relative_to(root)), file.read_bytes())]
        keys[path.relative_to(root).as_posix()] = content_key([*versions, *texts])
    return keys


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
            if not link.is_symlink():
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
