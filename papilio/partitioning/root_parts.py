"""Cuts a stored graph into parts for bicliques (:class:`~papilio.parts.RootPart`), out of core and in parallel.

1. One layer is anchored, as the engines choose it; the graph is reduced to its core and written as rows on disk.
2. The vertices of the anchored layer are grouped so that the closure of each group fits a part, see
   :mod:`papilio.partitioning.root_groups`.
3. Each group becomes a part, see :mod:`papilio.partitioning.root_subgraphs`: all edges between the columns of its
   roots and the left vertices of its own and later groups, reduced once more.

Every (p,q)-biclique belongs to the first part that has one of its anchored vertices for a root. The core of p and q
keeps every biclique of at least so many vertices, stars too, so that the parts serve all larger p and q.

Maximal bicliques belong to parts in the same way, but what extends one may be a root of an earlier part. So the lists
are whole in every part (:class:`~papilio.parts.MaximalPart`), and the roots of earlier parts in them are excluded. A
core keeps whatever extends a biclique that it keeps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import UnsupportedError
from papilio.families import family_of
from papilio.kernels.biclique.anchor import choose_anchor, choose_sizes
from papilio.kernels.biclique.decisions import explain_choices
from papilio.kernels.biclique.question import settle_anchor
from papilio.kernels.maximal import anchor as maximal_anchor
from papilio.motifs import Biclique, MaximalBiclique, Motif
from papilio.partitioning.arrays import Ids
from papilio.partitioning.cut_request import CutProgress, CutRequest
from papilio.partitioning.cut_run import CutRun, cut_run
from papilio.partitioning.disk_degrees import core_masks, degrees
from papilio.partitioning.root_groups import ClosureTooLargeError, RootGroups, group_roots
from papilio.partitioning.root_subgraphs import (
    KEPT_BYTES,
    AnchoredRows,
    Scratch,
    bind_parts,
    cut_root_part,
)
from papilio.partitioning.store import PartInfo, Partition
from papilio.parts import RootPart
from papilio.storage.files import release_memory
from papilio.storage.store import GraphStore

LEFT_BYTES = 28
"""Host memory per left vertex beside that: its group, its place among the roots, offsets and bytes while grouped."""

RIGHT_BYTES = 12
"""Host memory per right vertex beside that: bytes of its list while roots are grouped."""


def cut_roots(
    store: GraphStore,
    output: str | os.PathLike[str],
    motif: Motif,
    options: Mapping[str, str],
    request: CutRequest,
    progress: CutProgress | None = None,
    *,
    is_maximal: bool = False,
) -> Partition:
    """Cut a stored graph into parts for the bicliques of ``motif``, and of all of larger least sizes.

    ``output`` is the partition that is written, which must not exist. The option ``anchor`` is the layer of the roots:
    ``u``, ``v``, or ``auto`` as the engines choose it, or the other one where a root of that fits no part.

    UnsupportedError for counts per edge, or a strategy for other motifs. InputError for an unknown
    anchor. CapacityError when a part of one root passes the limit, or the host memory does not do; nothing is written
    then. StoreError when ``output`` cannot be written.
    """
    if request.strategy == "pair_blocks":
        raise UnsupportedError("strategy pair_blocks is for butterflies; cut for bicliques with bcpar")
    parted = family_of(motif).parted
    assert parted is not None
    least, shrinks = parted.least_sizes(motif), not is_maximal
    anchor = options.get("anchor", "auto")
    choose: Any = _choose_maximal_anchor if is_maximal else _choose_anchor
    with cut_run(store, output, motif, request, progress) as run, ExitStack() as stack:
        layers = _Degrees(store.n_u, store.n_v, *degrees(store, threads=request.threads))
        anchor, swapped, anchor_choice = choose(layers, motif, options, request)
        del layers
        release_memory()
        rows, core_choice = _write_rows(stack, run, swapped, least)
        run.lap("rows")
        try:
            groups, threads = _group(rows, request, least, shrinks)
        except ClosureTooLargeError as error:
            if anchor != "auto":
                raise
            refused, rows = rows.left.layer.upper(), rows.swap()
            anchor_choice = (
                f"layer {rows.left.layer.upper()} anchored",
                f"a vertex of layer {refused} fits no part with the lists of its neighbours",
            )
            try:
                groups, threads = _group(rows, request, least, shrinks)
            except ClosureTooLargeError:
                raise error from None
        run.lap("groups")
        run.report_parts(0)
        parts = _write_parts(run, rows, groups, least, threads, shrinks)
        run.lap("parts")
        run.finish(
            parts,
            decisions=(anchor_choice, core_choice, ("strategy bcpar", groups.reason)),
            nothing="nothing is in a biclique",
            family=parted.kind,
            strategy="bcpar",
            reason=groups.reason,
            layer=rows.left.layer,
            least_p=least[0],
            least_q=least[1],
        )
    return run.writer.partition


cut_maximal_roots = partial(cut_roots, is_maximal=True)


@dataclass(frozen=True, eq=False)
class _Degrees:
    """What the choice of the anchored layer depends on; a :class:`~papilio.kernels.biclique.forms.Layers`."""

    n_u: int
    n_v: int
    degree_u: NDArray[np.int64]
    degree_v: NDArray[np.int64]


def _choose_maximal_anchor(
    layers: _Degrees, motif: MaximalBiclique, options: Mapping[str, str], request: CutRequest
) -> tuple[str, bool, tuple[str, str]]:
    """Do as :func:`_choose_anchor` for maximal bicliques."""
    anchor = options.get("anchor", "auto")
    swapped = maximal_anchor.choose_maximal_anchor(layers, anchor)
    return (
        anchor,
        swapped,
        (f"layer {'V' if swapped else 'U'} anchored", maximal_anchor.explain_choice(anchor)),
    )


def _choose_anchor(
    layers: _Degrees, motif: Biclique, options: Mapping[str, str], request: CutRequest
) -> tuple[str, bool, tuple[str, str]]:
    """Return the anchor asked for, whether V is anchored, and why, from the degrees alone."""
    anchor = settle_anchor(motif, options.get("anchor", "auto"), options.get("algorithm", "auto"))
    swapped = choose_anchor(layers, motif, anchor)
    sizes = choose_sizes(layers, motif, swapped)
    why = explain_choices(motif, request.per, sizes, swapped, (anchor, "auto"), "auto")[0]
    layer = f"layer {'V' if swapped else 'U'} anchored"
    if why[0] != layer:
        why = layer, "nothing is searched: closed forms are all that is asked for"
    return anchor, swapped, why


def _write_rows(
    stack: ExitStack, run: CutRun, swapped: bool, least: tuple[int, int]
) -> tuple[AnchoredRows, tuple[str, str]]:
    """Reduce to the core of p and q and write its rows; return them and how much of the graph they are."""
    store, request, (p, q) = run.store, run.request, least
    keep_u = keep_v = None
    if p > 1 or q > 1:
        keep_u, keep_v = core_masks(store, q, p, threads=request.threads)
    room = run.host_left(KEPT_BYTES + store.n_u + store.n_v)
    disk = stack.enter_context(run.write_rows(room, keep_u=keep_u, keep_v=keep_v))
    anchored = AnchoredRows.of(disk, request)
    share = disk.n_edges / max(store.n_edges, 1)
    return anchored.swap() if swapped else anchored, (
        f"core of p >= {p} and q >= {q}",
        f"{disk.n_edges:,} of {store.n_edges:,} edges ({share:.1%}) can be in a biclique",
    )


def _fewest(rows: AnchoredRows, least: tuple[int, int]) -> tuple[int, int]:
    return least if rows.left.layer == "u" else least[::-1]


def _group(
    rows: AnchoredRows, request: CutRequest, least: tuple[int, int], shrinks: bool
) -> tuple[RootGroups, int]:
    """Group the roots; return the groups, and how many parts may be cut at a time."""
    vertices = rows.left.nbytes + rows.right.nbytes
    held = KEPT_BYTES + vertices + LEFT_BYTES * rows.left.n_rows + RIGHT_BYTES * rows.right.n_rows
    bound, threads = bind_parts(rows, request, held)
    try:
        left = (request.host_bytes - held) * 15 // 16
        return group_roots(rows, bound, _fewest(rows, least)[1], left, shrinks=shrinks), threads
    except ClosureTooLargeError as error:
        if bound.limit_bytes == request.limit_bytes:
            raise
        raise ClosureTooLargeError(
            f"{error}; it may take no more because larger parts are cut in more host memory than the "
            f"{request.host_bytes:,} bytes given, so give more of that"
        ) from error


def _write_parts(
    run: CutRun,
    rows: AnchoredRows,
    groups: RootGroups,
    least: tuple[int, int],
    threads: int,
    shrinks: bool,
) -> list[PartInfo]:
    """Cut and write all parts, several at a time; return what is known of each, in their order."""
    fewest = _fewest(rows, least)

    def cut(scratch: Scratch, group: int, roots: Ids) -> RootPart | None:
        return cut_root_part(rows, groups.groups, group, roots, fewest, scratch, shrinks=shrinks)

    return run.write_groups(groups.groups, threads, lambda: Scratch.of(rows), cut)
