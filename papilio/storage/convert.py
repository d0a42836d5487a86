"""Converting an edge list of any known format into a graph store, in passes none of which holds the edges in memory.

The input is parsed into a scratch Parquet file of raw edges, while the labels that occur are noted; the labels get
dense ids; DuckDB sorts the edges out of core; the sorted stream is deduplicated and written.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from papilio.arguments import Bytes, checked, read_bytes
from papilio.errors import CapacityError, DuplicateEdgeError, InputError, StoreError
from papilio.interrupts import removed_at_end
from papilio.storage.column_choice import ColumnRef, WantedColumns
from papilio.storage.columns import numbers_of
from papilio.storage.compression import known_encoding
from papilio.storage.formats import EdgeSource, FormatName, LabelType, ReadOptions, raw_schema
from papilio.storage.labels import read_label, write_labels
from papilio.storage.location import check_replaceable, local_path, os_errors_named
from papilio.storage.ordering import Deduplicator, Duck
from papilio.storage.places import InputPath, Place, find_places
from papilio.storage.relabel import BYTES_PER_LABEL, IdMap, LabelTracker, declared_maps, dense_map
from papilio.storage.sides import Sides
from papilio.storage.signs import sign_rule
from papilio.storage.sources import open_source
from papilio.storage.store import GraphStore, StoreWriter
from papilio.version import __version__
from papilio.wording import show_bytes, show_mebibytes

Duplicates = Literal["first", "last", "error"]
"""Which of several equal edges is kept: by time where there is a time column, else by place in the input."""

ConvertProgress = Callable[[str, int, int], None]
"""Called with ("read", bytes, bytes in all), then ("write", edges, edges at most in all)."""

_OUTSIDE_DUCK_BYTES = 160 << 20
"""Memory for batches on their way and the row group being written, while DuckDB sorts."""

_MAX_BASELINE_BYTES = 256 << 20
"""How much of what the process held before is counted against the bound."""


@dataclass(frozen=True)
class _Job:
    """The options of a conversion."""

    output: Path
    scratch: Path  # directory for intermediate files
    options: ReadOptions
    duplicates: Duplicates
    memory_bytes: int
    overwrite: bool
    progress: ConvertProgress

    @property
    def threads(self) -> int:
        """How many threads the memory is enough for, up to 8."""
        return max(1, min(os.cpu_count() or 1, 8, self.memory_bytes // MIN_MEMORY_BYTES))

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that have labels of their own."""
        return ("u", "v") if self.options.bipartite else ("u",)


def _ingest(given: InputPath | Sequence[InputPath], job: _Job) -> GraphStore:
    places = find_places(given)
    total = sum(place.n_bytes for place in places)
    with ExitStack() as stack:
        source, compression = open_source(
            places,
            job.options,
            job.scratch,
            job.threads,
            lambda done: job.progress("read", done, total),
            stack,
        )
        raw = _RawEdges(places[0].name, source, job)
        raw.spool()
    provenance = {**_described(given, places), "compression": compression, **_provenance(raw)}
    maps = raw.integer_maps()
    return _write_joined(raw, provenance) if maps is None else _write_mapped(raw, maps, provenance)


def _described(given: InputPath | Sequence[InputPath], places: list[Place]) -> dict[str, Any]:
    """Return what was given, without the directories that it lies in, and how many files that were."""
    several = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    names = [os.fspath(each).rstrip("/").rsplit("/", 1)[-1] for each in several]
    return {
        "papilio": __version__,
        "source": names[0] if len(names) == 1 else names,
        "source_bytes": sum(place.n_bytes for place in places),
        "source_files": len(places),
    }


def _provenance(raw: _RawEdges) -> dict[str, Any]:
    info, options = raw.info, raw.job.options
    return {
        "format": info.format,
        "format_forced": options.format is not None,
        "layout": info.layout,
        "edges_read": raw.rows,
        "options": {
            "bipartite": options.bipartite,
            "sign": None if options.sign is None else f"{info.sign_column}: {options.sign.describe()}",
            "duplicates": raw.job.duplicates,
            "skip_malformed": options.skip_malformed,
        },
        "lines": asdict(info.lines) if info.lines.physical else None,
        "notes": info.notes,
    }


