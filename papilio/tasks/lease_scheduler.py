"""Scheduling of a job's work items as leases: dispatch, results and failures.

The scheduler holds no connection and no thread: an executor takes the next lease from it and reports how each one
ended. Every item is dispatched until exactly one result contains it, or until it has failed on every attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from papilio.errors import CapacityError, FailedItemsError, LeaseTooLargeError, TilingError
from papilio.tasks.forecast import NS
from papilio.tasks.job import LeaseResult, LeaseTask
from papilio.tasks.leases import (
    SHORTEST_LEASE_S,
    ItemRange,
    PendingWork,
    choose_lengths,
)
from papilio.tasks.plan import CountPlan


class PartAffinity:
    """Choose the next partition of each worker by the one that it was given last.

    A partition is *free* when it is no worker's last one. A worker gets the partition that it was told to expect,
    unless that one has gone; other workers get it only if no other partition is free.

    ``blocks`` are the blocks of each partition. Two partitions share a block if they have the same name in the same
    place; the last blocks (the ends of wedges) are assumed to be the larger ones.
    """

    def __init__(self, blocks: Sequence[tuple[str, ...]]) -> None:
        self._blocks = blocks
        self._last: dict[str, int] = {}
        self._expected: dict[str, int] = {}
        self._holders: Counter[int] = Counter()

    def choose_partition(self, worker: str, left: Mapping[int, int], least_help: int = 0) -> int | None:
        """Return the partition of the next lease of a worker, or None when nothing is left to take.

        In this order: the worker's last partition while work is left in it; a free one that shares a block with it,
        comparing the last block first; a free one whose last block the fewest workers hold; the one with the most work
        left per worker that holds it, if that work is at least ``least_help``. O(partitions left). ``left`` maps each
        partition to its remaining work.
        """
        last = self._last.get(worker)
        if last is not None and last in left:
            return last
        chosen = self._pick(worker, left, least_help)
        self._expected.pop(worker, None)
        if chosen is not None:
            self._release(worker)
            self._last[worker] = chosen
            self._holders[chosen] += 1
        return chosen

    def expect(self, worker: str, left: Mapping[int, int]) -> int | None:
        """Return the partition that a worker will probably get after its last one; None if no partition is free.

        Other workers get it only if they have no other work.
        """
        expected = self._expected.get(worker)
        if expected is None or expected not in left or self._holders[expected]:
            last = self._last.get(worker)
            self._expected.pop(worker, None)
            expected = self._pick(worker, {each: work for each, work in left.items() if each != last})
            if expected is not None and self._holders[expected]:
                expected = None
        if expected is not None:
            self._expected[worker] = expected
        return expected

    def forget(self, worker: str) -> None:
        """Forget a lost worker, and the partitions that it had."""
        self._release(worker)
        self._expected.pop(worker, None)

    def _release(self, worker: str) -> None:
        last = self._last.pop(worker, None)
        if last is not None:
            self._holders[last] -= 1

    def _pick(self, worker: str, left: Mapping[int, int], least_help: int = 0) -> int | None:
        """Return a partition other than the worker's last one, in which nothing is left."""
        if not left:
            return None
        last, expected, holders = self._last.get(worker), self._expected.get(worker), self._holders
        if expected is not None and expected in left and not holders[expected]:
            return expected
        free = [each for each in left if not holders[each]]
        reserved = set(self._expected.values())
        free = [each for each in free if each not in reserved] or free
        if not free:
            most = max(left, key=lambda each: (left[each] / (1 + holders[each]), -each))
            return most if left[most] >= least_help else None
        if last is not None:
            for place in range(-1, -len(self._blocks[last]) - 1, -1):
                name = self._blocks[last][place]
                sharing = [each for each in free if self._block(each, place) == name]
                if sharing:
                    return min(sharing)
        crowd = Counter(self._block(each, -1) for each in self._last.values())
        return min(free, key=lambda each: (crowd[self._block(each, -1)], -left[each], each))

    def _block(self, partition: int, place: int) -> str | None:
        blocks = self._blocks[partition]
        return blocks[place] if -place <= len(blocks) else None


MAX_ATTEMPTS = 3
"""Attempts at a lease before it is bisected."""

HELP_SHARE = 2
"""Lend a part to a second worker only if the remaining work exceeds this many times its load and preparation time: at
half of this, the first worker would finish as the second one starts."""


@dataclass(frozen=True)
class FailedItem:
    """A work item that fails wherever it runs."""

    partition: int
    item: int
    reason: str  # how its last attempt ended


MAX_FAILED_IN_ROW = 32
"""Stop trying after this many failed items in a row with nothing counted in between: the machine or the program is then
at fault, not the items."""


