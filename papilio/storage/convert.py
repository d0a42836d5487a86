"""Conversion of edge lists of all known formats to a graph store, in passes that stream the edges.

The input is parsed into a scratch Parquet file of raw edges, and its labels are recorded. The labels get dense ids,
DuckDB sorts the edges out of core within a memory limit, and the sorted stream is deduplicated and written.

Integer labels become ids without a join (:mod:`papilio.storage.labels`). Text, and labels too widespread for a table
within the memory budget, are joined by DuckDB; see :class:`DiskSorter`.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from papilio.arguments import Bytes, checked, read_bytes, show_bytes, show_mebibytes
from papilio.errors import CapacityError, DuplicateEdgeError, InputError, StoreError
from papilio.graph import GraphKind
from papilio.signals import removed_at_end
from papilio.storage.column_choice import ColumnRef, Decimal, WantedColumns, sign_rule
from papilio.storage.disk_sort import Deduplicator, DiskSorter
from papilio.storage.edge_files import numbers_of
from papilio.storage.evidence import Layout, Missing
from papilio.storage.files import check_replaceable, local_path, os_errors_named
from papilio.storage.formats import MAX_MALFORMED, EdgeSource, FormatName, LabelType, ReadOptions
from papilio.storage.graph_files import HEAD_BYTES, find_graph_format, is_graph_format, write_graph_file
from papilio.storage.inputs import InputFile, InputLocation, InputPath, expand_inputs, known_encoding
from papilio.storage.labels import (
    BYTES_PER_LABEL,
    IdMap,
    LabelTracker,
    declared_maps,
    dense_map,
    read_label,
    write_labels,
)
from papilio.storage.sides import Sides
from papilio.storage.sources import open_source
from papilio.storage.store import GraphStore, StoreWriter
from papilio.storage.where import read_conditions
from papilio.system_errors import explain
from papilio.version import __version__

Duplicates = Literal["first", "last", "error"]
"""Which one of equal edges to keep: by time if there is a time column, else by place in the input."""

ConvertProgress = Callable[[str, int, int], None]
"""Called with ("read", bytes read, total bytes), then ("write", edges written, maximum number of edges)."""

_OUTSIDE_DUCK_BYTES = 160 << 20
"""Memory for pending batches and the row group being written, while DuckDB sorts."""

_MAX_BASELINE_BYTES = 256 << 20
"""Maximum memory already held by the process that counts against the bound."""


@dataclass(frozen=True)
class _Job:
    output: Path
    scratch: Path  # directory for intermediate files
    options: ReadOptions
    duplicates: Duplicates
    memory_bytes: int
    overwrite: bool = False
    progress: ConvertProgress = lambda *_: None
    origin: Mapping[str, Any] = field(default_factory=dict)  # provenance, in the place of the input's

    @property
    def threads(self) -> int:
        """Number of threads that the memory allows, up to 8."""
        return max(1, min(os.cpu_count() or 1, 8, self.memory_bytes // MIN_MEMORY_BYTES))

    @property
    def layers(self) -> tuple[str, ...]:
        return ("u", "v") if self.options.bipartite else ("u",)


def _ingest(inputs: InputPath | Sequence[InputPath], job: _Job) -> GraphStore:
    places = expand_inputs(inputs)
    total = sum(place.n_bytes for place in places)
    with ExitStack() as stack:
        first = stack.enter_context(InputFile(places[0]))
        graph_format = job.options.format or find_graph_format(first.name, first.peek(HEAD_BYTES))
        if is_graph_format(graph_format):
            if len(places) > 1 or job.duplicates != "first":
                strange = "several files" if len(places) > 1 else f"duplicates={job.duplicates!r}"
                raise InputError(f"{strange} cannot be used with {first.name}, a {graph_format} file")
            described = {"papilio": __version__, "format_forced": job.options.format is not None}
            described |= _describe_source(inputs, places, first)
            options = replace(job.options, format=graph_format)
            return write_graph_file(first, job.scratch, options, job.output, job.overwrite, described)
        source = open_source(
            first,
            places,
            job.options,
            job.scratch,
            job.threads,
            lambda done: job.progress("read", done, total),
        )
        raw = _RawEdges(places[0].name, source, job)
        raw.spool()
    provenance = _provenance(inputs, places, first, raw)
    maps = raw.integer_maps()
    return _write_joined(raw, provenance) if maps is None else _write_mapped(raw, maps, provenance)


def _provenance(
    inputs: InputPath | Sequence[InputPath],
    places: list[InputLocation],
    first: InputFile,
    raw: _RawEdges,
) -> dict[str, Any]:
    """Return the source of a graph; inputs are named without their directories."""
    info, options = raw.info, raw.job.options
    common = {"papilio": __version__, "edges_read": raw.rows, "notes": info.notes}
    if raw.job.origin:
        return {**common, "layout": {}, **raw.job.origin}
    return {
        **common,
        **_describe_source(inputs, places, first),
        "format": info.format,
        "format_forced": options.format is not None,
        "layout": info.layout,
        "options": {
            "bipartite": options.bipartite,
            "sign": None if options.sign is None else f"{info.sign_column}: {options.sign.describe()}",
            "duplicates": raw.job.duplicates,
            "skip_malformed": options.skip_malformed,
        },
        "lines": info.lines.describe() if info.lines.physical else None,
    }


def _describe_source(
    inputs: InputPath | Sequence[InputPath], places: list[InputLocation], first: InputFile
) -> dict[str, Any]:
    several = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    names = [os.fspath(each).rstrip("/").rsplit("/", 1)[-1] for each in several]
    member = {} if first.member is None else {"member": first.member}
    return {
        "source": names[0] if len(names) == 1 else names,
        "source_bytes": sum(place.n_bytes for place in places),
        "source_files": len(places),
        "compression": first.compression,
        **member,
    }


class _RawEdges:
    """The edges as read, in a scratch Parquet file, with counters and the labels found."""

    def __init__(self, name: str, source: EdgeSource, job: _Job) -> None:
        self._name = name
        self._source = source
        self.info = source.info
        self.job = job
        self.path = job.scratch / "raw.parquet"
        self.schema = source.info.schema
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
        """Raise InputError unless every edge read is in the store, or known to be left out.

        ``n_written`` counts the edges of the store and their duplicates.
        """
        lines = self.info.lines
        if lines.physical:
            lines.check(self._name)
        is_text = lines.physical > 0 and not {"symmetry", "layout"} & set(self.info.layout)
        if n_written + self.self_loops != self.rows or (is_text and lines.records != self.rows):
            raise InputError(
                f"{self._name}: {lines.records} records gave {self.rows} edges, {n_written} of them were sorted and "
                f"{self.self_loops} are self loops: this is a bug in Papilio, please report it"
            )

    def integer_maps(self) -> tuple[IdMap, IdMap] | None:
        """Return the maps from labels to ids of both columns, or None if labels must be joined."""
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


def _open_duck(job: _Job, held_bytes: int) -> DiskSorter:
    """Open DuckDB with the memory left by the process, the tables of labels and the batches."""
    baseline = min(psutil.Process().memory_info().rss - held_bytes, _MAX_BASELINE_BYTES)
    free = job.memory_bytes - baseline - held_bytes - _OUTSIDE_DUCK_BYTES
    return DiskSorter(job.scratch, int(free * 0.85), job.threads)


def _write_mapped(raw: _RawEdges, maps: tuple[IdMap, IdMap], provenance: dict[str, Any]) -> GraphStore:
    """Sort by label, which is also the order of the ids, and translate the sorted stream."""
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
    job = raw.job
    provenance["ids"] = [f"ranks of {kind} labels" for kind in raw.info.labels]
    files = {layer: job.scratch / f"{layer}.labels" for layer in job.layers}
    with _open_duck(job, 0) as duck:
        sizes = []
        for layer, path in files.items():
            columns = (layer,) if job.options.bipartite else ("u", "v")
            sizes.append(write_labels(path, duck.distinct_labels(raw.path, columns), raw.schema.field(layer).type))
        pair = (files["u"], files[job.layers[-1]])
        joined = duck.order_edges(raw.path, raw.columns, job.duplicates == "last", pair, not job.options.bipartite)
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
    """Write the store from sorted edges; ``label(at, vertex)`` returns the label of a vertex of U (at = 0) or V (1)."""
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
                f"({provenance['options']['sign']}); set a different rule by positive_from or sign_values"
            )
        if not job.origin and "layout" not in raw.info.layout:  # which says what the two layers are
            raw.sides.note(writer.provenance, writer.kind)
        writer.dropped.update(
            self_loops=raw.self_loops,
            malformed=raw.info.lines.malformed,
            comments=raw.info.lines.comments,
            duplicates=edges.duplicates,
            **raw.info.left_out,
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
    kind: GraphKind = "bipartite",
    u: ColumnRef | None = None,
    v: ColumnRef | None = None,
    sign: ColumnRef | None = None,
    positive_from: float | None = None,
    sign_values: str | None = None,
    decimal: Decimal | None = None,
    duplicates: Duplicates = "first",
    labels: LabelType | None = None,
    header: bool | None = None,
    time: ColumnRef | None = None,
    weight: ColumnRef | None = None,
    encoding: str | None = None,
    quotes: bool | None = None,
    layout: Layout | None = None,
    where: str | Sequence[str] | None = None,
    missing: Missing | None = None,
    skip_malformed: bool = False,
    max_malformed: float | None = None,
    memory_bytes: Bytes | None = None,
    temp_dir: InputPath | None = None,
    overwrite: bool = False,
    progress: ConvertProgress | bool | None = None,
) -> GraphStore:
    """Convert edge lists to one graph store, whose manifest records the detected layout and the dropped lines.

    Parameters
    ----------
    input : path-like, or several
        Files of one of the formats of :mod:`papilio.storage.formats`, plain or compressed with gzip, bzip2 or zstd; the
        layout of the first applies to all. Or two ``.npy`` files with one endpoint each. Directories (of Spark, Dask,
        Hive) and patterns such as ``part-*.csv`` stand for their files, ``-`` for standard input; URLs (https, s3 and
        others) are read with pyarrow or fsspec.
    output : path-like
        The store to create, in an existing local directory.
    format : str, optional
        Name of the format; detected by default.
    kind : {"bipartite", "unipartite"}
        Whether the two columns are two layers, each with its own ids (then an edge 3 3 is no loop), or vertices of one
        undirected graph (then self loops are dropped, and a b and b a are the same edge).
    u, v, sign, time : int or str, optional
        Columns of the endpoints, of the values that determine signs (positive above 0) and of times, by number from
        1 on or by name; by default chosen as in :mod:`papilio.storage.column_choice`.
    weight : int or str, optional
        Column of weights, never an endpoint and not kept; ``positive_from`` or ``sign_values`` derive signs from it.
    positive_from, sign_values : float, str, optional
        Smallest value that is positive; or the words for either sign, ``POSITIVE:NEGATIVE``, such as ``yea:nay,no``.
    decimal : {".", ","}, optional
        Decimal point of numbers: of those that determine signs, in ``where``, and of a matrix. By default a point; in a
        matrix also a comma that separates no fields.
    duplicates : {"first", "last", "error"}
        Which of equal edges to keep, by time if there is a time column, else by place in the input.
    labels, header, encoding : {"integer", "text"}, bool, str, optional
        Type of the labels; whether the first line holds names or sizes; encoding of text, such as ``latin-1``. By
        default the content decides: UTF-8, or UTF-16 with a byte order mark.
    quotes : bool
        Whether fields of csv and tsv may be quoted (RFC 4180); otherwise quotes are text. By default in csv, and in
        tsv if all fields of the first line are quoted.
    layout : {"edges", "matrix", "adjacency", "groups"}, optional
        What a line is, see :mod:`papilio.storage.layout`; by default the content decides.
    where : str or several, optional
        Conditions that all lines read meet, such as ``"stars >= 4"``, see :mod:`papilio.storage.where`.
    missing : {"drop", "label"}, optional
        What becomes of the words NA, NULL, NaN and the like as ends: they are left out, or are names. By default they
        are an error.
    skip_malformed, max_malformed : bool, float, optional
        Whether to skip and count malformed lines instead of raising, and up to which share of the lines; 0.05 by
        default.
    memory_bytes, temp_dir : int, path-like, optional
        Memory limit of the process in bytes, by default a quarter of the machine's; directory for scratch files, about
        10 to 40 bytes per edge, by default the directory of ``output``.
    progress : bool or callable, optional
        True for a progress bar, on a terminal or in a notebook; for a function see :data:`ConvertProgress`.

    Raises
    ------
    PapilioError
        MalformedLineError at the first malformed line, with file, line number and text; DuplicateEdgeError for equal
        edges if ``duplicates`` is ``"error"``; InputError for an invalid input or option; StoreError if ``output``
        exists or cannot be written; CapacityError for more than 2^31 - 1 vertices, or too little memory or disk.
    """
    rule = sign_rule(sign is not None, positive_from, sign_values, decimal)
    if weight is not None and sign is not None:
        raise InputError("weight and sign are both given; use one column for signs")
    values = weight if sign is None else sign
    columns = WantedColumns(u, v, values, time, signed=rule is not None)
    text = known_encoding(encoding)
    if max_malformed is not None and not (skip_malformed and 0 <= max_malformed <= 1):
        raise InputError(
            f"max_malformed is {max_malformed}; expected a share from 0 to 1, together with skip_malformed "
            "(--skip-malformed)"
        )
    options = ReadOptions(
        format=format,
        bipartite=kind == "bipartite",
        sign=rule,
        columns=columns,
        labels=labels,
        header=header,
        skip_malformed=skip_malformed,
        encoding=text,
        quotes=quotes,
        layout=layout,
        missing=missing,
        where=read_conditions(where, decimal),
        decimal=decimal,
        max_malformed=MAX_MALFORMED if max_malformed is None else max_malformed,
    )
    memory = _read_memory(memory_bytes)
    target = local_path(output)
    check_replaceable(target, overwrite)
    report = progress if callable(progress) else lambda *_: None
    with _scratch_directory(target, temp_dir) as scratch:
        job = _Job(target, scratch, options, duplicates, memory, overwrite, report)
        return _ingest(input, job)


def convert_pairs(listing: Path, output: Path, origin: Mapping[str, Any], overwrite: bool) -> GraphStore:
    """Convert a listing of pairs to a unipartite store with this provenance. Raises as :func:`convert`."""
    options = ReadOptions(bipartite=False, columns=WantedColumns("source", "target"))
    with _scratch_directory(output, None) as scratch:
        job = _Job(output, scratch, options, "first", _read_memory(None), overwrite, origin=origin)
        return _ingest(listing, job)


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
    """Create a directory for scratch files until the block ends.

    Raises CapacityError if its disk is full; StoreError for any other system error in the block.
    """
    parent = target.parent if temp_dir is None else local_path(Path(temp_dir) / "scratch").parent
    try:
        try:
            made = tempfile.TemporaryDirectory(dir=parent, prefix=f".{target.name}.convert-")
        except OSError as error:
            what = (
                f"{target} cannot be created in {parent}" if temp_dir is None else f"temp_dir {parent} cannot be used"
            )
            raise StoreError(f"{what} {explain(error, 'or choose another directory')}") from error
        with os_errors_named(parent, "or use another temp_dir"), made as scratch, removed_at_end(scratch):
            yield Path(scratch)
    except StoreError as error:
        if getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise CapacityError(f"{error}; the disk is full, or a quota is used up") from error
        raise
