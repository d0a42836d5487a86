"""The manifest of a graph store: what ``graph.json`` says, in one frozen dataclass."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from papilio.errors import StoreError
from papilio.graph import MAX_VERTICES, GraphKind
from papilio.storage.records import parse_json, read_record, require_format, seal_json, write_record

FORMAT = "papilio-graph"
"""Value of the key ``format``, by which a manifest is told from another program's ``graph.json``."""

FORMAT_VERSION = 2
"""Version of the store layout that this code writes and reads; stores of version 1 hold no digests."""

STORE_ADVICE = "convert the graph again"
"""What to do about a damaged store."""

_HASH = re.compile(r"[0-9a-f]{32}")

_EDGE_FILE = re.compile(r"edges/[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class EdgeFile:
    """One Parquet file of the edge list; ``name`` is its path within the store, ``edges/part-00000.parquet``."""

    name: str
    n_edges: int
    n_bytes: int
    digest: str  # see papilio.storage.sealed


@dataclass(frozen=True)
class Manifest:
    """Facts about a stored graph that are known without reading its edges."""

    may_grow: ClassVar[bool] = True

    kind: GraphKind
    n_u: int  # layer sizes; of a unipartite graph both are the number of vertices
    n_v: int
    n_edges: int
    signed: bool
    hash: str  # content hash, 32 hexadecimal digits, see papilio.storage.edge_files
    edge_files: tuple[EdgeFile, ...]  # in the order of their edges
    # digest of the label file of each layer that has one; the labels of other layers are the ids
    labels: dict[str, str] = field(default_factory=dict)
    # what ingest left out: duplicates, self_loops, malformed
    dropped: dict[str, int] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)  # name of the source, its format, the options
    format_version: int = FORMAT_VERSION

    def to_json(self) -> str:
        """Return the text of ``graph.json``; the inverse of :meth:`from_json`."""
        return seal_json({"format": FORMAT, **write_record(self)}, indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> Manifest:
        """Read the text of ``graph.json``; ``name`` is its path, for messages.

        StoreError when it is no manifest, of another version, was changed, or breaks an invariant.
        """
        names = [each.name for each in fields(cls)]
        data = parse_manifest(text, name, FORMAT, FORMAT_VERSION, names, ("a graph store", STORE_ADVICE))
        manifest = read_record(cls, data, name, STORE_ADVICE)
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
        return f"labels has {', '.join(manifest.labels)}; expected some of {', '.join(layers)}"
    names = [each.name for each in manifest.edge_files]
    outside = next((name for name in names if not _EDGE_FILE.fullmatch(name)), None)
    if outside is not None:
        return f"edge_files has {outside!r}, which is no file of the directory edges"
    if len(set(names)) < len(names):
        return "edge_files has a file twice"
    if sum(each.n_edges for each in manifest.edge_files) != manifest.n_edges:
        return f"n_edges is {manifest.n_edges} and edge_files disagree with it"
    return None


def parse_manifest(
    text: str | bytes, name: str, form: str, version: int, keys: Iterable[str], words: tuple[str, str]
) -> dict[str, Any]:
    """Return the object of a file's text, once its format, version, digest and keys are what they should be.

    ``form`` is the value of the key ``format``, ``version`` the one that this code reads; for messages, ``words`` are
    what the file describes, and what to do when it is damaged. StoreError when the text is not JSON, not such a
    description, of another version, was changed, or lacks a key.
    """
    what, advice = words
    data = require_format(parse_json(text, name, advice), name, form, version, what, advice)
    missing = [key for key in keys if key not in data]
    if missing:
        raise StoreError(f"{name} lacks {', '.join(missing)}; {advice}")
    return data
