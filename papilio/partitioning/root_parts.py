"""Cuts a stored graph into parts for (p,q)-bicliques (:class:`~papilio.parts.RootPart`), out of core and in parallel.

1. One layer is anchored, as the engines choose it; the graph is reduced to its core and written as rows on disk.
2. The vertices of the anchored layer are grouped so that the closure of each group fits a part, see
   :mod:`papilio.partitioning.root_groups`.
3. Each group becomes a part, see :mod:`papilio.partitioning.root_subgraphs`: all edges between the columns of its
   roots and the left vertices of its own and later groups, reduced once more.

Every biclique belongs to the first part that has one of its anchored vertices for a root. The core of p and q keeps
every biclique of at least so many vertices, stars too, so that the parts serve all larger p and q.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from papilio.errors import CapacityError, UnsupportedError
from papilio.kernels.costs import CostTable
from papilio.kernels.threads import ChunkRunner
from papilio.motifs import Biclique
from papilio.partitioning.cut_request import (
    PLAN_SHARE,
    ROWS_SHARE,
    CutRequest,
    Progress,
    report_rows,
    table_entries,
    tell_parts,
)
from papilio.partitioning.disk_rows import core_masks, write_disk_rows
from papilio.partitioning.manifest import PartInfo, PartitionManifest
from papilio.partitioning.peak_memory import PeakMemory
from papilio.partitioning.root_groups import ClosureTooLargeError, RootGroups, group_roots
from papilio.partitioning.root_question import Question, anchor_other, ask_question
from papilio.partitioning.root_subgraphs import (
    RUN_ENTRIES,
    AnchoredRows,
    Scratch,
    cut_root_part,
    find_fitting_entries,
    make_scratch,
    materialise_bytes,
)
from papilio.partitioning.store import Partition, PartitionWriter
from papilio.storage.location import local_path
from papilio.storage.memory import release_memory
from papilio.storage.store import GraphStore

__all__ = ["cut_roots"]

Decisions = tuple[tuple[str, str], ...]

KEPT_BYTES = 12 << 20
"""Host memory that libraries and allocators keep on the way. Measured: 8 to 12 MB."""

LEFT_BYTES = 28
"""Host memory per left vertex beside that: its group, its place among the roots, offsets and bytes while grouped."""

RIGHT_BYTES = 12
"""Host memory per right vertex beside that: bytes of its list while roots are grouped."""

RUN_SHARE = 8
"""All threads together read at most this part of the host memory at once."""


@dataclass(eq=False)
class _Clock:
    """Seconds of each step."""

    seconds: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.perf_counter)

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = now - self.last
        self.last = now


def cut_roots(
    store: GraphStore,
    output: str | os.PathLike[str],
    motif: Biclique,
    anchor: str,
    request: CutRequest,
    progress: Progress | None = None,
) -> Partition:
    """Cut a stored graph into parts for the bicliques of ``motif``, and of all larger p and q.

    Parameters
    ----------
    store : GraphStore
    output : path-like
        The partition that is written, which must not exist.
    motif : Biclique
    anchor : {"auto", "u", "v"}
        The layer of the roots; ``auto`` as the engines choose it, or the other one where a root of that fits no part.
    request : CutRequest
    progress : callable, optional

    Raises
    ------
    UnsupportedError
        For a unipartite graph, counts per edge, or the strategy ``pair_blocks``.
    InputError
        For an unknown anchor.
    CapacityError
        When a part of one root passes the limit, or the host memory does not do; nothing is written then.
    StoreError
        When ``output`` cannot be written.
    """
    _require_request(store, motif, request)
    report = progress or (lambda share: None)
    clock = _Clock()
    directory = request.scratch or local_path(output).parent
    with ExitStack() as stack:
        memory = stack.enter_context(PeakMemory())
        question = ask_question(store, motif, anchor, request.per, request.threads)
        release_memory()
        rows, core_choice = _write_rows(store, directory, question, request, report)
        stack.enter_context(rows.disk)
        release_memory()
        clock.lap("rows")
        try:
            groups, threads = _group(rows, request, question.least)
        except ClosureTooLargeError as error:
            if anchor != "auto":
                raise
            question = anchor_other(question)
            rows = replace(rows, swapped=question.swapped)
            try:
                groups, threads = _group(rows, request, question.least)
            except ClosureTooLargeError:
                raise error from None
        release_memory()
        clock.lap("groups")
        report(ROWS_SHARE + PLAN_SHARE)
        with PartitionWriter(output) as writer:
            parts = _write_parts(writer, rows, groups, question.least, threads, request, report)
            clock.lap("parts")
            decisions = (
                question.anchor_choice,
                core_choice,
                (f"strategy {groups.strategy}", groups.reason),
                tell_parts(parts, request, "nothing is in a biclique"),
            )
            manifest = _manifest(store, question, rows, groups, request)
            writer.finish(
                replace(
                    manifest,
                    parts=parts,
                    decisions=decisions,
                    seconds=clock.seconds,
                    peak_bytes=memory.grown_bytes,
                )
            )
    report(1.0)
    return writer.partition


def _manifest(
    store: GraphStore, question: Question, rows: AnchoredRows, groups: RootGroups, request: CutRequest
) -> PartitionManifest:
    """Return what is known before the parts are."""
    return PartitionManifest(
        graph_hash=store.hash,
        n_u=store.n_u,
        n_v=store.n_v,
        n_edges=store.n_edges,
        family="roots",
        strategy=groups.strategy,
        reason=groups.reason,
        layer=rows.layer,
        least_p=question.least_p,
        least_q=question.least_q,
        per=request.per,
        part_bytes_limit=request.limit_bytes,
        parts=(),
    )


def _require_request(store: GraphStore, motif: Biclique, request: CutRequest) -> None:
    if store.kind != "bipartite":
        raise UnsupportedError(f"{store.path} is {store.kind}; {motif.title} needs a bipartite graph")
    if request.per not in motif.granularities:
        raise UnsupportedError(
            f"{motif.title} cannot be counted per {request.per!r}; known: {', '.join(motif.granularities)}"
        )
    if request.strategy == "pair_blocks":
        raise UnsupportedError(
            "strategy pair_blocks is for butterflies; cut for bicliques with bcpar, hash or metis"
        )


def _write_rows(
    store: GraphStore,
    directory: Path,
    question: Question,
    request: CutRequest,
    report: Callable[[float], None],
) -> tuple[AnchoredRows, tuple[str, str]]:
    """Reduce to the core and write its rows; return them and how much of the graph they are."""
    keep_u = keep_v = None
    if question.least_p > 1 or question.least_q > 1:
        keep_u, keep_v = core_masks(store, question.least_q, question.least_p, threads=request.threads)
    held = KEPT_BYTES + store.n_u + store.n_v
    if held >= request.host_bytes:
        raise CapacityError(
            f"cutting may take {request.host_bytes:,} bytes of host memory, and {held:,} are taken before a row of "
            f"{store.path} is read; allow more"
        )
    disk = write_disk_rows(
        store,
        directory,
        request.host_bytes - held,
        request.threads,
        keep_u=keep_u,
        keep_v=keep_v,
        progress=report_rows(report),
    )
    what = f"core of p >= {question.least_p} and q >= {question.least_q}"
    share = disk.n_edges / max(store.n_edges, 1)
    run_entries = min(RUN_ENTRIES, request.host_bytes // (RUN_SHARE * 4 * request.threads))
    return AnchoredRows(disk, question.swapped, run_entries), (
        what,
        f"{disk.n_edges:,} of {store.n_edges:,} edges ({share:.1%}) can be in a biclique",
    )


def _group(rows: AnchoredRows, request: CutRequest, least: tuple[int, int]) -> tuple[RootGroups, int]:
    """Group the roots; return the groups, and how many parts may be cut at a time."""
    held = KEPT_BYTES + rows.disk.nbytes + LEFT_BYTES * rows.n_left + RIGHT_BYTES * rows.n_right
    bound, threads = _bind_parts(rows, request, held)
    try:
        return group_roots(rows, bound, least, (request.host_bytes - held) * 15 // 16), threads
    except ClosureTooLargeError as error:
        if bound.limit_bytes == request.limit_bytes:
            raise
        raise ClosureTooLargeError(
            f"{error}; it may take no more because larger parts are cut in more host memory than the "
            f"{request.host_bytes:,} bytes given, so give more of that"
        ) from error


def _bind_parts(rows: AnchoredRows, request: CutRequest, held: int) -> tuple[CutRequest, int]:
    """Return the request with parts no larger than the host memory can cut, and how many may be cut at a time."""
    price, room = request.part_bytes, request.host_bytes - held
    fixed = materialise_bytes(rows, 0)
    if rows.n_edges and room <= fixed:
        raise CapacityError(
            f"cutting a part takes more than {fixed:,} bytes of host memory beside {held:,} for the vertices, and "
            f"{request.host_bytes:,} are given; give at least {2 * fixed + held:,}"
        )
    entry = max(int(min(price.entry, price.root_entry)), 1)
    most = min((request.limit_bytes - price.fixed) // entry, rows.n_edges)
    fitting = find_fitting_entries(rows, room)
    if most > fitting:
        most = fitting
        request = replace(request, limit_bytes=price.fixed + 1 + most * entry)
    return request, max(min(request.threads, room // max(materialise_bytes(rows, most), 1)), 1)


def _write_parts(
    writer: PartitionWriter,
    rows: AnchoredRows,
    groups: RootGroups,
    least: tuple[int, int],
    threads: int,
    request: CutRequest,
    report: Callable[[float], None],
) -> tuple[PartInfo, ...]:
    """Cut and write all parts, several at a time; return what is known of each, in their order."""
    order = np.argsort(groups.groups, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(groups.groups, minlength=groups.n_groups))
    spans = list(pairwise([0, *ends.tolist()]))
    found: dict[int, dict[str, Any]] = {}
    lock = threading.Lock()
    entries, n_done = table_entries(groups.n_groups), 0

    def cut(scratch: Scratch, group: int, _: int) -> None:
        nonlocal n_done
        begin, end = spans[group]
        part = cut_root_part(rows, groups.groups, group, order[begin:end], least, scratch)
        if part is not None:
            sizes, work = part.sizes, int(part.work.sum())
            if not request.fits(sizes):
                raise AssertionError(f"part {group} of {sizes} passes {request.limit_bytes} bytes")
            name = f"roots-{group:06d}"
            writer.write_block(name, part)
            table = write_record(CostTable.from_costs(part.work, entries))
            found[group] = {
                "blocks": (name,),
                "layer": rows.layer,
                "sizes": sizes,
                "n_items": sizes.roots,
                "work": work,
                "table": table,
                "nbytes": part.nbytes,
            }
        part = None
        release_memory()
        with lock:
            n_done += end - begin
            shares = 1 - ROWS_SHARE - PLAN_SHARE
            report(ROWS_SHARE + PLAN_SHARE + shares * n_done / rows.n_left)

    ChunkRunner(lambda: make_scratch(rows), threads).run([(g, g + 1) for g in range(groups.n_groups)], cut)
    return tuple(PartInfo(index=index, **found[group]) for index, group in enumerate(sorted(found)))
