"""Plans of counts, and of comparisons with random graphs; nothing runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

from papilio.api.call import Call
from papilio.api.count import CountCall
from papilio.api.read import AskedOptions
from papilio.api.significance import SignificanceCall
from papilio.arguments import Bytes, Count, Samples, Seed, Workers, checked
from papilio.errors import InputError
from papilio.kernels.engine import EngineChoice
from papilio.kernels.null.models import NullName
from papilio.motifs import Granularity, Motif
from papilio.tasks.plan import CountPlan


@checked
def plan(
    graph: Any,
    motif: Motif | str,
    *,
    per: Granularity = "total",
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    options: Mapping[str, str] | None = None,
    device_memory: Bytes | None = None,
    host_memory: Bytes | None = None,
    parts: str | os.PathLike[str] | None = None,
    samples: Samples | None = None,
    null: NullName | None = None,
    seed: Seed | None = None,
    steps: Count | None = None,
    **asked: Unpack[AskedOptions],
) -> CountPlan:
    """Prepare a graph on one worker and plan the count of ``motif``, without running it.

    Parameters and errors are the same as for :func:`count`. Parts are cut if the plan needs them. With
    ``samples`` it is the plan of :func:`papilio.significance`, with its ``null``, ``seed`` and ``steps``.
    """
    return call_of(
        graph, motif, {"device_memory": device_memory, "host_memory": host_memory, "parts": parts}, samples=samples,
        null=null, seed=seed, steps=steps, per=per, options=options, cluster=cluster, engine=engine, workers=workers,
        asked=asked,
    ).plan()  # fmt: skip


def call_of(
    graph: Any,
    motif: Motif | str,
    memory: Mapping[str, Any],
    *,
    samples: int | None,
    null: NullName | None,
    seed: int | None,
    steps: int | None,
    **common: Any,
) -> Call[Any]:
    """Return the call of a count within ``memory`` or, with ``samples``, of a comparison with random graphs."""
    if samples is None:
        require_none({"null": null, "seed": seed, "steps": steps}, "which is for random graphs: set samples, too")
        return CountCall(graph, motif, **memory, **common)
    require_none(memory, "but random graphs are drawn from the whole graph: leave it out")
    ensemble: dict[str, Any] = {"samples": samples, "null": null, "seed": seed or 0, "steps": steps}
    return SignificanceCall(graph, motif, **ensemble, **{"output": None, "overwrite": False, **common})


def require_none(given: Mapping[str, Any], why: str) -> None:
    """Raise InputError for parameters that are given."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is {value!r}, {why}")
