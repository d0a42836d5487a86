"""A discrete-event model of a run of leases: the planner's own pool, a serial client, workers of uneven speed.

What is handed out comes from :class:`papilio.tasks.leases.PendingWork`, in sizes of
:func:`papilio.tasks.leases.choose_lengths`, as :class:`papilio.tasks.lease_scheduler.LeaseScheduler` does
it; who gets it, and who is asked to cut what it holds, follows :class:`papilio.cluster.dispatcher.Dispatcher`. The
client serves one result at a time and needs ``latency_s`` for each lease that it hands out. Requests to cut leave it
one after the other, each in ``ask_s``. A running lease answers them at the end of a slice, a waiting one after it,
with nothing done.

Everything is a pure function of its arguments: the same seed gives the same schedule on every machine.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from papilio.cluster.dispatcher import LEAST_CUT_S, LEAST_RUN_S, MOST_CUTS, OVERRUN_SHARE, TAIL_WATCH_S
from papilio.cluster.driver import LEASES_IN_FLIGHT
from papilio.kernels.engine import CostTable, Interval
from papilio.tasks import leases as lease_policy
from papilio.tasks import leases as work_pool
from papilio.tasks.leases import (
    FAIR_PARTS,
    GUIDED_SHARE,
    MIN_LEASE_S,
    SHORTEST_LEASE_S,
    ItemRange,
    PendingWork,
    choose_lengths,
)
from papilio.tasks.run import SLICE_S

__all__ = ["Counter", "Machine", "Outcome", "Policy", "simulate"]

SLICES_AHEAD = 2
"""Slices that have begun, or stand in the device's queue, when a request to cut comes."""


@dataclass(frozen=True)
class Machine:
    """The cluster of the model.

    Attributes
    ----------
    n_workers : int
    latency_s : float
        Time of client and scheduler for one lease, from its first byte to its answer; one at a time.
    ask_s : float
        Time of a request to cut; one at a time, beside the leases.
    look_s, left_s : float
        Time of the client, at each answer, for every worker: to see whether it has room, and, once nothing is left
        to hand out, to tell how much it still has.
    lease_noise : float
        Spread (sigma of a log-normal factor of mean 1) of the time of a lease around its true cost.
    worker_noise : float
        Spread of the speeds of the workers.
    slow_every : int
        Every so many-th worker runs at half its speed; 0 for none.
    mispredicted : float
        The planner believes the workers to be this many times as fast as they are.
    seed : int
    """

    n_workers: int
    latency_s: float = 0.003
    ask_s: float = 0.001
    look_s: float = 1.5e-7
    left_s: float = 2e-6
    lease_noise: float = 0.05
    worker_noise: float = 0.03
    slow_every: int = 0
    mispredicted: float = 1.0
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
    guided_share, min_lease_s, shortest_lease_s, fair_parts, least_cut_s, slice_s
        In place of the constants of these names.
    equal_parts : int
        Where above 0, all leases are equal, this many for each worker, instead of guided.
    in_flight : int
        Leases that a worker holds, the one that runs included.
    cuts_at_once : int
        Workers that may be asked to cut at the same time; 0 for no cutting.
    kept : bool
        Whether a ledger keeps what is finished, so that leases are short. That the clock cuts those that last longer
        than they should is left out.
    """

    guided_share: int = GUIDED_SHARE
    min_lease_s: float = MIN_LEASE_S
    shortest_lease_s: float = SHORTEST_LEASE_S
    fair_parts: int = FAIR_PARTS
    least_cut_s: float = LEAST_CUT_S
    slice_s: float = SLICE_S
    equal_parts: int = 0
    in_flight: int = LEASES_IN_FLIGHT
    cuts_at_once: int = MOST_CUTS
    kept: bool = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the planner's own functions work with these constants."""
        with (
            patch.multiple(
                lease_policy,
                MIN_LEASE_S=self.min_lease_s,
                SHORTEST_LEASE_S=self.shortest_lease_s,
                FAIR_PARTS=self.fair_parts,
            ),
            patch.object(work_pool, "GUIDED_SHARE", self.guided_share),
        ):
            yield


