"""Cut a graph that does not fit a memory into parts, out of core.

In: a stored graph, and what a part may take (:mod:`~papilio.partitioning.cut_request`). Out: a stored partition of
self-contained parts (:mod:`~papilio.partitioning.store`). Every family writes rows by rank to disk (``disk_rows``),
groups its starts or roots under the limit (``growth``), and writes the parts and a manifest (``cut_run``): begin with
``wedge_parts`` for butterflies, ``root_parts`` for bicliques, ``clique_parts`` for cliques.
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
