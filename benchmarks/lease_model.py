"""A run of leases in simulated time: the dispatcher and the lease scheduler of the product, with simulated workers.

:class:`papilio.cluster.dispatcher.Dispatcher` runs unchanged, on a clock that the simulation sets, in place of a Dask
client that takes a fixed time for each lease. Leases come from :class:`papilio.tasks.lease_scheduler.LeaseScheduler`.
Workers take the true time of their items, end leases by the clock, and decide with the product's
:class:`papilio.tasks.run.CutWatch` whether to share.

The schedule is a pure function of the arguments: the same seed gives the same schedule on every machine.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from queue import Empty
from time import thread_time
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from papilio.cluster import dispatcher
from papilio.cluster.dispatcher import MOST_CUTS, Dispatcher
from papilio.cluster.driver import LEASES_IN_FLIGHT
from papilio.kernels.engine import CostTable, Interval
from papilio.motifs import Butterfly
from papilio.tasks.job import JobSpec, LeaseResult, LeaseTask, PrepareReport
from papilio.tasks.lease_scheduler import LeaseScheduler
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.memory import predict_memory
from papilio.tasks.plan import CountPlan, make_plan
from papilio.tasks.run import CutWatch, leave_half

__all__ = ["Machine", "Outcome", "Policy", "plan_items", "simulate"]


@dataclass(frozen=True)
class Machine:
    """The simulated cluster.

    Attributes
    ----------
    n_workers : int
    submit_s, collect_s : float
        Time of the client to dispatch a lease, and to collect its result; one lease at a time.
    record_s : float
        Time of the client to register a finished lease, if finished leases are kept.
    scheduler_s : float
        Time of the Dask scheduler for one lease, in parallel with the client; one lease at a time.
    message_s : float
        Time of a message to or from a worker.
    lease_noise : float
        Spread (sigma of a log-normal factor of mean 1) of the time of a lease around its true cost.
    worker_noise : float
        Spread of the speeds of the workers.
    slow_every : int
        One worker in every ``slow_every`` runs at half its speed; 0 for none.
    seed : int
    """

    n_workers: int
    submit_s: float = 0.001
    collect_s: float = 0.001
    record_s: float = 0.005
    scheduler_s: float = 0.002
    message_s: float = 0.002
    lease_noise: float = 0.05
    worker_noise: float = 0.03
    slow_every: int = 0
    seed: int = 0

    def speeds(self) -> NDArray[np.float64]:
        """Return the speed of each worker, 1 on average but for the slow ones, shape (n_workers,)."""
        draws = np.random.default_rng([self.seed, 1]).standard_normal(self.n_workers)
        speeds = np.exp(self.worker_noise * draws - self.worker_noise**2 / 2)
        if self.slow_every:
            speeds[:: self.slow_every] /= 2
        return speeds


@dataclass(frozen=True)
class Policy:
    """How the items are shared; the defaults are the constants of the code.

    Attributes
    ----------
    in_flight : int
        Leases that a worker holds, with the running one.
    asked_at_once : int
        Workers that may be asked to share at the same time; 0 for no sharing.
    kept : bool
        Whether a ledger keeps finished leases, so that leases are short.
    """

    in_flight: int = LEASES_IN_FLIGHT
    asked_at_once: int = MOST_CUTS
    kept: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of one simulated run.

    Attributes
    ----------
    makespan_s : float
        Until the client has the last result.
    work_s : float
        Time that all leases took, at speed 1.
    efficiency : float
        ``work_s`` over the possible work in the makespan: the sum of the workers' speeds times the makespan.
    leases : int
        Leases dispatched.
    shares : int
        Requests to share after which workers left half of a lease.
    client_share, scheduler_share : float
        Share of the makespan in which the client, and the Dask scheduler, was busy.
    code_s : float
        Processor time of the dispatcher and the lease scheduler in this process, measured, without the simulation.
    intervals : tuple of (start, stop)
        Items as they were run, in the order of their results.
    """

    makespan_s: float
    work_s: float
    efficiency: float
    leases: int
    shares: int
    client_share: float
    scheduler_share: float
    code_s: float = field(compare=False)
    intervals: tuple[Interval, ...] = field(repr=False)


