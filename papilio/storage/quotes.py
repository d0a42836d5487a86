"""Records of CSV, strictly by RFC 4180: their ends and their fields.

A quoted field begins with a quote right after a delimiter or a line end, and ends with a quote right before one; within
it a quote is doubled, and delimiters and line ends are text. A quote anywhere else makes the first line of the record
malformed. No reader used here is as strict, and a lenient one silently joins or splits records.

Number the quotes from 0 in a text that starts at a record. Every even quote must follow a delimiter, a line end or the
previous quote (the two are then one doubled quote), and every odd quote must precede one of these. While that holds, a
line end is within a field exactly if an odd number of quotes precede it. This is checked for a whole block at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

_QUOTE, _LINE_END = ord('"'), ord("\n")

BROKEN_QUOTES = (
    "its quotes do not follow the rules of CSV: a quoted field ends with a quote before a delimiter or a line end, "
    "and doubles the quotes within (if quotes belong to the text: papilio convert --no-quotes, in Python quotes=False)"
)


@cache
def _patterns(delimiter: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    """Return the patterns of a field with its end, of a record, and of a record whose last quote is still open."""
    mark = re.escape(delimiter)
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
    field = rb"(?:" + quoted + rb'|[^"\n' + mark + rb"]*+)"
    return (
        re.compile(rb'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"\n' + mark + rb"]*+))(" + mark + rb"|\Z)"),
        re.compile(field + rb"(?:" + mark + field + rb")*+(?:\n|\Z)"),
        re.compile(rb"(?:" + field + mark + rb')*+"[^"]*+(?:""[^"]*+)*+\Z'),
    )


def split_record(record: bytes, delimiter: bytes) -> list[bytes] | None:
    """Return the fields of one record without its line end, unquoted; None if its quotes are malformed."""
    if b'"' not in record:
        return record.split(delimiter)
    field = _patterns(delimiter)[0]
    fields, at = [], 0
    while (found := field.match(record, at)) is not None:
        fields.append(found[2] if found[1] is None else found[1].replace(b'""', b'"'))
        if not found[3]:
            return fields
        at = found.end()
    return None


def iter_records(text: bytes, delimiter: bytes, *, final: bool, at: int = 0) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, stop, whether well formed) of each record from ``at`` on, without its line end.

    A record with malformed quotes consists of its first line only; the next line begins another record. Unless the text
    is ``final``, a last record that may continue is left out.
    """
    _, record, unclosed = _patterns(delimiter)
    while at < len(text):
        found = record.match(text, at)
        stop = len(text) if found is None else found.end()
        is_ended = found is not None and text[stop - 1] == _LINE_END
        if not (final or is_ended) and (found is not None or unclosed.match(text, at) is not None):
            return
        if found is not None:
            yield at, stop - is_ended, True
        else:
            end = text.find(b"\n", at)
            if end < 0 and not final:
                return
            stop = len(text) if end < 0 else end + 1
            yield at, stop - (end >= 0), False
        at = stop


@dataclass(frozen=True)
class Block:
    """Complete records of a text; lines with malformed quotes are blank in it, and listed by 0-based number."""

    text: bytes
    broken: tuple[tuple[int, bytes], ...] = ()


def cut_records(text: bytes, delimiter: bytes, *, final: bool) -> tuple[Block, bytes]:
    """Return the complete records at the start of a text, and the remaining text.

    ``final`` means that no text follows. O(bytes).
    """
    data = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    wrong = _first_wrong(data, quotes, ord(delimiter), final)
    if wrong is None and final:
        return Block(text), b""
    end = _last_end(text, quotes, len(text) if wrong is None else wrong)
    if wrong is None:
        return Block(text[:end]), text[end:]
    kept, broken, line, done = [text[:end]], [], text.count(b"\n", 0, end), end
    start = end
    for at, stop, is_whole in iter_records(text, delimiter, final=final, at=end):
        end = min(stop + 1, len(text))
        if not is_whole:
            line += text.count(b"\n", start, at)
            kept.append(text[done:at])
            broken.append((line, text[at:stop]))
            start, done = at, stop
    # A broken last line without its line end is blank, but still a line.
    kept.append(text[done:end] or b"\n" * (done == len(text)))
    return Block(b"".join(kept), tuple(broken)), text[end:]


def _first_wrong(data: NDArray[np.uint8], quotes: NDArray[np.int64], delimiter: int, final: bool) -> int | None:
    """Return the place of the first quote that breaks a record (if final, also by staying open at the end), or None."""
    if not quotes.size:
        return None
    opening, closing = quotes[0::2], quotes[1::2]
    n_next = opening.size - 1
    before = data[np.maximum(opening - 1, 0)]
    opens = (before == delimiter) | (before == _LINE_END) | (opening == 0)
    opens[1:] |= opening[1:] == closing[:n_next] + 1
    after = data[np.minimum(closing + 1, data.size - 1)]
    closes = (after == delimiter) | (after == _LINE_END) | (closing == data.size - 1)
    closes[:n_next] |= opening[1:] == closing[:n_next] + 1
    fits = np.ones(quotes.size, np.bool_)
    fits[0::2], fits[1::2] = opens, closes
    if final and quotes.size % 2:
        fits[-1] = False
    return None if fits.all() else int(quotes[np.argmin(fits)])


def _last_end(text: bytes, quotes: NDArray[np.int64], limit: int) -> int:
    """Return the beginning of the last record that begins before ``limit``; quotes up to there are well formed."""
    while (end := text.rfind(b"\n", 0, limit)) >= 0:
        n_before = int(np.searchsorted(quotes, end))
        if n_before % 2 == 0:
            return end + 1
        limit = int(quotes[n_before - 1])
    return 0


def count_ends(text: bytes) -> int:
    """Return the number of line ends of a text; ten times as fast as ``bytes.count`` if lines are short."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _LINE_END))


def count_inner(text: bytes) -> tuple[int, int, tuple[int, int]]:
    """Return the numbers of line ends within fields and of empty lines outside, and the longest record.

    ``text`` consists of complete, well-formed records; the longest is given by its 0-based line and its number of
    lines.
    """
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == _LINE_END)
    inner = np.searchsorted(np.flatnonzero(data == _QUOTE), ends) % 2 == 1
    empty = ((data[np.maximum(ends - 1, 0)] == _LINE_END) | (ends == 0)) & ~inner
    starts = np.concatenate(([0], np.flatnonzero(~inner) + 1))
    n_lines = np.diff(starts, append=ends.size + 1)
    longest = int(np.argmax(n_lines))
    return (
        int(np.count_nonzero(inner)),
        int(np.count_nonzero(empty)),
        (int(starts[longest]), int(n_lines[longest])),
    )