class LeaseScheduler:
    """The leases of one run of a job: all items of the plan that no earlier session finished.

    With ``kept``, finished leases are kept: leases are then short, and an item that fails on every attempt does not
    stop the other items. ``failed`` holds the failed items.
    """

    def __init__(self, plan: CountPlan, run_id: str, shard_dir: str | None, *, kept: bool = False) -> None:
        self.failed: list[FailedItem] = []
        self._plan, self._run_id, self._shard_dir = plan, run_id, shard_dir
        self._kept = kept
        self._plan_key, self._total_work = plan.key, plan.predicted_ns
        done = plan.book()
        missing = [
            ItemRange(partition.index, start, stop)
            for partition in plan.partitions
            for start, stop in done.missing(partition.index)
        ]
        self._pending = PendingWork([partition.table for partition in plan.partitions], missing, plan.job.hands)
        self._affinity = PartAffinity([partition.blocks for partition in plan.partitions])
        self._handed_out: dict[str, LeaseTask] = {}  # without the items that their workers gave up
        self._holders: dict[str, str] = {}
        self._n_held: Counter[str] = Counter()  # leases of each worker that holds any
        self._measured: dict[str, tuple[int, float]] = {}
        self._measured_in_all = 0, 0.0
        self._latest_speed = 0.0
        self._begun = 0.0, 0
        self._sequence = 0
        self._failed_in_row = 0

    @property
    def has_more(self) -> bool:
        """Whether any work is left that no worker holds."""
        return bool(self._pending)

    def take(self, n_workers: int, worker: str = "") -> LeaseTask | None:
        """Return the next lease for ``worker``; None when all work is held, or no part is worth loading.

        Each of the ``n_workers`` without a lease gets an equal share of the remaining work, taken from the worker's own
        partition while work is left in it. A worker that holds a lease gets a second one only while enough is left for
        a full lease on every worker: a lease queued behind another one cannot be shared.
        """
        if not self._pending:
            return None
        speed = self._speed()
        choose = partial(
            choose_lengths,
            self._total_work / speed / n_workers,
            self._plan.vector_s,
            kept_by=n_workers if self._kept else 0,
        )
        lengths = choose()
        if self._pending.work_left < lengths.min_s * speed * n_workers:
            lengths = choose(tail=True)
        is_second = worker in self._n_held
        if is_second and self._pending.work_left < lengths.max_s * speed * n_workers:
            return None
        least_help = int(HELP_SHARE * self._begin_s() * speed) if self._handed_out else 0
        partition = self._affinity.choose_partition(worker, self._pending.left, least_help)
        if partition is None:
            return None
        n_free = max(1, n_workers - len(self._n_held) + is_second)
        # Speeds may rise a hundredfold from heavy items to light ones; the clock ends leases that are too long.
        longest = int(lengths.max_s * max(speed, self._latest_speed))
        piece = self._pending.take(n_free, int(lengths.min_s * speed), longest, partition)
        assert piece is not None, "something is left"
        self._sequence += 1
        task = LeaseTask(
            self._plan.job, self._plan.engine, self._plan_key, self._run_id, piece.partition, piece.start,
            piece.stop, self._pending.work_of(piece), self._plan.costs_digest,
            self._shard_dir, piece.attempt, self._sequence,
            self._affinity.expect(worker, self._pending.left), lengths.max_s,
        )  # fmt: skip
        self._handed_out[task.key] = task
        self._holders[task.key] = worker
        self._n_held[worker] += 1
        return task

    def answer(self, task: LeaseTask, result: LeaseResult) -> None:
        """Take back the unfinished items of a lease that was cut, and measure the speed of its worker.

        Raises TilingError if the result does not hold the first items of the lease.
        """
        task = self._forget(task)
        starts = (result.partition, result.start) == (task.partition, task.start)
        if not starts or not task.start <= result.stop <= task.stop:
            raise TilingError(
                f"worker {result.worker} returned items [{result.start}, {result.stop}) of partition "
                f"{result.partition}; its task was {task}"
            )
        if result.stop > result.start:
            self._failed_in_row = 0
        if result.stop < task.stop:
            self._pending.join(ItemRange(task.partition, result.stop, task.stop, task.attempt))
        work, seconds = self._measured.get(result.worker, (0, 0.0))
        predicted = self._plan.partitions[result.partition].table.work_between(result.start, result.stop)
        spent = result.seconds
        run_s = spent.get("run", 0.0)
        self._measured[result.worker] = (work + predicted, seconds + run_s)
        work, seconds = self._measured_in_all
        self._measured_in_all = (work + predicted, seconds + run_s)
        if run_s >= SHORTEST_LEASE_S:
            self._latest_speed = predicted / run_s
        if "load" in spent and spent["prepare"] > 0:
            begun_s, begun = self._begun
            self._begun = begun_s + spent["load"] + spent["stage"] + spent["prepare"], begun + 1

    def share(self, task: LeaseTask, stop: int) -> bool:
        """Take back the items from ``stop`` on, which a worker leaves to others.

        Returns False if the lease has ended meanwhile, or was already cut at or before ``stop``. Otherwise its result
        ends at ``stop`` at the latest.
        """
        lease = self._handed_out.get(task.key)
        if lease is None or not lease.start < stop < lease.stop:
            return False
        rest = ItemRange(lease.partition, stop, lease.stop, lease.attempt)
        work = self._pending.work_of(rest)
        self._handed_out[task.key] = replace(lease, stop=stop, work=lease.work - work)
        self._pending.join(rest)
        return True

    def lose(self, task: LeaseTask, worker: str, *, was_running: bool) -> None:
        """Put back the lease of a lost worker; if it was running there, it may be the cause.

        Raises FailedItemsError if one item crashed its workers and finished leases are not kept, or when
        ``MAX_FAILED_IN_ROW`` items failed in a row.
        """
        task = self._forget(task)
        self._affinity.forget(worker)
        if was_running:
            self._retry(task, f"its workers ended, the last one {worker}: see that worker's log (out of memory?)")
        else:
            self._pending.put_back(ItemRange(task.partition, task.start, task.stop, task.attempt))

    def fail(self, task: LeaseTask, error: Exception) -> None:
        """Put back a lease that raised: whole at first, then in halves, until the failing item is alone.

        Raises CapacityError if a single item does not fit in its worker's memory, and FailedItemsError if one item
        fails and finished leases are not kept, or when ``MAX_FAILED_IN_ROW`` items failed in a row.
        """
        task = self._forget(task)
        if isinstance(error, LeaseTooLargeError):
            if task.stop - task.start == 1:
                raise CapacityError(str(error)) from error
            self._pending.put_back(*_halves(task, task.attempt))
        else:
            self._retry(task, str(error))

    def predict_s(self, task: LeaseTask, worker: str) -> float | None:
        """Return the predicted time of a lease, by the measured speed of its worker where there is one.

        None for a lease that is not worth sharing: it would end before another worker has loaded the part, or the
        additional vector would take as long.
        """
        work, seconds = self._measured.get(worker, (0, 0.0))
        lease = self._handed_out.get(task.key, task)
        predicted = lease.work / (work / seconds if work and seconds else self._speed())
        least_s = max(HELP_SHARE * self._begin_s(), 2 * self._plan.vector_s)
        return None if predicted < least_s else predicted

    def require_all(self) -> None:
        """Raise FailedItemsError, which names the first few items, if any item failed."""
        if self.failed:
            named = "; ".join(
                f"item {each.item} of partition {each.partition} ({each.reason})" for each in self.failed[:3]
            )
            more = f" and {len(self.failed) - 3} more" if len(self.failed) > 3 else ""
            rest = "" if not self._pending else "; others were not tried"
            raise FailedItemsError(
                f"{len(self.failed)} of {self._plan.n_items} work items fail on every worker: {named}{more}{rest}"
            )

    def _retry(self, task: LeaseTask, reason: str) -> None:
        attempt = task.attempt + 1
        if attempt < MAX_ATTEMPTS:
            self._pending.put_back(ItemRange(task.partition, task.start, task.stop, attempt))
        elif task.stop - task.start > 1:
            self._pending.put_back(*_halves(task, MAX_ATTEMPTS - 1))
        else:
            self.failed.append(FailedItem(task.partition, task.start, reason))
            self._failed_in_row += 1
            if not self._kept or self._failed_in_row >= MAX_FAILED_IN_ROW:
                self.require_all()

    def _forget(self, task: LeaseTask) -> LeaseTask:
        """Take a lease back, and return the items that its worker still holds."""
        lease = self._handed_out.pop(task.key, None)
        if lease is None:
            raise TilingError(f"{task} was returned, but it is not a task in progress; the count would be wrong")
        worker = self._holders.pop(task.key)
        self._n_held[worker] -= 1
        if not self._n_held[worker]:
            del self._n_held[worker]
        return lease

    def _begin_s(self) -> float:
        """Return the mean time to load and prepare a part; 0 for whole graphs, and before the first part."""
        seconds, begun = self._begun
        return seconds / begun if begun else 0.0

    def _speed(self) -> float:
        """Return the predicted nanoseconds of work that a worker does in a second; ``NS`` until measured."""
        work, seconds = self._measured_in_all
        return work / seconds if work and seconds else float(NS)


def _halves(task: LeaseTask, attempt: int) -> list[ItemRange]:
    """Return both halves of a lease; a single item gets one more attempt than a longer half."""
    middle = (task.start + task.stop) // 2
    return [
        ItemRange(task.partition, start, stop, max(attempt - 1, 0) if stop - start == 1 else attempt)
        for start, stop in ((task.start, middle), (middle, task.stop))
    ]
