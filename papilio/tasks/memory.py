"""Whether a job fits its workers: with the whole graph on each of them, or part by part within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from papilio.errors import CapacityError
from papilio.kernels.engine import EngineName
from papilio.partitioning.store import open_partition
from papilio.parts import PartBytes, PartSizes
from papilio.tasks.budget import Budget
from papilio.tasks.forecast import MemoryForecast, gib, predict_memory
from papilio.tasks.job import JobSpec
from papilio.tasks.parts.memory import device_room, host_room, part_memory, require_parts_fit
from papilio.tasks.worker import WorkerInfo

__all__ = ["MemoryChoice", "choose_memory", "part_limit", "require_memory"]

_TERMS = ("root", "root_entry", "vertex", "entry")
"""Those of :class:`papilio.parts.PartBytes` that grow with a part."""


@dataclass(frozen=True)
class MemoryChoice:
    """Whether a job runs on the whole graph or on parts of it.

    Attributes
    ----------
    strategy : {"replicate", "partition"}
    reason : str
        With what the whole graph needs, and what a worker may use.
    forecast : MemoryForecast
        Of the whole graph on the worker that needs most.
    """

    strategy: Literal["replicate", "partition"]
    reason: str
    forecast: MemoryForecast


def require_memory(job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo]) -> MemoryForecast:
    """Refuse a job that cannot fit, before anything runs; return the largest forecast of the workers.

    Raises
    ------
    CapacityError
        Naming the worker with the least room, what it may use and what the job, or its largest part, needs.
    StoreError
        When the partition of the job cannot be opened.
    """
    if job.partition is not None:
        return require_parts_fit(job, engine, workers, open_partition(job.partition.path).manifest)
    worst, problem = _forecast_whole(job, engine, workers)
    if problem is not None:
        raise CapacityError(
            f"{problem}: "
            + (
                "raise the budget, or count part by part"
                if job.budget.is_set
                else "use workers with more memory, or fewer workers per machine"
            )
        )
    return worst


def choose_memory(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo], budget: Budget
) -> MemoryChoice:
    """Decide whether a job needs parts, by the sizes of the graph alone.

    Parameters
    ----------
    job : JobSpec
        Without a partition; whatever budget it has is not looked at.
    engine : {"cpu", "gpu"}
    workers : sequence of WorkerInfo
    budget : Budget

    Raises
    ------
    CapacityError
        When neither the whole graph nor even an empty part fits the budget.
    """
    asked = replace(job, budget=budget)
    forecast, problem = _forecast_whole(asked, engine, workers)
    if problem is None:
        needs = f"{gib(forecast.host_bytes)} of host memory"
        if engine == "gpu":
            needs = f"{gib(forecast.device_bytes)} of device and {needs}"
        return MemoryChoice(
            "replicate", f"the whole graph needs about {needs}, which every worker has", forecast
        )
    if job.listing is not None:
        raise CapacityError(f"{problem}; bicliques are listed on the whole graph only: raise the budget")
    if job.motif.needs_signs:
        raise CapacityError(
            f"{problem}; {job.motif.title} is counted on the whole graph only: raise the budget"
        )
    part_limit(asked, engine, workers, budget)
    return MemoryChoice("partition", problem, forecast)


def part_limit(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo], budget: Budget
) -> tuple[PartBytes, int]:
    """Return what a part takes of a worker by its sizes, and what it may take at most: for the cutters.

    That is the part in the form of the engine, as it was read, and a next one of its size that is read ahead. Host
    and device of the gpu engine are joined into one sum that bounds both: the host's, scaled to the limit of the
    device, or the device's, whichever is more in each term.

    Parameters and errors are those of :func:`choose_memory`.
    """
    asked = replace(job, budget=budget)
    threads = max(worker.threads for worker in workers)
    memory = part_memory(asked, engine, threads)
    host_limit = min(host_room(asked, engine, worker.memory_bytes) for worker in workers)
    if engine == "cpu":
        needed, limit, kinds = memory.raw + memory.raw + memory.host, host_limit, "host"
        _require_some(needed, limit, kinds)
        return needed, limit
    device_limit = min(device_room(budget, worker.gpu_memory_bytes) for worker in workers)
    on_host = memory.raw + memory.raw + memory.host
    on_device = memory.staged + memory.staged + memory.device
    _require_some(on_host, host_limit, "host")
    _require_some(on_device, device_limit, "device")
    return _bound_both(on_device, on_host, device_limit / host_limit), device_limit


def _bound_both(first: PartBytes, second: PartBytes, scale: float) -> PartBytes:
    """Return a sum that is, term by term, at least ``first`` and at least ``second`` times ``scale``."""
    return PartBytes(
        max(first.fixed, ceil(second.fixed * scale)),
        *(max(getattr(first, name), getattr(second, name) * scale) for name in _TERMS),
    )


def _require_some(needed: PartBytes, limit: int, kind: str) -> None:
    """Refuse a limit that not even a part of one edge fits."""
    least = needed.of(PartSizes(1, 1, 2, 1))
    if least > limit:
        raise CapacityError(
            f"the budget leaves {gib(max(limit, 0))} of {kind} memory for parts of the graph, beside the process "
            f"and its context, and a part of one edge needs {gib(least)}: raise the budget of {kind} memory"
        )


def _forecast_whole(
    job: JobSpec, engine: EngineName, workers: Sequence[WorkerInfo]
) -> tuple[MemoryForecast, str | None]:
    """Return the largest forecast of the workers for the whole graph, and which of them has no room for it."""
    worst, problem = MemoryForecast(0, 0, 0), None
    for worker in workers:
        forecast = predict_memory(job, engine, worker.threads)
        for kind, needed, given, has in (
            ("host", forecast.host_bytes, job.budget.of_host(worker.memory_bytes), worker.memory_bytes),
            (
                "device",
                forecast.device_bytes,
                job.budget.of_device(worker.gpu_memory_bytes),
                worker.gpu_memory_bytes,
            ),
        ):
            if needed > given and problem is None:
                verb = "has" if given == has else "may use"
                problem = (
                    f"worker {worker.name} on {worker.host} {verb} {gib(given)} of {kind} memory; counting per "
                    f"{job.per} in {job.source} ({job.n_edges} edges) on the {engine} engine needs about {gib(needed)}"
                )
        worst = max(worst, forecast, key=lambda each: (each.device_bytes, each.host_bytes))
    return worst, problem
