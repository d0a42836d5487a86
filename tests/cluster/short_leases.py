"""Preloaded by the workers of a test cluster: a slow engine, leases of 0.1 s, and two seconds of lag for low."""

from __future__ import annotations

import time
from typing import Any

import papilio.cluster.existing as existing
from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.tasks.leases import lengths as lease_policy

SLOWER = 3
"""How often the time of a kernel is slept after it: a job is long enough to be disturbed, its graph small."""

LAG_S = 2.0
"""How long low leases let those of others pass: many times what leases wait in their queue on a busy machine, as the
share of low leases is about wait / (wait + lag), and a fraction of what the job takes that passes them."""

lease_policy.MIN_LEASE_S = lease_policy.MAX_LEASE_S = 0.1
existing.LAG_S["low"] = existing.LAG_S["high"] + LAG_S

_run = ButterflyCpu.run


def _run_slowly(*args: Any, **options: Any) -> Any:
    began = time.perf_counter()
    partial = _run(*args, **options)
    time.sleep(SLOWER * (time.perf_counter() - began))
    return partial


ButterflyCpu.run = _run_slowly  # type: ignore[method-assign]


def dask_setup(worker: object) -> None:
    """Do nothing more: the module is imported before the worker begins."""
