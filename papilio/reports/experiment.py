"""A scaling experiment: its start, and its directory with the finished runs.

    scale.json         the experiment: motif, graphs, numbers of workers, repetitions, cluster
    graphs/wN/         a generated store for N workers (weak scaling with a model)
    points/wN.jsonl    the runs of one point, begun and ended, as a ledger with one writer at a time
    jobs/wN-rK/        the job directory of repetition K with N workers
    report/            the report of ``papilio report``

A repetition counts if its end is in the ledger of its point. A killed repetition is measured again from the
beginning: the time of a resumed job would be meaningless.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, Unpack, get_args, get_origin, get_type_hints

from papilio.api.read import open_graph
from papilio.cluster.selection import resolve_workers
from papilio.cluster.trust import require_trusted
from papilio.errors import InputError, StoreError, StoreNotFoundError
from papilio.kernels.engine import EngineChoice
from papilio.kernels.threads import available_threads
from papilio.motifs import EngineOptions, Granularity, Motif, choose_options
from papilio.registry import motif_row
from papilio.storage.files import is_url, local_path
from papilio.storage.generate import generate
from papilio.storage.graph_models import Blocks, Complete, Model, Planted, PowerLaw, Rmat
from papilio.storage.ledger import read_ledger, write_durably
from papilio.storage.reading import GraphOptions
from papilio.storage.records import read_json, read_record, require_format, seal_json, write_record
from papilio.storage.store import GraphStore, open_store
from papilio.system_errors import explain
from papilio.tasks.job import digest, require_kind
from papilio.version import __version__

FORMAT, FORMAT_VERSION = "papilio-scaling", 2

Mode = Literal["strong", "weak"]
"""One graph for all numbers of workers, or one for each."""

EXPERIMENT_FILE = "scale.json"
"""The file that marks a directory as an experiment."""

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
    """The question of a scaling experiment, its graphs and its points."""

    motif: Motif
    per: Granularity
    mode: Mode
    # one for each number of workers, ascending; the same store for all in strong scaling
    graphs: tuple[PointGraph, ...]
    repeat: int  # repetitions of each point
    cluster: str  # where it runs; ``sbatch`` for one Slurm job for each point
    engine: EngineChoice
    threads: int | None  # of a ``local`` worker, the same for all points
    model: str | None  # model of the generated graphs, for the smallest number of workers
    command: str  # the command line that measures it
    # How the engines compute the motif, as :func:`papilio.motifs.choose_options` returns it.
    options: EngineOptions = ()

    def __post_init__(self) -> None:
        if not self.graphs or list(self.workers) != sorted(set(self.workers)):
            raise InputError(f"the points of the experiment have {self.workers} workers; expected increasing numbers")

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(graph.workers for graph in self.graphs)

    def graph_for(self, workers: int) -> PointGraph:
        """Return the graph of a point; InputError if the experiment has no such point."""
        for graph in self.graphs:
            if graph.workers == workers:
                return graph
        raise InputError(
            f"workers is {workers}; the experiment has points with {', '.join(map(str, self.workers))} workers"
        )

    def question_of(self, workers: int) -> str:
        """Return 32 hexadecimal digits that identify the graph, the motif and the number of workers of a point."""
        held = write_record(self)
        return digest([workers, self.graph_for(workers).hash, *(held[name] for name in ("motif", "per", "options"))])

    def extended_by(self, wanted: Experiment) -> Experiment:
        """Return the union with a larger experiment: more points or repetitions; ValueError for other differences."""
        for name in ("motif", "per", "mode", "cluster", "engine", "threads", "model", "options"):
            held, other = getattr(self, name), getattr(wanted, name)
            if held != other:
                raise ValueError(f"{name} {held}, not {other}")
        graphs = {graph.workers: graph for graph in self.graphs}
        for graph in wanted.graphs:
            held_graph = graphs.setdefault(graph.workers, graph)
            if held_graph.hash != graph.hash:
                raise ValueError(f"graph {held_graph.hash} for {graph.workers} workers, not {graph.hash}")
        hashes = {graph.hash for graph in graphs.values()}
        if self.mode == "strong" and len(hashes) > 1:
            raise ValueError(f"graph {self.graphs[0].hash}, not {wanted.graphs[0].hash}")
        return replace(
            wanted,
            graphs=tuple(graphs[workers] for workers in sorted(graphs)),
            repeat=max(self.repeat, wanted.repeat),
        )


@dataclass(frozen=True)
class RunRecord:
    """One repetition in the ledger of a point."""

    workers: int
    repeat: int
    host: str  # of the process that drove it
    began_at: float  # seconds since 1970
    start_s: float  # seconds until the workers had joined
    cluster: str  # name of the executor
    versions: dict[str, str]
    question: str  # identity of the measured question, see :meth:`Experiment.question_of`
    outcome: str | None  # ``finished``, why it failed, or None when it runs or was killed


@dataclass(frozen=True)
class _RunEnd:
    repeat: int
    outcome: str
    ended_at: float = 0.0


@dataclass(frozen=True)
class _Description:
    """The content of ``scale.json``, without its format."""

    may_grow: ClassVar[bool] = True

    created_at: float
    experiment: Experiment


class ExperimentDirectory:
    """The directory of an experiment, opened for reading; opening it reads ``scale.json`` only.

    StoreError if it is not an experiment, or has another version of the format.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root = local_path(path)
        file = self.root / EXPERIMENT_FILE
        try:
            data = read_json(file, _ADVICE)
        except FileNotFoundError as error:
            kind = StoreError if self.root.exists() else StoreNotFoundError
            raise kind(f"{self.root} is not a scaling experiment: it has no {EXPERIMENT_FILE}") from error
        data = require_format(data, str(file), FORMAT, FORMAT_VERSION, "a scaling experiment", _ADVICE)
        described = read_record(_Description, data, str(file), _ADVICE)
        self.experiment, self.created_at = described.experiment, described.created_at

    def require_trusted(self) -> None:
        """Raise InputError if ``scale.json`` names a scheduler and others can write to that file."""
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
                    raise StoreError(f"{name} is a run of a different point or experiment; {_ADVICE}")
                found[run.repeat] = run
                continue
            ended = read_record(_RunEnd, fields, name, _ADVICE)
            if kind != "end" or ended.repeat not in found:
                raise StoreError(f"{name} is a {kind!r} of repetition {ended.repeat}, which has not begun; {_ADVICE}")
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


