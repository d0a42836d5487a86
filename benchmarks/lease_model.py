"""A discrete-event model of a run of leases: the scheduler of the product, a serial client, workers of uneven speed.

Leases come from :class:`papilio.tasks.lease_scheduler.LeaseScheduler` itself; their distribution, and the requests to
share, follow :class:`papilio.cluster.dispatcher.Dispatcher`, and the workers' answers
:class:`papilio.tasks.run.CutWatch`. The client serves one answer at a time and needs ``latency_s`` for each lease that
it dispatches; a request to share reaches its worker after ``ask_s``, and the answer reaches the client after as long.

Everything is a pure function of its arguments: the same seed gives the same schedule on every machine.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.cluster.dispatcher import LEAST_RUN_S, MOST_CUTS, OVERRUN_SHARE, TAIL_WATCH_S
from papilio.cluster.driver import LEASES_IN_FLIGHT
from papilio.kernels.engine import CostTable, Interval
from papilio.motifs import Butterfly
from papilio.tasks.job import JobSpec, LeaseResult, LeaseTask, PrepareReport
from papilio.tasks.lease_scheduler import LeaseScheduler
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.memory import predict_memory
from papilio.tasks.plan import CountPlan, make_plan
from papilio.tasks.run import LEAST_LEFT_S

__all__ = ["Machine", "Outcome", "Policy", "plan_items", "simulate"]


@dataclass(frozen=True)
class Machine:
    """The cluster of the model.

    Attributes
    ----------
    n_workers : int
    latency_s : float
        Time of client and scheduler for one lease, from its first byte to its answer; one at a time.
    ask_s : float
        Time of a message to or from a worker, in addition to the leases.
    look_s : float
        Time of the client, at each answer, for every worker.
    lease_noise : float
        Spread (sigma of a log-normal factor of mean 1) of the time of a lease around its true cost.
    worker_noise : float
        Spread of the speeds of the workers.
    slow_every : int
        One worker in every ``slow_every`` runs at half its speed; 0 for none.
    seed : int
    """

    n_workers: int
    latency_s: float = 0.003
    ask_s: float = 0.003
    look_s: float = 1.5e-7
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
        Until the client has the last answer.
    work_s : float
        Time that all leases took, at speed 1.
    efficiency : float
        ``work_s`` over the possible work in the makespan: the sum of the workers' speeds times the makespan.
    leases : int
        Leases dispatched.
    shares : int
        Requests to share after which workers left half of a lease.
    scheduler_share : float
        Share of the makespan in which the client was busy.
    intervals : tuple of (start, stop)
        Items as they were run, in the order of their answers.
    """

    makespan_s: float
    work_s: float
    efficiency: float
    leases: int
    shares: int
    scheduler_share: float
    intervals: tuple[Interval, ...] = field(repr=False)


def plan_items(table: CostTable, n_workers: int) -> CountPlan:
    """Return the plan of a count of items with predicted nanoseconds ``table``."""
    job = JobSpec(
        Butterfly(), "total", source="", graph_hash="", kind="bipartite", n_u=1, n_v=1, n_edges=1, signed=False
    )  # fmt: skip
    worker = WorkerInfo("", "", 0, "", 1, 8 << 30, None, 0, "no CUDA device is visible")
    report = PrepareReport("", "cpu", table.n_items, table.total, "", table, 0, {}, 0)
    return make_plan(job, "cpu", "", (worker,) * n_workers, report, predict_memory(job, "cpu", 1))


class _Kind(IntEnum):
    ARRIVE, END, SERVE, ASK, LEFT, POLL = range(6)


@dataclass(eq=False)
class _Lease:
    worker: int
    task: LeaseTask
    stretch: float
    began_s: float = -1.0
    end_at: int = -1
    """Item at which it ends, by its newest END event."""


