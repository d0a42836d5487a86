"""Preloaded by the workers of a test cluster: a slow engine, leases of 0.1 s, and two seconds of lag for low.

While the directory that ``PAPILIO_TEST_GATE`` names exists, every call of the engine takes one file out of it first,
and waits where there is none.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import papilio.cluster.existing as existing
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.tasks import leases as lease_policy

SLOWER = float(os.environ.get("PAPILIO_TEST_SLOWER", "3"))
"""How often the time of a kernel is slept after it: a job is long enough to be disturbed, its graph small."""

LAG_S = 2.0
"""How long low leases let those of others pass: many times what leases wait in their queue on a busy machine, as the
share of low leases is about wait / (wait + lag), and a fraction of what the job takes that passes them."""

lease_policy.SHORTEST_LEASE_S = lease_policy.MAX_LEASE_S = 0.1
existing.LAG_S["low"] = existing.LAG_S["high"] + LAG_S

_run = ButterflyCpu.run


def _pass_gate() -> None:
    gate = Path(os.environ.get("PAPILIO_TEST_GATE", "/nowhere"))
    while gate.exists():
        for token in gate.iterdir():
            try:
                token.unlink()
            except FileNotFoundError:  # another worker was faster
                continue
            return
        time.sleep(0.01)


def _run_slowly(*args: Any, **options: Any) -> Any:
    _pass_gate()
    began = time.perf_counter()
    partial = _run(*args, **options)
    time.sleep(SLOWER * (time.perf_counter() - began))
    return partial


ButterflyCpu.run = _run_slowly  # type: ignore[method-assign]


def dask_setup(worker: object) -> None:
    """Do nothing more: the module is imported before the worker begins."""
