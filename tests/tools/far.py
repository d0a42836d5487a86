"""Arrays of more than 2^32 entries, of which only the last ones take memory or disk space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FAR = 1 << 32


def far_array(path: Path, values: NDArray[Any]) -> NDArray[Any]:
    """Return the values behind ``FAR`` zeros, in a new sparse file."""
    whole = np.memmap(path, values.dtype, "w+", shape=(FAR + values.size,))
    whole[FAR:] = values
    return np.asarray(whole)
