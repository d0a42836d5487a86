"""The directory of a scaling experiment: what is measured, and which runs are done.

    scale.json         the experiment: motif, graphs, numbers of workers, repetitions, cluster
    graphs/wN/         a generated store for N workers (weak scaling with a model)
    points/wN.jsonl    the runs of one point, begun and ended, as a ledger with one writer at a time
    jobs/wN-rK/        the job directory of repetition K with N workers
    report/            what ``papilio report`` makes of it

A repetition counts when its end is in the ledger of its point. One that was killed is measured again from the
beginning: the time of a resumed job would say nothing.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from papilio.cluster.trust import require_trusted
from papilio.errors import InputError, StoreError
from papilio.families import EngineChoice
from papilio.motifs import EngineOptions, Granularity, Motif
from papilio.reports.scaling import Mode
from papilio.storage.ledger import read_ledger, write_durably
from papilio.storage.location import local_path
from papilio.storage.records import read_json, read_record, require_format, write_record
from papilio.version import __version__

__all__ = [
    "EXPERIMENT_FILE",
    "Experiment",
    "ExperimentDirectory",
    "PointGraph",
    "RunRecord",
    "begin_experiment",
    "check_root",
]

FORMAT, FORMAT_VERSION = "papilio-scaling", 1

EXPERIMENT_FILE = "scale.json"
"""The file that makes a directory an experiment."""

_ADVICE = "it was damaged: restore it, or run the experiment in another directory"


@dataclass(frozen=True)
class PointGraph:
    """The graph of one point.

    Attributes
    ----------
    workers : int
    path : str
        Of the store.
    hash : str
        Its content hash.
    n_u, n_v, n_edges : int
    """

    workers: int
    path: str
    hash: str
    n_u: int
    n_v: int
    n_edges: int


@dataclass(frozen=True)
class Experiment:
    """What a scaling experiment measures.

    Attributes
    ----------
    motif : Motif
    per : str
        ``total``, ``vertex`` or ``edge``.
    mode : {"strong", "weak"}
    graphs : tuple of PointGraph
        One for each number of workers, rising; the same store for all in strong scaling.
    repeat : int
        Repetitions of each point.
    cluster : str
        Where it runs; ``sbatch`` for one Slurm job for each point.
    engine : {"auto", "cpu", "gpu"}
    threads : int or None
        Threads of a ``local`` worker, the same for all points.
    model : str or None
        The model that the graphs were generated from, for the smallest number of workers.
    command : str
        The command line that measures it.
    options : tuple of (str, str)
        How the engines compute the motif, as :func:`papilio.motifs.choose_options` returns it.
    """

    motif: Motif
    per: Granularity
    mode: Mode
    graphs: tuple[PointGraph, ...]
    repeat: int
    cluster: str
    engine: EngineChoice
    threads: int | None
    model: str | None
    command: str
    options: EngineOptions = ()

    def __post_init__(self) -> None:
        if not self.graphs or list(self.workers) != sorted(set(self.workers)):
            raise InputError(f"an experiment has points with {self.workers} workers; expected rising numbers")

    @property
    def workers(self) -> tuple[int, ...]:
        """The numbers of workers, rising."""
        return tuple(graph.workers for graph in self.graphs)

    def graph_for(self, workers: int) -> PointGraph:
        """Return the graph of a point.

        Raises
        ------
        InputError
            When the experiment has no such point.
        """
        for graph in self.graphs:
            if graph.workers == workers:
                return graph
        raise InputError(
            f"workers is {workers}; the experiment has points with {', '.join(map(str, self.workers))} workers"
        )

    def extended_by(self, asked: Experiment) -> Experiment:
        """Return the union of this experiment and one that may have more points or repetitions.

        Raises
        ------
        ValueError
            Naming the first thing that differs.
        """
        for name in ("motif", "per", "mode", "cluster", "engine", "threads", "model", "options"):
            held, wanted = getattr(self, name), getattr(asked, name)
            if held != wanted:
                raise ValueError(f"{name} {held}; asked is {wanted}")
        graphs = {graph.workers: graph for graph in self.graphs}
        for graph in asked.graphs:
            held_graph = graphs.setdefault(graph.workers, graph)
            if held_graph.hash != graph.hash:
                raise ValueError(
                    f"graph {held_graph.hash} for {graph.workers} workers; asked is {graph.hash}"
                )
        hashes = {graph.hash for graph in graphs.values()}
        if self.mode == "strong" and len(hashes) > 1:
            raise ValueError(f"graph {self.graphs[0].hash}; asked is {asked.graphs[0].hash}")
        return replace(
            asked,
            graphs=tuple(graphs[workers] for workers in sorted(graphs)),
            repeat=max(self.repeat, asked.repeat),
        )


@dataclass(frozen=True)
class RunRecord:
    """What the ledger of a point says of one repetition.

    Attributes
    ----------
    workers, repeat : int
    host : str
        Of the process that drove it.
    began_at : float
        Seconds since 1970.
    start_s : float
        Seconds until the workers were there.
    cluster : str
        Name of the executor.
    versions : dict of str to str
    outcome : str or None
        ``finished``, why it failed, or None when it runs or was killed.
    """

    workers: int
    repeat: int
    host: str
    began_at: float
    start_s: float
    cluster: str
    versions: dict[str, str]
    outcome: str | None


@dataclass(frozen=True)
class _RunEnd:
    repeat: int
    outcome: str
    ended_at: float = 0.0


@dataclass(frozen=True)
class _Description:
    """What ``scale.json`` says, beside its format."""

    may_grow: ClassVar[bool] = True

    created_at: float
    experiment: Experiment


class ExperimentDirectory:
    """The directory of an experiment, to read from; opening it reads ``scale.json`` only.

    Parameters
    ----------
    path : path-like

    Attributes
    ----------
    root : Path
    experiment : Experiment
    created_at : float
        Seconds since 1970.

    Raises
    ------
    StoreError
        When it holds no experiment, or one of another version of the format.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root = local_path(path)
        file = self.root / EXPERIMENT_FILE
        try:
            data = read_json(file, _ADVICE)
        except FileNotFoundError as error:
            raise StoreError(
                f"{self.root} holds no scaling experiment: it has no {EXPERIMENT_FILE}"
            ) from error
        require_format(data, str(file), FORMAT, FORMAT_VERSION, "a scaling experiment")
        described = read_record(_Description, data, str(file), _ADVICE)
        self.experiment, self.created_at = described.experiment, described.created_at

    def require_trusted(self) -> None:
        """Refuse to run on the scheduler that ``scale.json`` names when others can write there.

        Raises
        ------
        InputError
            Naming the file and who can write it.
        """
        require_trusted(self.experiment.cluster, self.root / EXPERIMENT_FILE)

    def point_path(self, workers: int) -> Path:
        """Return the ledger of a point."""
        return self.root / "points" / f"w{workers}.jsonl"

    def job_path(self, workers: int, repeat: int) -> Path:
        """Return the job directory of a run."""
        return self.root / "jobs" / f"w{workers}-r{repeat}"

    def records(self, workers: int) -> dict[int, RunRecord]:
        """Return the last begun run of every repetition of a point; works while it runs."""
        path = self.point_path(workers)
        if not path.exists():
            return {}
        found: dict[int, RunRecord] = {}
        for number, record in enumerate(read_ledger(path).records, start=1):
            name, kind = f"{path}, line {number}", record.get("type")
            fields = {key: value for key, value in record.items() if key != "type"}
            if kind == "run":
                run = read_record(RunRecord, {"workers": workers, "outcome": None, **fields}, name, _ADVICE)
                found[run.repeat] = run
                continue
            ended = read_record(_RunEnd, fields, name, _ADVICE)
            if kind != "end" or ended.repeat not in found:
                raise StoreError(
                    f"{name} is a {kind!r} of repetition {ended.repeat}, which did not begin; {_ADVICE}"
                )
            found[ended.repeat] = replace(found[ended.repeat], outcome=ended.outcome)
        return found

    def finished_runs(self) -> tuple[RunRecord, ...]:
        """Return the runs that count, by workers and repetition."""
        return tuple(
            record
            for workers in self.experiment.workers
            for _, record in sorted(self.records(workers).items())
            if record.outcome == "finished"
        )

    def failed_runs(self) -> tuple[RunRecord, ...]:
        """Return the runs that ended with an error and were not run again."""
        return tuple(
            record
            for workers in self.experiment.workers
            for _, record in sorted(self.records(workers).items())
            if record.outcome not in ("finished", None)
        )

    @property
    def n_runs(self) -> int:
        """Runs of the whole experiment."""
        return len(self.experiment.graphs) * self.experiment.repeat


