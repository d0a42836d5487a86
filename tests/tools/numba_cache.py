"""Machine code of the CPU kernels, compiled once for the same sources, whichever checkout and process comes first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.tools.caches import cache_folder, content_key, locked

if TYPE_CHECKING:
    from papilio.motifs import Granularity

__all__ = ["compile_here", "share"]


def share() -> None:
    """Set ``NUMBA_CACHE_DIR`` for this process and those that it starts, unless it is set.

    Code is found there by the content of its sources. Of processes that call this, one compiles a function, and the
    others wait for it.
    """
    from papilio.kernels.jit import _Compiled

    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder("machine-code")))
    load = _Compiled._load

    def load_locked(self: Any, kind: str, given: Any, n_slots: int) -> Any:
        with locked(f"{self.__module__}.{self.__qualname__}-{content_key([kind])}"):
            return load(self, kind, given, n_slots)

    _Compiled._load = load_locked  # type: ignore[method-assign]


def compile_here(graph: Path | str, *granularities: Granularity) -> None:
    """Compile what counts the butterflies of a graph, which each of the processes that a test starts would else do."""
    import papilio

    for per in granularities:
        papilio.count(graph, papilio.Butterfly(), per=per, cluster="inline", engine="cpu")
