"""A stored partition: the parts of a graph that is larger than memory, cut once and read by any worker.

    partition.json            format version, graph, strategy, parts with their sizes and work, blocks, hash
    blocks/<name>/*.parquet   see :mod:`papilio.partitioning.blocks`

A partition is written into a temporary sibling and renamed, so it is complete or absent. It belongs to one graph,
identified by its content hash, and serves every motif for which its cut is valid.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import fs as arrow_fs

from papilio.arguments import checked
from papilio.errors import StoreError, StoreNotFoundError, UnsupportedError
from papilio.motifs import GRANULARITIES, Granularity, Motif
from papilio.partitioning import blocks
from papilio.partitioning.blocks import PARTITION_ADVICE, BlockInfo, BlockKind
from papilio.parts import Block, Layer, Part, PartitionKind, PartSizes, join_blocks
from papilio.registry import MOTIF_ROWS, motif_row
from papilio.storage.files import atomic_directory, filesystem_of, os_errors_named, read_file, require_files
from papilio.storage.records import read_manifest, seal_json, write_record
from papilio.system_errors import explain

PARTITION_NAME = "partition.json"
"""The file that makes a directory a partition; written last."""

FORMAT = "papilio-partition"
"""Value of the key ``format``, which distinguishes a manifest from another program's ``partition.json``."""

FORMAT_VERSION = 2
"""Version of the layout that this code writes and reads; partitions of version 1 have no digests."""


PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.parquet)?")
"""Names of blocks and of their files."""

Decisions = tuple[tuple[str, str], ...]
"""Decisions of the cutter, each with its reason."""

_TOLD = ("hash", "reason", "decisions", "seconds", "peak_bytes")
"""Keys that are not part of the hash: they record how and why the parts were cut, not their content."""

_BLOCKS: dict[str, tuple[BlockKind, ...]] = {
    "wedges": ("starts", "ends"),
    "cycles": ("starts", "ends"),
    "roots": ("roots",),
    "maximal-bicliques": ("maximal",),
    "cliques": ("cliques",),
    "maximal-cliques": ("cliques",),
}


@dataclass(frozen=True)
class PartInfo:
    """A part in the manifest."""

    index: int
    blocks: tuple[str, ...]  # names of its blocks: starts and ends, or one block of roots
    layer: Layer  # layer of its starts or roots
    sizes: PartSizes
    n_items: int  # number of starts or roots
    work: int  # estimated cost of all items, in work units
    # Cost of the first items at some breakpoints, ``{"items": [0, ..., n_items], "work": [0, ..., work]}``.
    table: dict[str, list[int]]
    nbytes: int  # bytes of its arrays


