"""How counts scale over the GPUs of one host: ``papilio scale`` of several cases on one cluster, with clocks.

python -m benchmarks.scaling_gpu --stores DIR --output OUT --workers 1,2,4 --repeat 3 CASE ...

A case is ``NAME=STORE MOTIF FLAGS``, such as ``"wide=graph butterfly --per vertex"``; STORE is a path, or a name in
DIR. The workers start once and keep their compiled kernels; every run reads the graph anew. OUT/NAME is the experiment,
whose page is OUT/NAME/report/report.html; OUT/clocks.csv has a row for each GPU twice a second. Tables are printed as
cases end.
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
from pathlib import Path
from statistics import mean, median
from typing import Any

import pyarrow.parquet as pq

from benchmarks.harness import describe_machine

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
    """Write clock, temperature, power and reasons of throttling of every GPU to ``path``, every half second."""
    import pynvml

    pynvml.nvmlInit()
    devices = [pynvml.nvmlDeviceGetHandleByIndex(each) for each in range(pynvml.nvmlDeviceGetCount())]
    ended = threading.Event()

    def record() -> None:
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(
                ["time_s", "device", "sm_mhz", "celsius", "watts", "utilization", "throttle_reasons"]
            )
            while not ended.wait(0.5):
                for number, device in enumerate(devices):
                    rows.writerow(
                        [
                            f"{time.time():.2f}",
                            number,
                            pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
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


def print_table(name: str, experiment: Path) -> None:
    """Print a row for each run and, for each number of workers, the speed-up of its median."""
    rows = pq.read_table(experiment / "report" / "runs.parquet").to_pylist()
    times: dict[int, list[float]] = {}
    for row in rows:
        times.setdefault(row["workers"], []).append(row["seconds_counting"])
        read_s = row.get("seconds_read") or 0.0
        phases = "  ".join(
            f"{each} {row[f'seconds_{each}']:.3f}" for each in _PHASES if row.get(f"seconds_{each}")
        )
        print(
            f"{name} workers {row['workers']} repeat {row['repeat']}: {row['count']}  counting"
            f" {row['seconds_counting']:.3f} s  read {read_s:.2f}  {phases}"
            f"  leases {row['leases']}  overhead {row['lease_overhead']:.3f}  tail {row['tail_s']:.3f}"
            f"  balance {_balance(experiment, row):.3f}",
            flush=True,
        )
    least = min(times)
    for workers, seconds in sorted(times.items()):
        print(
            f"{name} workers {workers}: median {median(seconds):.3f} s, {min(seconds):.3f} to {max(seconds):.3f},"
            f" {median(times[least]) / median(seconds):.2f} times",
            flush=True,
        )


def _balance(experiment: Path, row: dict[str, Any]) -> float:
    """Return the busy seconds of the busiest worker of a run over the mean."""
    busy: dict[str, float] = {}
    for lease in pq.read_table(experiment / "report" / "leases.parquet").to_pylist():
        if (lease["workers"], lease["repeat"]) == (row["workers"], row["repeat"]):
            busy[lease["worker"]] = busy.get(lease["worker"], 0.0) + lease["run_s"]
    return max(busy.values()) / max(mean([*busy.values(), *[0.0] * (row["workers"] - len(busy))]), 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
                print_table(name, chosen.output / name)


if __name__ == "__main__":
    main()