def plan_items(table: CostTable, n_workers: int) -> CountPlan:
    """Return the plan of a count of items with predicted nanoseconds ``table``."""
    job = JobSpec(
        Butterfly(), "total", source="", graph_hash="", kind="bipartite", n_u=1, n_v=1, n_edges=1, signed=False
    )  # fmt: skip
    report = PrepareReport("", "cpu", table.n_items, table.total, "", table, 0, {}, 0)
    return make_plan(job, "cpu", "", _workers(n_workers), report, predict_memory(job, "cpu", 1))


def _workers(n_workers: int) -> tuple[WorkerInfo, ...]:
    return tuple(
        WorkerInfo(str(number), "", 0, "", 1, 8 << 30, None, 0, "no CUDA device is visible")
        for number in range(n_workers)
    )


@dataclass(eq=False)
class _Lease:
    """A lease at a worker, which is also the future that the dispatcher holds."""

    worker: int
    task: LeaseTask
    stretch: float
    watch: CutWatch
    key: str
    status: str = "pending"
    began_s: float = -1.0
    end_at: int = -1
    """Item at which it ends, by the newest prediction."""
    answer: LeaseResult | None = None
    on_end: Callable[[Any], None] = print

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        self.on_end = function

    def result(self, timeout: float) -> LeaseResult:
        assert self.answer is not None
        return self.answer

    def cancel(self) -> None:
        raise AssertionError("the simulated run ended before its leases")


