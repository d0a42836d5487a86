"""The manifest of a partition: what ``partition.json`` says, in frozen dataclasses."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from papilio.errors import StoreError
from papilio.motifs import Granularity
from papilio.partitioning.blocks import PARTITION_ADVICE, BlockInfo, BlockKind
from papilio.parts import Layer, PartSizes
from papilio.storage.manifest import parse_manifest
from papilio.storage.records import read_record, seal_json, write_record

PARTITION_NAME = "partition.json"
"""The file that makes a directory a partition; written last."""

FORMAT = "papilio-partition"
"""Value of the key ``format``, by which a manifest is told from another program's ``partition.json``."""

FORMAT_VERSION = 2
"""Version of the layout that this code writes and reads; partitions of version 1 hold no digests."""

Family = Literal["wedges", "roots", "maximal-bicliques", "cliques", "maximal-cliques"]
"""What the parts are cut for: butterflies by wedges, bicliques by roots, or cliques by their first vertices."""

PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.parquet)?")
"""Names of blocks and of their files."""

Decisions = tuple[tuple[str, str], ...]
"""What was decided on the way, each with its reason."""

_TOLD = ("hash", "reason", "decisions", "seconds", "peak_bytes")
"""Keys that are not part of the hash: they tell how and why the parts were cut, and not what they are."""

_BLOCKS: dict[str, tuple[BlockKind, ...]] = {
    "wedges": ("starts", "ends"),
    "roots": ("roots",),
    "maximal-bicliques": ("maximal",),
    "cliques": ("cliques",),
    "maximal-cliques": ("cliques",),
}


@dataclass(frozen=True)
class PartInfo:
    """What is known of a part without reading it."""

    index: int
    blocks: tuple[str, ...]  # names of its blocks: starts and ends, or the one of its roots
    layer: Layer  # of its starts or roots
    sizes: PartSizes
    n_items: int  # starts or roots
    work: int  # estimated cost of all items, in work units
    # Cost of the first items at some breakpoints, ``{"items": [0, ..., n_items], "work": [0, ..., work]}``.
    table: dict[str, list[int]]
    nbytes: int  # of its arrays


@dataclass(frozen=True)
class PartitionManifest:
    """What is known of a partition without reading its blocks."""

    graph_hash: str  # content hash of the graph, 32 hexadecimal digits
    n_u: int
    n_v: int
    n_edges: int
    family: Family
    strategy: str  # how the items were grouped, such as ``bcpar`` or ``pair_blocks``
    reason: str
    layer: Layer | None  # the anchored layer; None where both layers have parts
    least_p: int  # smallest p and q that the parts are valid for; 2 and 2 for wedges
    least_q: int
    per: Granularity  # the most detailed counts that it serves
    part_bytes_limit: int  # memory that one part was allowed to need, in bytes
    parts: tuple[PartInfo, ...]
    decisions: Decisions = ()
    seconds: dict[str, float] = field(default_factory=dict)  # of each step of making it
    peak_bytes: int = 0  # most resident host memory while it was made, measured, above what was held before
    stored_edges: int = 0  # edges in the files of the blocks
    replication: float = 0.0  # edges of all parts together, over the edges of the graph
    blocks: tuple[BlockInfo, ...] = ()
    hash: str = ""  # of what was cut, 32 hexadecimal digits
    format_version: int = FORMAT_VERSION

    def to_json(self) -> str:
        """Return the text of ``partition.json``, with the hash of what it says; the inverse of :meth:`from_json`."""
        data = {"format": FORMAT, **write_record(self)}
        return seal_json(data | {"hash": _hash_of(data)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> PartitionManifest:
        """Read the text of ``partition.json``; ``name`` is its path, for messages.

        StoreError when the text is not JSON, not a manifest, of another version, breaks an invariant, or was changed
        after it was written.
        """
        names = [each.name for each in fields(cls)]
        data = parse_manifest(text, name, FORMAT, FORMAT_VERSION, names, ("a partition", PARTITION_ADVICE))
        kept = {key: value for key, value in data.items() if key != "format"}
        manifest = read_record(cls, kept, name, PARTITION_ADVICE)
        problem = _problem(manifest)
        if problem is None and manifest.hash != (found := _hash_of(data)):
            problem = f"hash is {manifest.hash} and what it says has {found}"
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
    return next(
        (p for i, part in enumerate(manifest.parts) if (p := _part_problem(part, i, manifest, kinds))), None
    )


def _part_problem(
    part: PartInfo, index: int, manifest: PartitionManifest, kinds: dict[str, BlockKind]
) -> str | None:
    items, work = (part.table.get(name) or [-1] for name in ("items", "work"))
    if part.index != index:
        return f"part {index} says that it is part {part.index}"
    if tuple(kinds.get(name) for name in part.blocks) != _BLOCKS[manifest.family]:
        return f"part {index} has blocks {', '.join(part.blocks)}, which are not those of {manifest.family}"
    if part.n_items < 1 or part.n_items != part.sizes.roots:
        return f"part {index} has {part.n_items} items and {part.sizes.roots} starts or roots"
    if len(items) != len(work) or (items[0], work[0], items[-1], work[-1]) != (0, 0, part.n_items, part.work):
        return f"part {index} has a table that does not end at item {part.n_items} with work {part.work}"
    return None
