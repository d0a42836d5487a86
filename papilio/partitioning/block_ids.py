"""The ids of the vectors of a part, without the rest of its blocks: what folding needs of a partition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.motifs import Granularity
from papilio.partitioning.store import Partition


def read_vector_ids(partition: Partition, index: int, per: Granularity) -> dict[str, NDArray[Any]]:
    """Return, by name of the vector, what ``vector_ids`` of the part gives, reading the files with ids alone.

    StoreError when a file is missing, not readable or changed.
    """
    part = partition.manifest.parts[index]
    if per == "total":
        return {}
    if len(part.blocks) == 1:
        (block,) = part.blocks
        if partition.manifest.family == "roots":
            return {layer: partition.read_column(block, layer, "id") for layer in ("u", "v")}
        if per == "vertex":
            return {"n": partition.read_column(block, "n", "id")}
        return {"edge": partition.read_column(block, "edges", "edge")}
    starts, ends = part.blocks
    if per == "edge":
        entries = [partition.read_column(name, "entries", "edge") for name in (starts, ends)]
        return {"edge": np.concatenate(entries)}
    own = [partition.read_column(starts, "starts", "id"), partition.read_column(ends, "ends", "id")]
    other = "v" if part.layer == "u" else "u"
    return {part.layer: np.concatenate(own), other: partition.read_column(ends, "middles", "id")}
