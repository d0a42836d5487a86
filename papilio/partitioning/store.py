"""A stored partition: the parts of a graph that does not fit a memory, cut once and read by any worker.

    partition.json            format version, graph, strategy, parts with their sizes and work, blocks, hash
    blocks/<name>/*.parquet   see :mod:`papilio.partitioning.blocks`

A partition is written into a temporary sibling and renamed into place: it is whole or absent. It belongs to one
graph, known by its content hash, and serves every motif for which its cut is valid.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from papilio.arguments import checked
from papilio.errors import StoreError, UnsupportedError
from papilio.families import FAMILIES, family_of
from papilio.motifs import GRANULARITIES, Granularity, Motif
from papilio.partitioning import blocks
from papilio.partitioning.manifest import PARTITION_NAME, PLAIN_NAME, PartInfo, PartitionManifest
from papilio.parts import Block, Part, join_blocks
from papilio.storage.location import atomic_directory, filesystem_of, read_file, require_files

__all__ = ["PartInfo", "Partition", "PartitionManifest", "PartitionWriter", "open_partition"]

_EDGE_FILES = ("entries.parquet", "edges.parquet")
"""The files whose rows are edges."""


class Partition:
    """A stored partition, opened by :func:`open_partition`; holds its manifest and no blocks.

    Instances are cheap to pickle as far as the manifest is; any thread may read.
    """

    def __init__(self, path: str, manifest: PartitionManifest) -> None:
        self.path = path
        self.manifest = manifest

    @property
    def hash(self) -> str:
        """Hash of its content, 32 hexadecimal digits."""
        return self.manifest.hash

    def __repr__(self) -> str:
        manifest = self.manifest
        return f"Partition({self.path!r}, {manifest.strategy}, {len(manifest.parts)} parts)"

    def __reduce__(self) -> tuple[type[Partition], tuple[str, PartitionManifest]]:
        return Partition, (self.path, self.manifest)

    @cached_property
    def _infos(self) -> dict[str, blocks.BlockInfo]:
        return {info.name: info for info in self.manifest.blocks}

    def read_block(self, name: str) -> Any:
        """Read a block: a StartBlock, an EndBlock, a RootPart or a CliquePart, by its kind.

        StoreError when there is none of this name, or its files are missing, not readable or changed.
        """
        return self._reader(name).read_block()

    def read_column(self, block: str, file: str, column: str) -> NDArray[Any]:
        """Read one column of a file of a block; errors as :meth:`read_block`."""
        return self._reader(block).read(file, only=column)[column]

    def _reader(self, name: str) -> blocks.BlockReader:
        if name not in self._infos:
            raise StoreError(f"{self.path} has no block named {name}")
        return blocks.BlockReader(*filesystem_of(self.path), self._infos[name])

    def read_part(self, index: int) -> Part:
        """Read the part of this number; errors as :meth:`read_block`."""
        return join_blocks([self.read_block(name) for name in self.manifest.parts[index].blocks])

    def require_graph(self, graph_hash: str) -> None:
        """Refuse (UnsupportedError) when it is a partition of another graph than the one with this content hash."""
        if graph_hash != self.manifest.graph_hash:
            raise UnsupportedError(
                f"{self.path} is a partition of the graph {self.manifest.graph_hash} and this graph is "
                f"{graph_hash}; make a partition of this one"
            )

    def require_serves(self, motif: Motif, per: Granularity) -> None:
        """Check that the motif can be counted from these parts, at this granularity.

        UnsupportedError when the parts are those of another motif, of larger (p, q) only, or were made for less detail.
        """
        manifest = self.manifest
        parted = family_of(motif).parted
        if parted is None or parted.kind != manifest.family:
            rows = (row for row in FAMILIES.values() if row.parted and row.parted.kind == manifest.family)
            served = " or ".join(row.motif.name for row in rows)
            raise UnsupportedError(
                f"{self.path} has parts for {served} and {motif.title} is asked for; make a partition for it"
            )
        p, q = parted.least_sizes(motif)
        if p < manifest.least_p or q < manifest.least_q:
            told = f"p >= {manifest.least_p} and q >= {manifest.least_q}", f"p = {p} and q = {q}"
            if family_of(motif).graph_kind == "unipartite":
                told = f"cliques of at least {manifest.least_p} vertices", f"{p}"
            raise UnsupportedError(
                f"{self.path} serves {told[0]}, and {motif.title} asks for {told[1]}; make a partition for that"
            )
        if GRANULARITIES.index(per) > GRANULARITIES.index(manifest.per):
            raise UnsupportedError(
                f"{self.path} was made for counts per {manifest.per} and counts per {per} are asked for; "
                f"make it again with --per {per}"
            )


@checked
def open_partition(path: str | os.PathLike[str]) -> Partition:
    """Open the partition at a local path or at a URL that pyarrow reads.

    Reads the manifest and checks that the files of all blocks are there with their recorded sizes. StoreError when
    there is no partition, or it is damaged, truncated, foreign or of another version.
    """
    name = os.fspath(path)
    filesystem, root = filesystem_of(name)
    try:
        text = read_file(filesystem, f"{root}/{PARTITION_NAME}")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(
            f"{name} has no {PARTITION_NAME}: it is not a partition of a graph; make one with papilio partition"
        ) from error
    except OSError as error:
        raise StoreError(f"{name}: {PARTITION_NAME} cannot be read ({error})") from error
    manifest = PartitionManifest.from_json(text, f"{name}/{PARTITION_NAME}")
    sizes = [
        (f"blocks/{info.name}/{file.name}", file.n_bytes) for info in manifest.blocks for file in info.files
    ]
    require_files(filesystem, root, name, sizes, "partition", blocks.PARTITION_ADVICE)
    return Partition(name, manifest)


class PartitionWriter:
    """Writes a partition block by block; a context manager. Several threads may write blocks at once.

    After :meth:`finish` and the end of the block the partition appears at ``path``, a local path in an existing
    directory; on an exception nothing is left. StoreError when ``path`` cannot be written to, or exists and is not to
    be replaced.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = os.fspath(path)
        self._overwrite = overwrite
        self._infos: dict[str, blocks.BlockInfo] = {}
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._manifest: PartitionManifest | None = None
        self._partition: Partition | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.directory: Path = stack.enter_context(
                atomic_directory(self.path, self._overwrite, PARTITION_NAME)
            )
            """The temporary directory that becomes the partition."""
            (self.directory / "blocks").mkdir()
            self._stack = stack.pop_all()
        return self

    def write_block(self, name: str, block: Block) -> None:
        """Write a block, or a part of roots; ``name`` is of small letters, digits, ``-`` and ``_``, and new."""
        if not PLAIN_NAME.fullmatch(name) or "." in name:
            raise ValueError(f"a block cannot be named {name!r}: use small letters, digits, - and _")
        directory = self.directory / "blocks" / name
        directory.mkdir()
        info = blocks.write_block(directory, name, block)
        with self._lock:
            self._infos[name] = info

    def finish(self, manifest: PartitionManifest) -> None:
        """Write the manifest, once all blocks are written.

        ``blocks``, ``stored_edges``, ``replication`` and ``hash`` are filled in here. StoreError when what it says is
        not consistent: a part of a block that was not written, numbers out of order.
        """
        infos = tuple(self._infos[name] for name in sorted(self._infos))
        stored = sum(file.n_rows for i in infos for file in i.files if file.name in _EDGE_FILES)
        read = sum(part.sizes.edges for part in manifest.parts)
        full = replace(
            manifest, blocks=infos, stored_edges=stored, replication=read / max(manifest.n_edges, 1)
        )
        text = full.to_json()
        self._manifest = PartitionManifest.from_json(text, f"{self.path}/{PARTITION_NAME}")
        (self.directory / PARTITION_NAME).write_text(text, encoding="utf-8")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._manifest is None:
            unfinished = StoreError(f"{self.path}: the partition was not finished; nothing is kept")
            self._stack.__exit__(StoreError, unfinished, None)
            raise unfinished
        self._stack.__exit__(kind, error, trace)
        if error is None and self._manifest is not None:
            self._partition = Partition(self.path, self._manifest)

    @property
    def partition(self) -> Partition:
        """The finished partition; only after the block has ended."""
        if self._partition is None:
            raise StoreError(f"{self.path}: the partition is not finished")
        return self._partition
