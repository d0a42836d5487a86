"""What one bit row shares with many others at once; knows of no motif.

Rows are laid by *columns of words* for this: word w of row i is ``columns[w * stride + i]``, so that neighbouring rows
lie in neighbouring words, and compiled loops take as many of them at a time as a vector of the processor holds.
"""

from __future__ import annotations

from papilio.kernels.jit import Ints, compiled
from papilio.kernels.tree.bits import Words, popcount


@compiled
def lay_columns(rows: Words, n_words: int, columns: Words) -> None:
    """Lay rows that come one after the other by columns, with their number as stride."""
    n = rows.size // n_words
    for w in range(n_words):
        column = columns[w * n : (w + 1) * n]
        for i in range(n):
            column[i] = rows[i * n_words + w]


@compiled
def share_columns(columns: Words, stride: int, n_words: int, row: int, first: int, sizes: Ints) -> None:
    """Write to ``sizes`` how many bits each of as many rows, from ``first`` on, shares with ``row``.

    Words of ``row`` without a bit are passed over, the others taken four at a time.
    """
    sizes[:] = 0
    n = sizes.size
    w = 0
    while w < n_words:
        taken = 0
        one = two = three = four = columns[0] ^ columns[0]
        at_one = at_two = at_three = at_four = first
        while w < n_words and taken < 4:
            word = columns[w * stride + row]
            if word:
                four, three, two, one = three, two, one, word
                at_four, at_three, at_two, at_one = at_three, at_two, at_one, w * stride + first
                taken += 1
            w += 1
        a, b = columns[at_one : at_one + n], columns[at_two : at_two + n]
        if taken > 2:
            c, d = columns[at_three : at_three + n], columns[at_four : at_four + n]
            for i in range(n):
                sizes[i] += (
                    popcount(one & a[i])
                    + popcount(two & b[i])
                    + popcount(three & c[i])
                    + popcount(four & d[i])
                )
        elif taken == 2:
            for i in range(n):
                sizes[i] += popcount(one & a[i]) + popcount(two & b[i])
        elif taken == 1:
            for i in range(n):
                sizes[i] += popcount(one & a[i])
