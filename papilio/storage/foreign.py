"""Telling what is no edge list: files of other kinds, which are refused with a word on what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from papilio.errors import InputError

__all__ = ["refuse_documents", "refuse_matrix", "refuse_neighbour_lists"]

_STARTS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"<"), "XML or HTML (GraphML, GEXF)"),
    (re.compile(rb"(?i)\*(vertices|network|arcs|edges)"), "a Pajek file"),
    (re.compile(rb"(?i)(strict\s+)?(di)?graph(\s+\w+)?\s*[\[{]|Creator\s+\""), "GML or DOT"),
)
_SAMPLE_LINES = 2000
"""Lists of neighbours that are looked at."""
_BITS = {b"0", b"1"}


def refuse_documents(name: str, first: bytes) -> None:
    """Raise InputError for files of formats that are no lines of edges, told by their first line."""
    line = first.strip()
    if _is_json(line):
        raise InputError(
            f"{name} holds JSON, which is no edge list; write two fields a line, for example by "
            "jq -r '[.user, .item] | @csv'"
        )
    for start, what in _STARTS:
        if start.match(line):
            raise InputError(
                f"{name} looks like {what}, which is no edge list; export it as lines 'u v' (or CSV), "
                "or force a format if it is one"
            )


def _is_json(line: bytes) -> bool:
    if line in (b"{", b"[", b"[{", b"[["):
        return True
    if not line.startswith((b"{", b"[")):
        return False
    try:
        return isinstance(json.loads(line.removesuffix(b",")), dict | list)
    except ValueError:
        return line.startswith((b'{"', b'[{"', b"[["))


def refuse_matrix(name: str, names: Sequence[str], usual_names: bool, rows: Sequence[list[bytes]]) -> None:
    """Raise InputError for a table of zeros and ones, whose rows and columns are vertices.

    ``usual_names`` says whether the names of the columns are usual ones of endpoints; ``rows`` are the fields of
    lines.
    """
    width = len(rows[0]) if rows else 0
    if len(rows) < 2 or width < 3 or usual_names or any(len(row) != width for row in rows):
        return
    labelled = not all(row[0] in _BITS for row in rows)
    if not all(_BITS.issuperset(row[1:]) for row in rows):
        return
    if width == 3 and ((labelled and not names) or (not labelled and len(rows) <= 4)):
        return
    raise InputError(
        f"{name} looks like a matrix of zeros and ones, {width} columns wide; convert reads one edge a line: write the "
        "pairs of row and column that hold 1 (in pandas, table.stack()), or name two columns by u and v"
    )


def refuse_neighbour_lists(name: str, header: list[bytes], lines: Sequence[bytes], complete: bool) -> None:
    """Raise InputError for a METIS graph: a header ``n m``, then line i lists the neighbours of vertex i.

    ``header`` holds the fields of the first line of data; ``lines`` are those at hand after it, ``complete`` if all.
    """
    if not 2 <= len(header) <= 4 or not all(part.isdigit() for part in header):
        return
    complete = complete and len(lines) <= _SAMPLE_LINES
    rows = [line.split() for line in lines[:_SAMPLE_LINES]]
    if complete and rows and not rows[-1]:
        rows.pop()
    n = int(header[0])
    if len(rows) > n or (complete and len(rows) != n) or not rows:
        return
    if not all(part.isdigit() and 1 <= int(part) <= n for row in rows for part in row):
        return
    lists = [set(map(int, row)) for row in rows]
    pairs = [(at, other) for at, row in enumerate(lists, 1) for other in row if other <= len(lists)]
    if pairs and all(at != other and at in lists[other - 1] for at, other in pairs):
        raise InputError(
            f"{name} looks like a METIS graph, in which line i lists the neighbours of vertex i; convert reads one "
            "edge a line: write the pairs, or force the format edges if these are edges"
        )