def _check_root(path: str | os.PathLike[str]) -> Path:
    """Return an experiment's directory: absent, empty or an experiment (else InputError); create nothing."""
    root = local_path(path)
    if (root / EXPERIMENT_FILE).exists() or not root.exists():
        return root
    try:
        names = sorted(entry.name for entry in os.scandir(root))
    except OSError as error:
        raise InputError(f"{root} is not a directory {explain(error, 'or choose another one')}") from error
    foreign = [name for name in names if name != "graphs" and not name.startswith(".")]
    if foreign:
        raise InputError(f"{root} contains {foreign[0]} and is not a scaling experiment; choose another directory")
    return root


def _begin_experiment(root: Path, experiment: Experiment) -> ExperimentDirectory:
    """Write ``scale.json``, or extend the experiment in ``root``: only points and repetitions may be added."""
    created_at = time.time()
    if (root / EXPERIMENT_FILE).exists():
        held = ExperimentDirectory(root)
        created_at = held.created_at
        try:
            experiment = held.experiment.extended_by(experiment)
        except ValueError as error:
            raise InputError(f"{root} is an experiment with {error}: choose another directory") from error
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
        raise StoreError(f"{root}: cannot be written {explain(error, 'or choose another directory')}") from error
    return ExperimentDirectory(root)


