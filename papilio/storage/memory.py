"""What allocators keep of memory that is free again."""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa

__all__ = ["release_memory"]


def release_memory() -> None:
    """Give free memory back to the system, as far as the allocators of Arrow and of the C library do so on request.

    They keep it for the next allocation of the same kind, which may never come: after a pass over a store some
    50 MB. Takes a millisecond or a few.
    """
    pa.default_memory_pool().release_unused()
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
