"""The cliques of every graph of at most six vertices, by size: where a search of few candidates ends on the GPU."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

VERTICES = 6
"""Of the largest graphs; pair j (j - 1) / 2 + i of vertices i < j is a bit of their number."""

_SHIFTS = {3: 0, 4: 5, 5: 9, 6: 12}
"""Where the number of cliques of each size begins in an entry; those of 1 and 2 vertices need no table."""


@cache
def list_closed() -> NDArray[np.uint16]:
    """Return the numbers of cliques of 3 to 6 vertices, shape (2^15,), in 5, 4, 3 and 1 bits from the lowest on."""
    graphs = np.arange(1 << VERTICES * (VERTICES - 1) // 2)
    table = np.zeros(graphs.size, np.uint16)
    for size, shift in _SHIFTS.items():
        for members in combinations(range(VERTICES), size):
            pairs = sum(1 << j * (j - 1) // 2 + i for i, j in combinations(members, 2))
            table += ((graphs & pairs) == pairs).astype(np.uint16) << np.uint16(shift)
    return table