def check_root(path: str | os.PathLike[str]) -> Path:
    """Return the directory of an experiment, which is absent, empty or holds one; nothing is created.

    Raises
    ------
    InputError
        When something else is there.
    """
    root = local_path(path)
    if (root / EXPERIMENT_FILE).exists() or not root.exists():
        return root
    try:
        names = sorted(entry.name for entry in os.scandir(root))
    except OSError as error:
        raise InputError(f"{root} is no directory ({error.strerror}); give another one") from error
    foreign = [name for name in names if name != "graphs" and not name.startswith(".")]
    if foreign:
        raise InputError(f"{root} holds {foreign[0]} and no scaling experiment; give another directory")
    return root


def begin_experiment(path: str | os.PathLike[str], asked: Experiment) -> ExperimentDirectory:
    """Write ``scale.json``, or check that the directory holds the same experiment.

    Points and repetitions may be added to an experiment; nothing else may differ.

    Raises
    ------
    InputError
        When the directory holds another experiment, or something else.
    StoreError
        When it cannot be written.
    """
    root = check_root(path)
    created_at, experiment = time.time(), asked
    if (root / EXPERIMENT_FILE).exists():
        held = ExperimentDirectory(root)
        created_at = held.created_at
        try:
            experiment = held.experiment.extended_by(asked)
        except ValueError as error:
            raise InputError(f"{root} holds an experiment with {error}: give another directory") from error
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "created_at": created_at,
        "experiment": write_record(experiment),
    }
    try:
        root.mkdir(exist_ok=True)
        write_durably(root / EXPERIMENT_FILE, json.dumps(content, indent=2) + "\n")
        for name in ("points", "jobs"):
            (root / name).mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"{root}: cannot be written ({error.strerror}); give another directory") from error
    return ExperimentDirectory(root)