class _Cluster:
    """The simulated pool, Dask client, queue of answers, and threads of a dispatcher; and its clock.

    ``now_s`` is the time of the client, ``at_s`` the time of the simulated event. The client may be ahead of events.
    """

    def __init__(self, cumulative_s: NDArray[np.float64], table: CostTable, machine: Machine) -> None:
        self.cumulative, self.machine = cumulative_s, machine
        self.predicted = np.array(table.work, dtype=np.float64), np.array(table.items, dtype=np.float64)
        self.speeds = machine.speeds()
        self.noise = np.random.default_rng([machine.seed, 2])
        self.queues: list[deque[_Lease]] = [deque() for _ in self.speeds]
        """Leases at each worker: the running one, then the waiting ones."""
        self.client = self
        self.inbox: deque[Any] = deque()
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.order = count()
        self.now_s = self.at_s = self.client_s = self.scheduler_s = self.scheduler_free_s = 0.0
        self.n_leases = self.n_shares = 0

    def after(self, seconds: float, function: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call this long after the event at hand."""
        heapq.heappush(self.events, (self.at_s + seconds, next(self.order), function, arguments))

    def pass_scheduler(self, function: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call for when a message has passed the Dask scheduler; three make a lease."""
        third_s = self.machine.scheduler_s / 3
        self.scheduler_free_s = max(self.scheduler_free_s, self.at_s) + third_s
        self.scheduler_s += third_s
        self.after(self.scheduler_free_s - self.at_s + self.machine.message_s, function, *arguments)

    # The clock, and the queue of the dispatcher.

    def clock(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        """Keep the client busy."""
        self.at_s = self.now_s = self.now_s + seconds
        self.client_s += seconds

    def put(self, item: Any) -> None:
        self.after(self.machine.message_s, self.inbox.append, item)

    def get(self, timeout: float) -> Any:
        """Return the next message to the dispatcher; raises Empty when none comes before the timeout."""
        ends_s = self.now_s + timeout
        while self.events and self.events[0][0] <= (self.now_s if self.inbox else ends_s):
            self.at_s, _, function, arguments = heapq.heappop(self.events)
            function(*arguments)
            if self.inbox:
                self.now_s = max(self.now_s, self.at_s)
        if not self.inbox:
            self.at_s = self.now_s = ends_s
            raise Empty
        self.at_s = self.now_s
        return self.inbox.popleft()

    # The pool, its client, and the threads that send messages and collect results.

    def task_priority(self) -> int:
        return 0

    def live_workers(self) -> dict[str, str]:
        return {str(worker): "running" for worker in range(self.machine.n_workers)}

    def describe(self, addresses: Sequence[str]) -> tuple[WorkerInfo, ...]:
        assert not addresses, "no worker joins"
        return ()

    def submit(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """Dispatch a lease, as Dask's client does, or send a message from another thread."""
        if not options:
            self.pass_scheduler(function, *arguments)
            return None
        _, task = arguments
        sigma = self.machine.lease_noise
        lease = _Lease(
            int(options["workers"][0]),
            task,
            float(np.exp(sigma * self.noise.standard_normal() - sigma**2 / 2)),
            CutWatch(task.key, task.limit_s, lambda start, stop: np.ones(stop - start), lambda: self.at_s),
            task.key,
        )
        self.spend(self.machine.submit_s)
        self.n_leases += 1
        self.pass_scheduler(self.arrive, lease)
        return lease

    def shutdown(self, **options: Any) -> None: ...

    def ask_all(self, function: Any, key: str, *, addresses: Sequence[str], patience_s: float) -> dict[str, int | None]:
        """Return the answer of a worker that is asked to share."""
        assert function is leave_half
        (address,) = addresses
        return {address: self.leave_half(int(address), key)}

    # The workers.

    def seconds_of(self, lease: _Lease, stop: int) -> float:
        work_s = self.cumulative[stop] - self.cumulative[lease.task.start]
        return float(work_s * lease.stretch / self.speeds[lease.worker])

    def item_after(self, lease: _Lease, seconds: float) -> int:
        """Return the item at which a lease stands after a time: the first one that is not begun."""
        done_s = seconds * self.speeds[lease.worker] / lease.stretch
        at = np.searchsorted(self.cumulative, self.cumulative[lease.task.start] + done_s, side="right")
        return max(lease.task.start + 1, int(at))

    def predicted_before(self, item: int) -> float:
        """Return the predicted nanoseconds of all items before one."""
        work, items = self.predicted
        return float(np.interp(item, items, work))

    def arrive(self, lease: _Lease) -> None:
        queue = self.queues[lease.worker]
        queue.append(lease)
        if len(queue) == 1:
            self.begin(lease)

    def begin(self, lease: _Lease) -> None:
        """Begin a lease, which ends by the clock at the latest."""
        task, lease.began_s = lease.task, self.at_s
        assert task.limit_s is not None, "every lease has a limit"
        lease.watch()
        self.end_at(lease, min(task.stop, self.item_after(lease, task.limit_s)))

    def end_at(self, lease: _Lease, item: int) -> None:
        lease.end_at = item
        self.after(lease.began_s + self.seconds_of(lease, item) - self.at_s, self.end, lease, item)

    def end(self, lease: _Lease, end_at: int) -> None:
        if end_at != lease.end_at:
            return  # half of it was left to others meanwhile
        queue = self.queues[lease.worker]
        queue.popleft()
        if queue:
            self.begin(queue[0])
        seconds = {"run": self.seconds_of(lease, end_at)}
        worker, lease.status = str(lease.worker), "finished"
        lease.answer = LeaseResult(0, lease.task.start, end_at, 0, 0, worker, "cpu", seconds, 0)
        self.pass_scheduler(lease.on_end, lease)

    def leave_half(self, worker: int, key: str) -> int | None:
        """Leave half of the remaining work, by prediction, if sharing is worth it at the worker's pace."""
        queue = self.queues[worker]
        if not queue or queue[0].key != key:
            return None
        lease = queue[0]
        at = min(self.item_after(lease, self.at_s - lease.began_s), lease.end_at)
        done = self.predicted_before(at) - self.predicted_before(lease.task.start)
        left = self.predicted_before(lease.end_at) - self.predicted_before(at)
        if not lease.watch.is_worth(done, left):
            return None
        half = max(at, int(np.interp(self.predicted_before(at) + left / 2, *self.predicted)))
        if half >= lease.end_at:
            return None
        self.n_shares += 1
        self.end_at(lease, half)
        return half


class _Dispatcher(Dispatcher[LeaseTask, LeaseResult]):
    """The product's dispatcher on a simulated cluster; measures its own processor time."""

    def __init__(self, cluster: Any, source: LeaseScheduler, policy: Policy) -> None:
        workers = _workers(cluster.machine.n_workers)
        super().__init__(cluster, _never_called, source, workers, policy.in_flight, clock=cluster.clock)
        self._finished = self._messenger = self._collector = cluster
        self._cluster = cluster
        self._shares = policy.asked_at_once > 0
        self.code_s = 0.0

    def _hand_out(self) -> bool:
        began = thread_time()
        waiting = super()._hand_out()
        self.code_s += thread_time() - began
        return waiting

    def _settle(self, answer: Any, address: str) -> LeaseResult | None:
        self._cluster.spend(self._cluster.machine.collect_s)
        began = thread_time()
        result = super()._settle(answer, address)
        self.code_s += thread_time() - began
        return result

    def _share_tail(self) -> None:
        if self._shares:
            super()._share_tail()


def _never_called(task: LeaseTask, worker: WorkerInfo) -> LeaseResult:
    raise AssertionError("simulated workers count nothing")


def simulate(
    cumulative_s: NDArray[np.float64],
    table: CostTable,
    machine: Machine,
    policy: Policy | None = None,
) -> Outcome:
    """Play a run of a job.

    Parameters
    ----------
    cumulative_s : ndarray of float64, shape (n_items + 1,)
        Time of all items before each on a worker of speed 1, in seconds; rising from 0.
    table : CostTable
        The planner's prediction for the same items, in nanoseconds.
    machine : Machine
    policy : Policy, optional
        By default the policy of the code.

    Raises
    ------
    ValueError
        When the machine has no worker, a worker may hold no lease, or the table is of other items.
    """
    chosen = policy or Policy()
    if machine.n_workers < 1 or chosen.in_flight < 1:
        raise ValueError(f"n_workers is {machine.n_workers} and in_flight {chosen.in_flight}; both are at least 1")
    if cumulative_s.size != table.n_items + 1:
        raise ValueError(f"{cumulative_s.size} times of a table of {table.n_items} items")
    cluster = _Cluster(cumulative_s, table, machine)
    scheduler = LeaseScheduler(plan_items(table, machine.n_workers), "model", None, kept=chosen.kept)
    run = _Dispatcher(cluster, scheduler, chosen)
    results = []
    with patch.object(dispatcher, "MOST_CUTS", chosen.asked_at_once):
        for result in run:
            results.append(result)
            cluster.spend(machine.record_s if chosen.kept else 0.0)
    makespan_s = cluster.now_s
    work_s = sum(result.seconds["run"] * cluster.speeds[int(result.worker)] for result in results)
    able_s = float(cluster.speeds.sum()) * makespan_s
    return Outcome(
        makespan_s=makespan_s,
        work_s=work_s,
        efficiency=work_s / able_s if able_s else 1.0,
        leases=cluster.n_leases,
        shares=cluster.n_shares,
        client_share=cluster.client_s / makespan_s if makespan_s else 0.0,
        scheduler_share=min(1.0, cluster.scheduler_s / makespan_s) if makespan_s else 0.0,
        code_s=run.code_s,
        intervals=tuple((result.start, result.stop) for result in results if result.start < result.stop),
    )
