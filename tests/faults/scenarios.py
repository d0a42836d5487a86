"""Faults, each caused once in the course of a count.

A scenario starts its counts in a fresh laboratory, causes the fault, and returns the counts in the order in which their
messages matter; the last one is to end with the answer, unless the fault must be rejected before anything is counted.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from subprocess import TimeoutExpired
from time import monotonic

import papilio
from tests.faults.laboratory import WORKERS, Count, Laboratory, write_dense
from tests.faults.views import DelayedViews, slow_down

FIRST, SECOND = WORKERS

LOSS, DELAY_S = 0.05, 0.05
"""Share of packets that a bad link loses in each direction, and its delay."""

STOP_S = 15.0
SHORT_S, LONG_S = 5.0, 40.0
DAY_S = 86400
LATE_S, ACCESS_S = 2.0, 0.1

DISK_BYTES = 16 << 20
LITTLE_MEMORY = "200MiB"


@dataclass(frozen=True)
class Scenario:
    """A fault, what causes it, and whether the count must be rejected instead of ending."""

    fault: str
    run: Callable[[Laboratory], list[Count]]
    is_rejected: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a scenario ended.

    Attributes
    ----------
    exit_code : int
        Of the last count.
    count : int, optional
        What it printed; None if it printed nothing.
    is_sealed : bool
        Whether ``papilio verify`` accepts its job.
    seconds : float
        From the start of the first count to the end of the last one, with the time of the fault.
    messages : list
        The last line of standard error of each count.
    """

    exit_code: int
    count: int | None
    is_sealed: bool
    seconds: float
    messages: list[str]


def observe(lab: Laboratory, scenario: Scenario) -> Outcome:
    """Run a scenario to its end; AssertionError if its fault cannot be caused, or a count does not end."""
    began = monotonic()
    counts = scenario.run(lab)
    code = counts[-1].wait()
    seconds = monotonic() - began
    return Outcome(
        code, counts[-1].count(), counts[-1].verify(), seconds, [each.last_line() for each in counts if each.messages()]
    )


def begin(lab: Laboratory, job: Path | None = None, *options: str) -> Count:
    """Start a count, and wait until both workers have finished a lease; the fault is to come before the last one."""
    started = lab.count(job, "client", "--workers", "2", *options)
    for name in WORKERS:
        started.wait_for_leases(lab[name].address)
    assert started.process.poll() is None, f"the count ended before the fault: {started.messages()}"
    return started


def resume(lab: Laboratory, ended: Count, job: Path) -> list[Count]:
    """Wait until a count has ended, and count on in its job directory."""
    ended.wait()
    return [ended, lab.count(job, "client", "--workers", "2")]


def _let_pass(started: Count, seconds: float) -> None:
    """Let time pass, the length of a fault, unless the count ends earlier."""
    with suppress(TimeoutExpired):
        started.process.wait(seconds)


def count_undisturbed(lab: Laboratory) -> list[Count]:
    return [begin(lab)]


def cut_for(seconds: float) -> Callable[[Laboratory], list[Count]]:
    def run(lab: Laboratory) -> list[Count]:
        started = begin(lab)
        lab[SECOND].link.cut()
        _let_pass(started, seconds)
        lab[SECOND].link.mend()
        return [started]

    return run


def cut_while_other_counts(lab: Laboratory) -> list[Count]:
    """Cut the link of a worker until the other one has finished another lease."""
    started = begin(lab)
    lab[SECOND].link.cut()
    started.wait_for_leases(lab[FIRST].address, started.counted_by(lab[FIRST].address) + 1)
    lab[SECOND].link.mend()
    return [started]


def cut_for_ever(lab: Laboratory) -> list[Count]:
    started = begin(lab)
    lab[SECOND].link.cut()
    return [started]


def cut_before_planning(lab: Laboratory) -> list[Count]:
    """Cut the link of the worker that is first given a task of planning, before it has reported."""
    for name in WORKERS:
        lab.wait_for_log(name, "Registered to")
    started = lab.count()
    started.wait_until(lambda: "find_store_problem" in lab.log(FIRST).read_text(), "the client to ask for the store")
    lab[FIRST].link.cut()
    return [started]


