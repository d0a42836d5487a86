"""Machine code of the CUDA sources that a wheel brings along: where it fits a GPU nothing is compiled.

The name of a file tells what it was made from (the text with its includes, the defines in it that differ from the
defaults, the options), for which architecture, by which compiler, and what it holds. Code of another source is thus
never found, and a file that is not whole never reaches the driver, which trusts the sizes in it and crashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "cubins"
"""Written by ``make wheel``; a checkout has none."""

OPTIONS = ("-std=c++17", "-ftz=true", "--device-as-default-execution-space")
"""How the sources are compiled, as CuPy does."""

_DEFAULT = re.compile(r"^#ifndef (\w+)\n#define \1 (\S+)$", re.MULTILINE)
_WORD = re.compile(r"[A-Z]\w+")
_NAME = re.compile(r"(?P<source>\w+)\.(?P<content>\w+)\.cuda(?P<cuda>\d+)\.sm_(?P<arch>\d+)\.cubin")


def name_cubin(text: str, defines: Mapping[str, int], arch: int, cuda: int, content: bytes) -> str:
    """Return the name of a file.

    Parameters
    ----------
    text : str
        A source, its includes expanded.
    arch : int
        Compute capability, 90 for 9.0.
    cuda : int
        Major version of the compiler.
    content : bytes
        What the file holds.
    """
    return f"{_digest_source(text, defines)}.{_digest(content)}.cuda{cuda}.sm_{arch}.cubin"


def find_cubin(text: str, defines: Mapping[str, int], capability: str, cuda: int) -> Path | None:
    """Return a whole file for a device of a compute capability such as "90", and a driver of a version of CUDA, if any.

    Code for an architecture runs on the later ones of the same major version, and a driver loads what compilers of its
    own major version or an older one made.
    """
    found = list(_list_fitting(_digest_source(text, defines), capability, cuda))
    for name, path in sorted(found, key=lambda each: int(each[0]["arch"]), reverse=True):
        if _digest(path.read_bytes()) == name["content"]:
            return path
    return None


def count_cubins(capability: str, cuda: int) -> int:
    """Return for how many sources there is a file that :func:`find_cubin` may return."""
    return len({name["source"] for name, _ in _list_fitting("*", capability, cuda)})


def _list_fitting(source: str, capability: str, cuda: int) -> Iterator[tuple[re.Match[str], Path]]:
    """Yield the parts of the name, and the path, of each file of a source whose architecture and compiler fit."""
    fitting = range(10 * int(capability[:-1]), int(capability) + 1)
    for path in FOLDER.glob(f"{source}.*.cubin"):
        name = _NAME.fullmatch(path.name)
        if name is not None and int(name["cuda"]) <= cuda and int(name["arch"]) in fitting:
            yield name, path


def _digest_source(text: str, defines: Mapping[str, int]) -> str:
    defaults, words = dict(_DEFAULT.findall(text)), set(_WORD.findall(text))
    given = [
        f"{name}={value}"
        for name, value in sorted(defines.items())
        if name in words and defaults.get(name) != str(value)
    ]
    return _digest("\0".join((text, *OPTIONS, *given)).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
