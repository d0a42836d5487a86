"""First lines of numbers: sizes, or an edge? The whole file decides, by arithmetic.

A line ``n m`` is a header when m lines follow it and no id is beyond n. It is held back while the file is read, and is
an edge like the others when the arithmetic fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from papilio.storage.formats import HeldLine

_SIZE = re.compile(rb"(0|[1-9][0-9]{0,17})\Z")
_LEAST_LINES = 2
"""A line ``2 1`` before a single edge is as likely an edge."""


def hold_line(number: int, text: bytes, fields: list[bytes], n_rows: int, width: int) -> HeldLine | None:
    """Return the first line of data if it may hold sizes, or None when it is surely an edge, or surely none.

    ``n_rows`` lines of data after it have been looked at; a usual one of them has ``width`` fields.
    """
    if not 1 <= len(fields) <= 3 or not all(map(_SIZE.match, fields)):
        return None
    numbers = tuple(map(int, fields))
    is_edge = len(fields) == width
    if not n_rows or width < 2 or (is_edge and max(numbers) < n_rows):
        return None
    return HeldLine(number, text, numbers, is_edge, skipped=not is_edge or len(fields) == 2)


@dataclass
class SeenIds:
    """The number of lines of data and the range of ids in their columns, as far as they were seen."""

    rows: int = 0
    low: int = 2**63
    high_u: int = -1
    high_v: int = -1

    def add(self, batch: pa.RecordBatch) -> None:
        """Note the edges of a batch with labels that are integers."""
        if not batch.num_rows:
            return
        u, v = (pc.min_max(batch.column(name)) for name in ("u", "v"))
        self.rows += batch.num_rows
        self.low = min(self.low, u["min"].as_py(), v["min"].as_py())
        self.high_u = max(self.high_u, u["max"].as_py())
        self.high_v = max(self.high_v, v["max"].as_py())

    def fits(self, size: int) -> bool:
        """Tell whether all ids, from 0 or from 1 on, are of so many vertices."""
        return self.low >= 0 and size >= max(self.high_u, self.high_v) + (self.low == 0)


@dataclass(frozen=True)
class Verdict:
    """The meaning of a first line of numbers; ``n_vertices`` is what a header declares, of one set."""

    kind: Literal["header", "edge", "malformed"]
    note: str | None = None
    n_vertices: int | None = None


def judge(held: HeldLine, seen: SeenIds, n_lines: int) -> Verdict:
    """Decide what a line is, from the ids seen in all lines of data (without the line itself if that was skipped).

    ``n_lines`` counts the lines of data after it, malformed ones included.
    """
    shown = held.text.decode(errors="replace").strip()
    numbers = held.numbers
    where = f"line {held.number + 1}"
    if len(numbers) == 1 or not held.is_edge:
        size = numbers[0] if len(numbers) == 1 and seen.rows and seen.fits(numbers[0]) else None
        if n_lines not in numbers and size is None:
            return Verdict("malformed")
        if len(numbers) == 2:
            size = numbers[0] if numbers[1] == n_lines else numbers[1]
            size = size if seen.fits(size) else None
        meaning = f"{n_lines:,} lines follow" if n_lines in numbers else "the number of vertices"
        return Verdict("header", f"{where} is a header: {shown} ({meaning})", size)
    if len(numbers) == 2:
        n, m = numbers
        if m == n_lines >= _LEAST_LINES and seen.fits(n):
            note = f"{where} is a header: {shown} ({n:,} vertices, {m:,} lines follow); --no-header if it is an edge"
            return Verdict("header", note, n)
    doubtful = (
        _like_two_sizes(numbers, seen, n_lines) if len(numbers) == 2 else _like_three(numbers, seen, n_lines)
    )
    return Verdict(
        "edge", f"{where} read as an edge: {shown}; --header if it holds sizes" if doubtful else None
    )


def _like_two_sizes(numbers: tuple[int, ...], seen: SeenIds, n_lines: int) -> bool:
    """Tell whether two numbers may be sizes although the arithmetic of vertices and lines fails."""
    a, b = numbers
    from_zero = seen.low == 0
    if a == seen.high_u + from_zero and b == seen.high_v + from_zero:
        return True
    return any(
        (m == n_lines and n > 1 and m <= n * n) or (seen.fits(n) and n_lines <= 2 * m)
        for n, m in ((a, b), (b, a))
    )


def _like_three(numbers: tuple[int, ...], seen: SeenIds, n_lines: int) -> bool:
    """Tell whether three numbers, read as an edge, may be ``n_u n_v m`` or ``n m`` and a third."""
    a, b, c = numbers
    if b == n_lines and a >= max(seen.high_u, 2):
        return True
    fits = a >= seen.high_u and b >= seen.high_v and n_lines <= 2 * c
    return min(a, b) > 1 and c <= a * b and (fits or c == n_lines)