_MODELS: dict[str, type[Model]] = {model.name: model for model in (Rmat, PowerLaw, Planted, Blocks, Complete)}


_GROWN: dict[type[Model], tuple[str, ...]] = {
    PowerLaw: ("n_u", "n_v"), Planted: ("n_u", "n_v", "count", "noise"), Complete: ("n_u",)
}  # fmt: skip
"""Fields that are multiplied as a graph grows."""


def parse_model(text: str) -> Model:
    """Return the model of a specification such as ``power-law:n_u=100000,n_v=20000,exponent_v=2.2``.

    InputError for an unknown model or parameter, or a missing or non-numeric one.
    """
    name, _, rest = text.partition(":")
    if name not in _MODELS:
        raise InputError(f"model is {name!r}; known: {', '.join(_MODELS)}")
    hints = get_type_hints(_MODELS[name])
    required = [item.name for item in fields(_MODELS[name]) if item.default is MISSING]
    values: dict[str, Any] = {key: None for key in required if NoneType in get_args(hints[key])}
    for word in filter(None, rest.split(",")):
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in hints or get_origin(hints[key]) is ClassVar:
            known = ", ".join(item.name for item in fields(_MODELS[name]))
            raise InputError(f"{word!r} is not a parameter of the model {name}; known: {known}")
        values[key] = _read_value(value.strip(), hints[key])
    for key in required:
        if key not in values:
            raise InputError(f"the model {name} needs {key}: {name}:{key}=...")
    return _MODELS[name](**values)


def _read_value(text: str, hint: object) -> Any:
    """Return the number or truth value of a text, or the text itself, for the model to report."""
    if hint is str:
        return text
    if hint is bool:
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def grow_model(model: Model, factor: int) -> Model:
    """Return the model of a graph ``factor`` times as large.

    For the bipartite models, vertices of the first layer, planted motifs and noise are multiplied, and work grows about
    in proportion; for R-MAT graphs, the draws and the scale are multiplied, and work grows faster. InputError for an
    R-MAT graph if the factor is not a power of two. CapacityError if the graph would exceed the limits of its model.
    """
    if isinstance(model, Rmat):
        if factor & (factor - 1):
            raise InputError(
                f"an R-MAT graph cannot grow {factor} times: its layers are powers of two; "
                "choose numbers of workers that are powers of two times the smallest"
            )
        return replace(model, scale_u=model.scale_u + factor.bit_length() - 1, edges=model.edges * factor)
    if isinstance(model, Blocks):
        return model.grow(factor)
    sizes = {name: getattr(model, name) for name in _GROWN[type(model)]}
    return replace(model, **{name: size * factor for name, size in sizes.items() if size is not None})


