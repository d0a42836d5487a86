"""Kill a count with a job directory again and again, and show what each kill lost.

    python -m benchmarks.kills graph/ biclique -p 6 -q 6 --kills 50
    python -m benchmarks.kills graph/ biclique -p 6 -q 6 --kills 50 --cluster cuda --engine gpu

The command counts once without a job directory for the right answer, unless ``--count`` gives it. Then it counts
with one, in a process that ends by SIGKILL a random time after it has begun to count, with all processes that it
started, and counts on in the next. ``lost`` is how long before the kill the worker whose last lease in the ledger is
the oldest ended that, or began: what is older is kept. The command fails where more than ``--most`` seconds are lost,
or the answer of the last session is wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from papilio.storage.ledger import read_ledger
from papilio.tasks.directory import JobDirectory

_POLL_S = 0.01


def _start(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "papilio", *arguments]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    return subprocess.Popen(command, start_new_session=True, text=True, **quiet)


def _finish(arguments: list[str]) -> str:
    """Run a command to its end; return what it printed."""
    process = _start(arguments, stdout=subprocess.PIPE)
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"papilio {' '.join(arguments)} ended with exit code {process.returncode}")
    return printed.strip()


def _records(job: Path, kind: str) -> list[dict[str, Any]]:
    ledger = job / "ledger.jsonl"
    return [each for each in read_ledger(ledger).records if each["type"] == kind] if ledger.exists() else []


def _oldest_work(job: Path) -> float:
    """Return since when a worker of the last session has counted what the ledger does not hold."""
    session = _records(job, "session")[-1]
    ends: dict[str, float] = {}
    for lease in _records(job, "lease"):
        if lease["session"] == session["session"]:
            ends[lease["worker"]] = max(ends.get(lease["worker"], 0.0), lease["ended_at"])
    return min(ends.values()) if len(ends) == session["workers"] else float(session["began_at"])


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
    if process.returncode:
        raise SystemExit(f"papilio {' '.join(command)} ended with exit code {process.returncode}")
    return None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", help="store or file")
    parser.add_argument("motif", help="as of papilio count; its own flags may follow")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=8.0, help="most seconds of counting before a kill")
    parser.add_argument("--most", type=float, default=5.0, help="most seconds that a kill may lose")
    parser.add_argument("--count", type=int, help="the right answer")
    parser.add_argument("--seed", type=int, default=1)
    options, flags = parser.parse_known_args()
    question = ["count", options.motif, options.graph, *flags]
    chance, lost = random.Random(options.seed), list[float]()
    wanted = int(_finish(question).splitlines()[0]) if options.count is None else options.count
    with tempfile.TemporaryDirectory() as directory:
        job = Path(directory) / "job"
        command = [*question, "--job", str(job)]
        for number in range(1, options.kills + 1):
            after_s = chance.uniform(0.0, options.longest)
            seconds = _kill(job, command, after_s)
            if seconds is None:
                print(f"kill {number}: the count had ended before", flush=True)
                break
            lost.append(seconds)
            leases = _records(job, "lease")
            items = sum(each["stop"] - each["start"] for each in leases)
            print(
                f"kill {number}: after {after_s:.2f} s of counting, {seconds:.2f} s lost; {len(leases)} leases and "
                f"{items:,} items kept",
                flush=True,
            )
        _finish(command)
        found = JobDirectory(job).result(with_vectors=False).count
    most = max(lost, default=0.0)
    print(f"{len(lost)} kills, lost: median {median(lost or [0.0]):.2f} s, most {most:.2f} s")
    print(f"count: {found:,}; {'right' if found == wanted else f'WRONG, {wanted:,} is right'}")
    if found != wanted or most > options.most:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
