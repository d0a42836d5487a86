"""Count or list a sample of a job's leases again, in this process and on an engine of choice, and compare exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np

from papilio.cluster.driver import plan_job
from papilio.cluster.events import ignore_events
from papilio.cluster.inline import InlineExecutor
from papilio.errors import ExecutionError, InputError, TilingError
from papilio.families import EngineChoice
from papilio.kernels.engine import EngineName
from papilio.storage.listings import count_missing_rows
from papilio.storage.results import read_partial_shard
from papilio.tasks.directory import JobDirectory
from papilio.tasks.job import LeaseTask
from papilio.tasks.reports import LeaseResult
from papilio.tasks.run import run_lease


@dataclass(frozen=True)
class Recount:
    """How many leases were counted again, chosen at random without repetition; their work items and work units."""

    engine: EngineName
    seed: int
    leases: int
    items: int
    work: int


def recount_leases(directory: JobDirectory, sample: int, engine: EngineChoice, seed: int) -> Recount:
    """Count ``sample`` random finished leases again, or all if there are fewer.

    ExecutionError naming the first lease whose total, cells, vectors or rows differ, or the work of engines that do the
    same. TilingError when the engine finds other work items. InputError when the graph was in memory.
    """
    if directory.source is None:
        raise InputError(f"the graph of {directory.root} was in memory; its leases cannot be counted again")
    job = replace(directory.job, source=directory.source)
    leases = directory.history().leases
    chosen = random.Random(seed).sample(leases, min(sample, len(leases)))
    chosen.sort(key=lambda lease: (lease.partition, lease.start))
    with ExitStack() as stack:
        executor = stack.enter_context(InlineExecutor())
        plan, (worker,), _ = plan_job(executor, job, engine, ignore_events)
        if plan.key != directory.plan_key:
            raise TilingError(
                f"{directory.root} holds the plan {directory.plan_key}; the {plan.engine} engine makes the plan "
                f"{plan.key} here: its work items are others"
            )
        run_id = uuid4().hex
        shards = None if job.listing is None else stack.enter_context(TemporaryDirectory())
        for number, lease in enumerate(chosen):
            task = LeaseTask(
                job, plan.engine, plan.key, run_id, lease.partition, lease.start, lease.stop, lease.work,
                shards, sequence=number,
            )  # fmt: skip
            again = run_lease(task, worker.seat)
            _compare(lease, again, job.family.same_work)
            if shards is not None:
                _compare_rows(lease, again)
    return Recount(
        engine=plan.engine,
        seed=seed,
        leases=len(chosen),
        items=sum(lease.stop - lease.start for lease in chosen),
        work=sum(lease.work for lease in chosen),
    )


def _answers(lease: LeaseResult, again: LeaseResult, same_work: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yield the answers of a lease by name, with what the ledger holds first; of a vector the first that differs."""
    yield "total", lease.total, again.total
    if same_work:
        yield "work", lease.work, again.work
    yield "checksum", lease.checksum, again.checksum
    yield "best", lease.best, again.best
    for cell in sorted(lease.cells.keys() | again.cells.keys()):
        yield f"cell {cell}", lease.cells.get(cell, 0), again.cells.get(cell, 0)
    if lease.shard is None or not again.vectors:
        return
    vectors = read_partial_shard(lease.shard.path, lease.shard.digest)
    for key, vector in again.vectors.items():
        if not np.array_equal(vectors[key], vector):
            entry = int(np.flatnonzero(vectors[key] != vector)[0])
            yield f"entry {entry} of vector {key!r}", int(vectors[key][entry]), int(vector[entry])


def _compare(lease: LeaseResult, again: LeaseResult, same_work: bool) -> None:
    for what, held, counted in _answers(lease, again, same_work):
        if held != counted:
            raise ExecutionError(
                f"items [{lease.start}, {lease.stop}) of partition {lease.partition}: the ledger holds {what}: {held}, "
                f"of engine {lease.engine}; engine {again.engine} counts {counted}"
            )


def _compare_rows(lease: LeaseResult, again: LeaseResult) -> None:
    """Refuse rows that were not listed again, as many times; which rows a lease lists before its limit is open."""
    if lease.capped or not lease.listed:
        return
    missing = count_missing_rows(*([shard.path for shard in each.listed] for each in (lease, again)))
    if missing:
        raise ExecutionError(
            f"items [{lease.start}, {lease.stop}) of partition {lease.partition}: {missing} of the {lease.total} "
            f"rows of {lease.listed[0].path} ... are not listed again"
        )
