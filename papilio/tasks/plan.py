"""Plans: all decisions about a job before it runs, each with a reason.

A plan is made by a pure function from the report of one prepared graph and the facts of the workers. It is
small, frozen, survives JSON, and can be inspected without running anything.

The plan of a partitioned graph holds its parts with short tables of costs, and the reason for the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from papilio.arguments import plural, show_bytes
from papilio.errors import TilingError
from papilio.kernels.engine import LEAST_TABLE_ENTRIES, MAX_TABLE_ENTRIES, CostTable, EngineName
from papilio.partitioning.partition import PartitionManifest
from papilio.storage.answers import Described, Preview, Previewed, preview
from papilio.storage.records import read_record, write_record
from papilio.tasks.forecast import NS, Forecast, Pace, Range, predict_bytes
from papilio.tasks.job import JobSpec, PrepareReport, digest
from papilio.tasks.leases import FinishedIntervals, ItemRange, LeaseLengths, choose_lengths, split_shares
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.memory import MemoryForecast, part_memory


def downsample_costs(manifest: PartitionManifest, speed: float) -> Iterator[CostTable]:
    """Yield the table of every part; all together are about as long as the table of a whole graph may be.

    In nanoseconds of one worker that does ``speed`` units of work a second.
    """
    most = max(LEAST_TABLE_ENTRIES, MAX_TABLE_ENTRIES // max(len(manifest.parts), 1))
    for part in manifest.parts:
        items, work = part.table["items"], part.table["work"]
        last = len(items) - 1
        steps = min(most, last)
        chosen = [last * step // steps for step in range(steps + 1)] if steps else [0]
        ns = Pace.even(work[-1], speed).ns_of(np.array([work[at] for at in chosen]))
        yield CostTable(tuple(items[at] for at in chosen), tuple(ns.tolist()))


def mean_vector_entries(job: JobSpec, manifest: PartitionManifest) -> int:
    """Return the number of vector entries of one lease, as the mean over all parts."""
    if job.per == "total" or not manifest.parts:
        return 0
    sizes = [part.sizes for part in manifest.parts]
    entries = sum(each.edges if job.per == "edge" else each.roots + each.vertices for each in sizes)
    return entries // len(sizes)


def explain_parts(
    job: JobSpec, engine: EngineName, threads: int, manifest: PartitionManifest | None, memory: MemoryForecast
) -> Iterator[tuple[str, str]]:
    """Yield the decisions about the parts of a job, if any, with figures; ``memory`` is the forecast for one worker."""
    if manifest is None:
        peak, kind = (memory.device_bytes, "device") if engine == "gpu" else (memory.host_bytes, "host")
        yield (
            "strategy replicate",
            f"the whole graph needs about {show_bytes(peak)} of {kind} memory, available on every worker",
        )
        return
    parts = manifest.parts
    yield f"strategy {manifest.strategy}", manifest.reason
    yield from manifest.decisions
    yield (
        f"{len(parts)} parts, replication {manifest.replication:.2f}",
        f"runs read {sum(part.sizes.edges for part in parts):,} edges of a graph with {manifest.n_edges:,}; the "
        f"files have {manifest.stored_edges:,}",
    )
    if parts:
        needs = part_memory(job, engine, threads, manifest.layer)
        worst = max(parts, key=lambda part: (needs.device_bytes if engine == "gpu" else needs.host_bytes)(part.sizes))
        sizes = worst.sizes
        device = f"{show_bytes(needs.device_bytes(sizes))} of device and " if engine == "gpu" else ""
        yield (
            f"largest part {worst.index}",
            f"its {sizes.roots:,} items and {sizes.edges:,} edges take {device}{show_bytes(needs.host_bytes(sizes))} "
            f"of host memory, {show_bytes(worst.nbytes)} of it for reading",
        )
    figures = [
        f"{show_bytes(peak)} of {kind} memory{'' if limit is None else f' of a budget of {show_bytes(limit)}'}"
        for kind, peak, limit in (
            ("device", memory.device_bytes, job.budget.device_bytes),
            ("host", memory.host_bytes, job.budget.host_bytes),
        )
        if kind == "host" or engine == "gpu"
    ]
    yield (
        f"peak of a worker about {' and '.join(figures)}",
        "the process, the largest part during counting, and the next part if there is space to read ahead",
    )


def explain_forecast(
    job: JobSpec, forecast: Forecast | None, total_work: int, unit: str, speed: float
) -> tuple[str, str]:
    """Return the forecast as a sentence, and its basis."""
    rated = f"{total_work:,} {unit} at {speed:.2g} a second take {total_work / speed:.3g} s"
    if forecast is None:
        return (
            "time at the rate of the engine",
            f"{rated}; parts are probed during preparation, to set their slices",
        )
    if forecast.seconds is None:
        return (
            "time not predicted",
            f"{forecast.reason}; {rated}, but a search can take a thousand times as long",
        )
    what = f"about {forecast.seconds.show('s')} on one worker"
    if not forecast.probes:
        return what, forecast.reason if job.ensemble is not None else f"{forecast.reason}, {rated}"
    found = f"{forecast.probes:,} probes of the search predict it"
    if forecast.rows is not None and job.listing is not None:
        found += f", and {forecast.rows.show()} rows"
    if forecast.seconds.is_wide:
        found += "; a few of them dominate the estimate, which can be far off"
    return what, found


_PREDICTED = ("run_s", "listing_rows", "listing_bytes")

_DERIVED = ("key", "n_items", "predicted_ns", *_PREDICTED)
"""Properties that the JSON form has in addition to the fields."""

VECTOR_BYTES_PER_S = 4e7
"""Bytes of vector processed per second in one lease: the engine's pass over the whole graph, and compressing, writing,
reading back and folding the vector. Measured: 0.2 s for a million edges on two threads."""


@dataclass(frozen=True)
class Decision:
    """One decision of the planner."""

    number: int  # from 1 on, in the order taken
    what: str
    reason: str


@dataclass(frozen=True)
class PartitionPlan:
    """A self-contained part of the graph and its work items."""

    index: int
    table: CostTable  # predicted nanoseconds of its items on one worker
    # the blocks of the partition directory that form it, as in its manifest; empty for the whole graph
    blocks: tuple[str, ...] = ()
    nbytes: int = 0  # bytes of its arrays; 0 for the whole graph, whose size the plan does not hold

    @property
    def n_items(self) -> int:
        return self.table.n_items


@dataclass(frozen=True)
class Lease:
    """An interval of work items that one worker runs at a time."""

    partition: int
    start: int
    stop: int
    work: int  # predicted nanoseconds of one worker


@dataclass(frozen=True, repr=False)
class CountPlan(Previewed, Described):
    """All decisions about a job before its leases run."""

    job: JobSpec
    engine: EngineName  # ``cpu`` or ``gpu``: the engine that the workers will run
    # how the graph is partitioned: ``replicate`` (every worker holds the whole graph), or the strategy of the
    # partition directory, such as ``bcpar`` or ``pair_blocks``
    strategy: str
    n_workers: int  # workers that take leases
    threads: int  # threads of the smallest worker
    partitions: tuple[PartitionPlan, ...]
    # the forecast: the leases if every worker is as fast as predicted and no lease is cut
    leases: tuple[Lease, ...]
    costs_digest: str  # hash of the costs of all items
    total_work: int  # estimated or exact cost of all items
    work_unit: str  # name of the unit of ``total_work``
    vector_s: float  # time that the vector of one lease costs; 0 when it has none
    predicted_run_s: float  # predicted time of all leases on all workers
    forecast: Forecast | None  # of all items on one worker; None for parts
    memory: MemoryForecast  # predicted peaks of one worker
    prepared_bytes: int  # memory that the prepared graph keeps, measured
    decisions: tuple[Decision, ...]
    # partition, start and stop of the intervals that earlier sessions of the job counted
    finished: tuple[tuple[int, int, int], ...] = ()
    # edges of all parts by the edges of the graph: how many parts hold an edge, on average
    replication: float = 1.0

    @property
    def headline(self) -> str:
        """Question, size and predicted time in one line."""
        job, seconds = self.job, self.run_s
        took = "" if seconds is None else f", about {seconds.show('s')}"
        return (
            f"plan of {job.motif.title} per {job.per}: {plural(self.n_items, 'item')} on "
            f"{plural(self.n_workers, 'worker')} ({self.engine}){took}"
        )

    def _preview(self) -> Preview:
        rows = [(each.number, each.what, each.reason) for each in self.decisions]
        return preview(("", "decision", "reason"), rows)

    @property
    def n_items(self) -> int:
        return sum(partition.n_items for partition in self.partitions)

    @property
    def predicted_ns(self) -> int:
        """Predicted nanoseconds of all items on one worker: the unit of work of tables, leases and progress."""
        return sum(partition.table.total for partition in self.partitions)

    @property
    def run_s(self) -> Range | None:
        """Predicted time of the leases on all workers, with its interval; None if there is no prediction.

        A listing takes the share of the whole time that its limit is of all rows.
        """
        if self.forecast is None or self.forecast.seconds is None:
            return None
        seconds, rows, listing = self.forecast.seconds, self.forecast.rows, self.job.listing
        if rows is not None and listing is not None and listing.limit is not None:
            most, value, least = (min(1.0, listing.limit / max(n, 1.0)) for n in (rows.low, rows.value, rows.high))
            seconds = Range(seconds.value * value, seconds.low * least, seconds.high * most)
        share = 1 - self.work_finished / max(self.predicted_ns, 1)
        return seconds.scaled(share / self.n_workers)

    @property
    def listing_rows(self) -> Range | None:
        """Predicted rows of a listing, at most its limit; None for a count, and without a prediction."""
        listing = self.job.listing
        if listing is None or self.forecast is None or self.forecast.rows is None:
            return None
        return self.forecast.rows.at_most(listing.limit)

    @property
    def listing_bytes(self) -> Range | None:
        """Predicted size of the files of these rows; None without a prediction."""
        rows = self.listing_rows
        return None if rows is None else predict_bytes(rows, self.job.row.columns(self.job.motif).values())

    @property
    def _predicted(self) -> dict[str, Range | None]:
        return {name: getattr(self, name) for name in _PREDICTED}

    @property
    def key(self) -> str:
        """Identity of question and items: given hands and settled options, the same for all engines and workers."""
        items = [[partition.index, partition.n_items] for partition in self.partitions]
        return digest([self.job.identity, self.strategy, items, self.costs_digest])

    @property
    def work_finished(self) -> int:
        """Predicted nanoseconds of the work that earlier sessions finished."""
        return sum(
            self.partitions[partition].table.work_between(start, stop) for partition, start, stop in self.finished
        )

    def book(self) -> FinishedIntervals:
        """Return the intervals that were finished before.

        TilingError if finished intervals overlap, or pass the items.
        """
        done = FinishedIntervals([partition.n_items for partition in self.partitions])
        for interval in self.finished:
            done.record(*interval)
        return done

    def validate(self) -> None:
        """Check that the leases, with the finished intervals, tile every partition exactly.

        TilingError naming the first gap or overlap.
        """
        done = self.book()
        for lease in self.leases:
            done.record(lease.partition, lease.start, lease.stop)
        done.require_complete()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a JSON object; the inverse of :meth:`from_dict`."""
        return {
            **write_record(self),
            "key": self.key,
            "n_items": self.n_items,
            "predicted_ns": self.predicted_ns,
            **{name: None if found is None else write_record(found) for name, found in self._predicted.items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], name: str = "the plan") -> CountPlan:
        """Rebuild a plan from :meth:`to_dict`'s form; ``name`` is its file, for messages.

        StoreError if a field is missing or of another type. TilingError if the key written with the fields does not
        match them.
        """
        known = {name: value for name, value in data.items() if name not in _DERIVED}
        if "worker_speed" in known:
            with suppress(KeyError, TypeError, ArithmeticError):
                known = _take_older(known)
        plan = read_record(cls, known, name, "it was damaged: plan again")
        if data.get("key") != plan.key:
            raise TilingError(f"{name} has key {data.get('key')}, but its content has {plan.key}: plan again")
        return plan


