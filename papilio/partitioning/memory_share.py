"""Jobs in threads that share a memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Result = TypeVar("Result")


def run_within(
    jobs: Iterable[tuple[int, Callable[[], Result]]],
    limit_bytes: int,
    threads: int,
    done: Callable[[int], None] | None = None,
) -> list[Result]:
    """Run jobs in threads, begun in order, as many at a time as the memory holds; one always runs.

    ``jobs`` are pairs: the bytes that a job needs while it runs, and the job. ``done`` is called by the caller's
    thread with the bytes of every job that has ended. Returns the results in the order of the jobs. When a job raises,
    no other is begun, and its exception passes on as soon as those that run have ended.
    """
    running: dict[Future[Result], int] = {}
    futures: list[Future[Result]] = []

    def wait_for_one() -> None:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            needed = running.pop(future)
            future.result()
            if done is not None:
                done(needed)

    with ThreadPoolExecutor(threads) as pool:
        for needed, job in jobs:
            while running and (len(running) >= threads or sum(running.values()) + needed > limit_bytes):
                wait_for_one()
            future = pool.submit(job)
            running[future] = needed
            futures.append(future)
        while running:
            wait_for_one()
    return [future.result() for future in futures]
