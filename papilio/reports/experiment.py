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

import os
import time
from collections import Counter
from collections.abc import Iterator
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
from papilio.storage.records import read_json, read_record, require_format, seal_json, write_record
from papilio.tasks.job import digest
from papilio.version import __version__

FORMAT, FORMAT_VERSION = "papilio-scaling", 2

EXPERIMENT_FILE = "scale.json"
"""The file that makes a directory an experiment."""

_ADVICE = "it was damaged: restore it, or run the experiment in another directory"


@dataclass(frozen=True)
class PointGraph:
    """The graph of one point: a store, its content hash, its sizes."""

    workers: int
    path: str
    hash: str
    n_u: int
    n_v: int
    n_edges: int


@dataclass(frozen=True)
class Experiment:
    """What a scaling experiment measures."""

    motif: Motif
    per: Granularity
    mode: Mode
    # one for each number of workers, rising; the same store for all in strong scaling
    graphs: tuple[PointGraph, ...]
    repeat: int  # repetitions of each point
    cluster: str  # where it runs; ``sbatch`` for one Slurm job for each point
    engine: EngineChoice
    threads: int | None  # of a ``local`` worker, the same for all points
    model: str | None  # what the graphs were generated from, for the smallest number of workers
    command: str  # the command line that measures it
    # How the engines compute the motif, as :func:`papilio.questions.choose_options` returns it.
    options: EngineOptions = ()

    def __post_init__(self) -> None:
        if not self.graphs or list(self.workers) != sorted(set(self.workers)):
            raise InputError(f"an experiment has points with {self.workers} workers; expected rising numbers")

    @property
    def workers(self) -> tuple[int, ...]:
        """The numbers of workers, rising."""
        return tuple(graph.workers for graph in self.graphs)

    def graph_for(self, workers: int) -> PointGraph:
        """Return the graph of a point; an InputError when the experiment has no such point."""
        for graph in self.graphs:
            if graph.workers == workers:
                return graph
        raise InputError(
            f"workers is {workers}; the experiment has points with {', '.join(map(str, self.workers))} workers"
        )

    def question_of(self, workers: int) -> str:
        """Return 32 hexadecimal digits that identify the graph, the motif and the number of workers of a point."""
        held = write_record(self)
        return digest(
            [workers, self.graph_for(workers).hash, *(held[name] for name in ("motif", "per", "options"))]
        )

    def extended_by(self, wanted: Experiment) -> Experiment:
        """Return the union with one that may have more points or repetitions; a ValueError names what else differs."""
        for name in ("motif", "per", "mode", "cluster", "engine", "threads", "model", "options"):
            held, other = getattr(self, name), getattr(wanted, name)
            if held != other:
                raise ValueError(f"{name} {held}; asked is {other}")
        graphs = {graph.workers: graph for graph in self.graphs}
        for graph in wanted.graphs:
            held_graph = graphs.setdefault(graph.workers, graph)
            if held_graph.hash != graph.hash:
                raise ValueError(
                    f"graph {held_graph.hash} for {graph.workers} workers; asked is {graph.hash}"
                )
        hashes = {graph.hash for graph in graphs.values()}
        if self.mode == "strong" and len(hashes) > 1:
            raise ValueError(f"graph {self.graphs[0].hash}; asked is {wanted.graphs[0].hash}")
        return replace(
            wanted,
            graphs=tuple(graphs[workers] for workers in sorted(graphs)),
            repeat=max(self.repeat, wanted.repeat),
        )


@dataclass(frozen=True)
class RunRecord:
    """What the ledger of a point says of one repetition."""

    workers: int
    repeat: int
    host: str  # of the process that drove it
    began_at: float  # seconds since 1970
    start_s: float  # seconds until the workers were there
    cluster: str  # name of the executor
    versions: dict[str, str]
    question: str  # identity of what was measured, see :meth:`Experiment.question_of`
    outcome: str | None  # ``finished``, why it failed, or None when it runs or was killed


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

    A StoreError says that it holds no experiment, or one of another version of the format.
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
        data = require_format(data, str(file), FORMAT, FORMAT_VERSION, "a scaling experiment", _ADVICE)
        described = read_record(_Description, data, str(file), _ADVICE)
        self.experiment, self.created_at = described.experiment, described.created_at

    def require_trusted(self) -> None:
        """Refuse, with an InputError, a scheduler that ``scale.json`` names when others can write there."""
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
                if run.question != self.experiment.question_of(workers):
                    raise StoreError(f"{name} is a run of another point or experiment; {_ADVICE}")
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
        return tuple(record for record in self._last_runs() if record.outcome == "finished")

    def failed_runs(self) -> tuple[RunRecord, ...]:
        """Return the runs that ended with an error and were not run again."""
        return tuple(record for record in self._last_runs() if record.outcome not in ("finished", None))

    def unfinished_points(self) -> tuple[int, ...]:
        """Return the numbers of workers whose repetitions are not all finished."""
        done = Counter(record.workers for record in self.finished_runs())
        return tuple(each for each in self.experiment.workers if done[each] < self.experiment.repeat)

    def _last_runs(self) -> Iterator[RunRecord]:
        for workers in self.experiment.workers:
            for _, record in sorted(self.records(workers).items()):
                yield record

    @property
    def n_runs(self) -> int:
        """Runs of the whole experiment."""
        return len(self.experiment.graphs) * self.experiment.repeat


def check_root(path: str | os.PathLike[str]) -> Path:
    """Return the directory of an experiment, which is absent, empty or holds one (else InputError); create nothing."""
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


def begin_experiment(path: str | os.PathLike[str], experiment: Experiment) -> ExperimentDirectory:
    """Write ``scale.json``, or check that the directory holds the same experiment.

    Points and repetitions may be added to an experiment; nothing else may differ. InputError when the directory holds
    another experiment, or something else. StoreError when it cannot be written.
    """
    root = check_root(path)
    created_at = time.time()
    if (root / EXPERIMENT_FILE).exists():
        held = ExperimentDirectory(root)
        created_at = held.created_at
        try:
            experiment = held.experiment.extended_by(experiment)
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
        write_durably(root / EXPERIMENT_FILE, seal_json(content, indent=2))
        for name in ("points", "jobs"):
            (root / name).mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"{root}: cannot be written ({error.strerror}); give another directory") from error
    return ExperimentDirectory(root)