def _take_older(known: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan of an earlier version, whose work is in the engine's units, with their speed."""
    ns = NS / known["worker_speed"]
    partitions = [
        {**each, "table": {**each["table"], "work": [round(ns * work) for work in each["table"]["work"]]}}
        for each in known["partitions"]
    ]
    leases = [{**each, "work": round(ns * each["work"])} for each in known["leases"]]
    older = {name: value for name, value in known.items() if name != "worker_speed"}
    return {**older, "partitions": partitions, "leases": leases, "forecast": None}


def make_plan(
    job: JobSpec,
    engine: EngineName,
    engine_reason: str,
    workers: tuple[WorkerInfo, ...],
    report: PrepareReport,
    memory: MemoryForecast,
    finished: Iterable[tuple[int, int, int]] = (),
    manifest: PartitionManifest | None = None,
    *,
    kept: bool = False,
    cluster: tuple[str, str] | None = None,
) -> CountPlan:
    """Decide partitions and leases; pure. TilingError if finished intervals overlap, or pass the items.

    ``report`` is from slot 0, with the cost table unless the graph is partitioned. ``finished`` holds partition, start
    and stop of the intervals that earlier sessions finished: the leases cover the others. Set ``kept`` if finished
    leases are kept, in a ledger. ``cluster`` holds an automatically chosen cluster and the reason.
    """
    n_workers = len(workers)
    threads = min(worker.threads for worker in workers)
    rate = job.support.rates[engine]
    unit, speed = rate.unit, rate.speed(engine, job.per, threads)
    if manifest is None:
        assert report.table is not None, "the report of slot 0 has it"
        partitions: tuple[PartitionPlan, ...] = (PartitionPlan(0, report.table),)
        vector_entries = job.vector_entries
    else:
        partitions = tuple(
            PartitionPlan(part.index, table, part.blocks, part.nbytes)
            for part, table in zip(manifest.parts, downsample_costs(manifest, speed), strict=True)
        )
        vector_entries = mean_vector_entries(job, manifest)
    vector_s = 8 * vector_entries / VECTOR_BYTES_PER_S
    total = sum(partition.table.total for partition in partitions)
    lengths = choose_lengths(total / NS / n_workers, vector_s, kept_by=n_workers if kept else 0)
    done = FinishedIntervals([partition.n_items for partition in partitions])
    for interval in finished:
        done.record(*interval)
    leases = _forecast_leases(partitions, n_workers, lengths, done, job.hands)
    who = f"{plural(n_workers, 'worker')} of {plural(threads, 'thread')}"
    decided = [
        *([] if cluster is None else [(f"cluster {cluster[0]}", cluster[1])]),
        (f"engine {engine}", engine_reason),
        (who, "each runs one lease at a time, with all its threads"),
        *explain_parts(job, engine, threads, manifest, memory),
        *report.decisions,
        *((f"{name} {value}", "the first session of this job settled it") for name, value in job.settled),
    ]
    if manifest is not None or report.forecast is not None:
        decided.append(explain_forecast(job, report.forecast, report.total_work, unit, speed))
    if job.hands > 1:
        dealt = "each worker gets every so many items from the heaviest on, a fair sample whatever they take"
        decided.append((f"items dealt in {job.hands} hands", dealt))
    decided += _explain_leases(len(leases), n_workers, lengths, done.n_finished)
    return CountPlan(
        job=job,
        engine=engine,
        strategy="replicate" if manifest is None else manifest.strategy,
        n_workers=n_workers,
        threads=threads,
        partitions=partitions,
        leases=leases,
        costs_digest=report.costs_digest,
        total_work=report.total_work,
        work_unit=unit,
        vector_s=vector_s,
        predicted_run_s=sum(lease.work for lease in leases) / (NS * n_workers),
        forecast=report.forecast,
        memory=memory,
        prepared_bytes=report.prepared_bytes,
        decisions=tuple(Decision(number, *each) for number, each in enumerate(decided, start=1)),
        finished=tuple((p.index, *interval) for p in partitions for interval in done.finished(p.index)),
        replication=1.0 if manifest is None else manifest.replication,
    )


def _forecast_leases(
    partitions: tuple[PartitionPlan, ...],
    n_workers: int,
    lengths: LeaseLengths,
    done: FinishedIntervals,
    hands: int,
) -> tuple[Lease, ...]:
    """Return the leases that cover the gaps between finished intervals, in a run without cuts or failures."""
    tables = [partition.table for partition in partitions]
    pieces = [ItemRange(p.index, *gap) for p in partitions for gap in done.missing(p.index)]
    leases = split_shares(tables, pieces, n_workers, int(lengths.min_s * NS), int(lengths.max_s * NS), hands)
    return tuple(Lease(p.partition, p.start, p.stop, tables[p.partition].work_between(p.start, p.stop)) for p in leases)


def _explain_leases(n_leases: int, n_workers: int, lengths: LeaseLengths, n_finished: int) -> Iterator[tuple[str, str]]:
    """Yield the decisions about the leases; earlier sessions of the job finished ``n_finished``."""
    yield f"about {plural(n_leases, 'lease')} of at least {lengths.min_s:.3g} s", lengths.reason
    if 0 < n_leases < n_workers:
        yield f"{plural(n_leases, 'worker')} of {n_workers} at first", lengths.reason
    if n_finished:
        yield f"{plural(n_finished, 'lease')} kept", "earlier sessions of the job finished them"
