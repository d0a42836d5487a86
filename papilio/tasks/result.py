"""The answer of a job for users: the exact count, with a record of the work.

``result.json``, the answer of a finished job: its form, and its check against the ledger.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.arguments import Count, plural, read_argument
from papilio.errors import InputError, StoreError
from papilio.kernels.engine import EngineName, LargestMotif
from papilio.motifs import Cell, Granularity, Listing, Motif, rows_by_class
from papilio.registry import motif_row
from papilio.storage import answers
from papilio.storage.files import slices_of
from papilio.storage.interop import pairs_to_networkx
from papilio.storage.labelled import LabelledGraph, Vectors, plain_labels
from papilio.storage.records import table_rows
from papilio.storage.store import GraphStore
from papilio.tasks.citing import describe_count
from papilio.tasks.job import Movement
from papilio.tasks.machine import WorkerInfo
from papilio.tasks.plan import Decision

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowTable


@dataclass(frozen=True)
class Item:
    """A vertex or an edge."""

    place: str  # ``u`` or ``v`` for a vertex of that layer, ``n`` for one of a unipartite graph, ``edge`` for an edge
    ids: tuple[int, ...]  # its id, or the ids of both ends
    # its original label, or the labels of both ends: ``str`` or ``int``, or any type for a graph in memory; ids without
    # labels
    labels: tuple[Any, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object; labels that are neither text nor integers as text."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return named | {"ids": list(self.ids), "labels": json_labels(self.labels)}


@dataclass(frozen=True)
class TopEntry(Item):
    """One vertex or edge with a large count."""

    count: int  # number of motifs with it


@dataclass(frozen=True)
class TopValue(Item):
    """One vertex or edge with a large value."""

    value: int | float


def json_labels(labels: Sequence[Any]) -> list[str | int]:
    """Return labels as JSON values; other types than text and integers become text."""
    return [label if isinstance(label, str | int) else str(label) for label in labels]


@dataclass(frozen=True, eq=False, repr=False)
class CountResult(answers.Answer):
    """An exact count."""

    may_grow: ClassVar[bool] = True

    motif: Motif
    per: Granularity
    count: int  # number of motifs in the graph, for any ``per``
    engine: EngineName
    cluster: str  # the executor that ran it
    workers: tuple[WorkerInfo, ...]  # the workers that took leases
    leases_by_worker: dict[str, int]  # number of leases that each worker returned
    items: int  # work items of the job, and the number of their intervals
    leases: int
    plan_key: str  # identity of question and items
    # wall time by phase: ``start`` (the cluster), ``plan``, ``read`` and ``prepare`` (both of the worker whose report
    # made the plan), ``run``, ``fold``, ``write``, and ``total``; ``compile`` if this process compiled kernels, which
    # other phases exclude
    seconds: dict[str, float]
    work: int
    work_unit: str  # name of the unit, in the plural
    # ``path``, ``hash``, ``kind``, ``n_u``, ``n_v``, ``n_edges``, ``signed``, ``provenance``; the last holds
    # ``source``, ``format``, ``columns``, ``header`` (names of the columns, or None), ``layers`` (names of the layers),
    # ``dropped`` and ``notes``
    graph: dict[str, Any]
    peak_memory_bytes: int  # largest host memory of a worker process that planned or counted
    decisions: tuple[Decision, ...]
    output: str | None = None  # the file written
    largest: tuple[TopEntry, ...] = ()  # the largest counts per vertex or edge that are kept with the answer
    # per vertex ``u`` of shape (n_u,) and ``v`` of shape (n_v,), or ``n`` for a unipartite graph; per edge ``edge`` of
    # shape (n_edges,), sorted by (u, v); empty for ``total``. If the graph was read from an object of another library,
    # ``vectors.aligned("edge")`` has the order and form of that object.
    vectors: Vectors[NDArray[np.uint64]] = field(default_factory=Vectors, repr=False)
    # counts above 0 by (p, q), or another key of the family, by increasing key, for a motif whose answer is a table;
    # ``count`` is their sum. Empty for any other motif.
    table: dict[Cell, int] = field(default_factory=dict, repr=False)
    job_directory: str | None = None  # where the ledger of the count is kept
    leases_before: int = 0  # number of leases counted by earlier sessions of the job
    work_before: int = 0  # work done before the session of ``seconds``
    reused: bool = False  # whether the job was already finished, so that nothing was counted now
    strategy: str = "replicate"  # ``replicate``, or the strategy of the parts
    replication: float = 1.0  # edges of all parts by the edges of the graph
    moved: Movement = field(default_factory=Movement)  # bytes of parts read by the leases of this call
    peak_device_bytes: int = 0  # maximum device memory of a worker for arrays; 0 without a GPU
    # maximum device memory in use by all processes at the end of a lease, by the driver's account
    used_device_bytes: int = 0
    checksum: int | None = None  # sum, modulo 2^64, of the hashes of all motifs, for a family that has one
    best: tuple[LargestMotif, ...] = ()  # the largest motifs, in the number set by the motif
    source: GraphStore | LabelledGraph | None = field(default=None, repr=False)  # the graph, if at hand

    @property
    def headline(self) -> str:
        return f"{self._title}: {self.count:,} ({self._circumstances})"

    def _preview(self) -> answers.Preview:
        row = motif_row(self.motif)
        if row.classes:
            rows = rows_by_class(row.classes, self.table)
            cells = [(each.group, each.name, f"{count:,}", f"{share:.2%}") for each, count, share in rows]
            return answers.preview(("group", "class", "count", "share"), cells)
        if self.table:
            sized = ((*cell, f"{count:,}") for cell, count in self.table.items())
            return answers.preview((*row.key, "count"), sized, len(self.table))
        found = [(e.place, ", ".join(map(str, e.labels)), f"{e.count:,}") for e in self._largest_shown]
        return answers.preview(("of", "label", "count"), found)

    @property
    def _largest_shown(self) -> list[TopEntry]:
        """The first of the largest counts of each place."""
        places = dict.fromkeys(each.place for each in self.largest)
        each_n = 10 if len(places) == 1 else 5
        return [each for place in places for each in [e for e in self.largest if e.place == place][:each_n]]

    def top(self, n: int = 10) -> tuple[TopEntry, ...]:
        """Return the ``n`` largest counts, at least 1, of each layer, or of the edges, with their labels.

        Raises InputError if nothing was counted per vertex or edge, or if the vectors are gone and fewer counts are
        kept.
        """
        read_argument("n", n, Count)
        if self.per == "total":
            raise InputError(
                f"the answer for {self._title} has no counts per vertex or edge; count with per='vertex' or per='edge'"
            )
        if self.vectors and (self.source is not None or self.graph["path"] is not None):
            return find_top({name: self.vectors.by_id(name) for name in self.vectors}, self.held, n)
        kept = max(Counter(entry.place for entry in self.largest).values(), default=0)
        if n > kept >= TOP_ENTRIES:
            raise InputError(f"n is {n}, but only the {kept} largest of each layer are kept; count again for more")
        return _first_of_each(self.largest, n)

    @property
    def _title(self) -> str:
        return self.motif.title if self.per == "total" else f"{self.motif.title} per {self.per}"

    @property
    def _circumstances(self) -> str:
        where = f"{self.engine}, {plural(len(self.workers), 'worker')} ({self.cluster})"
        return f"{where}, {self.seconds['total']:.2f} s" if "total" in self.seconds else where

    def to_arrow(self) -> ArrowTable:
        """Return the answer as a :class:`pyarrow.Table`, with the labels of the graph.

        One number is a row: motif, count, engine, seconds.

        Per vertex the columns are layer, id, label (if there are labels) and count; per edge u, v, u_label, v_label and
        support, with a row for each row of the input table, frame or array, in its order; for other inputs, for each
        edge sorted by (u, v). For a table of counts they are the key (``p`` and ``q``, or ``k``) and count, for a
        census class, group, count and share. Counts are uint64; in tables they are text if one of them needs more than
        64 bits.

        Raises
        ------
        InputError
            If the graph was in memory and is gone.
        StoreError
            If the store with the labels does not exist any more.
        """
        row = motif_row(self.motif)
        if row.classes:
            return answers.class_table(rows_by_class(row.classes, self.table))
        if self.motif.is_table:
            return answers.cell_table(row.key, self.table)
        if not self.vectors:
            facts = {"motif": self.motif.title, "count": self.count, "engine": self.engine}
            return answers.rows_table([facts | {"seconds": self.seconds.get("total")}])
        if "edge" in self.vectors:
            return answers.columns_table(self.held, {"edge": {"support": self.vectors.by_id("edge")}})
        values = {name: {"count": self.vectors.by_id(name)} for name in self.vectors}
        return answers.columns_table(self.held, values)

    def _has_edge_rows(self) -> bool:
        return "edge" in self.vectors

    def _draw(self, axes: Any) -> None:
        """Draw counts by size or class, the distribution of counts per vertex or edge, or one bar for one number."""
        row = motif_row(self.motif)
        if row.classes:
            charts.draw_classes(axes, rows_by_class(row.classes, self.table))
        elif self.table:
            charts.draw_table(axes, row.key, self.table)
        elif not self.vectors:
            charts.draw_numbers(axes, {self.motif.title: self.count})
        else:
            counts = {name: self.vectors.by_id(name) for name in self.vectors}
            charts.draw_distribution(axes, counts, f"count of {self.motif.title}")

    def methods(self) -> str:
        """Return a paragraph on how the answer was made, and references, for a publication."""
        return describe_count(self)

    @property
    def work_per_second(self) -> float | None:
        """Work units of this call over the seconds of its phase ``run``; None if the call counted nothing."""
        return rate_of(self.work - self.work_before, self.seconds["run"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the vectors as one JSON object; integers in full."""
        unit, rate = self.work_unit, self.work_per_second
        return {
            "motif": self.motif.name,
            "parameters": asdict(self.motif),
            "per": self.per,
            "count": self.count,
            "table": table_rows(self.table) if self.motif.is_table else None,
            "engine": self.engine,
            "cluster": self.cluster,
            "workers": len(self.workers),
            "worker_details": [
                {**asdict(worker), "leases": self.leases_by_worker.get(worker.name, 0)} for worker in self.workers
            ],
            "items": self.items,
            "leases": self.leases,
            "plan_key": self.plan_key,
            "seconds": {phase: round(value, 6) for phase, value in self.seconds.items()},
            "work": {unit: self.work, **({} if rate is None else {f"{unit}_per_second": round(rate)})},
            "graph": self.graph,
            "peak_memory_bytes": self.peak_memory_bytes,
            "peak_device_bytes": self.peak_device_bytes,
            "used_device_bytes": self.used_device_bytes,
            "strategy": self.strategy,
            "replication": self.replication,
            "moved": asdict(self.moved),
            "decisions": [asdict(decision) for decision in self.decisions],
            "output": self.output,
            "top": [entry.to_dict() for entry in self.largest],
            "job": None
            if self.job_directory is None
            else {
                "path": self.job_directory,
                "leases_before": self.leases_before,
                "work_before": self.work_before,
                "reused": self.reused,
            },
            **({} if self.checksum is None else {"checksum": self.checksum}),
            **({"best": [asdict(each) for each in self.best]} if self.best else {}),
        }