@dataclass(frozen=True)
class PartitionManifest:
    """Description of a partition: everything except its blocks."""

    graph_hash: str  # content hash of the graph, 32 hexadecimal digits
    n_u: int
    n_v: int
    n_edges: int
    family: PartitionKind  # see :attr:`kind`
    strategy: str  # how the items were grouped, such as ``bcpar`` or ``pair_blocks``
    reason: str
    layer: Layer | None  # the anchored layer; None if both layers have parts
    least_p: int  # smallest p and q that the parts are valid for; 2 and 2 for wedges
    least_q: int
    per: Granularity  # the most detailed counts that it serves
    part_bytes_limit: int  # memory limit of one part, in bytes
    parts: tuple[PartInfo, ...]
    decisions: Decisions = ()
    seconds: dict[str, float] = field(default_factory=dict)  # seconds of each step of the cut
    peak_bytes: int = 0  # measured peak growth of resident host memory during the cut
    stored_edges: int = 0  # edges in the files of the blocks
    replication: float = 0.0  # edges of all parts together, divided by the edges of the graph
    blocks: tuple[BlockInfo, ...] = ()
    hash: str = ""  # hash of the cut, 32 hexadecimal digits
    format_version: int = FORMAT_VERSION

    @property
    def kind(self) -> PartitionKind:
        """Kind of the parts; the key of the file is ``family``, so that older partitions remain readable."""
        return self.family

    def to_json(self) -> str:
        """Return the text of ``partition.json`` with the hash of its content; the inverse of :meth:`from_json`."""
        data = {"format": FORMAT, **write_record(self)}
        return seal_json(data | {"hash": _hash_of(data)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> PartitionManifest:
        """Read the text of ``partition.json``; ``name`` is its path, for messages.

        Raises StoreError if the text is not JSON, not a manifest, of another version, breaks an invariant, or was
        changed after it was written.
        """
        manifest, data = read_manifest(cls, text, name, FORMAT, FORMAT_VERSION, "a partition", PARTITION_ADVICE)
        problem = _problem(manifest)
        if problem is None and manifest.hash != (found := _hash_of(data)):
            problem = f"hash is {manifest.hash}, but the content has {found}"
        if problem:
            raise StoreError(f"{name}: {problem}; {PARTITION_ADVICE}")
        return manifest


def _hash_of(data: dict[str, Any]) -> str:
    kept = {name: value for name, value in data.items() if name not in _TOLD}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _problem(manifest: PartitionManifest) -> str | None:
    for name in ("hash", "graph_hash"):
        if len(getattr(manifest, name)) != 32:
            return f"{name} is {getattr(manifest, name)!r}; expected 32 hexadecimal digits"
    for block in manifest.blocks:
        names = [block.name, *(file.name for file in block.files)]
        if not all(PLAIN_NAME.fullmatch(name) for name in names):
            return f"the block {block.name!r} names a file outside the partition"
    kinds = {block.name: block.kind for block in manifest.blocks}
    pairs = {part.blocks for part in manifest.parts}
    if len(pairs) < len(manifest.parts):
        return f"{len(manifest.parts)} parts have {len(pairs)} different blocks; some would be counted twice"
    return next((p for i, part in enumerate(manifest.parts) if (p := _part_problem(part, i, manifest, kinds))), None)


def _part_problem(part: PartInfo, index: int, manifest: PartitionManifest, kinds: dict[str, BlockKind]) -> str | None:
    items, work = (part.table.get(name) or [-1] for name in ("items", "work"))
    if part.index != index:
        return f"part {index} is recorded as part {part.index}"
    if tuple(kinds.get(name) for name in part.blocks) != _BLOCKS[manifest.kind]:
        return f"part {index} has blocks {', '.join(part.blocks)}, which do not match {manifest.kind}"
    if part.n_items < 1 or part.n_items != part.sizes.roots:
        return f"part {index} has {part.n_items} items and {part.sizes.roots} starts or roots"
    if len(items) != len(work) or (items[0], work[0], items[-1], work[-1]) != (0, 0, part.n_items, part.work):
        return f"part {index} has a table that does not end at item {part.n_items} with work {part.work}"
    return None


_EDGE_FILES = ("entries.parquet", "edges.parquet")
"""The files whose rows are edges."""


class Partition:
    """A stored partition, opened by :func:`open_partition`; holds its manifest and no blocks.

    Instances pickle as cheaply as their manifest; any thread may read.
    """

    def __init__(self, path: str, manifest: PartitionManifest) -> None:
        self.path = path
        self.manifest = manifest

    @property
    def hash(self) -> str:
        return self.manifest.hash

    def __repr__(self) -> str:
        manifest = self.manifest
        return f"Partition({self.path!r}, {manifest.strategy}, {len(manifest.parts)} parts)"

    @cached_property
    def _infos(self) -> dict[str, BlockInfo]:
        return {info.name: info for info in self.manifest.blocks}

    def read_block(self, name: str) -> Any:
        """Read a block: a StartBlock, an EndBlock, a RootPart or a CliquePart, depending on its kind.

        Raises StoreError if no block has this name, or its files are missing, unreadable or changed.
        """
        return self._reader(name).read_block()

    def read_column(self, block: str, file: str, column: str) -> NDArray[Any]:
        """Read one column of a file of a block; raises as :meth:`read_block`."""
        return self._reader(block).read(file, only=column)[column]

    def _reader(self, name: str) -> blocks.BlockReader:
        if name not in self._infos:
            raise StoreError(f"{self.path} has no block named {name}")
        return blocks.BlockReader(*filesystem_of(self.path), self._infos[name])

    def read_part(self, index: int) -> Part:
        """Read the part with this number; raises as :meth:`read_block`."""
        return join_blocks([self.read_block(name) for name in self.manifest.parts[index].blocks])

    def read_vector_ids(self, index: int, per: Granularity) -> dict[str, NDArray[Any]]:
        """Return, for each vector of a part's partial result, the id in the whole graph of each entry; reads only ids.

        The count of an id is the sum of its entries. In a part of wedges, starts come before ends, so a vertex of their
        layer, or an edge, may occur twice; in a part of cycles, middles follow, and a vertex may occur three times.
        Raises StoreError if a file is missing, unreadable or changed.
        """
        part = self.manifest.parts[index]
        if per == "total":
            return {}
        if len(part.blocks) == 1:
            (block,) = part.blocks
            if self.manifest.kind == "roots":
                return {layer: self.read_column(block, layer, "id") for layer in ("u", "v")}
            if per == "vertex":
                return {"n": self.read_column(block, "n", "id")}
            return {"edge": self.read_column(block, "edges", "edge")}
        starts, ends = part.blocks
        if per == "edge":
            entries = [self.read_column(name, "entries", "edge") for name in (starts, ends)]
            return {"edge": np.concatenate(entries)}
        own = [self.read_column(starts, "starts", "id"), self.read_column(ends, "ends", "id")]
        middles = self.read_column(ends, "middles", "id")
        if self.manifest.kind == "cycles":
            return {"n": np.concatenate([*own, middles])}
        other = "v" if part.layer == "u" else "u"
        return {part.layer: np.concatenate(own), other: middles}

    def require_graph(self, graph_hash: str) -> None:
        """Raise UnsupportedError if the partition belongs to a graph with another content hash."""
        if graph_hash != self.manifest.graph_hash:
            raise UnsupportedError(
                f"{self.path} is a partition of the graph {self.manifest.graph_hash}, but this graph is "
                f"{graph_hash}; create a partition of this graph"
            )

    def require_serves(self, motif: Motif, per: Granularity) -> None:
        """Check that the motif can be counted from these parts at this granularity.

        Raises UnsupportedError if the parts serve another motif or only larger (p, q), or were made for less detail.
        """
        manifest = self.manifest
        parted = motif_row(motif).parted
        if parted is None or parted.kind != manifest.kind:
            rows = (row for row in MOTIF_ROWS.values() if row.parted and row.parted.kind == manifest.kind)
            served = " or ".join(row.motif.name for row in rows)
            raise UnsupportedError(
                f"{self.path} has parts for {served}, not for {motif.title}; create another partition"
            )
        p, q = parted.least_sizes(motif)
        if p < manifest.least_p or q < manifest.least_q:
            told = f"p >= {manifest.least_p} and q >= {manifest.least_q}", f"p = {p} and q = {q}"
            if motif_row(motif).graph_kind == "unipartite":
                told = f"cliques of at least {manifest.least_p} vertices", f"{p}"
            raise UnsupportedError(
                f"{self.path} supports {told[0]}, but {motif.title} needs {told[1]}; create another partition"
            )
        if GRANULARITIES.index(per) > GRANULARITIES.index(manifest.per):
            raise UnsupportedError(
                f"{self.path} was created for counts per {manifest.per}, not per {per}; create it again with --per "
                f"{per}"
            )


@checked
def open_partition(path: str | os.PathLike[str]) -> Partition:
    """Open the partition at a local path or at a URL that pyarrow reads.

    Reads the manifest and checks that the files of all blocks exist with their recorded sizes. Raises StoreError if
    there is no partition, or it is damaged, truncated, foreign or of another version.
    """
    name = os.fspath(path)
    filesystem, root = filesystem_of(name)
    try:
        text = read_file(filesystem, f"{root}/{PARTITION_NAME}")
    except (FileNotFoundError, NotADirectoryError) as error:
        with os_errors_named(name):
            is_missing = filesystem.get_file_info(root).type == arrow_fs.FileType.NotFound
        kind = StoreNotFoundError if is_missing else StoreError
        raise kind(
            f"{name} has no {PARTITION_NAME}: it is not a partition of a graph; create one with papilio partition"
        ) from error
    except OSError as error:
        raise StoreError(f"{name}: {PARTITION_NAME} cannot be read {explain(error)}") from error
    manifest = PartitionManifest.from_json(text, f"{name}/{PARTITION_NAME}")
    sizes = [(f"blocks/{info.name}/{file.name}", file.n_bytes) for info in manifest.blocks for file in info.files]
    with os_errors_named(name):
        require_files(filesystem, root, name, sizes, "partition", blocks.PARTITION_ADVICE)
    return Partition(name, manifest)


class PartitionWriter:
    """Writes the blocks of a partition into ``directory``; made by :func:`write_partition`; any thread may write."""

    def __init__(self, path: str, directory: Path) -> None:
        self._path, self._directory = path, directory
        self._infos: dict[str, BlockInfo] = {}
        self._lock = threading.Lock()
        self.is_finished = False

    def write_block(self, name: str, block: Block) -> None:
        """Write a block, or a part of roots; ``name`` is new and consists of small letters, digits, ``-`` and ``_``."""
        directory = self._directory / "blocks" / name
        directory.mkdir()
        info = blocks.write_block(directory, name, block)
        with self._lock:
            self._infos[name] = info

    def finish(self, manifest: PartitionManifest) -> Partition:
        """Write the manifest after all blocks; return the partition, which appears when the block ends.

        Fills in ``blocks``, ``stored_edges``, ``replication`` and ``hash``. Raises StoreError if the manifest is
        inconsistent: a part refers to a block that was not written, or numbers are out of order.
        """
        infos = tuple(self._infos[name] for name in sorted(self._infos))
        stored = sum(file.n_rows for i in infos for file in i.files if file.name in _EDGE_FILES)
        read = sum(part.sizes.edges for part in manifest.parts)
        full = replace(manifest, blocks=infos, stored_edges=stored, replication=read / max(manifest.n_edges, 1))
        text = full.to_json()
        written = PartitionManifest.from_json(text, f"{self._path}/{PARTITION_NAME}")
        (self._directory / PARTITION_NAME).write_text(text, encoding="utf-8")
        self.is_finished = True
        return Partition(self._path, written)


@contextmanager
def write_partition(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[PartitionWriter]:
    """Write a partition block by block to ``path``, a local path in an existing directory.

    It appears after :meth:`PartitionWriter.finish` and the end of the block; after an exception nothing is left. Raises
    StoreError if ``path`` cannot be written, or exists without ``overwrite``.
    """
    name = os.fspath(path)
    with atomic_directory(name, overwrite, PARTITION_NAME) as directory:
        (directory / "blocks").mkdir()
        writer = PartitionWriter(name, directory)
        yield writer
        if not writer.is_finished:
            raise StoreError(f"{name}: the partition was not finished; nothing is kept")