class _RawEdges:
    """The edges as read, in a scratch Parquet file, and what was noted on the way."""

    def __init__(self, name: str, source: EdgeSource, job: _Job) -> None:
        self._name = name
        self._source = source
        self.info = source.info
        self.job = job
        self.path = job.scratch / "raw.parquet"
        self.schema = raw_schema(source.info, job.options.sign is not None)
        self.columns: tuple[str, ...] = tuple(self.schema.names)
        self.rows = 0
        self.self_loops = 0
        self.sides = Sides()
        n_trackers = 2 if job.options.bipartite else 1
        max_labels = job.memory_bytes // (4 * n_trackers * BYTES_PER_LABEL)
        self._trackers = [LabelTracker(max_labels) for _ in range(n_trackers)]

    def spool(self) -> None:
        """Read the whole source into the scratch file."""
        integers = [f.name for f in self.schema if f.type == pa.int64()]
        with pq.ParquetWriter(
            self.path,
            self.schema,
            compression="none" if len(integers) > 1 else "lz4",
            use_dictionary=["sign"],
            column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
        ) as writer:
            for batch in self._source.batches():
                self.rows += batch.num_rows
                self.sides.add(batch.column("u"), batch.column("v"))
                kept = batch if self.job.options.bipartite else self._without_loops(batch)
                for at, name in enumerate(("u", "v")):
                    if name in integers:
                        self._trackers[at % len(self._trackers)].add(numbers_of(kept.column(name)))
                writer.write_batch(kept)
        pa.default_memory_pool().release_unused()

    def _without_loops(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without self loops, the smaller endpoint first."""
        u, v = batch.column("u"), batch.column("v")
        kept = batch.filter(pc.not_equal(u, v))
        self.self_loops += batch.num_rows - kept.num_rows
        if kept.schema.field("u").type != pa.int64():
            return kept
        u, v = numbers_of(kept.column("u")), numbers_of(kept.column("v"))
        others = [kept.column(name) for name in self.columns[2:]]
        arrays = [pa.array(np.minimum(u, v)), pa.array(np.maximum(u, v)), *others]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def check(self, n_written: int) -> None:
        """Raise InputError unless all that was read is in the store, or known to be left out of it.

        ``n_written`` counts the edges of the store, and those equal to one of them.
        """
        lines = self.info.lines
        lines.check(self._name)
        is_text = lines.physical > 0 and "symmetry" not in self.info.layout
        if n_written + self.self_loops != self.rows or (is_text and lines.records != self.rows):
            raise InputError(
                f"{self._name}: {lines.records} records gave {self.rows} edges, of which {n_written} were sorted and "
                f"{self.self_loops} are self loops: this is a defect of Papilio, please report it"
            )

    def integer_maps(self) -> tuple[IdMap, IdMap] | None:
        """Return the maps from labels to ids of both columns, or None when labels have to be joined."""
        info = self.info
        if info.labels != ("integer", "integer"):
            return None
        both = (self._trackers[0], self._trackers[-1])
        if info.declared is not None:
            declared = declared_maps(self._name, info.declared, both)
            if declared is not None:
                return declared
            info.notes.append("labels lie outside the sizes that the header declares; ids are their ranks")
        found = [dense_map(tracker) for tracker in self._trackers]
        if found[0] is None or found[-1] is None:
            return None
        return found[0], found[-1]


def _open_duck(job: _Job, held_bytes: int) -> Duck:
    """Open DuckDB with what the bound leaves: without the process, the tables of labels and the batches."""
    baseline = min(psutil.Process().memory_info().rss - held_bytes, _MAX_BASELINE_BYTES)
    free = job.memory_bytes - baseline - held_bytes - _OUTSIDE_DUCK_BYTES
    return Duck(job.scratch, int(free * 0.85), job.threads)


def _write_mapped(raw: _RawEdges, maps: tuple[IdMap, IdMap], provenance: dict[str, Any]) -> GraphStore:
    """Sort by label, which is the order of the ids too, and translate the sorted stream."""
    job = raw.job
    provenance["ids"] = [id_map.describe() for id_map in maps]
    files: dict[str, Path] = {}
    for layer, id_map in zip(job.layers, maps, strict=False):
        if not id_map.is_identity:
            files[layer] = job.scratch / f"{layer}.labels"
            write_labels(files[layer], id_map.labels(), pa.int64())
    held_bytes = sum({id(id_map): id_map.nbytes for id_map in maps}.values())
    with _open_duck(job, held_bytes) as duck:
        ordered = duck.order_edges(raw.path, raw.columns, job.duplicates == "last")
        edges = Deduplicator((maps[0].ids(u), maps[1].ids(v), sign) for u, v, sign in ordered)
        sizes = (maps[0].size, maps[1].size)
        return _write(raw, provenance, edges, lambda at, vertex: maps[at].label(vertex), sizes, files)


def _write_joined(raw: _RawEdges, provenance: dict[str, Any]) -> GraphStore:
    """Collect the different labels, join their ranks to the edges, and sort."""
    job = raw.job
    provenance["ids"] = [f"ranks of {kind} labels" for kind in raw.info.labels]
    files = {layer: job.scratch / f"{layer}.labels" for layer in job.layers}
    with _open_duck(job, 0) as duck:
        sizes = []
        for layer, path in files.items():
            columns = (layer,) if job.options.bipartite else ("u", "v")
            sizes.append(
                write_labels(path, duck.distinct_labels(raw.path, columns), raw.schema.field(layer).type)
            )
        pair = (files["u"], files[job.layers[-1]])
        joined = duck.join_edges(
            raw.path, raw.columns, job.duplicates == "last", pair, not job.options.bipartite
        )
        edges = Deduplicator(joined)
        return _write(
            raw,
            provenance,
            edges,
            lambda at, vertex: read_label(pair[at], vertex),
            (sizes[0], sizes[-1]),
            files,
        )


def _write(
    raw: _RawEdges,
    provenance: dict[str, Any],
    edges: Deduplicator,
    label: Callable[[int, int], Any],
    sizes: tuple[int, int],
    label_files: dict[str, Path],
) -> GraphStore:
    """Write the store from sorted edges; ``label(at, vertex)`` names a vertex of U (at = 0) or V (1)."""
    job, done, positive = raw.job, 0, 0
    with StoreWriter(
        job.output,
        kind="bipartite" if job.options.bipartite else "unipartite",
        n_u=sizes[0],
        n_v=sizes[1],
        signed=job.options.sign is not None,
        provenance=provenance,
        overwrite=job.overwrite,
    ) as writer:
        for u, v, sign in edges:
            if edges.example is not None and job.duplicates == "error":
                names = ", ".join(str(label(at, vertex)) for at, vertex in enumerate(edges.example))
                raise DuplicateEdgeError(
                    f"{provenance['source']}: the edge ({names}) occurs more than once; "
                    "keep the first or the last of equal edges instead"
                )
            writer.append(u, v, sign)
            done += u.size
            positive += 0 if sign is None else int(np.count_nonzero(sign > 0))
            job.progress("write", done + edges.duplicates, provenance["edges_read"])
        for layer, path in label_files.items():
            writer.add_label_file(layer, path, sizes[0] if layer == "u" else sizes[1])
        if job.options.sign is not None and done and positive in (0, done):
            provenance["notes"].append(
                f"all {done:,} edges are {'positive' if positive else 'negative'} by the rule "
                f"({provenance['options']['sign']}); positive_from or sign_values set another"
            )
        raw.sides.note(writer.provenance, writer.kind)
        writer.dropped.update(
            self_loops=raw.self_loops,
            malformed=raw.info.lines.malformed,
            comments=raw.info.lines.comments,
            duplicates=edges.duplicates,
        )
        raw.check(done + edges.duplicates)
    return writer.store


MIN_MEMORY_BYTES = 512 << 20
"""Smallest memory bound: the libraries themselves take 150 to 200 MiB."""


@checked
def convert(
    input: InputPath | Sequence[InputPath],
    output: InputPath,
    *,
    format: FormatName | None = None,
    bipartite: bool = True,
    u: ColumnRef | None = None,
    v: ColumnRef | None = None,
    sign_column: ColumnRef | None = None,
    positive_from: float | None = None,
    sign_values: str | None = None,
    duplicates: Duplicates = "first",
    labels: LabelType | None = None,
    header: bool | None = None,
    time_column: ColumnRef | None = None,
    weight_column: ColumnRef | None = None,
    encoding: str | None = None,
    quotes: bool | None = None,
    skip_malformed: bool = False,
    memory_bytes: Bytes | None = None,
    temp_dir: InputPath | None = None,
    overwrite: bool = False,
    progress: ConvertProgress | None = None,
) -> GraphStore:
    """Convert edge lists into one graph store, whose manifest says what was detected and what was left out.

    Parameters
    ----------
    input : path-like, or several
        Files of one of the formats of :mod:`papilio.storage.formats`, plain or compressed with gzip, bzip2 or zstd,
        which are read as the first is; or two ``.npy`` files with one endpoint each. Directories (of Spark, Dask, Hive)
        and patterns such as ``part-*.csv`` stand for their files, ``-`` for standard input; URLs (https, s3 and others)
        are read with pyarrow or fsspec.
    output : path-like
        The store to create, in an existing local directory.
    format : str, optional
        Name of the format; detected by default.
    bipartite : bool
        Whether the two columns are two layers, each with its own ids (then an edge 3 3 is no loop), or vertices of one
        undirected graph (then self loops are dropped, and a b and b a are the same edge).
    u, v, sign_column, time_column : int or str, optional
        Columns of the endpoints, of the values that signs follow from (positive above 0) and of times, by number from
        1 on or by name; by default as :mod:`papilio.storage.column_choice` says.
    weight_column : int or str, optional
        Column of weights: no endpoint; signs follow from it if ``positive_from`` or ``sign_values`` say how. A graph
        store keeps no weights.
    positive_from, sign_values : float, str, optional
        Smallest value that is positive; or the words for either sign, ``POSITIVE:NEGATIVE``, such as ``yea:nay,no``.
    duplicates : {"first", "last", "error"}
        Which of several equal edges is kept, by time where there is a time column, else by place in the input.
    labels, header, encoding : {"integer", "text"}, bool, str, optional
        Type of the labels; whether the first line holds names or sizes; encoding of text, such as ``latin-1``. By
        default the content decides: UTF-8, or UTF-16 where its mark is.
    quotes : bool, optional
        Whether fields may be quoted as in RFC 4180; by default in the format csv alone. Elsewhere, and in a CSV with
        ``quotes=False``, a quote is text like any other.
    skip_malformed : bool
        Leave out malformed lines and count them instead of raising.
    memory_bytes, temp_dir : int, path-like, optional
        Bound of the memory of the process in bytes, by default a quarter of the machine's; directory for scratch files,
        about 10 to 40 bytes per edge, by default that of ``output``.
    progress : callable, optional
        See :data:`ConvertProgress`.

    Raises
    ------
    PapilioError
        MalformedLineError at the first malformed line, with file, line number and text; DuplicateEdgeError for equal
        edges where ``duplicates`` is ``"error"``; InputError for an input or an option that cannot be right; StoreError
        when ``output`` exists or cannot be written; CapacityError for more than 2^31 - 1 vertices, or too little memory
        or disk.
    """
    rule = sign_rule(sign_column is not None, positive_from, sign_values)
    values = _value_column(sign_column, weight_column)
    columns = WantedColumns(u, v, values, time_column, signed=rule is not None)
    text = known_encoding(encoding)
    options = ReadOptions(format, bipartite, rule, columns, labels, header, skip_malformed, text, quotes)
    memory = _read_memory(memory_bytes)
    target = local_path(output)
    check_replaceable(target, overwrite)
    report = progress or (lambda *_: None)
    with _scratch_directory(target, temp_dir) as scratch:
        job = _Job(target, scratch, options, duplicates, memory, overwrite, report)
        return _ingest(input, job)


def _value_column(sign: ColumnRef | None, weight: ColumnRef | None) -> ColumnRef | None:
    if weight is not None and sign is not None:
        raise InputError("weight_column and sign_column are both given; signs follow from one column")
    return weight if sign is None else sign


def _read_memory(given: Bytes | None) -> int:
    memory = read_bytes("memory_bytes", given) or int(psutil.virtual_memory().total // 4)
    if memory < MIN_MEMORY_BYTES:
        raise CapacityError(
            f"converting may use {show_bytes(memory)}; raise memory_bytes (--memory) to at least "
            f"{show_mebibytes(MIN_MEMORY_BYTES)}, about 200MiB of it for the process"
        )
    return memory


@contextmanager
def _scratch_directory(target: Path, temp_dir: InputPath | None) -> Iterator[Path]:
    """Give a directory for scratch files until the block ends.

    CapacityError when its disk is full; StoreError for whatever else the system refuses in the block.
    """
    parent = target.parent if temp_dir is None else local_path(Path(temp_dir) / "scratch").parent
    try:
        with (
            os_errors_named(parent, "scratch files must fit there; use another temp_dir"),
            tempfile.TemporaryDirectory(dir=parent, prefix=f".{target.name}.convert-") as scratch,
            removed_at_end(scratch),
        ):
            yield Path(scratch)
    except StoreError as error:
        if getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise CapacityError(f"{error}; the disk is full, or a quota is used up") from error
        raise
