"""The dispatcher without a cluster: whom it cuts, who declines, who can go on no more."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from papilio.cluster import dispatcher
from papilio.cluster.dispatcher import MAX_DECLINED, MAX_LOSSES, MOST_CUTS, Dispatcher
from papilio.errors import ClusterError, DeviceLostError, EngineUnavailableError, ExecutionError, WorkerError
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.run import leave_half, request_cuts
from tests.tasks.fakes import make_worker


@dataclass
class Task:
    key: str
    attempt: int = 0


class Source:
    """Tasks that need 100 s, the later ones longer."""

    def __init__(self, n_tasks: int) -> None:
        self.tasks = deque(Task(str(number)) for number in range(n_tasks))

    @property
    def has_more(self) -> bool:
        return bool(self.tasks)

    def take(self, n_workers: int, worker: str) -> Task | None:
        return self.tasks.popleft() if self.tasks else None

    def share(self, task: Task, stop: int) -> bool:
        self.tasks.append(Task(f"{task.key} from {stop}"))
        return True

    def lose(self, task: Task, worker: str, *, was_running: bool) -> None:
        self.tasks.append(replace(task, attempt=task.attempt + was_running))

    def predict_s(self, task: Task, worker: str) -> float:
        return 100.0 + int(task.key)


class Future:
    def __init__(self, key: str) -> None:
        self.key, self.status = key, "pending"

    def add_done_callback(self, function: Any) -> None:
        """It never ends."""

    def cancel(self) -> None:
        """It has not begun."""


class Pool:
    """Remembers who was asked to cut."""

    def __init__(self) -> None:
        self.client = self
        self.asked: list[str] = []

    def submit(self, *args: Any, key: str, **options: Any) -> Future:
        return Future(key)

    def task_priority(self) -> int:
        return 0

    def ask_all(self, function: Any, *args: Any, addresses: list[str], patience_s: float) -> dict[str, Any]:
        self.asked += [args[0]] if function is leave_half else args[0]
        return {}


def test_nothing_waits_behind_what_may_have_taken_a_worker_down() -> None:
    """A worker may go between two tasks, when nobody knows yet that the first is done: that is held against it once."""
    made: Any = Dispatcher
    tasks = made(Pool(), print, Source(2), [make_worker("w0")], 2)
    tasks._hand_out()
    assert [each.task.key for each in tasks._places["w0"].tasks.values()] == ["0", "1"]
    tasks._drop("w0", n_suspects=1)
    tasks._add("w0")
    tasks._hand_out()
    assert [each.task for each in tasks._places["w0"].tasks.values()] == [Task("0", attempt=1)]


@pytest.mark.parametrize(("n_idle", "n_cut"), [(0, 0), (3, 3), (100, MOST_CUTS)])
def test_those_with_most_left_are_asked_for_half(n_idle: int, n_cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "LEAST_RUN_S", 0.0)
    n_busy = 2 * MOST_CUTS
    pool, source = Pool(), Source(n_busy)
    workers = [make_worker(f"w{number}") for number in range(n_busy + n_idle)]
    made: Any = Dispatcher
    tasks = made(pool, print, source, workers, 1)
    for _ in range(2):
        tasks._hand_out()
    tasks._messenger.shutdown(wait=True)
    assert sorted(pool.asked) == sorted(str(number) for number in range(n_busy - n_cut, n_busy))


@pytest.mark.parametrize("stop", [None, 7])
def test_what_a_worker_leaves_goes_to_the_idle_one(stop: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that leaves nothing is asked again, but not at once."""
    monkeypatch.setattr(dispatcher, "LEAST_RUN_S", 0.0)
    pool, made = Pool(), Dispatcher
    asked = pool.ask_all
    pool.ask_all = lambda *args, **options: asked(*args, **options) or {"w0": stop}  # type: ignore[method-assign]
    tasks: Any = made(pool, print, Source(1), [make_worker("w0"), make_worker("w1")], 1)  # type: ignore[arg-type]
    tasks._hand_out()
    tasks._take_left(tasks._finished.get(timeout=60))
    monkeypatch.setattr(dispatcher, "LEAST_RUN_S", 100.0)
    tasks._hand_out()
    assert pool.asked == ["0"]
    held = [each.task.key for each in tasks._places["w1"].tasks.values()]
    assert held == ([] if stop is None else ["0 from 7"])
    assert [each.task.key for each in tasks._places["w0"].tasks.values()] == ["0"]
    tasks._messenger.shutdown()


