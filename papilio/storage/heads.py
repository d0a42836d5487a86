"""The first lines of a text file: line ends, comments, fields."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from papilio.storage.formats import TextLayout

__all__ = ["Head", "fields_of", "first_data", "unify_line_ends", "usual_row"]

_SAMPLE_LINES = 1000
"""Lines of data that detection looks at."""


def unify_line_ends(data: bytes) -> bytes:
    """Return text with line feeds for the line ends of Windows and of old Macs."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


class Head:
    """The first lines of a file, from the decompressed beginning of its text; ``n_bytes`` is its size as stored."""

    def __init__(self, name: str, data: bytes, complete: bool, n_bytes: int) -> None:
        lines = unify_line_ends(data.removeprefix(b"\xef\xbb\xbf")).split(b"\n")
        if not complete and len(lines) > 1:
            lines.pop()
        self.name = name
        self.complete = complete
        self.n_bytes = n_bytes
        self.lines = lines
        self.sample_lines = _SAMPLE_LINES

    def data_lines(self, comments: tuple[bytes, ...], start: int = 0) -> list[tuple[int, bytes]]:
        """Return up to 1000 pairs (0-based number, line) from ``start`` on, without blank lines.

        Comments are left out before the first line of data; from there on, all lines are data.
        """
        found: list[tuple[int, bytes]] = []
        for at in range(start, len(self.lines)):
            line = self.lines[at]
            if line.strip() and (found or not line.startswith(comments)):
                found.append((at, line))
                if len(found) == _SAMPLE_LINES:
                    break
        return found


def fields_of(layout: TextLayout, line: bytes) -> list[bytes]:
    """Return the fields of a line, without the quotes of csv; what csv refuses the parser names."""
    if layout.format != "csv":
        return layout.split(line)
    text = line.decode("utf-8", errors="surrogateescape")
    try:
        row = next(csv.reader([text], delimiter=layout.delimiter.decode()))
    except csv.Error:
        return layout.split(line)
    return [part.strip().encode("utf-8", errors="surrogateescape") for part in row]


def usual_row(rows: Sequence[list[bytes]]) -> list[bytes]:
    """Return the first row that has as many fields as most, or ``[]``: a malformed line decides nothing."""
    counts = Counter(map(len, rows))
    usual = max(counts, key=lambda count: (count > 1, counts[count]), default=0)
    return next((row for row in rows if len(row) == usual), [])


def first_data(head: Head, layout: TextLayout, start: int = 0) -> tuple[TextLayout, list[bytes]]:
    """Return the layout that skips to the first line of data, and the fields of a usual line, or ``[]``."""
    data = head.data_lines(layout.comments, start)
    end = data[0][0] if data else len(head.lines)
    comments = sum(line.startswith(layout.comments) for line in head.lines[start:end] if line.strip())
    layout = replace(layout, skip_lines=end, n_comments=layout.n_comments + comments)
    return layout, usual_row([fields_of(layout, line) for _, line in data])
