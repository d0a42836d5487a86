"""The public functions that list motifs one by one, instead of counting them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from papilio.api.inputs import GraphInput, Progress, enter_executor, result_of
from papilio.arguments import Count, Workers, checked
from papilio.cluster.driver import count_job, plan_job, run_directory
from papilio.cluster.events import Listener, PhaseStarted, ignore_events
from papilio.cluster.executor import Executor
from papilio.errors import ExecutionError, InputError, StoreError
from papilio.families import EngineChoice, family_of
from papilio.kernels.engine import Partial
from papilio.motifs import Listing, Motif, choose_options, read_motif
from papilio.storage.listings import ListingShard, read_listing, write_listing
from papilio.storage.location import local_path
from papilio.storage.names import find_ids, hash_labels, read_names
from papilio.storage.store import GraphStore
from papilio.tasks.directory import JobDirectory, find_finished
from papilio.tasks.graphs import job_of_store, require_kind
from papilio.tasks.job import JobSpec, digest
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import ListingResult
from papilio.tasks.session import JobSession, settings_of

__all__ = ["enumerate_motifs", "plan_listing", "resume_listing"]


@checked
def enumerate_motifs(
    graph: Any,
    motif: Motif | str,
    *,
    output: str | os.PathLike[str],
    limit: Count | None,
    with_u: Iterable[str | int] = (),
    with_v: Iterable[str | int] = (),
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    progress: Progress | None = None,
    job: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> ListingResult:
    """List motifs: every one is a row of a directory of Parquet files, and none comes twice.

    Parameters
    ----------
    graph : path-like, GraphStore, BipartiteGraph, or object
        As for :func:`papilio.count`.
    motif : Motif
        ``Biclique(p, q)`` with both sizes.
    output : path-like
        The directory to make. Its files have the columns ``u`` and ``v``: lists of p and of q labels of the graph,
        or ids where it has none, by rising id. Shards of leases pass through the directory that it lies in, which
        all workers must be able to write to.
    limit : int or None
        Most rows: exactly so many are listed if there are as many, which ones is left open. None lists all,
        however many they are.
    with_u, with_v : iterable of str or int
        Labels (ids, where there are none) of vertices of U and of V: only motifs that hold all of them are listed.
        The search is restricted to what can go with them.
    cluster, workers, progress
        As for :func:`papilio.count`.
    engine : {"auto", "cpu"}
        Motifs are listed on CPUs.
    job : path-like, optional
        Job directory, as for :func:`papilio.count`. It keeps the shards, which the files of the output share with it
        on one file system.
    options : mapping of str to str, optional
        ``anchor`` (``auto``, ``u``, ``v``).

    Returns
    -------
    ListingResult
        ``output``, the directory; ``rows``; ``limit_reached``; ``checked``; and how it ran. Where all motifs of the
        graph were asked for, they are also counted, and the listing is refused unless the numbers are equal.

    Raises
    ------
    PapilioError
        As for :func:`papilio.count`; InputError also for labels that no vertex has, StoreError where something
        stands at ``output``.

    Examples
    --------
    >>> papilio.enumerate_motifs("graph/", papilio.Biclique(3, 4), output="bicliques", limit=1000).rows
    1000
    """
    started = perf_counter()
    motif = read_motif(motif)
    engine, _ = family_of(motif).settle_engine(engine, listing=True)
    target = local_path(output)
    with ExitStack() as stack:
        source = GraphInput(graph)
        path = source.path
        asked = _ask(source, stack, target.parent, motif, limit, (with_u, with_v), options)
        settings = settings_of(cluster, engine, workers, target)
        run = _Run(source, asked, engine, target, started, progress or ignore_events)
        if job is not None:
            finished = find_finished(job, lambda: asked)
            if finished is not None:
                return run.reuse(finished)
        run.require_room(may_replace=job is not None)
        session = None
        if job is not None:
            session = stack.enter_context(JobSession(job, asked, path, settings))
        return run.finish(stack, cluster, workers, session)


@checked
def plan_listing(
    graph: Any,
    motif: Motif | str,
    *,
    limit: Count | None = None,
    with_u: Iterable[str | int] = (),
    with_v: Iterable[str | int] = (),
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    options: Mapping[str, str] | None = None,
) -> CountPlan:
    """Prepare a graph on one worker and plan the listing of ``motif``, without running it.

    Its work is an estimate: how many motifs there are is not known before they are counted or listed. Parameters
    and errors are those of :func:`enumerate_motifs`.
    """
    motif = read_motif(motif)
    engine, _ = family_of(motif).settle_engine(engine, listing=True)
    with ExitStack() as stack:
        source = GraphInput(graph)
        asked = _ask(source, stack, Path.cwd(), motif, limit, (with_u, with_v), options)
        executor = enter_executor(stack, cluster, engine, workers)
        made, _, _ = plan_job(executor, asked, engine, ignore_events)
    return made


def resume_listing(
    directory: JobDirectory,
    *,
    cluster: Any,
    engine: EngineChoice,
    workers: int | None,
    progress: Progress | None,
) -> ListingResult:
    """Go on with the listing of a job directory; as :func:`papilio.resume_job`, which calls this."""
    started = perf_counter()
    job, target = directory.job, Path(directory.settings["output"])
    engine, _ = job.settle_engine(engine)
    with ExitStack() as stack:
        source = GraphInput(directory.source)
        store = source.stored(stack, target.parent)
        asked = job_of_store(store, job.motif, job.per, job.options, job.listing)
        run = _Run(source, asked, engine, target, started, progress or ignore_events)
        finished = find_finished(directory.root, lambda: asked)
        if finished is not None:
            return run.reuse(finished)
        run.require_room(may_replace=True)
        settings = directory.settings
        session = stack.enter_context(JobSession(directory.root, asked, directory.source, settings))
        return run.finish(stack, cluster, workers, session)


def _ask(
    source: GraphInput,
    stack: ExitStack,
    parent: Path,
    motif: Motif,
    limit: int | None,
    held: tuple[Iterable[str | int], Iterable[str | int]],
    options: Mapping[str, str] | None,
) -> JobSpec:
    """Return the job; a graph in memory becomes a store under ``parent`` until ``stack`` ends."""
    chosen = choose_options(motif, options or {})
    require_kind(motif, source.kind, source.name)
    store = source.stored(stack, parent)
    with_u, with_v = find_ids(store, "u", held[0]), find_ids(store, "v", held[1])
    listing = Listing(limit, with_u, with_v, hash_labels(store))
    return job_of_store(store, motif, "total", chosen, listing)


class _Run:
    """A listing that is asked for, and where it goes."""

    def __init__(
        self,
        source: GraphInput,
        asked: JobSpec,
        engine: EngineChoice,
        target: Path,
        started: float,
        listener: Listener,
    ) -> None:
        assert source.store is not None
        assert asked.listing is not None
        self._source, self._asked, self._engine, self._target = source, asked, engine, target
        self._store: GraphStore = source.store
        self._listing: Listing = asked.listing
        self._started, self._listener = started, listener

    def _is_written(self) -> bool:
        """Whether the target holds a listing of the same question."""
        found = read_listing(self._target)
        names = ("graph", "motif", "listing")
        return found is not None and all(
            digest(found.get(name)) == digest(self._asked.question[name]) for name in names
        )

    def require_room(self, *, may_replace: bool) -> None:
        """Refuse a target where something is, unless it is a listing of the same question that may be replaced."""
        if not os.access(self._target.parent, os.W_OK):
            raise InputError(f"output {self._target} lies in a directory that this process cannot write to")
        target = self._target
        is_free = not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir()))
        if not is_free and not (may_replace and self._is_written()):
            raise StoreError(f"{target} exists already; choose another directory, or remove it")

    def finish(
        self, stack: ExitStack, cluster: Any, workers: int | None, session: JobSession | None
    ) -> ListingResult:
        """List, and write the output."""
        self._listener(PhaseStarted("start"))
        executor = enter_executor(stack, cluster, self._engine, workers)
        start_s = perf_counter() - self._started
        shards = (
            None if session is not None else Path(stack.enter_context(run_directory(self._target.parent)))
        )
        outcome = count_job(executor, self._asked, self._engine, shards, self._listener, session)
        check_started = perf_counter()
        checked = self._check(executor, outcome.partial)
        check_s = perf_counter() - check_started
        self._listener(PhaseStarted("write"))
        write_started = perf_counter()
        capped = outcome.partial.capped
        written = self._write(outcome.listed, capped, keep_shards=session is not None)
        counted = result_of(outcome, executor, self._source.describe(self._asked))
        same = {field.name: getattr(counted, field.name) for field in fields(counted)}
        seconds = {"start": start_s, **outcome.seconds, "check": check_s}
        seconds["write"] = perf_counter() - write_started
        result = ListingResult(
            **{
                **same,
                "output": str(self._target),
                "job_directory": None if session is None else str(session.root),
                "seconds": {**seconds, "total": perf_counter() - self._started},
            },
            listing=self._listing,
            limit_reached=capped,
            files=len(written["files"]),
            checked=checked,
        )
        if session is not None:
            session.finish(result, {})
        return result

    def _check(self, executor: Executor, listed: Partial) -> bool:
        """Count what was listed, where all were asked for; return whether that was so."""
        listing = self._listing
        if listing.limit is not None or listing.with_u or listing.with_v:
            return False
        self._listener(PhaseStarted("check"))
        job = replace(self._asked, listing=None)
        counted = count_job(executor, job, self._engine, None, ignore_events).partial
        for what, found, expected in (
            ("", listed.total, counted.total),
            ("hashes whose sum is ", listed.checksum, counted.checksum),
        ):
            if found != expected:
                raise ExecutionError(
                    f"{what}{found} of {job.motif.title} were listed in {job.source}, and {what}{expected} are "
                    "counted there; nothing was written"
                )
        return True

    def reuse(self, finished: JobDirectory) -> ListingResult:
        """Return the answer of a finished job, and write the output if it is not there."""
        result = finished.result()
        assert isinstance(result, ListingResult)
        write_started = perf_counter()
        if not self._is_written():
            self.require_room(may_replace=False)
            leases = sorted(finished.history().leases, key=lambda lease: (lease.partition, lease.start))
            shards = tuple(shard for lease in leases for shard in lease.listed)
            self._write(shards, result.limit_reached, keep_shards=True)
        seconds = {"write": perf_counter() - write_started, "total": perf_counter() - self._started}
        idle = dict.fromkeys(("start", "plan", "read", "prepare", "run", "fold", "check"), 0.0)
        return replace(result, output=str(self._target), seconds=idle | seconds)

    def _write(
        self, shards: tuple[ListingShard, ...], limit_reached: bool, *, keep_shards: bool
    ) -> dict[str, Any]:
        sizes = self._asked.family.columns(self._asked.motif)
        question = self._asked.question
        return write_listing(
            self._target,
            shards,
            question={name: question[name] for name in ("graph", "motif", "listing")},
            names=read_names(self._store, dict.fromkeys(sizes, np.empty(0, np.int32))),
            sizes=sizes,
            limit=self._listing.limit,
            limit_reached=limit_reached,
            keep_shards=keep_shards,
            overwrite=self._is_written(),
        )
