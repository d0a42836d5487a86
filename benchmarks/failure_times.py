"""The time of each failure test: what is made to fail, the test, its seconds, and what it asserts.

    python -m benchmarks.failure_times

Runs the tests named below and nothing else, one after the other. A test that is skipped here, for want of a GPU or
of Slurm, is listed as such; the exit status is 1 when one fails, or when a name below is no test any more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.harness import describe_machine

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class FailureTest:
    """One failure that is caused.

    Attributes
    ----------
    failure : str
        What goes wrong.
    file, test : str
        Where it is tested; all cases of a parametrised test together.
    asserts : str
        What must come of it.
    """

    failure: str
    file: str
    test: str
    asserts: str


FAILURES, BAD = "tests/cluster/test_failures.py", "tests/cluster/test_bad_leases.py"
JOBS, SUBMIT = "tests/cli/test_jobs.py", "tests/cluster/test_submit.py"
LEDGER, DEVICES = "tests/storage/test_ledger.py", "tests/cluster/test_devices.py"
SOAK, SLURM, REQUEUE = (
    "tests/cluster/test_soak.py",
    "tests/slurm/test_slurm.py",
    "tests/slurm/test_requeue.py",
)

TESTS = [
    FailureTest("kill -9 of a worker in mid-lease", FAILURES, "test_a_lost_worker_costs_time_only", "exact count"),
    FailureTest(
        "a link cut and mended, one cut for ever, kill -9 on a bad link", "tests/faults/test_faults.py",
        "test_a_fault_costs_time_only", "exact counts, jobs that verify accepts",
    ),
    FailureTest(
        "kill -9 of a worker with a finished answer", SOAK, "test_a_worker_lost_with_its_answer", "exact count"
    ),
    FailureTest("workers and clients killed at random, 6 jobs", SOAK, "test_a_short_soak", "exact counts"),
    FailureTest(
        "kill -9 of the client, then resume", JOBS, "test_a_killed_client_resumes_to_the_exact_count",
        "exact count, no finished lease counted again",
    ),
    FailureTest(
        "kill -9 of the writer of a ledger", LEDGER, "test_what_was_acknowledged_survives_a_kill", "nothing lost"
    ),
    FailureTest(
        "kill -9 of a coordinator inside the cluster", SUBMIT, "test_another_coordinator_goes_on_from_the_ledger",
        "exact count, from the ledger",
    ),
    FailureTest(
        "two coordinators of one job", SUBMIT, "test_two_coordinators_of_one_job_count_nothing_twice", "exact count"
    ),
    FailureTest("no worker left, none comes", FAILURES, "test_no_worker_left_ends_the_run", "clear error"),
    FailureTest("the scheduler stops", FAILURES, "test_a_lost_scheduler_ends_the_run", "clear error"),
    FailureTest(
        "the scheduler loses a submission", SUBMIT, "test_a_submission_that_the_scheduler_lost_can_be_repeated",
        "exact count",
    ),
    FailureTest("someone cancels the tasks", FAILURES, "test_tasks_that_someone_cancels_end_the_run", "clear error"),
    FailureTest("all workers paused for memory", FAILURES, "test_paused_workers_end_the_run", "clear error"),
    FailureTest(
        "a worker hangs when the run ends", "tests/cluster/test_executors.py",
        "test_a_stopped_worker_does_not_keep_the_client", "the client ends in seconds",
    ),
    FailureTest(
        "the disk of the ledger is full", JOBS, "test_a_full_disk_ends_the_run_and_loses_nothing",
        "clear error, nothing lost, exact count after resume",
    ),
    FailureTest(
        "the file system of the shards is full", JOBS, "test_shards_on_a_full_file_system_end_the_run_and_resume",
        "clear error, exact count after resume",
    ),
    FailureTest(
        "a kernel or task raises", FAILURES, "test_errors_inside_tasks_name_the_worker", "error with worker and items"
    ),
    FailureTest(
        "a lease that always fails", BAD, "test_the_item_that_always_fails_is_named_and_the_rest_is_finished",
        "bisected to the item, which is named; the rest finished; exit code",
    ),
    FailureTest(
        "a lease that kills every worker", BAD,
        "test_the_item_that_kills_every_worker_is_named_and_the_rest_is_finished",
        "bisected to the item, which is named; the rest finished",
    ),
    FailureTest(
        "device out of memory in a lease", BAD, "test_a_lease_that_does_not_fit_is_split", "split, exact count"
    ),
    FailureTest(
        "device out of memory in one item", BAD, "test_an_item_that_does_not_fit_is_an_error_that_names_it",
        "error that names the item",
    ),
    FailureTest("a worker loses its GPU", BAD, "test_a_worker_that_loses_its_device_is_replaced", "exact count"),
    FailureTest(
        "another version of Papilio on a worker", FAILURES, "test_a_worker_of_another_version_is_refused", "refused"
    ),
    FailureTest(
        "two workers on one GPU", DEVICES, "test_workers_that_share_a_gpu_do_no_gpu_work", "refused before any work"
    ),
    FailureTest(
        "two workers on a real GPU", DEVICES, "test_two_processes_on_a_real_gpu_are_refused",
        "refused before any work",
    ),
    FailureTest(
        "the store is missing on a worker", FAILURES, "test_a_store_that_workers_do_not_find_is_refused", "refused"
    ),
    FailureTest("a worker answers for other items", FAILURES, "test_tampered_intervals_are_refused", "refused"),
    FailureTest(
        "a shard is changed or missing", JOBS, "test_a_tampered_or_missing_shard_is_found", "found by verify"
    ),
    FailureTest("scontrol requeue in mid-run", SLURM, "test_a_requeued_job_resumes_what_was_finished", "exact count"),
    FailureTest(
        "Slurm's time limit, with workers that hang", REQUEUE,
        "test_a_job_that_reaches_its_time_limit_resumes_by_itself",
        "signal, requeue, resume by themselves; exact count, no finished lease counted again",
    ),
    FailureTest("a Slurm node is lost", REQUEUE, "test_the_loss_of_a_node_costs_time_only", "exact count"),
    FailureTest(
        "a Slurm node goes down", REQUEUE, "test_a_node_that_goes_down_costs_time_only",
        "exact count; requeued if it had the scheduler",
    ),
    FailureTest(
        "scancel, scontrol requeue, preemption", REQUEUE, "test_a_job_that_slurm_ends_keeps_its_running_leases",
        "no running lease lost, exact count",
    ),
    FailureTest(
        "TERM to all processes of a batch script", "tests/cluster/test_slurm_script.py",
        "test_a_signal_to_all_processes_loses_no_running_lease", "no running lease lost, exact count after resume",
    ),
]  # fmt: skip


def main() -> int:
    """Run the tests and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        names = [f"{test.file}::{test.test}" for test in TESTS]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *names,
        ]
        code = subprocess.run(command, cwd=ROOT, check=False, stdout=sys.stderr).returncode
        if not report.exists():
            return 1
        text = write_table(TESTS, read_outcomes(report))
    print(text, end="")
    return int(code != 0)