@dataclass
class Book:
    """A source that knows who holds what; ``declines`` says of a worker whether it takes nothing now."""

    n_tasks: int
    declines: Callable[[str], bool] = lambda worker: False
    held: dict[str, str] = field(default_factory=dict)
    answered: list[str] = field(default_factory=list)
    suspected: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tasks = deque(Task(str(number)) for number in range(self.n_tasks))

    @property
    def has_more(self) -> bool:
        return bool(self.tasks)

    def take(self, n_workers: int, worker: str) -> Task | None:
        if not self.tasks or (self.held and self.declines(worker)):
            return None
        task = self.tasks.popleft()
        self.held[task.key] = worker
        return task

    def predict_s(self, task: Task, worker: str) -> None:
        """Nothing is cut."""

    def answer(self, task: Task, result: str) -> None:
        del self.held[task.key]
        self.answered.append(task.key)

    def lose(self, task: Task, worker: str, *, was_running: bool) -> None:
        assert self.held.pop(task.key) == worker
        self.suspected += [task.key] * was_running
        self.tasks.appendleft(task)

    def fail(self, task: Task, error: Exception) -> None:
        raise AssertionError(f"{task} is blamed for {error}")


class Done:
    """A future that has ended."""

    def __init__(self, key: str, error: Exception | None) -> None:
        self.key, self.error = key, error
        self.status = "finished" if error is None else "error"

    def add_done_callback(self, function: Any) -> None:
        function(self)

    def result(self, timeout: float) -> str:
        return self.key

    def exception(self) -> Exception | None:
        return self.error

    def cancel(self) -> None:
        """It has ended."""


@dataclass
class Workers(Pool):
    """Workers that answer at once; those in ``broken`` with an error. One that loses its GPU ends."""

    names: list[str]
    broken: dict[str, Exception] = field(default_factory=dict)
    replacement: Callable[[], Exception | None] | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    def submit(self, *args: Any, key: str, workers: list[str], **options: Any) -> Done:
        (worker,) = workers
        assert worker in self.names
        self.ran.append(worker)
        return Done(key, self.broken.get(worker))

    def live_workers(self) -> dict[str, str]:
        lost = [name for name in self.names if isinstance(self.broken.get(name), DeviceLostError)]
        for name in lost:
            self.names.remove(name)
            if self.replacement is not None:
                self.names.append(f"{name}+")
                error = self.replacement()
                if error is not None:
                    self.broken[f"{name}+"] = error
        return dict.fromkeys(self.names, "running")

    def describe(self, addresses: list[str]) -> tuple[WorkerInfo, ...]:
        return tuple(make_worker(address) for address in addresses)


class Gone(Done):
    """A future that ended well, whose worker went away before it sent the result."""

    cancelled = False

    def result(self, timeout: float) -> str:
        raise TimeoutError

    def cancel(self) -> None:
        self.cancelled = True


class Turned(Done):
    """A future that ended well, and that the scheduler finds to be in error when its result is asked for."""

    def result(self, timeout: float) -> str:
        self.status = "error"
        assert self.error is not None
        raise self.error


