"""Machine code of the CUDA sources that a wheel brings along: where it fits a GPU nothing is compiled.

A file is named after all that it was made from: the text with its includes, the defines that differ from the defaults
in it, and the architecture. What has changed since has another name, so that no file is ever used for another source.
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


def name_cubin(text: str, defines: Mapping[str, int], arch: int) -> str:
    """Return the name of the file for a source, its includes expanded, and an architecture such as 90."""
    defaults = dict(_DEFAULT.findall(text))
    given = [f"{name}={value}" for name, value in sorted(defines.items()) if defaults.get(name) != str(value)]
    parts = "\0".join((text, *OPTIONS, *given))
    return f"{hashlib.sha256(parts.encode()).hexdigest()[:32]}.sm_{arch}.cubin"


def find_cubin(text: str, defines: Mapping[str, int], capability: str) -> Path | None:
    """Return the file for a device of a compute capability such as "90", if there is one.

    Code for an architecture runs on the later ones of the same major version.
    """
    major, minor = int(capability[:-1]), int(capability[-1])
    paths = (FOLDER / name_cubin(text, defines, 10 * major + each) for each in range(minor, -1, -1))
    return next((path for path in paths if path.is_file()), None)
