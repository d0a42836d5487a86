"""The graph store: a directory with a manifest, Parquet edge lists and label files.

    graph.json              format version, kind, sizes, content hash, digests, provenance, what ingest dropped
    edges/part-*.parquet    columns u, v (and sign), sorted by (u, v), row groups of about a million edges
    labels_u.parquet        dense id -> original label (absent if the ids are the labels)
    labels_v.parquet

A store is written into a temporary sibling and renamed, so it is complete or absent.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from pyarrow import fs as arrow_fs

from papilio.errors import GraphError, StoreError, StoreNotFoundError
from papilio.graph import MAX_VERTICES, BipartiteGraph, GraphKind, UnipartiteGraph, check_layer
from papilio.storage.edge_files import (
    FORMAT_VERSION,
    STORE_ADVICE,
    ContentHash,
    EdgeBatch,
    EdgeFile,
    EdgeFilesWriter,
    RowGroup,
    edge_problem,
    list_row_groups,
    read_row_group,
    read_row_groups,
)
from papilio.storage.files import (
    MANIFEST_NAME,
    atomic_directory,
    filesystem_of,
    os_errors_named,
    read_file,
    require_files,
)
from papilio.storage.labels import label_file, label_type, read_label_column, write_labels
from papilio.storage.layers import Layers
from papilio.storage.records import read_manifest, seal_json, write_record
from papilio.storage.sealed import footer_digest
from papilio.system_errors import explain

FORMAT = "papilio-graph"
"""Value of the key ``format``, which distinguishes a manifest from another program's ``graph.json``."""

OLDEST_VERSION = 2
"""First version that this code reads; its content hash is made of BLAKE2b. Stores of version 1 have no digests."""

_READERS = min(4, os.cpu_count() or 1)
"""Row groups of a store that are read into memory at a time."""

_HASH = re.compile(r"[0-9a-f]{32}")