def dispatcher_of(pool: Workers, source: Book, in_flight: int = 2) -> Any:
    workers = [make_worker(name) for name in pool.names]
    tasks: Any = Dispatcher
    return tasks(pool, print, source, workers, in_flight)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the cluster as soon as nothing comes, and do not wait for other workers."""
    monkeypatch.setattr(dispatcher, "WATCH_S", 0.001)
    monkeypatch.setattr(dispatcher, "REPLACEMENT_S", 0.0)


def test_one_that_declines_leaves_the_others_their_second_task() -> None:
    pool, source = Workers(["w0", "w1", "w2"]), Book(9, lambda worker: worker == "w1")
    source.held["elsewhere"] = "w9"
    dispatcher_of(pool, source)._hand_out()
    assert pool.ran == ["w0", "w2", "w0", "w2"]


@pytest.mark.parametrize("seed", range(20))
def test_whoever_declines_all_is_answered_once(seed: int) -> None:
    chance = random.Random(seed)
    source = Book(30, lambda worker: chance.random() < 0.8)
    answers = list(dispatcher_of(Workers([f"w{number}" for number in range(4)]), source))
    assert sorted(answers) == sorted(source.answered) == sorted(str(number) for number in range(30))


def test_when_all_decline_and_none_is_at_work_the_run_ends_in_an_error() -> None:
    pool, source = Workers(["w0", "w1"]), Book(3, lambda worker: True)
    source.held["elsewhere"] = "w9"
    with pytest.raises(ExecutionError, match="none of 2 idle workers can be given the remaining work"):
        list(dispatcher_of(pool, source))


def test_a_result_among_many_workers_is_followed_by_few_offers() -> None:
    """As long as the remaining work is declined; at the next results the other workers are asked."""
    n_workers, offered = 500, []

    def holds_one(worker: str) -> bool:
        offered.append(worker)
        return worker in source.held.values()

    pool, source = Cuttable([f"w{number}" for number in range(n_workers)]), Book(3 * n_workers, holds_one)
    tasks = dispatcher_of(pool, source)
    tasks._hand_out()
    assert len(source.held) == n_workers
    seen = set(offered[n_workers - 1 :])
    for number in range(n_workers // MAX_DECLINED):
        offered.clear()
        tasks._settle(dispatcher._Answer(pool.futures[str(number)], str(number), None), f"w{number}")
        tasks._hand_out()
        assert offered[0] == f"w{number}"
        assert len(offered) == 1 + MAX_DECLINED
        seen.update(offered)
    assert len(seen) == n_workers
    assert len(source.held) == n_workers


def test_workers_are_ordered_by_their_work_once_for_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "LEAST_RUN_S", 0.0)
    predicted, now_s = [], 0.0
    pool, source = Pool(), Source(300)
    predict_s = source.predict_s
    source.predict_s = lambda task, worker: predicted.append(worker) or predict_s(task, worker)  # type: ignore[func-returns-value, method-assign]
    made: Any = Dispatcher
    tasks = made(pool, print, source, [make_worker(f"w{number}") for number in range(400)], 1, clock=lambda: now_s)
    for _ in range(3):
        tasks._hand_out()
        for _ in range(MOST_CUTS):
            left = tasks._finished.get(timeout=60)
            tasks._take_left(dispatcher._Left(left.address, left.key, None))
    assert len(predicted) == 300
    assert sorted(map(int, pool.asked)) == list(range(300 - 3 * MOST_CUTS, 300))
    now_s = 1.0
    tasks._hand_out()
    assert len(predicted) == 600
    tasks._messenger.shutdown()


ERRORS = (DeviceLostError("lost"), EngineUnavailableError("no driver"), WorkerError("too many open files"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.usefixtures("impatient")
def test_a_worker_that_cannot_go_on_gets_no_more_and_its_leases_go_to_others(error: Exception) -> None:
    pool, source = Workers(["w0", "w1", "w2"], {"w1": error}), Book(30)
    assert sorted(dispatcher_of(pool, source)) == sorted(str(number) for number in range(30))
    assert pool.ran.count("w1") == 2, "what it held when it failed"
    assert source.suspected == (["1"] if isinstance(error, DeviceLostError) else [])


@pytest.mark.parametrize("error", ERRORS[1:], ids=lambda error: type(error).__name__)
def test_when_the_only_worker_cannot_go_on_the_run_ends_with_its_error(error: Exception) -> None:
    pool, source = Workers(["w0"], {"w0": error}), Book(20_000)
    with pytest.raises(type(error), match=str(error)):
        list(dispatcher_of(pool, source))
    assert len(pool.ran) == 2
    assert not source.answered


@pytest.mark.usefixtures("impatient")
def test_a_lost_gpu_that_nothing_replaces_ends_the_run_and_is_named() -> None:
    pool, source = Workers(["w0"], {"w0": DeviceLostError("GPU 0 is lost")}), Book(20_000)
    with pytest.raises(ClusterError, match=r"none returned within .* the last one: GPU 0 is lost"):
        list(dispatcher_of(pool, source))
    assert len(pool.ran) == 2


def test_a_gpu_that_every_process_loses_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement that is seen before the lost process has left counts as a second place, with losses of its own."""
    monkeypatch.setattr(dispatcher, "WATCH_S", 0.001)
    lost = DeviceLostError("GPU 0 is lost")
    pool, source = Workers(["w0"], {"w0": lost}, lambda: lost), Book(20_000)
    with pytest.raises(DeviceLostError, match="GPU 0 is lost"):
        list(dispatcher_of(pool, source))
    assert 2 * MAX_LOSSES <= len(pool.ran) <= 4 * MAX_LOSSES


def test_a_worker_that_is_gone_before_its_error_is_settled_counts_as_one_that_failed() -> None:
    """A watch may see that the process has ended before the error that ended it was collected."""
    pool, source = Workers(["w0", "w1"], {"w1": DeviceLostError("GPU 1 is lost")}), Book(4)
    tasks = dispatcher_of(pool, source)
    tasks._hand_out()
    tasks._watch()
    assert pool.names == ["w0"]
    assert set(tasks._places) == {"w0", "w1"}, "its error is on its way"
    answers = [tasks._finished.get(timeout=60) for _ in range(4)]
    for answer in answers:
        if tasks._worker_of.get(answer.future.key) == "w1":
            tasks._settle(answer, "w1")
    assert set(tasks._places) == {"w0"}
    assert [str(error) for error in tasks._losses] == ["GPU 1 is lost"]