def lose_what_it_sends(lab: Laboratory) -> list[Count]:
    started = begin(lab)
    lab[SECOND].link.sends = False
    return [started]


def lose_what_it_receives(lab: Laboratory) -> list[Count]:
    started = begin(lab)
    lab[SECOND].link.receives = False
    return [started]


def degrade_link(lab: Laboratory) -> list[Count]:
    lab[SECOND].link.loss, lab[SECOND].link.delay_s = LOSS, DELAY_S
    return [begin(lab)]


def kill_on_a_bad_link(lab: Laboratory) -> list[Count]:
    (started,) = degrade_link(lab)
    lab.kill_worker(FIRST)
    return [started]


def kill_again_and_again(lab: Laboratory) -> list[Count]:
    """Kill a worker and then the other one, whenever it has finished a lease since."""
    started = begin(lab)
    for name in cycle(WORKERS):
        if started.process.poll() is not None:
            return [started]
        lab.kill_worker(name)
        started.wait_for_leases(lab[name].address, started.counted_by(lab[name].address) + 1)
    raise AssertionError


def stop_for_some_time(lab: Laboratory) -> list[Count]:
    started = begin(lab)
    lab.signal(SECOND, signal.SIGSTOP)
    _let_pass(started, STOP_S)
    lab.signal(SECOND, signal.SIGCONT)
    return [started]


def stop_for_ever(lab: Laboratory) -> list[Count]:
    started = begin(lab)
    lab.signal(SECOND, signal.SIGSTOP)
    return [started]


def stop_all_for_some_time(lab: Laboratory) -> list[Count]:
    """Stop both workers, so that nobody takes over, until the user is told."""
    started = begin(lab)
    for name in WORKERS:
        lab.signal(name, signal.SIGSTOP)
    started.wait_until(lambda: "no worker has answered" in started.messages(), "a warning")
    for name in WORKERS:
        lab.signal(name, signal.SIGCONT)
    return [started]


def kill_scheduler(lab: Laboratory) -> list[Count]:
    """Kill the scheduler; start it and the workers again when the client has ended."""
    job = lab.new_job()
    started = begin(lab, job)
    lab.stop("scheduler")
    started.wait()
    lab.start_scheduler()
    for name in WORKERS:
        lab.stop(name)
        lab.start_worker(name)
    return resume(lab, started, job)


def kill_client(lab: Laboratory) -> list[Count]:
    job = lab.new_job()
    started = begin(lab, job)
    started.process.kill()
    return resume(lab, started, job)


def cut_client(lab: Laboratory) -> list[Count]:
    """Cut the client off until it gives up."""
    job = lab.new_job()
    started = begin(lab, job)
    lab["client"].link.cut()
    started.wait()
    lab["client"].link.mend()
    return resume(lab, started, job)


def start_two_clients(lab: Laboratory) -> list[Count]:
    """Start a second client, on another host, with the job directory of the first."""
    job = lab.new_job()
    started = begin(lab, job)
    second = lab.count(job, "scheduler")
    second.wait()
    return [second, started]


def fill_disk(lab: Laboratory) -> list[Count]:
    """Fill the file system of the job directory, and make room when the client has ended."""
    disk = lab.new_job()
    disk.mkdir()
    lab["client"].mount_small(disk, DISK_BYTES)
    started = begin(lab, disk / "job")
    filler = lab["client"].view(disk / "filler")
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 16, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    started.wait()
    filler.unlink()
    return resume(lab, started, disk / "job")


def shift_clock(lab: Laboratory) -> list[Count]:
    """Let the Python code of a worker find a time of day that is a day late; monotonic clocks stay."""
    folder = lab.new_job()
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        f"import time\nreal, real_ns = time.time, time.time_ns\ntime.time = lambda: real() + {DAY_S}\n"
        f"time.time_ns = lambda: real_ns() + {DAY_S} * 10**9\n"
    )
    lab.stop(SECOND)
    lab.start_worker(SECOND, PYTHONPATH=str(folder))
    return [begin(lab)]


