"""The cutters of parts as the registry names them: one signature for all families."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from papilio.kernels.biclique.question import settle_anchor
from papilio.motifs import Biclique, Butterfly
from papilio.partitioning.cut_request import CutRequest, Progress
from papilio.partitioning.root_parts import cut_roots
from papilio.partitioning.store import Partition
from papilio.partitioning.wedge_parts import cut_wedges
from papilio.storage.store import GraphStore


def cut_for_butterflies(
    store: GraphStore,
    output: Path,
    motif: Butterfly,
    options: Mapping[str, str],
    request: CutRequest,
    progress: Progress | None,
) -> Partition:
    """Cut a stored graph into parts of wedges."""
    return cut_wedges(store, output, request, progress)


def cut_for_bicliques(
    store: GraphStore,
    output: Path,
    motif: Biclique,
    options: Mapping[str, str],
    request: CutRequest,
    progress: Progress | None,
) -> Partition:
    """Cut a stored graph into parts of roots, in the layer that the options name."""
    anchor = settle_anchor(motif, options.get("anchor", "auto"), options.get("algorithm", "auto"))
    return cut_roots(store, output, motif, anchor, request, progress)