@dataclass(frozen=True, eq=False, repr=False)
class ListingResult(CountResult):
    """A listing; ``count`` is the number of its rows and ``output`` its directory."""

    listing: Listing = field(default_factory=Listing)  # limits of the listing
    limit_reached: bool = False  # whether it ended at its limit, so that there may be more
    files: int = 0  # Parquet files in the directory
    checked: bool = False  # whether a count confirmed the number: if all motifs of the graph are listed
    left: int | None = None  # number of rows kept by a test of all rows; None for all

    @property
    def rows(self) -> int:
        return self.count if self.left is None else self.left

    @property
    def headline(self) -> str:
        limit = ", the limit" if self.limit_reached else ""
        return f"{self._title}: {self.rows:,} listed{limit} ({self._circumstances}) in {self.output}"

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows: the labels of each column of lists, or two labels and numbers."""
        assert self.output is not None, "a listing is a directory"
        as_row = list if self._has_numbers else lambda column: map(tuple, column)
        for batch in answers.listing_batches(self.output):
            yield from zip(*(as_row(column.to_pylist()) for column in batch.columns), strict=True)

    @property
    def _has_numbers(self) -> bool:
        return bool(motif_row(self.motif).numbers(self.motif))

    def _preview(self) -> answers.Preview:
        try:
            assert self.output is not None, "a listing is a directory"
            return answers.preview(answers.listing_schema(self.output).names, self._rows(), self.rows)
        except StoreError:  # the files are gone
            return answers.Preview()

    def top(self, n: int = 10) -> list[tuple[tuple[Any, ...], ...]]:  # type: ignore[override]
        """Return the ``n`` rows with the most vertices, or common neighbours; ties go to the first.

        They are tuples of labels for each column, or of two labels and the numbers of the pair.
        """
        read_argument("n", n, Count)
        return heapq.nlargest(n, self._rows(), key=self._size_of)

    def _size_of(self, row: tuple[Any, ...]) -> int:
        return int(row[2]) if self._has_numbers else sum(map(len, row))

    def _draw(self, axes: Any) -> None:
        """Draw the number of rows by number of vertices, or of common neighbours."""
        sizes = Counter(map(self._size_of, self._rows()))
        what = "common neighbours" if self._has_numbers else "vertices"
        charts.draw_table(axes, (what,), {(size,): rows for size, rows in sizes.items()})

    def to_arrow(self) -> ArrowTable:
        """Return the rows as a :class:`pyarrow.Table`, read from the files; StoreError if they do not exist."""
        assert self.output is not None, "a listing is a directory"
        return answers.listing_table(self.output)

    def to_networkx(self) -> Any:
        """Return the pairs of a projection as a NetworkX graph, as :meth:`papilio.ProjectedRows.to_networkx`.

        Raises InputError for other motifs; otherwise as :meth:`to_arrow`.
        """
        if not self._has_numbers:
            raise InputError(f"rows of {self.motif.title} are no edges: to_networkx is for projections")
        assert self.output is not None, "a listing is a directory"
        (layer,), columns = motif_row(self.motif).columns(self.motif), answers.listing_schema(self.output).names
        labels = answers.label_column(self.held, layer)
        vertices = range(self.graph[f"n_{layer}"]) if labels is None else labels.to_pylist()
        return pairs_to_networkx(vertices, columns[2:], self._rows())

    def to_dict(self) -> dict[str, Any]:
        """Return one JSON object: the object of a count, plus the fields of a listing."""
        return {
            **super().to_dict(),
            "listing": asdict(self.listing),
            "limit_reached": self.limit_reached,
            "files": self.files,
            "checked": self.checked,
            **({} if self.left is None else {"rows": self.left}),
        }


def rate_of(work: int, run_s: float) -> float | None:
    """Return work units per second of one session, over its phase ``run`` of ``run_s`` seconds; None without work."""
    return work / run_s if work > 0 and run_s > 0 else None


TOP_ENTRIES = 10
"""Largest counts kept with a result, per layer."""


def _first_of_each(entries: Iterable[TopEntry], n: int) -> tuple[TopEntry, ...]:
    """Return the first ``n`` entries of each place."""
    seen, found = Counter[str](), []
    for entry in entries:
        seen[entry.place] += 1
        if seen[entry.place] <= n:
            found.append(entry)
    return tuple(found)


def find_top(
    vectors: Mapping[str, NDArray[np.uint64]], graph: GraphStore | LabelledGraph, n: int
) -> tuple[TopEntry, ...]:
    """Return the ``n`` largest counts, at least 1, of each layer, or of the edges: by decreasing count, ties by id.

    ``vectors`` are by id; labels and the ends of edges come from the graph.
    """
    return tuple(
        TopEntry(each.place, each.ids, each.labels, int(vectors[each.place][i]))
        for each, i in find_items(vectors, graph, n)
    )


def find_top_values(
    vectors: Mapping[str, NDArray[Any]], graph: GraphStore | LabelledGraph, n: int
) -> tuple[TopValue, ...]:
    """Return the ``n`` largest values above 0 of each layer, or of the edges, as :func:`find_top`."""
    return tuple(
        TopValue(each.place, each.ids, each.labels, vectors[each.place][i].item())
        for each, i in find_items(vectors, graph, n)
    )


def find_items(
    vectors: Mapping[str, NDArray[Any]], graph: GraphStore | LabelledGraph, n: int
) -> Iterator[tuple[Item, int]]:
    """Yield the ``n`` largest values above 0 of each layer, with the id of the vertex or the position of the edge."""
    for name, counts in vectors.items():
        best = find_largest(counts, n)
        layers: tuple[Literal["u", "v"], ...] = ("u", "v") if name == "edge" else ("v" if name == "v" else "u",)
        ends: Sequence[tuple[int, ...]] = graph.ends(best) if name == "edge" else [(i,) for i in best]
        labels = [graph.labels(layer) if best else None for layer in layers]
        for i, ids in zip(best, ends, strict=True):
            named = tuple(_name(each, given) for each, given in zip(ids, labels, strict=True))
            yield Item(name, ids, named), i


def find_largest(counts: NDArray[Any], n: int) -> list[int]:
    """Return the positions of the ``n`` largest positive numbers, by decreasing number, then position; NaN is none."""
    best, at = np.zeros(0, np.int64), 0
    for part in slices_of(counts):
        if part.dtype.kind == "f":
            part = np.nan_to_num(part, nan=0.0)
        if part.size > n:
            least = np.partition(part, part.size - n)[part.size - n]
            chosen = np.flatnonzero((part >= least) & (part > 0))
        else:
            chosen = np.flatnonzero(part > 0)
        # The former are earlier and win ties: a stable order by decreasing count keeps them first.
        best, at = np.concatenate((best, chosen + at)), at + part.size
        values = counts[best]
        falling = -values if values.dtype.kind == "f" else ~values
        best = best[np.argsort(falling, kind="stable")[:n]]
    return [int(i) for i in best]


def _name(i: int, labels: NDArray[Any] | None) -> Any:
    return i if labels is None else plain_labels(labels[i : i + 1])[0]
