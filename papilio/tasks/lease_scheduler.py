"""The work items of a job, handed out as leases: what is handed out, what comes back, what failed.

It holds no connection and no thread: an executor asks it for the next lease and tells it how each one ended.
Every item is handed out until exactly one answer holds it, or until it has proven to fail wherever it runs.
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
    ItemRange,
    PendingWork,
    choose_lengths,
)
from papilio.tasks.plan import CountPlan


class PartAffinity:
    """Remembers which partition each worker was given last, and chooses its next one.

    A partition is *free* when no worker was given it last. A worker that was told what to expect is given that, unless
    it is gone; others are given it only where nothing else is free.

    ``blocks`` are those that each partition is made of. Two share a block where they have the same name in the same
    place; the last ones (the ends of wedges) are held to be the larger ones.
    """

    def __init__(self, blocks: Sequence[tuple[str, ...]]) -> None:
        self._blocks = blocks
        self._last: dict[str, int] = {}
        self._expected: dict[str, int] = {}
        self._holders: Counter[int] = Counter()

    def choose_partition(self, worker: str, left: Mapping[int, int], least_help: int = 0) -> int | None:
        """Return the partition of the next lease of a worker, or None when nothing is left for it.

        The one that it was given last, as long as there is any of it; then a free one that shares a block with that,
        the last block before the others; then a free one whose last block the fewest workers have; then the one of
        which most is left for each worker that has it, and ``least_help`` at least. O(partitions left). ``left`` is the
        work left by partition.
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
        """Return the partition that a worker will probably be given once its last one is done; None if none is free.

        The worker is given that, unless others have nothing else.
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
        """Take note that a worker is gone, and with it what it held."""
        self._release(worker)
        self._expected.pop(worker, None)

    def _release(self, worker: str) -> None:
        last = self._last.pop(worker, None)
        if last is not None:
            self._holders[last] -= 1

    def _pick(self, worker: str, left: Mapping[int, int], least_help: int = 0) -> int | None:
        """Return a partition other than the one that the worker was given last, of which nothing is left."""
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
"""How often a lease is tried before it is bisected."""

HELP_SHARE = 2
"""A worker helps another one with a part where this many times the time to read and prepare it is left: with half of
that it would just be done when the other one is."""


@dataclass(frozen=True)
class FailedItem:
    """A work item that fails wherever it runs."""

    partition: int
    item: int
    reason: str  # how its last attempt ended


MAX_FAILED_IN_ROW = 32
"""When so many items fail one after the other and nothing is counted in between, the rest is not tried: that speaks
against the machine or the program, not against the items."""


class LeaseScheduler:
    """The leases of one run of a job: the items of the plan without those that were finished before.

    ``kept`` says whether finished leases are kept: leases are then short, and the rest goes on when an item has proven
    to fail. ``failed`` are the items that have.
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
        self._pending = PendingWork([partition.table for partition in plan.partitions], missing)
        self._affinity = PartAffinity([partition.blocks for partition in plan.partitions])
        self._handed_out: dict[str, LeaseTask] = {}  # without what their workers have left to others
        self._holders: dict[str, str] = {}
        self._measured: dict[str, tuple[int, float]] = {}
        self._begun = 0.0, 0
        self._sequence = 0
        self._failed_in_row = 0

    @property
    def has_more(self) -> bool:
        """Whether something is left that no worker holds."""
        return bool(self._pending)

    def take(self, n_workers: int, worker: str = "") -> LeaseTask | None:
        """Return the next lease for ``worker``; None when all is held, or nothing is left that is worth its part.

        It is an equal share of what is left for each of ``n_workers`` that holds none, and of the partition that the
        worker has, as long as there is any left of that. A worker that has a lease gets a second one only while there
        is a whole one for every worker: nothing could be shared of what waits behind another one.
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
        is_second = worker in self._holders.values()
        if is_second and self._pending.work_left < lengths.max_s * speed * n_workers:
            return None
        least_help = int(HELP_SHARE * self._begin_s() * speed) if self._handed_out else 0
        partition = self._affinity.choose_partition(worker, self._pending.left, least_help)
        if partition is None:
            return None
        n_free = max(1, n_workers - len({*self._holders.values()} - {worker}))
        piece = self._pending.take(n_free, int(lengths.min_s * speed), int(lengths.max_s * speed), partition)
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
        return task

    def answer(self, task: LeaseTask, result: LeaseResult) -> None:
        """Take back what a lease that was cut left undone, and learn the speed of its worker.

        TilingError when the result is not of the first items of the lease.
        """
        task = self._forget(task)
        starts = (result.partition, result.start) == (task.partition, task.start)
        if not starts or not task.start <= result.stop <= task.stop:
            raise TilingError(
                f"worker {result.worker} answered items [{result.start}, {result.stop}) of partition "
                f"{result.partition}; it was handed {task}"
            )
        if result.stop > result.start:
            self._failed_in_row = 0
        if result.stop < task.stop:
            self._pending.join(ItemRange(task.partition, result.stop, task.stop, task.attempt))
        work, seconds = self._measured.get(result.worker, (0, 0.0))
        predicted = self._plan.partitions[result.partition].table.work_between(result.start, result.stop)
        spent = result.seconds
        self._measured[result.worker] = (work + predicted, seconds + spent.get("run", 0.0))
        if "load" in spent and spent["prepare"] > 0:
            begun_s, begun = self._begun
            self._begun = begun_s + spent["load"] + spent["stage"] + spent["prepare"], begun + 1

    def share(self, task: LeaseTask, stop: int) -> bool:
        """Take back the items from ``stop`` on, which the worker of a lease leaves to others.

        False when it has answered meanwhile, or has left more. What it answers then ends there at the latest.
        """
        held = self._handed_out.get(task.key)
        if held is None or not held.start < stop < held.stop:
            return False
        rest = ItemRange(held.partition, stop, held.stop, held.attempt)
        work = self._pending.work_of(rest)
        self._handed_out[task.key] = replace(held, stop=stop, work=held.work - work)
        self._pending.join(rest)
        return True

    def lose(self, task: LeaseTask, worker: str, *, was_running: bool) -> None:
        """Put a lease back whose worker is gone; if it was running there, it may be the cause.

        FailedItemsError when one item took its workers down and the rest is not worth finishing, or nothing but items
        that fail was met for long.
        """
        task = self._forget(task)
        self._affinity.forget(worker)
        if was_running:
            self._retry(
                task, f"its workers went away, the last one {worker}: see that worker's log (memory?)"
            )
        else:
            self._pending.put_back(ItemRange(task.partition, task.start, task.stop, task.attempt))

    def fail(self, task: LeaseTask, error: Exception) -> None:
        """Put a lease back that raised: as it is, then in halves, until the item that fails is alone.

        CapacityError when one item alone does not fit its worker's memory. FailedItemsError when one item fails and the
        rest is not worth finishing, or nothing but items that fail was met for long.
        """
        task = self._forget(task)
        if isinstance(error, LeaseTooLargeError):
            if task.stop - task.start == 1:
                raise CapacityError(str(error)) from error
            self._pending.put_back(*_halves(task, task.attempt))
        else:
            self._retry(task, str(error))

    def predict_s(self, task: LeaseTask, worker: str) -> float | None:
        """Return the predicted time of a lease, by the speed of its worker if that has answered before.

        None for one that is not worth sharing: another worker would still read its part when it is done, or the vector
        that this gives takes as long.
        """
        work, seconds = self._measured.get(worker, (0, 0.0))
        held = self._handed_out.get(task.key, task)
        predicted = held.work / (work / seconds if work and seconds else self._speed())
        least_s = max(HELP_SHARE * self._begin_s(), 2 * self._plan.vector_s)
        return None if predicted < least_s else predicted

    def require_all(self) -> None:
        """Refuse to go on when items failed. FailedItemsError naming the first few."""
        if self.failed:
            named = "; ".join(
                f"item {each.item} of partition {each.partition} ({each.reason})" for each in self.failed[:3]
            )
            more = f" and {len(self.failed) - 3} more" if len(self.failed) > 3 else ""
            rest = "" if not self._pending else "; the rest was not tried"
            raise FailedItemsError(
                f"{len(self.failed)} of {self._plan.n_items} work items fail wherever they run: {named}{more}{rest}"
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
        """Take a lease back, and return what its worker still has of it."""
        held = self._handed_out.pop(task.key, None)
        if held is None:
            raise TilingError(f"{task} was answered and is not handed out; the count would be wrong")
        del self._holders[task.key]
        return held

    def _begin_s(self) -> float:
        """Return the mean time from wanting a part to counting it; 0 for whole graphs, and before one was begun."""
        seconds, begun = self._begun
        return seconds / begun if begun else 0.0

    def _speed(self) -> float:
        """Return the predicted nanoseconds that one worker does in a second: measured, or before that as predicted."""
        work = sum(work for work, _ in self._measured.values())
        seconds = sum(seconds for _, seconds in self._measured.values())
        return work / seconds if work and seconds else float(NS)


def _halves(task: LeaseTask, attempt: int) -> list[ItemRange]:
    """Return both halves of a lease; a single item has one attempt more than a half of several."""
    middle = (task.start + task.stop) // 2
    return [
        ItemRange(task.partition, start, stop, max(attempt - 1, 0) if stop - start == 1 else attempt)
        for start, stop in ((task.start, middle), (middle, task.stop))
    ]