def test_a_watch_survives_that_the_only_worker_is_gone_before_its_error_is_settled() -> None:
    pool, source = Workers(["w0"], {"w0": DeviceLostError("GPU 0 is lost")}), Book(4)
    tasks = dispatcher_of(pool, source)
    tasks._hand_out()
    tasks._watch()
    assert pool.names == []
    assert set(tasks._places) == {"w0"}


def test_a_gpu_that_another_process_can_use_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "WATCH_S", 0.001)
    pool = Workers(["w0"], {"w0": DeviceLostError("once")}, lambda: None)
    assert len(list(dispatcher_of(pool, Book(30)))) == 30
    assert pool.names == ["w0+"]


def test_a_result_that_went_away_with_its_worker_is_counted_again_and_not_blamed() -> None:
    pool, source = Workers(["w0", "w1"]), Book(6)
    lost: list[Gone] = []
    submit = pool.submit

    def submit_once(*args: Any, key: str, workers: list[str], **options: Any) -> Done:
        if not lost:
            lost.append(Gone(key, None))
            return lost[0]
        return submit(*args, key=key, workers=workers, **options)

    pool.submit = submit_once  # type: ignore[method-assign]
    pool.live_workers = lambda: {"w1": "running"}  # type: ignore[method-assign]
    answers = list(dispatcher_of(pool, source))
    assert sorted(answers) == sorted(source.answered) == [str(number) for number in range(6)]
    assert not source.suspected
    assert lost[0].cancelled


@pytest.mark.parametrize("raised", [KeyError("tls://127.0.0.1:9"), ExecutionError("a kernel failed")], ids=repr)
def test_an_error_that_comes_in_place_of_a_result_is_the_task_s(raised: Exception) -> None:
    pool, source = Workers(["w0"]), Book(3)
    failed: list[tuple[str, Exception]] = []
    source.fail = lambda task, error: failed.append((task.key, error))  # type: ignore[method-assign]
    submit = pool.submit

    def turn_one(*args: Any, key: str, workers: list[str], **options: Any) -> Done:
        return Turned(key, raised) if key == "1" else submit(*args, key=key, workers=workers, **options)

    pool.submit = turn_one  # type: ignore[method-assign]
    assert list(dispatcher_of(pool, source)) == source.answered == ["0", "2"]
    ((key, error),) = failed
    assert key == "1"
    assert error is raised or str(error).startswith("worker w0, Task(key='1', attempt=0) failed: KeyError: ")


class UntilCut(Done):
    """A future that ends when its task is cut."""

    def add_done_callback(self, function: Any) -> None:
        self.end = function


@dataclass
class Cuttable(Workers):
    """Workers that answer for what they hold once all are asked to cut; those in ``deaf`` never do."""

    deaf: tuple[str, ...] = ()
    futures: dict[str, UntilCut] = field(default_factory=dict)

    def submit(self, *args: Any, key: str, workers: list[str], **options: Any) -> UntilCut:
        future = UntilCut(key, None)
        if workers[0] not in self.deaf:
            self.futures[key] = future
        return future

    def ask_all(self, function: Any, *args: Any, addresses: list[str], patience_s: float) -> dict[str, Any]:
        assert function is request_cuts
        super().ask_all(function, *args, addresses=addresses, patience_s=patience_s)
        for future in self.futures.values():
            future.end(future)
        return {}


def test_a_process_that_is_to_end_has_all_cut_and_hands_out_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "requested", lambda: True)
    pool, source = Cuttable(["w0", "w1", "w2"]), Book(100)
    assert sorted(dispatcher_of(pool, source)) == sorted(source.answered) == sorted(pool.asked)
    assert (len(source.answered), len(source.tasks)) == (6, 94)


def test_answers_come_although_a_worker_is_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatcher is left while it waits for that one, as by a signal; what came before has been given."""
    monkeypatch.setattr(dispatcher, "requested", lambda: True)
    pool, source = Cuttable(["w0", "w1", "w2"], deaf=("w1",)), Book(100)
    results = iter(dispatcher_of(pool, source))
    given = [next(results) for _ in range(4)]
    results.close()
    assert sorted(given) == sorted(pool.futures)
    assert set(source.held.values()) == {"w1"}
