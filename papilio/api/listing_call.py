"""A call that lists motifs: into files, or row by row."""

from __future__ import annotations

import builtins
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from papilio.api.call import Call, owns_output
from papilio.api.iterate import Rows
from papilio.api.read import Graph
from papilio.arguments import show_bytes
from papilio.cluster.driver import JobOutcome, count_job, run_directory
from papilio.cluster.events import PhaseStarted, RowsKnown, ignore_events
from papilio.cluster.executor import Executor
from papilio.errors import CapacityError, ExecutionError, InputError, StoreError
from papilio.motifs import Listing
from papilio.question import Question
from papilio.storage.files import check_replaceable
from papilio.storage.listings import (
    LISTING_NAME,
    ListingShard,
    check_listing,
    check_listing_shards,
    read_listing,
    write_listing,
)
from papilio.storage.vertex_names import find_held, hash_labels, read_names
from papilio.tasks.directory import JobDirectory, find_answer, require_plain
from papilio.tasks.forecast import Range
from papilio.tasks.job import JobSpec, digest, graph_in_memory, job_of
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import ListingResult

if TYPE_CHECKING:
    from papilio.tasks.session import JobSession

_MANY_ROWS = 1_000_000
"""Threshold above which the predicted size of a listing is reported before writing."""


class ListingCall(Call[ListingResult]):
    """A listing into a directory.

    ``required`` has labels of vertices: of either layer, of U, of V. Without it, the listing of the question has ids.
    """

    phases = (*Call.phases, "check")

    def __init__(
        self,
        graph: Graph,
        question: Question,
        target: Path,
        required: tuple[Iterable[str | int], ...] | None = None,
        *,
        overwrite: bool = False,
        **where: Any,
    ) -> None:
        super().__init__(graph, question, target, **where)
        self._directory, self._required, self._checked = target, required, False
        self._overwrite = overwrite or owns_output(where.get("job"), target)

    @cached_property
    def spec(self) -> JobSpec:
        """The job on a store; a graph in memory becomes one until the call ends."""
        store, listing = self.stored(self._directory.parent), self._listing
        if self._required is not None:
            listing = Listing(listing.limit, *find_held(store, *self._required), hash_labels(store))
        self.question = replace(self.question, listing=listing)
        return job_of(store, self.question)

    @property
    def _listing(self) -> Listing:
        assert self.question.listing is not None
        return self.question.listing

    def make_job(self, executor: Executor) -> JobSpec:
        return self.spec

    @contextmanager
    def local_job(self) -> Iterator[JobSpec]:
        """Provide the job to this process only: on the store, or on the graph in memory until the block ends."""
        if self.store is None and not any(self._required or ()):
            with graph_in_memory(self.graph.arrays()) as name:
                yield self.job_in(name)
        else:
            yield self.spec

    def rows(self) -> Rows:
        """Return the rows, found during iteration."""
        return Rows(self)

    def plan(self) -> CountPlan:
        with self.stack:
            _ = self.spec  # unknown labels raise before workers start
            return super().plan()

    def shard_parent(self, executor: Executor, job: JobSpec) -> Path:
        return Path(self.stack.enter_context(run_directory(self._directory.parent)))

    def _is_written(self) -> bool:
        question, found = self.spec.identity, read_listing(self._directory)
        names = ("graph", "motif", "listing")
        return found is not None and all(digest(found.get(name)) == digest(question[name]) for name in names)

    def require_room(self) -> None:
        """Raise if the target exists, unless it is a listing that may be replaced, or of the same question or job."""
        target = self._directory
        if not os.access(target.parent, os.W_OK):
            raise InputError(f"output {target} is in a directory that this process cannot write to")
        check_replaceable(target, self._may_replace, LISTING_NAME)
        self._foresee()

    @property
    def _may_replace(self) -> bool:
        return self._overwrite or (self.job is not None and self._is_written())

    def accept(self, plan: CountPlan) -> None:
        """Report the predicted size of the output; CapacityError if it exceeds the free space."""
        rows, n_bytes = plan.listing_rows, plan.listing_bytes
        if rows is not None and n_bytes is not None and rows.value:
            self.require_space(rows, n_bytes)

    def require_space(self, rows: Range, n_bytes: Range) -> None:
        """Check predicted rows and bytes as in :meth:`accept`."""
        if rows.value >= _MANY_ROWS:
            self.listener(RowsKnown(round(rows.value), round(n_bytes.value), ""))
        place = self._directory.parent
        free = shutil.disk_usage(place).free
        if n_bytes.low > free:
            raise CapacityError(
                f"the listing is predicted to have {rows.show()} rows, and {show_bytes(round(n_bytes.low))} at least; "
                f"{show_bytes(free)} are free at {place}: set limit (--limit), or use another disk"
            )

    def _foresee(self) -> None:
        """Report the number of rows, if a job directory next to the target has it."""
        job, store = self.spec, self.store
        known = find_answer(self._directory.parent, replace(job, listing=None).identity)
        if known is None or store is None or self._listing.with_u or self._listing.with_v:
            return
        root, counted = known
        n_bytes = 0
        for place, (layer, size) in builtins.enumerate(job.row.columns(job.motif).items()):
            column = store.label_column("v" if layer == "v" else "u")
            vertices = (
                sum(cell[place] * n for cell, n in counted.table.items()) if size is None else size * counted.count
            )
            n_bytes += 4 * vertices if column is None else vertices * column.nbytes // max(len(column), 1)
        rows = min(counted.count, self._listing.limit or counted.count)
        if rows:
            self.listener(RowsKnown(rows, n_bytes * rows // counted.count, str(root)))

    def count(self, executor: Executor, job: JobSpec, session: JobSession | None, shards: Path | None) -> JobOutcome:
        outcome = count_job(executor, job, self.engine, shards, self.listener, session, self.accept)
        seconds = {**outcome.result.seconds, **self.check(executor, outcome)}
        return outcome._replace(result=replace(outcome.result, seconds=seconds))

    def check(self, executor: Executor, outcome: JobOutcome) -> dict[str, float]:
        """Check the answer independently; return the seconds by phase."""
        began, listing, listed = perf_counter(), self._listing, outcome.result
        if listing.limit is None and not (listing.with_u or listing.with_v):
            self.listener(PhaseStarted("check"))
            job = replace(self.spec, listing=None)
            counted = count_job(executor, job, self.engine, None, ignore_events).result
            for what, found, expected in (
                ("", listed.count, counted.count),
                ("hashes whose sum is ", listed.checksum, counted.checksum),
            ):
                if found != expected:
                    raise ExecutionError(
                        f"{what}{found} of {job.motif.title} were listed in {job.source}, but {what}{expected} were "
                        f"counted; nothing was written"
                    )
            self._checked = True
        return {"check": perf_counter() - began}

    def write(self, result: ListingResult, listed: Sequence[ListingShard], kept: bool) -> ListingResult:
        written = self._write_rows(listed, result.limit_reached, keep_shards=kept)
        left = None if written["rows"] == result.count else written["rows"]
        return replace(result, files=len(written["files"]), checked=self._checked, left=left)

    def write_again(self, finished: JobDirectory, result: ListingResult) -> ListingResult:
        if not self._is_whole():
            self.require_room()
            require_plain(finished.root)
            leases = sorted(finished.history().leases, key=lambda lease: (lease.partition, lease.start))
            shards = tuple(shard for lease in leases for shard in lease.listed)
            check_listing_shards(shards)
            self._write_rows(shards, result.limit_reached, keep_shards=True)
        return result

    def _is_whole(self) -> bool:
        """Whether the target is an unchanged listing of the same question."""
        with suppress(StoreError):
            found = read_listing(self._directory)
            if found is not None and self._is_written():
                check_listing(self._directory, found)
                return True
        return False

    @property
    def numbers(self) -> Mapping[str, str]:
        """Numbers in the files, with their types; see :class:`papilio.registry.ListingSupport`."""
        return self.question.row.numbers(self.question.motif)

    @contextmanager
    def settled(self, shards: Sequence[ListingShard]) -> Iterator[Sequence[ListingShard]]:
        """Provide the files of the written rows until the block ends; they may be replaced by new files."""
        yield shards

    def _write_rows(self, shards: Sequence[ListingShard], limit_reached: bool, *, keep_shards: bool) -> dict[str, Any]:
        with self.settled(shards) as settled:
            return self._write_files(settled, limit_reached, keep_shards and settled is shards)

    def _write_files(self, shards: Sequence[ListingShard], limit_reached: bool, keep_shards: bool) -> dict[str, Any]:
        assert self.store is not None, "asking made it"
        sizes, question = self.spec.row.columns(self.spec.motif), self.spec.identity
        return write_listing(
            self._directory,
            shards,
            question={name: question[name] for name in ("graph", "motif", "listing")},
            names=read_names(self.store, dict.fromkeys(sizes, np.empty(0, np.int32))),
            sizes=sizes,
            limit=self._listing.limit,
            limit_reached=limit_reached,
            keep_shards=keep_shards,
            overwrite=self._may_replace,
            numbers=self.numbers,
        )
