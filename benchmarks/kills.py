"""Kill a count with a job directory again and again, and show what each kill lost and what the directory costs.

    papilio generate planted dense/ --n-u 400 --n-v 800 --count 0 --size-u 1 --size-v 1 --noise 221807
    python -m benchmarks.kills dense/ biclique -p 6 -q 6 --engine gpu --kills 50 --longest 4 --seconds 500

The graph of the example has 400 and 800 vertices and half of all edges; one H200 counts some 20 s in it.

The command counts without a job directory for the right answer, unless ``--count`` gives it, and with one: ``cost`` is
how much longer the second run took, and ``at any moment`` the most that a kill could have lost in it. Then it counts in
a process that ends by SIGKILL a random time after it has begun to count, with all processes that it started, and counts
on in the next. ``lost`` is how long before the kill the worker whose last lease in the ledger is the oldest ended that,
or began: what is older is kept. A count that ends is checked, and another one begins. The command fails where more than
``--most`` seconds are lost, or an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from papilio.storage.ledger import read_ledger

_POLL_S = 0.01


def _start(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "papilio", *arguments]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    return subprocess.Popen(command, start_new_session=True, text=True, **quiet)


def _require_success(process: subprocess.Popen[str]) -> None:
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, process.args))} ended with exit code {process.returncode}")


def _finish(arguments: list[str]) -> tuple[int, float]:
    """Run a count to its end; return the count, and the seconds that the workers took after preparing."""
    process = _start([*arguments, "--json"], stdout=subprocess.PIPE)
    printed, _ = process.communicate()
    _require_success(process)
    answer = json.loads(printed)
    return int(answer["count"]), float(answer["seconds"]["run"])


def _records(job: Path, kind: str) -> list[dict[str, Any]]:
    ledger = job / "ledger.jsonl"
    return [each for each in read_ledger(ledger).records if each["type"] == kind] if ledger.exists() else []


def _lease_ends(job: Path, session: dict[str, Any]) -> dict[str, list[float]]:
    """Return when the leases of each worker of a session ended, rising."""
    ends: dict[str, list[float]] = {}
    for lease in _records(job, "lease"):
        if lease["session"] == session["session"]:
            ends.setdefault(lease["worker"], []).append(lease["ended_at"])
    return {worker: sorted(each) for worker, each in ends.items()}


def _oldest_work(job: Path) -> float:
    """Return since when a worker of the last session has counted what the ledger does not hold."""
    session = _records(job, "session")[-1]
    ends = _lease_ends(job, session)
    began_at = float(session["began_at"])
    return min(each[-1] for each in ends.values()) if len(ends) == session["workers"] else began_at


def _longest_unkept(job: Path) -> float:
    """Return the longest time that a worker of the last session counted before it ended a lease."""
    session = _records(job, "session")[-1]
    return max(
        after - before
        for ends in _lease_ends(job, session).values()
        for before, after in pairwise([float(session["began_at"]), *ends])
    )


def _kill(job: Path, command: list[str], after_s: float) -> float | None:
    """Count until so long after the first lease can begin; return the seconds lost, None where the count has ended."""
    n_sessions = len(_records(job, "session"))
    process = _start(command)
    while process.poll() is None and len(_records(job, "session")) == n_sessions:
        time.sleep(_POLL_S)
    try:
        process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        killed_at = time.time()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return killed_at - _oldest_work(job)
    _require_success(process)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="store or file")
    parser.add_argument("motif", help="as of papilio count; its own flags may follow")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=8.0, help="most seconds of counting before a kill")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no kill after this time")
    parser.add_argument("--most", type=float, default=5.0, help="most seconds that a kill may lose")
    parser.add_argument("--count", type=int, help="the right answer")
    parser.add_argument("--seed", type=int, default=1)
    options, flags = parser.parse_known_args()
    question = ["count", options.motif, options.graph, *flags]
    chance, lost, found = random.Random(options.seed), list[float](), list[int]()
    ends_at = time.monotonic() + options.seconds
    wanted = options.count
    with tempfile.TemporaryDirectory() as directory:
        if wanted is None:
            job = Path(directory) / "whole"
            wanted, alone_s = _finish(question)
            count, kept_s = _finish([*question, "--job", str(job)])
            found.append(count)
            print(
                f"{alone_s:.3f} s alone, {kept_s:.3f} s with a job directory: cost {kept_s / alone_s - 1:.2%}; "
                f"{len(_records(job, 'lease'))} leases, at any moment {_longest_unkept(job):.2f} s lost at most",
                flush=True,
            )
        job, command = Path(), list[str]()
        while len(lost) < options.kills and time.monotonic() < ends_at:
            if not command:
                job = Path(directory) / f"job-{len(found)}"
                command = [*question, "--job", str(job)]
            after_s = chance.uniform(0.0, options.longest)
            seconds = _kill(job, command, after_s)
            if seconds is None:
                found.append(_finish(command)[0])
                print(f"the count ended: {found[-1]:,}; another one begins", flush=True)
                command = []
                continue
            lost.append(seconds)
            leases = _records(job, "lease")
            items = sum(each["stop"] - each["start"] for each in leases)
            print(
                f"kill {len(lost)}: after {after_s:.2f} s of counting, {seconds:.2f} s lost; {len(leases)} leases and "
                f"{items:,} items kept",
                flush=True,
            )
        if command:
            found.append(_finish(command)[0])
    most = max(lost, default=0.0)
    print(f"{len(lost)} kills, lost: median {median(lost or [0.0]):.2f} s, most {most:.2f} s")
    n_wrong = sum(count != wanted for count in found)
    print(f"count: {wanted:,}; {n_wrong} of {len(found)} counts with a job directory differ")
    if n_wrong or most > options.most:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
