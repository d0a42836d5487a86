"""How counts scale over the GPUs of one host: ``papilio scale`` of several cases on one cluster, with clocks.

python -m benchmarks.scaling_gpu --stores DIR --output OUT --workers 1,2,4 --repeat 3 CASE ...

A case is ``NAME=STORE MOTIF FLAGS``, such as ``"wide=graph butterfly --per vertex"``; STORE is a path, or a name in
DIR. The workers start once and keep their compiled kernels; every run reads the graph anew. OUT/NAME is the experiment,
whose page is OUT/NAME/report/report.html; OUT/clocks.csv has a row for each GPU every tenth of a second. Tables are
printed as cases end: below each run, for every worker, the speeds of its leases in their order and what its GPU did.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from operator import or_
from pathlib import Path
from statistics import mean, median
from typing import Any

import pyarrow.parquet as pq

from benchmarks.harness import describe_machine
from papilio.tasks.directory import JobDirectory

_PHASES = ("plan", "prepare", "compile", "run", "fold")


@contextmanager
def start_workers(number: int, engine: str) -> Iterator[str]:
    """Run a cluster of Dask on this machine; yield its address."""
    if engine == "gpu":
        from dask_cuda import LocalCUDACluster

        cluster: Any = LocalCUDACluster(
            n_workers=number, threads_per_worker=1, memory_limit=None, dashboard_address=None
        )
    else:
        from distributed import LocalCluster

        cluster = LocalCluster(
            n_workers=number, threads_per_worker=1, processes=True, memory_limit=None, dashboard_address=None
        )
    with cluster:
        yield cluster.scheduler_address


@contextmanager
def recorded_clocks(path: Path) -> Iterator[None]:
    """Write clock, temperature, power and reasons of throttling of every GPU to ``path``, every tenth of a second."""
    import pynvml

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(each) for each in range(pynvml.nvmlDeviceGetCount())]
    devices = {pynvml.nvmlDeviceGetUUID(each): each for each in handles}
    ended = threading.Event()

    def record() -> None:
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(
                [
                    "time_s",
                    "uuid",
                    "sm_mhz",
                    "memory_mhz",
                    "celsius",
                    "watts",
                    "utilization",
                    "throttle_reasons",
                ]
            )
            while not ended.wait(0.1):
                for uuid, device in devices.items():
                    rows.writerow(
                        [
                            f"{time.time():.2f}",
                            uuid,
                            pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
                            pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_MEM),
                            pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU),
                            round(pynvml.nvmlDeviceGetPowerUsage(device) / 1000),
                            pynvml.nvmlDeviceGetUtilizationRates(device).gpu,
                            hex(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)),
                        ]
                    )
                file.flush()

    thread = threading.Thread(target=record)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def print_table(name: str, experiment: Path, clocks: Path) -> None:
    """Print each run, with the speeds of its leases and the clocks of its GPUs, and the speed-ups of the medians."""
    rows = pq.read_table(experiment / "report" / "runs.parquet").to_pylist()
    times: dict[int, list[float]] = {}
    for row in rows:
        times.setdefault(row["workers"], []).append(row["seconds_counting"])
        read_s = row.get("seconds_read") or 0.0
        phases = "  ".join(f"{each} {row[f'seconds_{each}']:.3f}" for each in _PHASES if row.get(f"seconds_{each}"))
        print(
            f"{name} workers {row['workers']} repeat {row['repeat']}: {row['count']}  counting"
            f" {row['seconds_counting']:.3f} s  read {read_s:.2f}  {phases}"
            f"  leases {row['leases']}  overhead {row['lease_overhead']:.3f}  tail {row['tail_s']:.3f}"
            f"  balance {_balance(experiment, row):.3f}",
            flush=True,
        )
        _print_workers(experiment, row, clocks)
    least = min(times)
    for workers, seconds in sorted(times.items()):
        print(
            f"{name} workers {workers}: median {median(seconds):.3f} s, {min(seconds):.3f} to {max(seconds):.3f},"
            f" {median(times[least]) / median(seconds):.2f} times",
            flush=True,
        )


def _leases_of(experiment: Path, row: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the leases of a run by worker, in the order in which they began."""
    found: dict[str, list[dict[str, Any]]] = {}
    rows = pq.read_table(experiment / "report" / "leases.parquet").to_pylist()
    for lease in sorted(rows, key=lambda lease: lease["began_at"]):
        if (lease["workers"], lease["repeat"]) == (row["workers"], row["repeat"]):
            found.setdefault(lease["worker"], []).append(lease)
    return found


