"""The CUDA sources: each lies with its motif family, and includes others by their names alone."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = {path.name: path for path in sorted(Path(__file__).resolve().parent.parent.glob("*/*.cu*"))}
"""Every ``.cu`` and ``.cuh`` file, by name."""

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


def read_source(name: str, included: set[str] | None = None) -> str:
    """Return the text of a source file with its includes expanded, each once.

    One self-contained text makes the compiler's cache key cover the headers too.
    """
    seen = included if included is not None else set()

    def expand(match: re.Match[str]) -> str:
        header = match.group(1)
        if header in seen:
            return ""
        seen.add(header)
        return read_source(header, seen)

    text = SOURCES[name].read_text(encoding="utf-8").replace("#pragma once\n", "")
    return _INCLUDE.sub(expand, text)