@dataclass(frozen=True)
class Outcome:
    """What one simulated run came to.

    Attributes
    ----------
    makespan_s : float
        Until the client has the last answer.
    work_s : float
        Time that all leases took, at speed 1.
    efficiency : float
        ``work_s`` over what the workers could have done in the makespan: the sum of their speeds times it.
    leases : int
        Leases handed out.
    cuts : int
        Workers asked to cut.
    scheduler_share : float
        Share of the makespan in which the client was at work.
    intervals : tuple of (start, stop)
        Items as they were run, in the order of their answers.
    """

    makespan_s: float
    work_s: float
    efficiency: float
    leases: int
    cuts: int
    scheduler_share: float
    intervals: tuple[Interval, ...] = field(repr=False)


class Counter:
    """The leases of a run, by the rules of :class:`papilio.tasks.lease_scheduler.LeaseScheduler`, without its tasks.

    Parameters
    ----------
    table : CostTable
    speed : float
        Work units per second of a worker, as planned.
    n_workers : int
    policy : Policy
    """

    def __init__(self, table: CostTable, speed: float, n_workers: int, policy: Policy) -> None:
        self._table, self._planned, self._n_workers, self._policy = table, speed, n_workers, policy
        self._pool = PendingWork([table], [ItemRange(0, 0, table.n_items)] if table.n_items else [])
        self.work = np.zeros(n_workers)
        self.seconds = np.zeros(n_workers)
        self._work = self._seconds = 0.0
        self._parts_left = policy.equal_parts * n_workers

    @property
    def is_empty(self) -> bool:
        """Whether all is handed out."""
        return not self._pool

    @property
    def speed(self) -> float:
        """Work units per second of a worker: measured, or before that as planned."""
        return self._work / self._seconds if self._work and self._seconds else self._planned

    def take(self) -> tuple[int, int, int] | None:
        """Return start, stop and work of the next lease."""
        if self._policy.equal_parts:
            # A little less than an equal part of the rest: else the last part would join the one before it.
            part = int(self._pool.work_left / max(self._parts_left, 1) * 63 / 64)
            bounds = part, part
            self._parts_left -= 1
        else:
            fair_s = self._table.total / self.speed / self._n_workers
            lengths = choose_lengths(fair_s, 0.0, kept_by=self._n_workers if self._policy.kept else 0)
            bounds = int(lengths.min_s * self.speed), int(lengths.max_s * self.speed)
        piece = self._pool.take(self._n_workers, *bounds)
        return None if piece is None else (piece.start, piece.stop, self._pool.work_of(piece))

    def answer(self, worker: int, start: int, stop: int, wanted: int, seconds: float) -> None:
        """Put the items [stop, wanted) back and learn the speed of the worker."""
        if stop < wanted:
            self._pool.put_back(ItemRange(0, stop, wanted))
        done = self._table.work_between(start, stop)
        self.work[worker] += done
        self.seconds[worker] += seconds
        self._work += done
        self._seconds += seconds

    def speeds(self) -> NDArray[np.float64]:
        """Return the speed of each worker, or of all for those that have not answered yet."""
        known = (self.work > 0) & (self.seconds > 0)
        speeds = np.full(self.work.size, self.speed)
        speeds[known] = self.work[known] / self.seconds[known]
        return speeds


class _Kind(IntEnum):
    ARRIVE, END, SERVE, CUT, POLL = range(5)


@dataclass(eq=False)
class _Lease:
    worker: int
    start: int
    stop: int
    work: int
    stretch: float
    began_s: float = -1.0
    end_at: int = -1
    """Item at which it ends, by its newest END event."""
    is_asked: bool = False
    """The client has sent for its end."""
    is_cut: bool = False
    """The worker knows of it."""