def _print_workers(experiment: Path, row: dict[str, Any], clocks: Path) -> None:
    """Print a line for each worker: 10^9 work units per second of each lease, and its GPU while it was busy."""
    job = JobDirectory(experiment / "jobs" / f"w{row['workers']}-r{row['repeat']}")
    uuids = {worker.name: worker.gpu_uuid for worker in job.result(with_vectors=False).workers}
    for worker, leases in sorted(_leases_of(experiment, row).items()):
        busy_s = sum(lease["run_s"] for lease in leases)
        speeds = " ".join(f"{lease['work'] / max(lease['run_s'], 1e-9) / 1e9:.4g}" for lease in leases)
        span = leases[0]["began_at"], leases[-1]["ended_at"]
        print(
            f"  {worker}: {len(leases)} leases, {busy_s:.3f} s; {_describe_clocks(clocks, uuids[worker], *span)}; "
            f"speeds {speeds}",
            flush=True,
        )


def _describe_clocks(clocks: Path, uuid: str, first_at: float, last_at: float) -> str:
    """Return what a GPU did between two times: least and most of each measure, and all reasons of throttling."""
    if not clocks.exists():
        return "no clocks"
    with clocks.open(newline="") as file:
        rows = [
            each
            for each in csv.DictReader(file)
            if each["uuid"] == uuid and first_at <= float(each["time_s"]) <= last_at
        ]
    if not rows:
        return "no clocks in that time"
    ranges = {
        name: f"{min(values):.0f} to {max(values):.0f}"
        for name in ("sm_mhz", "memory_mhz", "celsius", "watts")
        if (values := [float(each[name]) for each in rows])
    }
    reasons = reduce(or_, (int(each["throttle_reasons"], 16) for each in rows))
    said = ", ".join(f"{name} {values}" for name, values in ranges.items())
    return f"GPU {uuid[:12]} {said}, throttle {reasons:#x}"


def _balance(experiment: Path, row: dict[str, Any]) -> float:
    """Return the busy seconds of the busiest worker of a run over the mean."""
    busy: dict[str, float] = {
        worker: sum(lease["run_s"] for lease in leases) for worker, leases in _leases_of(experiment, row).items()
    }
    return max(busy.values()) / max(mean([*busy.values(), *[0.0] * (row["workers"] - len(busy))]), 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--stores", type=Path, default=Path())
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--engine", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that a case may take")
    parser.add_argument("--no-warm-up", action="store_true")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    print(describe_machine(chosen.engine), flush=True)
    with ExitStack() as stack:
        if chosen.engine == "gpu":
            stack.enter_context(recorded_clocks(chosen.output / "clocks.csv"))
        address = stack.enter_context(start_workers(max(map(int, chosen.workers.split(","))), chosen.engine))
        for case in chosen.cases:
            name, _, rest = case.partition("=")
            store, motif, *flags = shlex.split(rest)
            command = [
                sys.executable, "-m", "papilio", "scale", "count", motif, str(chosen.stores / store), *flags,
                "--workers", chosen.workers, "--repeat", str(chosen.repeat), "--cluster", address,
                "--engine", chosen.engine, "--output", str(chosen.output / name),
                *(["--no-warm-up"] if chosen.no_warm_up else []),
            ]  # fmt: skip
            began = time.perf_counter()
            try:
                ended = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=chosen.timeout)
                print(
                    f"== {name}: exit {ended.returncode} after {time.perf_counter() - began:.0f} s",
                    flush=True,
                )
            except subprocess.TimeoutExpired:
                print(f"== {name}: ended after {chosen.timeout:.0f} s", flush=True)
            if (chosen.output / name / "report" / "runs.parquet").exists():
                print_table(name, chosen.output / name, chosen.output / "clocks.csv")


if __name__ == "__main__":
    main()
