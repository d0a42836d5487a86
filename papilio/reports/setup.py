"""Begin a scaling experiment: check what is asked, open or generate its graphs, write it down."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from papilio.cluster.selection import resolve_workers
from papilio.errors import InputError, StoreError
from papilio.families import EngineChoice
from papilio.kernels.threads import available_threads
from papilio.motifs import Granularity, Motif
from papilio.questions import choose_options
from papilio.reports.experiment import (
    Experiment,
    ExperimentDirectory,
    PointGraph,
    begin_experiment,
    check_root,
)
from papilio.reports.models import grow_model, open_or_generate, parse_model
from papilio.storage.generators.models import Model
from papilio.storage.location import is_url
from papilio.storage.store import GraphStore, open_store
from papilio.tasks.graphs import require_kind


def begin_scaling(
    output: str | os.PathLike[str],
    motif: Motif,
    stores: Sequence[str | os.PathLike[str]],
    workers: Sequence[int],
    *,
    repeat: int = 3,
    per: Granularity = "total",
    weak: bool = False,
    model: str | None = None,
    seed: int = 0,
    cluster: str = "auto",
    engine: EngineChoice = "auto",
    threads: int | None = None,
    command: str = "",
    options: Mapping[str, str] | None = None,
) -> ExperimentDirectory:
    """Create the directory of an experiment, or open it when it holds the same one; run nothing.

    Parameters
    ----------
    stores : sequence of path-like
        The store of strong scaling, or one for each number of workers in their order; none with ``model``.
    workers : sequence of int
        Numbers of workers, each once.
    repeat : int
        Repetitions of each point.
    weak : bool
        Whether the graph grows with the workers.
    model, seed : str, int, optional
        Model of the graph for the smallest number of workers, as ``power-law:n_u=100000,n_v=20000``; the others are
        that many times as large, which needs multiples of the smallest number.
    cluster : str
        As for :func:`papilio.count`; ``auto`` is resolved here. ``sbatch`` for Slurm jobs of their own.
    threads : int, optional
        Threads of each ``local`` worker; by default the processors over the largest number of workers, at least 1, so
        that all points have the same.
    command : str
        The command line, for the report.

    Raises
    ------
    InputError
        When arguments do not go together, or the directory holds another experiment.
    StoreError
        When a store cannot be read or a graph not be written.
    UnsupportedError
        When the motif cannot be counted in one of the graphs.
    """
    numbers = _check_numbers(workers, repeat)
    _check_graphs(weak, model, stores, numbers)
    resolved = resolve_workers(cluster, engine)
    threads = _settle_threads(resolved, threads, numbers)
    root = check_root(output)
    if model is None:
        given = [open_store(store) for store in stores]
        found = dict(zip(workers, given if weak else given * len(numbers), strict=True))
    else:
        parsed = parse_model(model)
        require_kind(motif, parsed.kind, f"a graph of the model {parsed.name}")
        found = _generate(root, parsed, seed, numbers)
    for store in found.values():
        require_kind(motif, store.kind, store.path)
    experiment = Experiment(
        motif=motif,
        per=per,
        mode="weak" if weak else "strong",
        graphs=tuple(_point_graph(number, found[number]) for number in numbers),
        repeat=repeat,
        cluster=_absolute(resolved) if os.path.isfile(resolved) else resolved,
        engine=engine,
        threads=threads,
        model=None if model is None else f"{model}, seed {seed}",
        command=command,
        options=choose_options(motif, options or {}),
    )
    return begin_experiment(root, experiment)


def _check_numbers(workers: Sequence[int], repeat: int) -> tuple[int, ...]:
    if not workers or min(workers) < 1 or len(set(workers)) < len(workers):
        raise InputError(
            f"workers is {','.join(map(str, workers)) or 'empty'}; numbers from 1 on, each once, such as 1,2,4"
        )
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; at least 1")
    return tuple(sorted(workers))


def _check_graphs(
    weak: bool, model: str | None, stores: Sequence[str | os.PathLike[str]], numbers: Sequence[int]
) -> None:
    if weak and model is None and len(stores) != len(numbers):
        raise InputError(
            f"weak scaling over {len(numbers)} numbers of workers was given {len(stores)} stores; give one store "
            "for each, in the same order, or a model to generate them from"
        )
    if not weak and (model is not None or len(stores) != 1):
        raise InputError(
            f"strong scaling takes one store and no model, and was given {len(stores)} stores"
            f"{'' if model is None else ' and a model'}; for graphs that grow with the workers ask for weak scaling"
        )
    if weak and model is not None and stores:
        raise InputError("weak scaling takes stores or a model, not both")


def _settle_threads(cluster: str, threads: int | None, numbers: Sequence[int]) -> int | None:
    """Return the threads of each ``local`` worker, the same for all points; None for workers of other clusters."""
    local = cluster.partition(":")[0] == "local"
    if not local and threads is not None:
        raise InputError(f"threads is {threads}; only workers of the local cluster can be given threads")
    return max(1, available_threads() // max(numbers)) if local and threads is None else threads


def _generate(root: Path, model: Model, seed: int, numbers: Sequence[int]) -> dict[int, GraphStore]:
    """Return a store for each number of workers, generated where it is not there yet."""
    smallest = numbers[0]
    for number in numbers:
        if number % smallest:
            raise InputError(
                f"workers is {number}, no multiple of the smallest number, {smallest}; "
                "generated graphs grow by whole factors"
            )
    grown = {number: grow_model(model, number // smallest) for number in numbers}
    try:
        (root / "graphs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{root}: cannot be written ({error.strerror}); give another directory") from error
    return {
        number: open_or_generate(root / "graphs" / f"w{number}", each, seed) for number, each in grown.items()
    }


def _point_graph(workers: int, store: GraphStore) -> PointGraph:
    return PointGraph(workers, _absolute(store.path), store.hash, store.n_u, store.n_v, store.n_edges)


def _absolute(path: str) -> str:
    return path if is_url(path) else os.path.abspath(path)
