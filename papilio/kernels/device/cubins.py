"""Machine code of the CUDA sources that a wheel brings along: where it fits a GPU nothing is compiled.

The name of a file tells what it was made from (the text with its includes, the defines that differ from the defaults in
it, the options), for which architecture, by which compiler, and what it holds. Code of another source is thus never
found, and a file that is not whole never reaches the driver, which trusts the sizes in it and crashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "cubins"
"""Written by ``make wheel``; a checkout has none."""

OPTIONS = ("-std=c++17", "-ftz=true", "--device-as-default-execution-space")
"""How the sources are compiled, as CuPy does."""

_DEFAULT = re.compile(r"^#ifndef (\w+)\n#define \1 (\S+)$", re.MULTILINE)
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
    if not FOLDER.is_dir():
        return None
    found: dict[int, Path] = {}
    for path in FOLDER.glob(f"{_digest_source(text, defines)}.*.cubin"):
        name = _NAME.fullmatch(path.name)
        if name is not None and int(name["cuda"]) <= cuda and _digest(path.read_bytes()) == name["content"]:
            found[int(name["arch"])] = path
    major, minor = int(capability[:-1]), int(capability[-1])
    return next(
        (found[arch] for arch in range(10 * major + minor, 10 * major - 1, -1) if arch in found), None
    )


def _digest_source(text: str, defines: Mapping[str, int]) -> str:
    defaults = dict(_DEFAULT.findall(text))
    given = [f"{name}={value}" for name, value in sorted(defines.items()) if defaults.get(name) != str(value)]
    return _digest("\0".join((text, *OPTIONS, *given)).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