def share_late(lab: Laboratory) -> list[Count]:
    """Let each worker have a view of the job directory, with what others write there some time later.

    Counts per vertex pass through files there, in both directions.
    """
    views = [lab.new_job() for _ in ("client", *WORKERS)]
    for view in views:
        view.mkdir()
    for name, view in zip(WORKERS, views[1:], strict=True):
        lab[name].cover(views[0], view)
    lab.enter(DelayedViews(views, LATE_S))
    return [lab.count(views[0] / "job", "client", "--workers", "2", "--per", "vertex")]


def share_slowly(lab: Laboratory) -> list[Count]:
    """Let every access to the directory of the job take long, for all processes."""
    folder = lab.new_job()
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(slow_down(folder, ACCESS_S))
    lab.environment["PYTHONPATH"] = str(folder)
    for name in WORKERS:
        lab.stop(name)
        lab.start_worker(name)
    return [lab.count(folder / "job", "client", "--workers", "2", "--per", "vertex")]


def change_version(lab: Laboratory) -> list[Count]:
    """Let a worker have another version of Papilio."""
    path = Path(papilio.__file__).parent / "version.py"
    other = lab.new_job()
    other.write_text(path.read_text().replace(papilio.__version__, "0.0.1"))
    lab.stop(SECOND)
    lab[SECOND].cover(path, other)
    lab.start_worker(SECOND)
    return [lab.count(None, "client", "--workers", "2")]


def change_store(lab: Laboratory) -> list[Count]:
    """Let a worker find another graph at the path of the store."""
    other = lab.new_job()
    write_dense(other, 4)
    lab[SECOND].cover(lab.graph, other)
    return [lab.count(None, "client", "--workers", "2")]


def limit_memory(lab: Laboratory) -> list[Count]:
    """Give a worker less memory than the count needs."""
    lab.stop(SECOND)
    lab.start_worker(SECOND, "--memory-limit", LITTLE_MEMORY)
    return [lab.count()]


SCENARIOS = {
    "undisturbed": Scenario("none", count_undisturbed),
    "cut-short": Scenario(f"link of a worker cut for {SHORT_S:.0f} s", cut_for(SHORT_S)),
    "cut-long": Scenario(f"link of a worker cut for {LONG_S:.0f} s", cut_for(LONG_S)),
    "cut": Scenario("link of a worker cut for ever", cut_for_ever),
    "cut-early": Scenario("link of a worker cut before its first report", cut_before_planning),
    "mute": Scenario("what a worker sends is lost", lose_what_it_sends),
    "deaf": Scenario("what is sent to a worker is lost", lose_what_it_receives),
    "bad-link": Scenario(f"{LOSS:.0%} of packets lost and {DELAY_S * 1e3:.0f} ms of delay, each way", degrade_link),
    "stop-short": Scenario(f"SIGSTOP of a worker and its nanny for {STOP_S:.0f} s", stop_for_some_time),
    "stop": Scenario("SIGSTOP of a worker and its nanny for ever", stop_for_ever),
    "stop-all": Scenario("SIGSTOP of both workers until the user is told", stop_all_for_some_time),
    "kill-workers": Scenario("kill -9 of the workers in turn, again and again", kill_again_and_again),
    "kill-bad-link": Scenario("kill -9 of a worker, the link of the other one bad", kill_on_a_bad_link),
    "kill-scheduler": Scenario("kill -9 of the scheduler, then resumed", kill_scheduler),
    "kill-client": Scenario("kill -9 of the client, then resumed", kill_client),
    "cut-client": Scenario("link of the client cut until it ends, then resumed", cut_client),
    "two-clients": Scenario("a second client on the same job directory", start_two_clients),
    "full-disk": Scenario("the disk of the job directory full, then resumed with room", fill_disk),
    "clock": Scenario("the clock of a worker a day late", shift_clock),
    "late-files": Scenario(f"files in the job directory are found {LATE_S:.0f} s late", share_late),
    "slow-files": Scenario(f"each access to the job directory takes {ACCESS_S * 1e3:.0f} ms", share_slowly),
    "version": Scenario("another version on a worker", change_version, is_rejected=True),
    "store": Scenario("another graph at the path of the store on a worker", change_store, is_rejected=True),
    "memory": Scenario(f"a worker limited to {LITTLE_MEMORY}", limit_memory, is_rejected=True),
}
