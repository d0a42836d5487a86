"""Words and rows of words: the sets of every search on bit matrices; knows of no motif.

A set of local numbers below n is a row of ``words_of(n)`` words of 64 bits: number i is bit ``i % 64`` of word
``i // 64``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from papilio.kernels.jit import compiled, inlined

Words = NDArray[np.uint64]

ONE = np.uint64(1)
_ALL = np.uint64(2**64 - 1)


def _popcount(context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


popcount = cast(Callable[[np.uint64], int], intrinsic(_popcount))
"""Number of bits set in a word (uint64), as int64: one instruction."""


@compiled
def lowest_bit(word: np.uint64) -> int:
    """Return the number of the lowest bit set, or 64 when there is none; one instruction once compiled."""
    return popcount(~word & (word - ONE))


@compiled
def words_of(n: int) -> int:
    """Return the number of words of a set of numbers below n."""
    return (n + 63) >> 6


@compiled
def span_mask(n: int) -> np.uint64:
    """Return the word whose lowest n bits are set; n is 0 to 64."""
    return _ALL if n >= 64 else (ONE << np.uint64(n)) - ONE


@compiled
def fill_span(row: Words, n: int) -> None:
    """Make a row the set of all numbers below n."""
    for word in range(words_of(n)):
        row[word] = span_mask(n - 64 * word)


@inlined
def first_bit(row: Words, begin: int, n_words: int) -> int:
    """Return the lowest number of a set, whose words begin at a place of a row; -1 where it is empty."""
    first = -1
    for word in range(n_words):
        if row[begin + word]:
            first = word * 64 + lowest_bit(row[begin + word])
            break
    return first
