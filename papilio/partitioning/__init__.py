"""Cut a graph that is larger than memory into parts, out of core.

Input: a stored graph and the limits of a part (:mod:`~papilio.partitioning.cut_request`). Output: a stored partition
of self-contained parts (:mod:`~papilio.partitioning.partition`). Every motif family writes its rows by rank to disk
(``disk_rows``), groups its starts or roots under the limit (``growth``), and writes the parts and a manifest
(``cut_run``). Start reading at ``wedge_parts`` for butterflies, ``root_parts`` for bicliques, ``clique_parts`` for
cliques.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
"""Ids, ranks or places of vertices."""

Ints = NDArray[np.int64]
"""Offsets, sizes, edge ids or costs."""

Roles = NDArray[np.uint8]
"""Roles of each vertex in a part, as bits; 0 for none."""