_EDGE_FILE = re.compile(r"edges/[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Manifest:
    """Facts about a stored graph that are available without reading its edges."""

    may_grow: ClassVar[bool] = True

    kind: GraphKind
    n_u: int  # layer sizes; in a unipartite graph both are the number of vertices
    n_v: int
    n_edges: int
    signed: bool
    hash: str  # content hash, 32 hexadecimal digits, see papilio.storage.edge_files
    edge_files: tuple[EdgeFile, ...]  # in the order of their edges
    # digest of the label file of each layer that has one; in other layers the ids are the labels
    labels: dict[str, str] = field(default_factory=dict)
    # number of entries dropped on reading: duplicates, self_loops, malformed
    dropped: dict[str, int] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)  # name of the source, its format, the options
    format_version: int = FORMAT_VERSION

    def to_json(self) -> str:
        """Return the text of ``graph.json``; the inverse of :meth:`from_json`."""
        return seal_json({"format": FORMAT, **write_record(self)}, indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> Manifest:
        """Read the text of ``graph.json``; ``name`` is its path, for messages.

        Raises StoreError if it is not a manifest, is of another version, was changed, or breaks an invariant.
        """
        manifest, _ = read_manifest(
            cls, text, name, FORMAT, FORMAT_VERSION, "a graph store", STORE_ADVICE, OLDEST_VERSION
        )
        problem = _problem(manifest)
        if problem:
            raise StoreError(f"{name}: {problem}; {STORE_ADVICE}")
        return manifest


def _problem(manifest: Manifest) -> str | None:
    n_u, n_v = manifest.n_u, manifest.n_v
    if max(n_u, n_v) > MAX_VERTICES:
        return f"a layer has {max(n_u, n_v)} vertices; at most {MAX_VERTICES}"
    if manifest.kind == "unipartite" and n_u != n_v:
        return f"a unipartite graph has n_u = {n_u} and n_v = {n_v}; expected the same"
    digests = [
        ("hash", manifest.hash),
        *((f"labels.{layer}", each) for layer, each in manifest.labels.items()),
    ]
    digests += [(each.name, each.digest) for each in manifest.edge_files]
    wrong = next(((name, each) for name, each in digests if not _HASH.fullmatch(each)), None)
    if wrong is not None:
        return f"{wrong[0]} is {wrong[1]!r}; expected 32 hexadecimal digits"
    layers = ("u", "v") if manifest.kind == "bipartite" else ("u",)
    if not manifest.labels.keys() <= set(layers):
        return f"labels has {', '.join(manifest.labels)}; allowed are {', '.join(layers)}"
    names = [each.name for each in manifest.edge_files]
    outside = next((name for name in names if not _EDGE_FILE.fullmatch(name)), None)
    if outside is not None:
        return f"edge_files has {outside!r}, which is not a file in the directory edges"
    if len(set(names)) < len(names):
        return "edge_files has a file twice"
    if sum(each.n_edges for each in manifest.edge_files) != manifest.n_edges:
        return f"n_edges is {manifest.n_edges} and edge_files disagree with it"
    return None


class GraphStore:
    """A stored graph, opened by :func:`open_store`; holds its manifest and no edges.

    Instances are cheap to pickle: a worker reads the data from the path.
    """

    def __init__(self, path: str, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.kind: GraphKind = manifest.kind
        # In a unipartite graph both are the number of vertices.
        self.n_u, self.n_v = manifest.n_u, manifest.n_v
        self.n_edges, self.signed, self.hash = manifest.n_edges, manifest.signed, manifest.hash

    def __repr__(self) -> str:
        return f"GraphStore({self.path!r}, {self.kind}, n_u={self.n_u}, n_v={self.n_v}, n_edges={self.n_edges})"

    def __reduce__(self) -> tuple[type[GraphStore], tuple[str, Manifest]]:
        return GraphStore, (self.path, self.manifest)

    def _filesystem(self) -> tuple[arrow_fs.FileSystem, str]:
        return filesystem_of(self.path)

    def require_unchanged(self) -> None:
        """Raise StoreError unless the directory still contains the opened graph."""
        now = open_store(self.path).hash
        if now != self.hash:
            raise StoreError(f"{self.path} contained the graph {self.hash} and was replaced by {now}; run it again")

    @cached_property
    def row_groups(self) -> tuple[RowGroup, ...]:
        """All row groups in edge order; reads the footers of the edge files."""
        with self._replaced_named():
            return list_row_groups(*self._filesystem(), self.manifest.edge_files, self.signed)

    def read_groups(self, groups: Sequence[RowGroup]) -> Iterator[EdgeBatch]:
        """Yield the edges of row groups; they have the digests of the manifest but are not checked further.

        Raises StoreError if a file is missing, was changed, or belongs to a graph that replaced this one.
        """
        with self._replaced_named():
            yield from read_row_groups(*self._filesystem(), groups)

    @contextmanager
    def _replaced_named(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            self.require_unchanged()
            raise

    def select(self, u_start: int | None = None, u_stop: int | None = None) -> tuple[RowGroup, ...]:
        """Return the row groups that can contain edges with ``u_start <= u < u_stop``; all of them without a range."""
        start, stop = self._range(u_start, u_stop)
        if (start, stop) == (0, self.n_u):
            return self.row_groups
        return tuple(group for group in self.row_groups if group.u_max >= start and group.u_min < stop)

    def _range(self, u_start: int | None, u_stop: int | None) -> tuple[int, int]:
        start = 0 if u_start is None else u_start
        stop = self.n_u if u_stop is None else u_stop
        if not 0 <= start <= stop <= self.n_u:
            raise StoreError(f"{self.path}: the range of u [{start}, {stop}) is not within [0, {self.n_u})")
        return start, stop

    def batches(self, u_start: int | None = None, u_stop: int | None = None) -> Iterator[EdgeBatch]:
        """Yield the edges with ``u_start <= u < u_stop``, checked, one batch per row group touched.

        Once all edges of the store have been read, their hash is compared with the recorded one. Raises StoreError if
        the range is not within the layer, or the files are missing, unreadable, not sorted or changed.
        """
        start, stop = self._range(u_start, u_stop)
        groups = self.select(start, stop)
        content = self._content_hash()
        previous: tuple[int, int] | None = None
        for group, (u, v, sign) in zip(groups, self.read_groups(groups), strict=True):
            self._require_edges(group, (u, v, sign), previous)
            if len(groups) == len(self.row_groups):
                content.update(u, v, sign)
            previous = (int(u[-1]), int(v[-1]))
            low, high = np.searchsorted(u, np.array([start, stop], dtype=u.dtype))  # another type would copy u
            yield u[low:high], v[low:high], None if sign is None else sign[low:high]
        if len(groups) == len(self.row_groups):
            self._require_hash(content)

    def _content_hash(self) -> ContentHash:
        return ContentHash(self.kind, self.n_u, self.n_v, self.signed, self.manifest.format_version)

    def _require_edges(self, group: RowGroup, batch: EdgeBatch, previous: tuple[int, int] | None = None) -> None:
        u, v, sign = batch
        problem = edge_problem(u, v, sign, kind=self.kind, n_u=self.n_u, n_v=self.n_v, previous=previous)
        if problem:
            raise StoreError(f"{self.path}/{group.file.name}, row group {group.index}: {problem}; {STORE_ADVICE}")

    def _require_hash(self, content: ContentHash) -> None:
        if (found := content.hexdigest()) != self.hash:
            raise StoreError(
                f"{self.path}: the content hash is {found}, but the manifest has {self.hash}; the edges were "
                f"changed, {STORE_ADVICE}"
            )

    def read(self, u_start: int | None = None, u_stop: int | None = None) -> BipartiteGraph | UnipartiteGraph:
        """Read the edges with ``u_start <= u < u_stop`` (all, by default) into memory; raises as :meth:`batches`.

        Only the row groups that can contain such edges are read, several at a time. The layers keep their full sizes.
        """
        start, stop = self._range(u_start, u_stop)
        groups = self.select(start, stop)
        size = sum(group.n_edges for group in groups)
        u, v = np.empty(size, np.int32), np.empty(size, np.int32)
        sign = np.empty(size, np.int8) if self.signed else None
        with self._replaced_named():
            self._fill(groups, u, v, sign)
        low, high = np.searchsorted(u, np.array([start, stop], dtype=u.dtype))  # another type would copy u
        u, v, sign = u[low:high], v[low:high], None if sign is None else sign[low:high]
        if self.kind == "bipartite":
            return BipartiteGraph(self.n_u, self.n_v, u, v, sign)
        return UnipartiteGraph(self.n_u, u, v, sign)

    def _fill(
        self,
        groups: Sequence[RowGroup],
        u: NDArray[np.int32],
        v: NDArray[np.int32],
        sign: NDArray[np.int8] | None,
    ) -> None:
        """Read row groups into arrays of all their edges, shape (k,), and check them as :meth:`batches`."""
        filesystem, root = self._filesystem()
        columns: list[NDArray[Any]] = [u, v] if sign is None else [u, v, sign]

        def read(group: RowGroup, at: int) -> EdgeBatch:
            rows = slice(at, at + group.n_edges)
            for column, values in zip(columns, read_row_group(filesystem, root, group), strict=False):
                column[rows] = values
            batch = (u[rows], v[rows], None if sign is None else sign[rows])
            self._require_edges(group, batch)
            return batch

        content, is_whole = self._content_hash(), len(groups) == len(self.row_groups)
        places = accumulate((group.n_edges for group in groups), initial=0)
        previous: tuple[int, int] | None = None
        with ExitStack() as stack:
            readers = stack.enter_context(ThreadPoolExecutor(_READERS, "papilio-read"))
            batches = [readers.submit(read, group, at) for group, at in zip(groups, places, strict=False)]
            stack.callback(lambda: [each.cancel() for each in batches])
            for group, batch in zip(groups, batches, strict=True):
                found = batch.result()
                first = found[0][:1], found[1][:1], None if found[2] is None else found[2][:1]
                self._require_edges(group, first, previous)
                previous = int(found[0][-1]), int(found[1][-1])
                if is_whole:
                    content.update(*found)
        if is_whole:
            self._require_hash(content)

    def labels(self, layer: Literal["u", "v"]) -> NDArray[Any] | None:
        """Return the original labels of a layer in id order, or None if the ids are the labels.

        Integers as int64, strings as str objects; shape (n_u,) or (n_v,). A unipartite graph has one set of labels,
        returned for either layer.
        """
        column = self.label_column(layer)
        return None if column is None else column.to_numpy()

    def ends(self, edges: Sequence[int]) -> list[tuple[int, int]]:
        """Return the ids of both ends of a few edges; reads all edges once, raises as :meth:`batches`."""
        found: dict[int, tuple[int, int]] = {}
        at = 0
        for u, v, _ in self.batches() if edges else ():
            found |= {e: (int(u[e - at]), int(v[e - at])) for e in edges if at <= e < at + u.size}
            at += u.size
        return [found[edge] for edge in edges]

    @property
    def layers(self) -> Layers:
        """How the layers were found, if the vertices came in one list."""
        return Layers.from_dict(self.manifest.provenance.get("layers", {}))

    def label_column(self, layer: Literal["u", "v"]) -> pa.ChunkedArray | None:
        """Return the labels of a layer in id order, as :meth:`labels`, or None if the ids are the labels.

        The result is an Arrow array, int64 or string, for uses that need no Python objects.
        """
        if self.kind == "unipartite":
            layer = "u"
        digest, size = self.manifest.labels.get(layer), self.n_u if layer == "u" else self.n_v
        return None if digest is None else read_label_column(*self._filesystem(), layer, size, digest)

    def stored_bytes(self) -> int:
        """Return the size of the manifest, the edge files and the label files, in bytes."""
        filesystem, root = self._filesystem()
        names = [MANIFEST_NAME, *map(label_file, self.manifest.labels)]
        with os_errors_named(self.path):
            infos = filesystem.get_file_info([f"{root}/{name}" for name in names])
        return sum(entry.n_bytes for entry in self.manifest.edge_files) + sum(info.size or 0 for info in infos)

    def verify(self) -> None:
        """Read all files once and compare with the manifest; one row group in memory; raises as :meth:`batches`."""
        for _ in self.batches():
            pass
        for layer in self.manifest.labels:
            self.labels("u" if layer == "u" else "v")


def open_store(path: str | os.PathLike[str]) -> GraphStore:
    """Open the graph store at a local path or at a URL that pyarrow or fsspec reads.

    Reads the manifest and checks that the edge files exist with their recorded sizes. Raises StoreError if there is no
    store, or it is damaged, truncated, foreign or of another version.
    """
    name = os.fspath(path)
    filesystem, root = filesystem_of(name)
    try:
        text = read_file(filesystem, f"{root}/{MANIFEST_NAME}")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_manifest(filesystem, root, name) from error
    except OSError as error:
        raise StoreError(f"{name}: {MANIFEST_NAME} cannot be read {explain(error)}") from error
    manifest = Manifest.from_json(text, f"{name}/{MANIFEST_NAME}")
    sizes = [(entry.name, entry.n_bytes) for entry in manifest.edge_files]
    with os_errors_named(name):
        require_files(filesystem, root, name, sizes, "store", STORE_ADVICE)
    return GraphStore(name, manifest)


def _no_manifest(filesystem: arrow_fs.FileSystem, root: str, name: str) -> StoreError:
    with os_errors_named(name):
        kind = filesystem.get_file_info(root).type
    if kind == arrow_fs.FileType.NotFound:
        return StoreNotFoundError(f"{name} does not exist; use the path of a graph store, or convert a file into one")
    if kind == arrow_fs.FileType.File:
        return StoreError(f"{name} is a file; a graph store is a directory: convert the file into one")
    return StoreError(
        f"{name} has no {MANIFEST_NAME}: it is not a graph store; if it contains edge files: papilio convert "
        f"{name} STORE"
    )


class StoreWriter:
    """Writes a store from batches of sorted edges; a context manager.

    If the block ends normally, the store appears at ``path``; after an exception nothing is left. Set ``dropped`` to
    the counts of dropped entries before the block ends. ``labels_u`` and ``labels_v`` are in id order, integers or
    strings, shapes (n_u,) and (n_v,); a unipartite graph has n_u = n_v and ``labels_u`` only. Raises StoreError if
    ``path`` cannot be written or exists; GraphError, CapacityError for invalid sizes or labels.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kind: GraphKind,
        n_u: int,
        n_v: int,
        signed: bool,
        provenance: Mapping[str, Any],
        labels_u: ArrayLike | None = None,
        labels_v: ArrayLike | None = None,
        overwrite: bool = False,
    ) -> None:
        check_layer("n_u", n_u)
        check_layer("n_v", n_v)
        if kind == "unipartite" and (n_u != n_v or labels_v is not None):
            raise GraphError("a unipartite graph has n_u = n_v and its labels in labels_u only")
        self.path = os.fspath(path)
        self.kind: GraphKind = kind
        self.n_u, self.n_v, self.signed = n_u, n_v, signed
        self.provenance = dict(provenance)
        self.dropped: dict[str, int] = {}
        self._overwrite = overwrite
        self._given = {name: given for name, given in (("u", labels_u), ("v", labels_v)) if given is not None}
        self._labels: dict[str, str] = {}
        self._previous: tuple[int, int] | None = None
        self._content = ContentHash(kind, n_u, n_v, signed)
        self._stack = ExitStack()
        self._store: GraphStore | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.directory: Path = stack.enter_context(atomic_directory(self.path, self._overwrite))
            """The temporary directory that becomes the store."""
            self._edges = EdgeFilesWriter(self.directory, self.signed)
            stack.callback(self._edges.abort)
            for layer, given in self._given.items():
                labels = np.asarray(given)
                path = self.directory / f"{layer}.labels"
                self.add_label_file(layer, path, write_labels(path, [labels], label_type(labels)))
            self._stack = stack.pop_all()
        return self

    def add_label_file(self, layer: str, path: Path, n_labels: int) -> None:
        """Move a label file, made by :func:`papilio.storage.labels.write_labels`, into the store."""
        size = self.n_u if layer == "u" else self.n_v
        if n_labels != size:
            raise GraphError(f"labels_{layer} has {n_labels} labels; expected {size}, one per vertex")
        target = self.directory / label_file(layer)
        shutil.move(path, target)
        self._labels[layer] = footer_digest(target)

    def append(self, u: ArrayLike, v: ArrayLike, sign: ArrayLike | None = None) -> None:
        """Add edges, shape (k,), that follow all edges so far in (u, v) order.

        Raises GraphError if edges are out of order, repeated or out of range (u < v if unipartite), or signs are
        missing or invalid.
        """
        ids_u, ids_v = _as_column("u", u, np.int32), _as_column("v", v, np.int32)
        signs = None if sign is None else _as_column("sign", sign, np.int8)
        if (signs is not None) != self.signed:
            raise GraphError(f"signs are required for signed graphs, and only for them (signed={self.signed})")
        if ids_v.size != ids_u.size or (signs is not None and signs.size != ids_u.size):
            raise GraphError("u, v and sign have different lengths")
        problem = edge_problem(ids_u, ids_v, signs, kind=self.kind, n_u=self.n_u, n_v=self.n_v, previous=self._previous)
        if problem:
            raise GraphError(problem)
        if ids_u.size:
            self._previous = (int(ids_u[-1]), int(ids_v[-1]))
            self._content.update(ids_u, ids_v, signs)
            self._edges.append([ids_u, ids_v] if signs is None else [ids_u, ids_v, signs])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            manifest = self._finish() if error is None else None
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        self._stack.__exit__(kind, error, trace)
        if manifest is not None:
            self._store = GraphStore(self.path, manifest)

    def _finish(self) -> Manifest:
        self._edges.close()
        manifest = Manifest(
            kind=self.kind,
            n_u=self.n_u,
            n_v=self.n_v,
            n_edges=sum(entry.n_edges for entry in self._edges.files),
            signed=self.signed,
            hash=self._content.hexdigest(),
            edge_files=tuple(self._edges.files),
            labels=dict(sorted(self._labels.items())),
            dropped=dict(self.dropped),
            provenance=dict(self.provenance),
        )
        (self.directory / MANIFEST_NAME).write_text(manifest.to_json(), encoding="utf-8")
        return manifest

    @property
    def store(self) -> GraphStore:
        """The finished store; only after the end of the block."""
        if self._store is None:
            raise StoreError(f"{self.path}: the store is not finished")
        return self._store


def _as_column(name: str, values: ArrayLike, dtype: type[np.int32] | type[np.int8]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise GraphError(f"{name} has {array.ndim} dimensions and dtype {array.dtype}; expected one, of integers")
    if array.dtype == dtype:
        return array
    limits = np.iinfo(dtype)
    if array.size and (int(array.min()) < limits.min or int(array.max()) > limits.max):
        raise GraphError(f"{name} holds {array.min()} to {array.max()}; expected {limits.min} to {limits.max}")
    return array.astype(dtype)


def write_store(
    path: str | os.PathLike[str],
    graph: BipartiteGraph | UnipartiteGraph,
    *,
    provenance: Mapping[str, Any],
    labels_u: ArrayLike | None = None,
    labels_v: ArrayLike | None = None,
    overwrite: bool = False,
) -> GraphStore:
    """Write an in-memory graph as a store; parameters and errors as :class:`StoreWriter`."""
    with StoreWriter(
        path, kind=graph.kind, n_u=graph.n_u, n_v=graph.n_v, signed=graph.signed, provenance=provenance,
        labels_u=labels_u, labels_v=labels_v, overwrite=overwrite,
    ) as writer:  # fmt: skip
        writer.append(graph.u, graph.v, graph.sign)
    return writer.store


def copy_store(store: GraphStore, path: str | os.PathLike[str]) -> GraphStore:
    """Copy the files of a store into a new local directory, and open the copy, which has the same hash.

    Raises StoreError if ``path`` exists, a file cannot be copied, or the store changed since it was opened.
    """
    filesystem, root = filesystem_of(store.path)
    manifest = store.manifest
    names = [each.name for each in manifest.edge_files] + [label_file(layer) for layer in manifest.labels]
    with atomic_directory(path) as scratch:
        (scratch / "edges").mkdir()
        for name in (*names, MANIFEST_NAME):
            arrow_fs.copy_files(f"{root}/{name}", str(scratch / name), filesystem, arrow_fs.LocalFileSystem())
        if open_store(scratch).manifest != manifest:
            raise StoreError(f"{store.path} changed after it was read; read it again")
    return open_store(path)
