"""The public functions that count, and open a cluster for several counts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from papilio.api.call import Call, CensusOptions, check_output, owns_output
from papilio.api.read import AskedOptions, ask, resolve_layers, split_options
from papilio.arguments import Bytes, Count, Workers, checked, read_argument
from papilio.cluster.events import Progress
from papilio.cluster.executor import Executor
from papilio.cluster.progress import shows_progress
from papilio.cluster.selection import make_executor
from papilio.kernels.engine import EngineChoice
from papilio.motifs import (
    CENSUS_CLASSES,
    Census,
    CensusClass,
    Granularity,
    Motif,
    motif_to_json,
    rows_by_class,
    sum_groups,
)
from papilio.question import Question
from papilio.registry import motif_row
from papilio.storage.answers import Answer, Preview, file_metadata, write_census, write_columns, write_table
from papilio.storage.labelled import Vectors
from papilio.storage.listings import ListingShard
from papilio.tasks.job import Budget
from papilio.tasks.result import TOP_ENTRIES, CountResult, find_top

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowTable


@checked
def open_cluster(
    cluster: str | os.PathLike[str] | Any = "auto",
    *,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
) -> Executor:
    """Return an executor for several counts; a ``with`` block starts it.

    Parameters
    ----------
    cluster : str, path-like, distributed.Client or Dask cluster
        ``auto``, ``inline``, ``local``, ``cuda``, an address such as ``tcp://host:8786``, the path of a scheduler
        file, a connected client, or a cluster of Dask (``LocalCluster``, ``SLURMCluster``, ...).
    engine : {"auto", "cpu", "gpu"}
        Engine that the cluster must support: for ``cpu``, ``auto`` starts no GPU workers.
    workers : int, optional
        Worker processes (``local``), GPUs (``cuda``), or workers to wait for.

    Examples
    --------
    >>> with papilio.open_cluster("local", workers=2) as cluster:
    ...     result = papilio.count("graph/", papilio.Butterfly(), cluster=cluster)
    """
    return make_executor(cluster, engine, workers)


@checked
@shows_progress
def count(
    graph: Any,
    motif: Motif | str,
    *,
    per: Granularity = "total",
    cluster: Any = None,
    engine: EngineChoice = "auto",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: Workers | None = None,
    progress: Progress = None,
    job: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    device_memory: Bytes | None = None,
    host_memory: Bytes | None = None,
    parts: str | os.PathLike[str] | None = None,
    **asked: Unpack[AskedOptions],
) -> CountResult:
    """Count a motif exactly.

    Parameters
    ----------
    graph : Graph, path, or object
        The result of :func:`papilio.read`, or any of its inputs: a graph store or its path or URL, a file of edges, a
        data frame, a table, a graph of another library. The inline cluster counts graphs in memory directly; other
        clusters count them in a temporary store.
    motif : Motif or str
        Motif to count: ``Butterfly()``, ``Biclique(3, 4)``, or ``Biclique(3, None)`` for every q; or its name, with its
        sizes as keywords: ``"butterfly"``, ``"biclique", p=3, q=4``, ``"clique", k=5``.
    per : {"total", "vertex", "edge"}
        Count for the whole graph, for every vertex, or for every edge.
    cluster : str, path-like, distributed.Client, Dask cluster or Executor, optional
        As for :func:`open_cluster`, or a started executor; by default ``inline``: in this process, with all its
        processors or the first GPU that it sees.
    engine : {"auto", "cpu", "gpu"}
        ``auto`` uses GPUs if the workers have them. ``gpu`` never falls back to ``cpu``.
    output : path-like, optional
        File for the counts per vertex or edge, or for the table; its suffix sets its format: ``.parquet``, ``.csv``,
        ``.tsv``, ``.json``, ``.jsonl`` or ``.arrow``. All workers must be able to write to its directory, which also
        gets partial results.
    overwrite : bool
        Replace an existing file at ``output``. A job always replaces its own output file.
    workers : int, optional
        As for :func:`open_cluster`.
    progress : bool or callable, optional
        True for a progress bar, on a terminal or in a notebook; a function is called with every event of
        :mod:`papilio.cluster.events`.
    job : path-like, optional
        Job directory, which keeps every finished lease. If it already has a part of this count, from any cluster or
        engine, only the missing leases run; if it has the answer, nothing runs.
    options : mapping of str to str, optional
        Options of the engines, if the motif has any: for bicliques ``algorithm`` (``auto``,
        ``enumerate``, ``pivot``) and ``anchor`` (``auto``, ``u``, ``v``). The answer does not depend on it.
    device_memory, host_memory : int or str, optional
        Bytes, or a size such as ``"8GiB"``, that a worker may use on its device and on its host. If the whole graph
        does not fit, it is cut into parts, which are counted one after the other; see docs/out-of-memory.md. If this
        process is the worker, ``host_memory`` limits the whole process.
    parts : path-like, optional
        Partition to count, made by :func:`papilio.partition`. If it does not exist and parts are needed, they are cut
        there and kept. Without it, parts are kept in the job directory, or else only for this count.
    **asked
        Sizes of a motif given by name, and options for reading ``graph`` unless it is already a graph of Papilio, as
        for :func:`papilio.read`: ``u="user", v="film"``.

    Returns
    -------
    CountResult

    Raises
    ------
    PapilioError
        InputError, StoreError or UnsupportedError if an argument is wrong; CapacityError if the graph cannot fit;
        EngineUnavailableError or ClusterError if it cannot run there; ExecutionError if the run fails.
    """
    return CountCall(
        graph, motif, per=per, options=options, output=output, overwrite=overwrite, device_memory=device_memory,
        host_memory=host_memory, parts=parts, cluster=cluster, engine=engine, workers=workers, progress=progress,
        job=job, asked=asked,
    ).execute()  # fmt: skip


class CountCall(Call[CountResult]):
    """A count, with its vectors or its table in a file."""

    def __init__(
        self,
        graph: Any,
        motif: Motif | str,
        *,
        per: Granularity = "total",
        options: Mapping[str, str] | None = None,
        output: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        device_memory: Bytes | None = None,
        host_memory: Bytes | None = None,
        asked: Mapping[str, Any] | None = None,
        **where: Any,
    ) -> None:
        target = None

        def question_of(motif: Motif) -> Question:
            nonlocal target
            question = Question.of(motif, per, options)
            target = check_output(output, motif, per, overwrite=self._overwrite)  # before the graph is read
            return question

        self._overwrite = overwrite or owns_output(where.get("job"), output)
        graph, question = ask(graph, motif, asked or {}, question_of)
        budget = Budget.of(device_memory, host_memory)
        super().__init__(graph, question, target, budget=budget, **where)
        graph.require_storable(target)

    def write(self, result: CountResult, listed: Sequence[ListingShard], kept: bool) -> CountResult:
        vectors = dict(result.vectors)
        if self.target is not None:
            store = self.stored(self.target.parent)
            row = motif_row(result.motif)
            metadata = file_metadata(store.hash, motif=motif_to_json(result.motif))
            how: Any = {"metadata": metadata, "overwrite": self._overwrite}
            if row.classes:
                write_census(self.target, rows_by_class(row.classes, result.table), **how)
            elif result.motif.is_table:
                write_table(self.target, self.by_size(result.table), key=row.key, **how)
            elif "edge" in vectors:
                write_columns(self.target, store, {"edge": {"support": vectors["edge"]}}, **how)
            else:
                layers = {name: {"count": each} for name, each in vectors.items()}
                write_columns(self.target, store, layers, **how)
        top = find_top(vectors, self.graph.held, TOP_ENTRIES)
        return replace(result, vectors=Vectors(vectors, self.graph.labelled), largest=top, source=self.graph.held)


@dataclass(frozen=True, eq=False, repr=False)
class CensusResult(Answer):
    """Butterflies by class; the table has a row per class: ``class``, ``group``, ``count``, ``share``."""

    counted: CountResult  # the count, with a record of the work
    # the six classes, each with its butterflies and their share
    rows: tuple[tuple[CensusClass, int, float], ...]

    @property
    def classes(self) -> dict[str, int]:
        """Butterflies by class name, such as ``++/+-``."""
        return {each.name: number for each, number, _ in self.rows}

    @property
    def groups(self) -> dict[str, int]:
        return sum_groups(self.classes)

    @property
    def balanced(self) -> int:
        """Balanced butterflies: coherent and incoherent ones."""
        return self.counted.count - self.groups["mixed"]

    @property
    def butterflies(self) -> int:
        return self.counted.count

    @property
    def headline(self) -> str:
        return self.counted.headline

    def _preview(self) -> Preview:
        return self.counted._preview()

    def to_arrow(self) -> ArrowTable:
        """Return a row per class: class, group, count and share."""
        return self.counted.to_arrow()

    def _draw(self, axes: Any) -> None:
        """Draw the share of each class."""
        self.counted._draw(axes)

    def top(self, n: int = 10) -> list[tuple[CensusClass, int, float]]:
        """Return the ``n`` classes with the most butterflies, with their shares."""
        read_argument("n", n, Count)
        return sorted(self.rows, key=lambda row: -row[1])[:n]

    def to_dict(self) -> dict[str, Any]:
        """Return the object of the count, and the census; integers in full."""
        return {
            **self.counted.to_dict(),
            "classes": [
                {"class": each.name, "group": each.group, "count": number, "share": share}
                for each, number, share in self.rows
            ],
            "groups": self.groups,
            "balanced": self.balanced,
        }


@checked
@shows_progress
def census(
    graph: Any,
    pair_side: str,
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Unpack[CensusOptions],
) -> CensusResult:
    """Count the butterflies of a signed graph by class.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`; signed.
    pair_side : str
        Layer, ``u``, ``v`` or its name, of the pair whose signs define the class: ``++/--`` and ``+-/+-`` depend on it.
    output : path-like, optional
        File for the classes, as for :func:`papilio.count`.
    overwrite, cluster, engine, workers, progress, job, and how the graph is read
        As for :func:`papilio.count`.

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError for a graph without signs.
    """
    reading, where = split_options(options)
    graph, reading, named = resolve_layers(graph, reading, {"pair_side": pair_side})
    counted = count(graph, Census(named["pair_side"]), output=output, overwrite=overwrite, **where, **reading)
    return CensusResult(counted, rows_by_class(CENSUS_CLASSES, counted.table))