class _Run:
    def __init__(
        self, cumulative_s: NDArray[np.float64], counter: Counter, machine: Machine, policy: Policy
    ) -> None:
        n = machine.n_workers
        self.cumulative, self.counter, self.machine, self.policy = cumulative_s, counter, machine, policy
        self.speeds = machine.speeds()
        self.noise = np.random.default_rng([machine.seed, 2])
        self.queues: list[deque[_Lease]] = [deque() for _ in range(n)]
        """What is at each worker: the lease that runs, then those that wait."""
        self.held: list[list[_Lease]] = [[] for _ in range(n)]
        """What each worker holds for all the client knows."""
        self.n_held = np.zeros(n, dtype=np.int64)
        self.n_asked = np.zeros(n, dtype=np.int64)
        self.first_work, self.rest_work, self.began_s = np.zeros(n), np.zeros(n), np.zeros(n)
        self.inbox: deque[_Lease] = deque()
        self.is_serving = False
        self.events: list[tuple[float, int, _Kind, Any]] = []
        self.order = self.n_served = self.n_leases = self.n_cuts = 0
        self.free_s = self.busy_s = self.ask_free_s = self.makespan_s = self.work_s = 0.0
        self.intervals: list[Interval] = []

    def push(self, at_s: float, kind: _Kind, payload: Any = None) -> None:
        self.order += 1
        heapq.heappush(self.events, (at_s, self.order, kind, payload))

    # The client.

    def work_for(self, now_s: float, seconds: float) -> None:
        """Keep the client busy."""
        self.free_s = max(self.free_s, now_s) + seconds
        self.busy_s += seconds

    def hand_out(self, now_s: float, workers: range | NDArray[np.int64] | None = None) -> None:
        """Fill the workers up, evenly; ask for cuts when nothing is left to fill them with."""
        for level in range(self.policy.in_flight):
            for worker in np.flatnonzero(self.n_held <= level) if workers is None else workers:
                if self.n_held[worker] > level:
                    continue
                taken = self.counter.take()
                if taken is None:
                    self.cut_tail(now_s)
                    return
                self.submit(now_s, int(worker), *taken)

    def submit(self, now_s: float, worker: int, start: int, stop: int, work: int) -> None:
        sigma = self.machine.lease_noise
        stretch = float(np.exp(sigma * self.noise.standard_normal() - sigma**2 / 2))
        lease = _Lease(worker, start, stop, work, stretch)
        self.work_for(now_s, self.machine.latency_s)
        self.n_leases += 1
        if not self.held[worker]:
            self.began_s[worker] = self.free_s
        self.held[worker].append(lease)
        self.note_held(worker)
        self.push(self.free_s, _Kind.ARRIVE, lease)

    def note_held(self, worker: int) -> None:
        held = self.held[worker]
        self.n_held[worker] = len(held)
        self.n_asked[worker] = sum(lease.is_asked for lease in held)
        self.first_work[worker] = held[0].work if held else 0
        self.rest_work[worker] = sum(lease.work for lease in held[1:])

    def serve(self, now_s: float) -> None:
        """Take the next answer, and hand out what it makes room for."""
        lease = self.inbox.popleft()
        worker = lease.worker
        was_empty = self.counter.is_empty
        self.held[worker].remove(lease)
        self.note_held(worker)
        self.began_s[worker] = now_s
        seconds = 0.0
        if lease.end_at > lease.start:
            seconds = self.seconds_of(lease, lease.end_at)
            self.work_s += seconds * self.speeds[worker]
            self.intervals.append((lease.start, lease.end_at))
        self.counter.answer(worker, lease.start, lease.end_at, lease.stop, seconds)
        self.makespan_s = now_s
        self.n_served += 1
        self.work_for(now_s, self.machine.look_s * self.machine.n_workers)
        # As long as leases last, nobody but this worker has room.
        self.hand_out(now_s, None if was_empty else range(worker, worker + 1))
        self.watch_tail(now_s)
        self.is_serving = bool(self.inbox)
        if self.inbox:
            self.push(max(now_s, self.free_s), _Kind.SERVE)

    def watch_tail(self, now_s: float) -> None:
        """Look again when nothing has come for a while and somebody is idle."""
        if self.policy.cuts_at_once != 0 and self.n_held.any() and not self.n_held.all():
            self.push(max(now_s, self.free_s) + TAIL_WATCH_S, _Kind.POLL, self.n_served)

    def cut_tail(self, now_s: float) -> None:
        """Ask as many busy workers to cut as there are idle ones, up to a bound, those with most left first."""
        is_cutting = self.n_asked > 0
        idle = int((self.n_held == 0).sum())
        most = min(idle, self.policy.cuts_at_once) - int(is_cutting.sum())
        if most <= 0:
            return
        able = np.flatnonzero((self.n_held > 0) & ~is_cutting)
        self.work_for(now_s, self.machine.left_s * able.size)
        speeds = self.counter.speeds()[able]
        elapsed = now_s - self.began_s[able]
        left = np.maximum(self.first_work[able] / speeds - elapsed, OVERRUN_SHARE * elapsed)
        left += self.rest_work[able] / speeds
        for index in np.argsort(-left, kind="stable")[:most]:
            if left[index] >= self.policy.least_cut_s and elapsed[index] >= LEAST_RUN_S:
                self.ask_cut(int(able[index]))

    def ask_cut(self, worker: int) -> None:
        leases = list(self.held[worker])
        for lease in leases:
            lease.is_asked = True
        self.note_held(worker)
        self.n_cuts += 1
        self.ask_free_s = max(self.ask_free_s, self.free_s) + self.machine.ask_s
        self.push(self.ask_free_s, _Kind.CUT, leases)

    # The workers.

    def seconds_of(self, lease: _Lease, stop: int) -> float:
        work_s = self.cumulative[stop] - self.cumulative[lease.start]
        return float(work_s * lease.stretch / self.speeds[lease.worker])

    def arrive(self, now_s: float, lease: _Lease) -> None:
        queue = self.queues[lease.worker]
        queue.append(lease)
        if len(queue) == 1:
            self.begin(now_s, lease)

    def begin(self, now_s: float, lease: _Lease) -> None:
        lease.began_s = now_s
        lease.end_at = lease.start if lease.is_cut else lease.stop
        self.push(now_s + self.seconds_of(lease, lease.end_at), _Kind.END, (lease, lease.end_at))

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

    def cut(self, now_s: float, leases: list[_Lease]) -> None:
        """Let a worker know that leases are to end: the running one after the slices that have begun."""
        for lease in leases:
            lease.is_cut = True
            queue = self.queues[lease.worker]
            if queue and queue[0] is lease:
                self.cut_running(now_s, lease)

    def cut_running(self, now_s: float, lease: _Lease) -> None:
        slices = int((now_s - lease.began_s) / self.policy.slice_s) + SLICES_AHEAD
        rate = self.speeds[lease.worker] / lease.stretch
        at = self.cumulative[lease.start] + slices * self.policy.slice_s * rate
        stop = int(np.searchsorted(self.cumulative, at, side="left"))
        if stop < lease.stop:
            lease.end_at = stop
            self.push(lease.began_s + self.seconds_of(lease, stop), _Kind.END, (lease, stop))

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
            elif kind is _Kind.CUT:
                self.cut(now_s, payload)
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
        What the planner believes of the same items, in work units.
    machine : Machine
    policy : Policy, optional
        By default that of the code.

    Raises
    ------
    ValueError
        When the machine has no worker, a worker may hold no lease, or the table is of other items.
    """
    chosen = policy or Policy()
    if machine.n_workers < 1 or chosen.in_flight < 1:
        raise ValueError(
            f"n_workers is {machine.n_workers} and in_flight {chosen.in_flight}; at least 1 each"
        )
    if cumulative_s.size != table.n_items + 1:
        raise ValueError(f"{cumulative_s.size} times of a table of {table.n_items} items; one more is needed")
    job_s = float(cumulative_s[-1])
    speed = machine.mispredicted * table.total / job_s if job_s else 1.0
    run = _Run(cumulative_s, Counter(table, speed, machine.n_workers, chosen), machine, chosen)
    with chosen.applied():
        run.play()
    could_s = float(run.speeds.sum()) * run.makespan_s
    return Outcome(
        makespan_s=run.makespan_s,
        work_s=run.work_s,
        efficiency=run.work_s / could_s if could_s else 1.0,
        leases=run.n_leases,
        cuts=run.n_cuts,
        scheduler_share=run.busy_s / run.makespan_s if run.makespan_s else 0.0,
        intervals=tuple(run.intervals),
    )