def _open_or_generate(path: Path, model: Model, seed: int) -> GraphStore:
    if not path.exists():
        return generate(model, path, seed=seed)
    store = open_store(path)
    provenance = store.manifest.provenance
    expected = {**model.to_dict(), "seed": seed}
    if {name: provenance.get(name) for name in expected} != expected:
        raise StoreError(f"{path} is not the requested {model.name} graph; remove it")
    return store


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
    **reading: Unpack[GraphOptions],
) -> ExperimentDirectory:
    """Create the directory of an experiment, or open it when it holds the same one; run nothing.

    ``stores`` holds the graph of strong scaling, or one graph for each of the numbers of ``workers``, in their order:
    a graph store, or a file of edges, which is read as ``reading`` says, converted once and kept in the cache.
    It is empty with ``model``, the graph for the smallest number, as ``power-law:n_u=100000,n_v=20000``: the other
    graphs are larger by the ratio of workers, which must be a multiple of the smallest number. Each point has
    ``repeat`` repetitions; with ``weak`` the graph grows with the workers. ``cluster`` is as for :func:`papilio.count`,
    ``auto`` is resolved here; ``sbatch`` means separate Slurm jobs. ``threads`` is the number of threads of each
    ``local`` worker; by default the processors divided by the largest number of workers, at least 1, so all points
    have the same. ``command`` is the command line, for the report.

    InputError for arguments that do not fit together, a directory with another experiment, or a graph that ends with
    this process, such as standard input. StoreError when a store cannot be read or a graph cannot be written.
    UnsupportedError when the motif cannot be counted in one of the graphs.
    """
    numbers = _check_numbers(workers, repeat)
    _check_graphs(weak, model, stores, numbers, reading)
    resolved = resolve_workers(cluster, engine)
    threads = _settle_threads(resolved, threads, numbers)
    root = _check_root(output)
    if model is None:
        kind = motif_row(motif).graph_kind
        given = [open_store(open_graph(store, kind, reading).lasting_path()) for store in stores]
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
        graphs=tuple(
            PointGraph(number, absolute(store.path), store.hash, store.n_u, store.n_v, store.n_edges)
            for number, store in sorted(found.items())
        ),
        repeat=repeat,
        cluster=absolute(resolved) if os.path.isfile(resolved) else resolved,
        engine=engine,
        threads=threads,
        model=None if model is None else f"{model}, seed {seed}",
        command=command,
        options=choose_options(motif, options or {}),
    )
    return _begin_experiment(root, experiment)


def _check_numbers(workers: Sequence[int], repeat: int) -> tuple[int, ...]:
    if not workers or min(workers) < 1 or len(set(workers)) < len(workers):
        raise InputError(
            f"workers is {','.join(map(str, workers)) or 'empty'}; expected distinct numbers from 1, such as 1,2,4"
        )
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; the minimum is 1")
    return tuple(sorted(workers))


def _check_graphs(
    weak: bool,
    model: str | None,
    stores: Sequence[str | os.PathLike[str]],
    numbers: Sequence[int],
    reading: Mapping[str, Any],
) -> None:
    if weak and model is None and len(stores) != len(numbers):
        raise InputError(
            f"weak scaling over {len(numbers)} numbers of workers was given {len(stores)} stores; give one store "
            "for each, in the same order, or a model to generate them from"
        )
    if not weak and (model is not None or len(stores) != 1):
        raise InputError(
            f"strong scaling takes one store and no model, and was given {len(stores)} stores"
            f"{'' if model is None else ' and a model'}; for graphs that grow with the workers use weak scaling"
        )
    if weak and model is not None and stores:
        raise InputError("weak scaling takes stores or a model, not both")
    if model is not None and (given := [name for name, value in reading.items() if value is not None]):
        raise InputError(f"{', '.join(given)} sets how a file is read; the graphs of a model are generated")


def _settle_threads(cluster: str, threads: int | None, numbers: Sequence[int]) -> int | None:
    """Return the threads of each ``local`` worker, the same for all points; None for workers of other clusters."""
    local = cluster.partition(":")[0] == "local"
    if not local and threads is not None:
        raise InputError(f"threads is {threads}; only workers of the local cluster have a number of threads")
    return max(1, available_threads() // max(numbers)) if local and threads is None else threads


def _generate(root: Path, model: Model, seed: int, numbers: Sequence[int]) -> dict[int, GraphStore]:
    smallest = numbers[0]
    for number in numbers:
        if number % smallest:
            raise InputError(
                f"workers is {number}, not a multiple of the smallest number, {smallest}; generated graphs grow by "
                f"integer factors"
            )
    grown = {number: grow_model(model, number // smallest) for number in numbers}
    try:
        (root / "graphs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{root}: cannot be written {explain(error, 'or choose another directory')}") from error
    return {number: _open_or_generate(root / "graphs" / f"w{number}", each, seed) for number, each in grown.items()}


def absolute(path: str) -> str:
    """Return a path that is valid from any directory; URLs are unchanged."""
    return path if is_url(path) else os.path.abspath(path)
