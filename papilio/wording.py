"""Numbers as people read them."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, as ``1,056 edges``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_share(share: float) -> str:
    """Return a share of 0 to 1 in percent, rounded down, so that only a whole is ``100.0%``."""
    return f"{int(min(max(share, 0.0), 1.0) * 1000 + 1e-6) / 10:.1f}%"


def show_mebibytes(n_bytes: int) -> str:
    """Return a number of bytes in whole MiB, rounded up, as flags of sizes take it: ``402MiB``."""
    return f"{-(-n_bytes // 2**20)}MiB"


def show_bytes(n_bytes: int) -> str:
    """Return a number of bytes in the largest unit of which there is one, as ``8.00 GiB``."""
    power = max(0, min(4, (n_bytes.bit_length() - 1) // 10))
    return f"{n_bytes / 2 ** (10 * power):.2f} {'KMGT'[power - 1]}iB" if power else plural(n_bytes, "byte")
