"""Where a call runs: on the cluster that it names, else in this process, unless workers are worth their start."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from papilio.api.inputs import enter_executor
from papilio.cluster.driver import plan_job
from papilio.cluster.events import Listener, ignore_events
from papilio.cluster.executor import Executor
from papilio.cluster.inline import InlineExecutor
from papilio.cluster.selection import is_auto, make_executor, resolve_auto
from papilio.errors import CapacityError
from papilio.families import EngineChoice
from papilio.kernels.device.discovery import list_visible_ids, release_device_memory
from papilio.tasks.job import JobSpec

START_WORKERS_S = 3.0
"""What starting a worker for each GPU, and reading the graph there, costs at least: 2.8 s measured on one H200."""

MOST_TRIED_EDGES = 50_000_000
"""Of larger graphs reading takes seconds: workers read them at once, rather than this process before them."""


class Where(NamedTuple):
    """Where a call says that it runs, as for :func:`papilio.count`."""

    cluster: Any = None
    engine: EngineChoice = "auto"
    workers: int | None = None


def place_job(
    stack: ExitStack,
    where: Where,
    ask: Callable[[], JobSpec],
    place: Callable[[Executor], JobSpec],
    listener: Listener = ignore_events,
    *,
    in_parts: bool = False,
) -> tuple[Executor, JobSpec]:
    """Return a started executor, which ends with ``stack``, and the job with a source that its workers can read.

    Where no cluster is named and there are several GPUs, the job is planned in this process: it stays here unless the
    plan predicts more work than starting workers costs.

    Parameters
    ----------
    ask : callable
        Returns the job, wherever its graph is.
    place : callable
        Returns the job for the workers of an executor.
    in_parts : bool
        Whether the graph may be cut into parts, which is not tried.
    """
    cluster, engine, workers = where
    if not is_auto(cluster):
        executor = enter_executor(stack, cluster, engine, workers)
        return executor, place(executor)
    asked = ask()
    settled, _ = asked.settle_engine(engine)
    name, why = resolve_auto(cluster, settled, workers)
    if name.partition(":")[0] == "cuda" and workers is None and not in_parts:
        if asked.n_edges > MOST_TRIED_EDGES:
            why += f", and the graph has more than {MOST_TRIED_EDGES:,} edges"
        else:
            tried = _try_here(stack, settled, place, listener)
            if not isinstance(tried, str):
                return tried
            why += tried
    executor = make_executor(name, settled, workers)
    executor.why_chosen = why
    stack.enter_context(executor)
    return executor, place(executor)


def _try_here(
    stack: ExitStack, engine: EngineChoice, place: Callable[[Executor], JobSpec], listener: Listener
) -> tuple[Executor, JobSpec] | str:
    """Plan the job in this process, on its first GPU; return it with its executor, or why workers are better.

    What was prepared for the plan serves the run.
    """
    n_gpus = len(list_visible_ids())
    with ExitStack() as trial:
        here = trial.enter_context(InlineExecutor())
        job = place(here)
        try:
            plan, _, _ = plan_job(here, job, engine, listener)
        except CapacityError:
            trial.close()
            release_device_memory()
            return ", and one is too small for the whole job"
        alone_s = plan.predicted_run_s
        if alone_s * (n_gpus - 1) / n_gpus <= START_WORKERS_S:
            here.why_chosen = (
                f"one GPU of {n_gpus} is predicted to count for {alone_s:.2g} s, and starting workers takes about "
                f"{START_WORKERS_S:.0f} s"
            )
            stack.push(trial.pop_all())
            return here, job
    release_device_memory()
    return f", since one alone is predicted to count for {alone_s:.2g} s"
