"""Names of the array types of this package; all arrays are on the host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
"""Ids, ranks or places of vertices."""

Ints = NDArray[np.int64]
"""Offsets, sizes, edge ids or costs."""

Roles = NDArray[np.uint8]
"""What each vertex is to a part, as bits; 0 for nothing."""
