"""What cuts a graph into parts, by the kind of the partition."""

from __future__ import annotations

from collections.abc import Callable

from papilio.partitioning.partition import Partition
from papilio.parts import PartitionKind

Cutter = Callable[..., Partition]
"""Called with the store, the directory of the partition, the motif, the options of the motif, the
:class:`~papilio.partitioning.cut_request.CutRequest` and a report of progress."""


def cutter_of(kind: PartitionKind) -> Cutter:
    """Return what cuts parts of a kind; imports it only now."""
    if kind in ("wedges", "cycles"):
        from papilio.partitioning.wedge_parts import cut_wedges

        return cut_wedges
    if kind in ("cliques", "maximal-cliques"):
        from papilio.partitioning import clique_parts

        return clique_parts.cut_cliques if kind == "cliques" else clique_parts.cut_maximal_cliques
    from papilio.partitioning import root_parts

    return root_parts.cut_roots if kind == "roots" else root_parts.cut_maximal_roots
