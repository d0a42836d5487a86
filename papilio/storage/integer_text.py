"""Integers that are labels, read from text exactly: 7 and 007 stay different, 0x1f is none, nothing passes a float."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ANY_DIGITS", "PLAIN", "WHOLE", "has_odd_zeros", "integers_of"]

ANY_DIGITS = r"^-?[0-9]+$"
"""Pattern of a number in a matrix, or a time: zeros before it say nothing."""
PLAIN = r"^-?(0|[1-9][0-9]*)$"
"""Pattern of a label."""
WHOLE = r"^-?(0|[1-9][0-9]*)(\.0*)?$"
"""Pattern of a label in a column that is written as decimals, such as 7.0."""

_ZERO = ord("0")
"""Signs, points, quotes and separators (but for ; and |) come before it, digits and letters after."""
_WINDOW_BYTES = 1 << 16
"""Text looked at at a time: its masks stay in the cache."""


def has_odd_zeros(text: bytes, separator: str) -> bool:
    """Tell whether a field may begin with 0 and go on, as 007, -07 and 0x1f do, which Arrow reads as integers.

    What is told of lines of fields is safe where there are other marks than digits: a date may be one of them.
    """
    if separator > "0":
        text = text.replace(separator.encode(), b",")
    data = np.frombuffer(text, np.uint8)
    if text.startswith(b"0") and bool((data[1:2] >= _ZERO).any()):
        return True
    for start in range(0, len(text), _WINDOW_BYTES):
        window = data[start : start + _WINDOW_BYTES + 2]
        mark = window < _ZERO
        odd = np.greater(mark[:-2], mark[2:])
        odd &= window[1:-1] == _ZERO
        if odd.any() and bool((odd & (window[:-2] != ord("."))).any()):
            return True
    return False


def integers_of(texts: pa.Array, pattern: str) -> pa.Array | None:
    """Return texts that match a pattern as int64, or None when one does not, or does not fit 64 bits."""
    texts = pc.utf8_trim_whitespace(texts)
    if not pc.all(pc.match_substring_regex(texts, pattern)).as_py():
        return None
    if pattern == WHOLE:
        texts = pc.replace_substring_regex(texts, r"\.0*$", "")
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
