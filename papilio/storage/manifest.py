"""The manifest of a graph store: what ``graph.json`` says, in one frozen dataclass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from papilio.errors import StoreError
from papilio.graph import MAX_VERTICES, GraphKind
from papilio.storage.records import parse_json, read_record, require_format, write_record

FORMAT = "papilio-graph"
"""Value of the key ``format``, by which a manifest is told from another program's ``graph.json``."""

FORMAT_VERSION = 1
"""Version of the store layout that this code writes, and the newest that it reads."""

_ADVICE = "the store is corrupt, write it again"

_HASH = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class EdgeFile:
    """One Parquet file of the edge list; ``name`` is its path within the store, ``edges/part-00000.parquet``."""

    name: str
    n_edges: int
    n_bytes: int


@dataclass(frozen=True)
class Manifest:
    """Facts about a stored graph that are known without reading its edges."""

    may_grow: ClassVar[bool] = True

    kind: GraphKind
    n_u: int  # layer sizes; of a unipartite graph both are the number of vertices
    n_v: int
    n_edges: int
    signed: bool
    hash: str  # content hash, 32 hexadecimal digits, see papilio.storage.edges
    edge_files: tuple[EdgeFile, ...]  # in the order of their edges
    # layers that have a label file; those of other layers are the ids
    labels: tuple[Literal["u", "v"], ...] = ()
    # what ingest left out: duplicates, self_loops, malformed
    dropped: dict[str, int] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)  # name of the source, its format, the options
    format_version: int = FORMAT_VERSION

    def to_json(self) -> str:
        """Return the text of ``graph.json``; the inverse of :meth:`from_json`."""
        return json.dumps({"format": FORMAT, **write_record(self)}, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> Manifest:
        """Read the text of ``graph.json``; ``name`` is its path, for messages.

        StoreError when it is no manifest, of a newer version, or breaks an invariant.
        """
        names = [each.name for each in fields(cls)]
        data = parse_manifest(text, name, FORMAT, FORMAT_VERSION, names, ("a graph store", _ADVICE))
        manifest = read_record(cls, data, name, _ADVICE)
        problem = _problem(manifest)
        if problem:
            raise StoreError(f"{name}: {problem}; {_ADVICE}")
        return manifest


def _problem(manifest: Manifest) -> str | None:
    n_u, n_v = manifest.n_u, manifest.n_v
    if max(n_u, n_v) > MAX_VERTICES:
        return f"a layer has {max(n_u, n_v)} vertices; at most {MAX_VERTICES}"
    if manifest.kind == "unipartite" and n_u != n_v:
        return f"a unipartite graph has n_u = {n_u} and n_v = {n_v}; expected the same"
    if not _HASH.fullmatch(manifest.hash):
        return f"hash is {manifest.hash!r}; expected 32 hexadecimal digits"
    names = [each.name for each in manifest.edge_files]
    outside = next((name for name in names if name.startswith("/") or ".." in name.split("/")), None)
    if outside is not None:
        return f"edge_files has {outside!r}, which is outside the store"
    if len(set(names)) < len(names):
        return f"edge_files has {max(names, key=names.count)!r} twice"
    if sum(each.n_edges for each in manifest.edge_files) != manifest.n_edges:
        return f"n_edges is {manifest.n_edges} and edge_files disagree with it"
    return None


def parse_manifest(
    text: str | bytes, name: str, form: str, newest: int, keys: Iterable[str], words: tuple[str, str]
) -> dict[str, Any]:
    """Return the object of a file's text, once its format, version and keys are what they should be.

    ``form`` is the value of the key ``format``, ``newest`` the newest version that this code reads; for messages,
    ``words`` are what the file describes, and what to do when it is damaged. StoreError when the text is not JSON, not
    such a description, of a newer version, or lacks a key.
    """
    what, advice = words
    data = require_format(parse_json(text, name, advice), name, form, newest, what)
    missing = [key for key in keys if key not in data]
    if missing:
        raise StoreError(f"{name} lacks {', '.join(missing)}; {advice}")
    return data