def read_outcomes(report: Path) -> dict[str, list[tuple[str, float]]]:
    """Return outcome and seconds (setup, call and teardown) of every case, by file and test."""
    outcomes: dict[str, list[tuple[str, float]]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        name = case.attrib["name"].partition("[")[0]
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes.setdefault(f"{file}::{name}", []).append((outcome, float(case.attrib["time"])))
    return outcomes


def write_table(tests: Sequence[FailureTest], outcomes: dict[str, list[tuple[str, float]]]) -> str:
    """Return the page: where it was measured, and a row for each failure."""
    lines = [
        "# Failure tests",
        "",
        "`python -m benchmarks.failure_times`: seconds of each test with its setup (a cluster, a graph) and its end,",
        "all cases of a test together.",
        "",
        *(f"- {name}: {value}" for name, value in describe_machine("cpu").items()),
        "",
        "| failure | test | cases | seconds | asserted |",
        "| --- | --- | --- | --- | --- |",
    ]
    for test in tests:
        cases = outcomes.get(f"{test.file}::{test.test}", [])
        kinds = {outcome for outcome, _ in cases}
        seconds = f"{sum(seconds for _, seconds in cases):.1f}" if kinds == {"passed"} else ", ".join(sorted(kinds))
        lines.append(
            f"| {test.failure} | `{test.file}::{test.test}` | {len(cases)} | {seconds or 'not run'} | {test.asserts} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
