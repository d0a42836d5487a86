"""Cuts a stored unipartite graph into parts for cliques (:class:`~papilio.parts.CliquePart`), out of core.

1. Reduce the graph to the vertices that can be in a clique of the least size. Rank them by ascending degree, then id.
   Write the later neighbours of each to disk by rank, and for maximal cliques the earlier ones, too. The engines follow
   this order in every part, because degeneracy order would take one pass over the edges per round.
2. Group the possible first vertices of cliques so that each group's neighbours (the later ones, or all) fit in a part.
   Each neighbour is priced with all of its later neighbours.
3. Each group becomes a part: the graph induced by its roots and these neighbours. An edge is kept if its later end is
   a root or the later neighbour of a root; an earlier neighbour is kept if it is adjacent to a later one.

Every clique belongs to its first vertex, and its other vertices are later neighbours of that vertex. Any vertex that
extends it is an earlier or a later neighbour, too. An isolated vertex is a maximal clique, and a root without
neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import ceil

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError
from papilio.graph import UnipartiteGraph
from papilio.kernels.biclique.core import Rows
from papilio.kernels.clique.question import (
    predict_maximal_work,
    predict_work,
    require_part_order,
)
from papilio.kernels.offsets import offsets_of
from papilio.motifs import Motif
from papilio.partitioning import Ids, Ints
from papilio.partitioning.cut_request import CutProgress, CutRequest
from papilio.partitioning.cut_run import cut_run
from papilio.partitioning.growth import grow_chunks
from papilio.partitioning.growth_loops import sum_closures
from papilio.partitioning.part_loops import (
    CANDIDATE,
    OUTER,
    ROOT,
    join_rows,
    keep_inner,
    mark_ids,
)
from papilio.partitioning.partition import Partition
from papilio.partitioning.root_parts import (
    KEPT_BYTES,
    AnchoredRows,
    HostBudget,
    Scratch,
    read_runs,
)
from papilio.partitioning.rows import LayerRows, span_rows
from papilio.parts import CliquePart, PartSizes
from papilio.storage.store import GraphStore

VERTEX_BYTES = 64
"""Host memory per vertex besides its rows: needs and cost of a root, its group, and its place among the roots."""


@dataclass(frozen=True, eq=False)
class _Needs:
    rows: AnchoredRows  # later neighbours and earlier ones
    wanted: NDArray[np.bool_]  # which vertices are roots
    is_maximal: bool

    @property
    def later(self) -> LayerRows:
        return self.rows.left

    @property
    def earlier(self) -> LayerRows:
        return self.rows.right

    @property
    def sizes(self) -> Ints:
        """Number of neighbours that each root needs; 0 for other vertices."""
        sizes = np.diff(self.later.indptr)
        if self.is_maximal:
            sizes += np.diff(self.earlier.indptr)
        sizes[~self.wanted] = 0
        return sizes

    def read(self, first: int, last: int) -> Rows:
        """Return the neighbours needed by the roots [first, last); rows of other vertices are empty."""
        later, earlier = (
            Rows(
                layer.indptr[first : last + 1] - layer.indptr[first],
                layer.read(first, last) if is_needed else np.empty(0, np.int32),
            )
            for layer, is_needed in ((self.later, True), (self.earlier, self.is_maximal))
        )
        if not self.is_maximal:
            earlier.indptr[:] = 0
        return join_rows(earlier, later, self.wanted[first:last])


def cut_cliques(
    store: GraphStore,
    output: str | os.PathLike[str],
    motif: Motif,
    options: Mapping[str, str],
    request: CutRequest,
    progress: CutProgress | None = None,
    *,
    is_maximal: bool = False,
) -> Partition:
    """Cut a stored graph into parts for the cliques of ``motif``, and for all larger least sizes.

    ``output`` is the path of the new partition and must not exist. ``options`` are the motif's options; maximal cliques
    need earlier neighbours, too.

    Raises UnsupportedError for an order or items that parts cannot have, or a strategy of other motifs. Raises
    CapacityError, before writing anything, if a part of one root exceeds the limit or host memory is too small. Raises
    StoreError if ``output`` cannot be written.
    """
    require_part_order(options.get("order", "auto"))
    with cut_run(store, output, motif, request, progress) as run, ExitStack() as stack:
        least, _ = run.least
        disk, share = run.write_core(
            "clique",
            (least - 1, least - 1) if least > 1 else None,
            KEPT_BYTES,
            layers=("u", "v") if is_maximal else ("u",),
            with_edges=request.per == "edge",
        )
        stack.enter_context(disk)
        core_choice = f"core of degree {least - 1} or more", share
        later = np.diff(disk.u.indptr)
        wanted = later + 1 >= least
        if is_maximal:
            wanted &= (later > 0) | (np.diff(disk.v.indptr) == 0)
        needs = _Needs(AnchoredRows.of(disk, request), wanted, is_maximal)
        run.lap("rows")
        host = HostBudget.of(needs.rows, request, VERTEX_BYTES)
        groups, reason = _group(needs, host)
        order = (
            "by increasing degree",
            f"at most {int(needs.sizes.max(initial=0))} neighbours of a root are needed",
        )
        return run.cut_groups(
            groups,
            host.threads,
            lambda: Scratch.of(needs.rows),
            lambda scratch, _, roots: _cut_part(needs, roots, scratch),
            decisions=(core_choice, order),
            reason=reason,
            nothing="no vertex is in a clique",
            layer="u",
        )


cut_maximal_cliques = partial(cut_cliques, is_maximal=True)


def _group(needs: _Needs, host: HostBudget) -> tuple[Ids, str]:
    """Return the group of every rank (-1 if it is no root), and the reason for the grouping."""
    request = host.request
    later, wanted, price = np.diff(needs.later.indptr), needs.wanted, request.part_bytes
    of_roots, n_roots = int(later[wanted].sum()), int(np.count_nonzero(wanted))
    whole = PartSizes(n_roots, of_roots, wanted.size - n_roots, needs.later.n_entries - of_roots)
    if request.fits(whole):
        return np.where(wanted, 0, -1).astype(np.int32), "one part: everything that can be in a clique fits in one part"
    indptr = offsets_of(needs.sizes)
    column_bytes = ceil(price.vertex) + ceil(price.entry) * later
    root_bytes = np.where(wanted, ceil(price.root) + ceil(price.root_entry) * later, 0)
    limit = request.limit_bytes - price.fixed - 1
    try:
        groups = grow_chunks(
            indptr, lambda first, last: needs.read(first, last).ids, column_bytes, root_bytes, limit,
            host.group_bytes, request.threads,
        )  # fmt: skip
    except CapacityError as error:
        _refuse_worst(needs, indptr, column_bytes, root_bytes, request, error)
        raise
    why = "the graph does not fit in one part; roots that share neighbours share their storage"
    return np.where(wanted, groups, -1).astype(np.int32), why


def _refuse_worst(
    needs: _Needs,
    indptr: Ints,
    column_bytes: Ints,
    root_bytes: Ints,
    request: CutRequest,
    cause: CapacityError,
) -> None:
    costs = root_bytes.copy()
    for first, last in span_rows(indptr, 0, root_bytes.size, needs.rows.run_entries):
        costs[first:last] += sum_closures(*needs.read(first, last), column_bytes)
    worst = int(np.argmax(costs)) if costs.size else 0
    needed = request.part_bytes.fixed + 1 + int(costs[worst])
    if needed > request.limit_bytes:
        raise CapacityError(
            f"vertex {int(needs.later.order[worst])}, a root that needs {int(indptr[worst + 1] - indptr[worst]):,} "
            f"neighbours, takes {needed:,} bytes with their edges, more than the {request.limit_bytes:,} bytes of a "
            f"part; allow at least {needed:,} bytes per part"
        ) from cause


def _cut_part(needs: _Needs, roots: Ids, scratch: Scratch) -> CliquePart | None:
    """Cut the part of one group of ascending ranks; None if it has no root."""
    roots = roots[needs.wanted[roots]]
    if not roots.size:
        return None
    later, rows, roles = needs.later, needs.rows, scratch.roles
    roles[roots] |= ROOT
    layers = [(later, CANDIDATE), (needs.earlier, OUTER)][: 2 if needs.is_maximal else 1]
    for layer, role in layers:
        for begin, end, entries in read_runs(roots, layer.indptr, layer.read, rows.run_entries):
            mark_ids(roots[begin:end], layer.indptr, entries, roles, role)
    met = np.flatnonzero(roles).astype(np.int32)
    room = int((later.indptr[met + 1] - later.indptr[met]).sum())
    has_edges = later.edge_ids is not None
    sizes, kept = np.empty(met.size, np.int64), np.empty(room, np.int32)
    kept_edges = np.empty(room if has_edges else 0, np.int64)
    to = 0
    for begin, end, entries in read_runs(met, later.indptr, later.read, rows.run_entries):
        edges = later.read_edges(int(met[begin]), int(met[end - 1]) + 1) if has_edges else kept_edges[:0]
        run = met[begin:end]
        to = keep_inner(run, later.indptr, entries, edges, roles, sizes[begin:end], kept, kept_edges, to)
    roles[met] = 0
    ids, sizes = met[sizes >= 0], sizes[sizes >= 0]
    return _make_part(needs, roots, ids, sizes, kept[:to], kept_edges[:to], scratch.places)


def _make_part(needs: _Needs, roots: Ids, ids: Ids, sizes: Ints, later: Ids, edges: Ints, places: Ids) -> CliquePart:
    """Number a subgraph for an engine: rank ``ids[i]`` has ``sizes[i]`` neighbours in ``later``."""
    places[ids] = np.arange(ids.size, dtype=np.int32)
    second, local = places[later], places[roots]
    places[ids] = -1
    out = sizes[local]
    work = predict_work(out)
    if needs.is_maximal:
        work = predict_maximal_work(out, np.bincount(second, minlength=ids.size)[local])
    order = np.argsort(-work, kind="stable")
    first = np.repeat(np.arange(ids.size, dtype=np.int32), sizes)
    return CliquePart(
        UnipartiteGraph(int(ids.size), first, second),
        needs.later.order[ids],
        edges,
        local[order],
        work[order],
    )