class _Run:
    def __init__(
        self, cumulative_s: NDArray[np.float64], table: CostTable, machine: Machine, policy: Policy
    ) -> None:
        n = machine.n_workers
        self.cumulative, self.table, self.machine, self.policy = cumulative_s, table, machine, policy
        self.scheduler = LeaseScheduler(plan_items(table, n), "model", None, kept=policy.kept)
        self.speeds = machine.speeds()
        self.noise = np.random.default_rng([machine.seed, 2])
        self.queues: list[deque[_Lease]] = [deque() for _ in range(n)]
        """Leases at each worker: the running one, then the waiting ones."""
        self.held: list[list[_Lease]] = [[] for _ in range(n)]
        """Leases of each worker, as known to the client."""
        self.n_held = np.zeros(n, dtype=np.int64)
        self.is_asked = np.zeros(n, dtype=bool)
        self.began_s, self.asked_s = np.zeros(n), np.full(n, -inf)
        self.inbox: deque[_Lease] = deque()
        self.is_serving = False
        self.events: list[tuple[float, int, _Kind, Any]] = []
        self.order = self.n_served = self.n_leases = self.n_shares = 0
        self.free_s = self.busy_s = self.makespan_s = self.work_s = 0.0
        self.intervals: list[Interval] = []

    def push(self, at_s: float, kind: _Kind, payload: Any = None) -> None:
        self.order += 1
        heapq.heappush(self.events, (at_s, self.order, kind, payload))

    # The client.

    def work_for(self, now_s: float, seconds: float) -> None:
        """Keep the client busy."""
        self.free_s = max(self.free_s, now_s) + seconds
        self.busy_s += seconds

    def hand_out(self, now_s: float) -> None:
        """Give leases to all workers, evenly; ask some to share when no leases are left."""
        for level in range(self.policy.in_flight):
            if not self.scheduler.has_more:
                break
            for worker in np.flatnonzero(self.n_held <= level).tolist():
                task = self.scheduler.take(self.machine.n_workers, f"w{worker}")
                if task is None:
                    break
                self.submit(now_s, worker, task)
        self.share_tail(now_s)

    def submit(self, now_s: float, worker: int, task: LeaseTask) -> None:
        sigma = self.machine.lease_noise
        lease = _Lease(worker, task, float(np.exp(sigma * self.noise.standard_normal() - sigma**2 / 2)))
        self.work_for(now_s, self.machine.latency_s)
        self.n_leases += 1
        if not self.held[worker]:
            self.began_s[worker] = self.free_s
        self.held[worker].append(lease)
        self.n_held[worker] += 1
        self.push(self.free_s, _Kind.ARRIVE, lease)

    def serve(self, now_s: float) -> None:
        """Process the next answer, and dispatch leases to the freed worker."""
        lease = self.inbox.popleft()
        worker, start, stop = lease.worker, lease.task.start, lease.end_at
        self.held[worker].remove(lease)
        self.n_held[worker] -= 1
        self.began_s[worker] = now_s
        seconds = self.seconds_of(lease, stop)
        self.work_s += seconds * self.speeds[worker]
        if start < stop:
            self.intervals.append((start, stop))
        self.scheduler.answer(
            lease.task, LeaseResult(0, start, stop, 0, 0, f"w{worker}", "cpu", {"run": seconds}, 0)
        )
        self.makespan_s = now_s
        self.n_served += 1
        self.work_for(now_s, self.machine.look_s * self.machine.n_workers)
        self.hand_out(now_s)
        self.watch_tail(now_s)
        self.is_serving = bool(self.inbox)
        if self.inbox:
            self.push(max(now_s, self.free_s), _Kind.SERVE)

    def watch_tail(self, now_s: float) -> None:
        """Check again when nothing has come for a while and a worker is idle."""
        if self.policy.asked_at_once != 0 and self.n_held.any() and not self.n_held.all():
            self.push(max(now_s, self.free_s) + TAIL_WATCH_S, _Kind.POLL, self.n_served)

    def share_tail(self, now_s: float) -> None:
        """Ask as many busy workers to share as there are idle ones, up to a limit, those with most left first."""
        idle = int((self.n_held == 0).sum())
        most = min(idle, self.policy.asked_at_once) - int(self.is_asked.sum())
        if most <= 0:
            return
        waited = now_s - np.maximum(self.began_s, self.asked_s)
        able = np.flatnonzero((self.n_held == 1) & ~self.is_asked & (waited >= LEAST_RUN_S))
        elapsed = now_s - self.began_s[able]
        predicted = [self.scheduler.predict_s(self.held[w][0].task, f"w{w}") or 0.0 for w in able.tolist()]
        left = np.maximum(np.array(predicted) - elapsed, OVERRUN_SHARE * elapsed)
        for index in np.argsort(-left, kind="stable")[:most]:
            worker = int(able[index])
            self.is_asked[worker] = True
            self.push(now_s + self.machine.ask_s, _Kind.ASK, self.held[worker][0])

    def take_left(self, now_s: float, lease: _Lease, stop: int | None) -> None:
        """Take back what a worker leaves to others."""
        worker = lease.worker
        self.is_asked[worker], self.asked_s[worker] = False, now_s
        if lease in self.held[worker] and stop is not None and self.scheduler.share(lease.task, stop):
            self.n_shares += 1
            self.asked_s[worker] = -inf
        self.hand_out(now_s)
        self.watch_tail(now_s)

    # The workers.

    def seconds_of(self, lease: _Lease, stop: int) -> float:
        work_s = self.cumulative[stop] - self.cumulative[lease.task.start]
        return float(work_s * lease.stretch / self.speeds[lease.worker])

    def item_after(self, lease: _Lease, seconds: float) -> int:
        """Return the item at which a lease stands after a time: the first one that is not begun."""
        done_s = seconds * self.speeds[lease.worker] / lease.stretch
        at = np.searchsorted(self.cumulative, self.cumulative[lease.task.start] + done_s, side="right")
        return max(lease.task.start + 1, int(at))

    def arrive(self, now_s: float, lease: _Lease) -> None:
        queue = self.queues[lease.worker]
        queue.append(lease)
        if len(queue) == 1:
            self.begin(now_s, lease)

    def begin(self, now_s: float, lease: _Lease) -> None:
        """Begin a lease, which ends by the clock at the latest."""
        task, lease.began_s = lease.task, now_s
        assert task.limit_s is not None, "every lease has a limit"
        self.end_at(lease, min(task.stop, self.item_after(lease, task.limit_s)))

    def end_at(self, lease: _Lease, item: int) -> None:
        lease.end_at = item
        self.push(lease.began_s + self.seconds_of(lease, item), _Kind.END, (lease, item))

    def end(self, now_s: float, lease: _Lease, end_at: int) -> None:
        if end_at != lease.end_at:
            return
        queue = self.queues[lease.worker]
        queue.popleft()
        if queue:
            self.begin(now_s, queue[0])
        self.inbox.append(lease)
        if not self.is_serving:
            self.is_serving = True
            self.push(max(now_s, self.free_s), _Kind.SERVE)

    def ask(self, now_s: float, lease: _Lease) -> None:
        """Leave half of the remaining work, by prediction, if sharing is worth it at the worker's pace."""
        queue, stop = self.queues[lease.worker], None
        if queue and queue[0] is lease:
            ran_s = now_s - lease.began_s
            at = min(self.item_after(lease, ran_s), lease.end_at)
            done = self.table.work_between(lease.task.start, at)
            left = self.table.work_between(at, lease.end_at)
            half = self.table.advance(at, left // 2) if left else lease.end_at
            half = at if half >= lease.end_at else half
            if ran_s * left >= LEAST_LEFT_S * done and half < lease.end_at:
                stop = half
                self.end_at(lease, half)
        self.push(now_s + self.machine.ask_s, _Kind.LEFT, (lease, stop))

    def play(self) -> None:
        self.hand_out(0.0)
        self.watch_tail(0.0)
        while self.events:
            now_s, _, kind, payload = heapq.heappop(self.events)
            if kind is _Kind.ARRIVE:
                self.arrive(now_s, payload)
            elif kind is _Kind.END:
                self.end(now_s, *payload)
            elif kind is _Kind.SERVE:
                self.serve(now_s)
            elif kind is _Kind.ASK:
                self.ask(now_s, payload)
            elif kind is _Kind.LEFT:
                self.take_left(now_s, *payload)
            elif payload == self.n_served and not self.inbox:
                self.hand_out(now_s)
                self.watch_tail(now_s)


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
        raise ValueError(
            f"n_workers is {machine.n_workers} and in_flight {chosen.in_flight}; both are at least 1"
        )
    if cumulative_s.size != table.n_items + 1:
        raise ValueError(f"{cumulative_s.size} times of a table of {table.n_items} items")
    run = _Run(cumulative_s, table, machine, chosen)
    run.play()
    able_s = float(run.speeds.sum()) * run.makespan_s
    return Outcome(
        makespan_s=run.makespan_s,
        work_s=run.work_s,
        efficiency=run.work_s / able_s if able_s else 1.0,
        leases=run.n_leases,
        shares=run.n_shares,
        scheduler_share=min(1.0, run.busy_s / run.makespan_s) if run.makespan_s else 0.0,
        intervals=tuple(run.intervals),
    )
