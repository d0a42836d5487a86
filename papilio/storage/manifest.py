"""The manifest of a graph store: what ``graph.json`` says, in one frozen dataclass."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from papilio.errors import StoreError
from papilio.graph import MAX_VERTICES

__all__ = ["FORMAT", "FORMAT_VERSION", "EdgeFile", "GraphKind", "Manifest", "parse_manifest"]

FORMAT = "papilio-graph"
"""Value of the key ``format``, by which a manifest is told from another program's ``graph.json``."""

FORMAT_VERSION = 1
"""Version of the store layout that this code writes, and the newest that it reads."""

GraphKind = Literal["bipartite", "unipartite"]
"""Two layers with their own ids, or one set of vertices."""


@dataclass(frozen=True)
class EdgeFile:
    """One Parquet file of the edge list.

    Attributes
    ----------
    name : str
        Path within the store, ``edges/part-00000.parquet``.
    n_edges : int
        Rows.
    n_bytes : int
        Size of the file in bytes.
    """

    name: str
    n_edges: int
    n_bytes: int


@dataclass(frozen=True)
class Manifest:
    """What is known of a stored graph without reading its edges.

    Attributes
    ----------
    kind : {"bipartite", "unipartite"}
    n_u, n_v : int
        Layer sizes; both the number of vertices for a unipartite graph.
    n_edges : int
    signed : bool
        Whether the edges carry a sign, +1 or -1.
    hash : str
        Content hash, 32 hexadecimal digits; see :mod:`papilio.storage.content`.
    edge_files : tuple of EdgeFile
        In the order of their edges.
    labels : tuple of str
        Layers (``"u"``, ``"v"``) that have a label file; an absent layer is labelled by its ids.
    dropped : dict of str to int
        What ingest left out, by reason: ``duplicates``, ``self_loops``, ``malformed``.
    provenance : dict
        Where the graph comes from: name of the source, its format, the options used.
    format_version : int
        Version of the layout.
    """

    kind: GraphKind
    n_u: int
    n_v: int
    n_edges: int
    signed: bool
    hash: str
    edge_files: tuple[EdgeFile, ...]
    labels: tuple[str, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    def to_json(self) -> str:
        """Return the text of ``graph.json``; the inverse of :meth:`from_json`."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> Manifest:
        """Read the text of ``graph.json``; ``name`` is its path, for messages.

        Raises
        ------
        StoreError
            When the text is not JSON, not a manifest, of a newer version, or breaks an invariant.
        """
        names = [f.name for f in fields(cls)]
        data = parse_manifest(
            text,
            name,
            FORMAT,
            FORMAT_VERSION,
            names,
            ("a graph store", "the store is corrupt", "write it again"),
        )
        problem = _problem(data)
        if problem:
            raise StoreError(f"{name}: {problem}; the store is corrupt, write it again")
        known = {f.name: data[f.name] for f in fields(cls)}
        known["edge_files"] = tuple(EdgeFile(**entry) for entry in data["edge_files"])
        known["labels"] = tuple(data["labels"])
        return cls(**known)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_edge_file(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == {"name", "n_edges", "n_bytes"}
        and isinstance(entry["name"], str)
        and ".." not in entry["name"].split("/")
        and not entry["name"].startswith("/")
        and _is_count(entry["n_edges"])
        and _is_count(entry["n_bytes"])
    )


def _problem(data: dict[str, Any]) -> str | None:
    """Return what is wrong with the values of a manifest, or None."""
    if data["kind"] not in get_args(GraphKind):
        return f"kind is {data['kind']!r}; expected one of {', '.join(get_args(GraphKind))}"
    for name in ("n_u", "n_v", "n_edges"):
        if not _is_count(data[name]):
            return f"{name} is {data[name]!r}; expected an integer from 0 on"
    if max(data["n_u"], data["n_v"]) > MAX_VERTICES:
        return f"a layer has {max(data['n_u'], data['n_v'])} vertices; at most {MAX_VERTICES}"
    if data["kind"] == "unipartite" and data["n_u"] != data["n_v"]:
        return f"a unipartite graph has n_u = {data['n_u']} and n_v = {data['n_v']}; expected the same"
    if not isinstance(data["signed"], bool):
        return f"signed is {data['signed']!r}; expected true or false"
    if not isinstance(data["hash"], str) or len(data["hash"]) != 32:
        return f"hash is {data['hash']!r}; expected 32 hexadecimal digits"
    if not isinstance(data["edge_files"], list) or not all(map(_is_edge_file, data["edge_files"])):
        return "edge_files is not a list of entries with name, n_edges and n_bytes"
    if sum(entry["n_edges"] for entry in data["edge_files"]) != data["n_edges"]:
        return f"n_edges is {data['n_edges']} and edge_files disagree with it"
    if not isinstance(data["labels"], list) or not set(map(str, data["labels"])) <= {"u", "v"}:
        return f"labels is {data['labels']!r}; expected a list of layers"
    for name in ("dropped", "provenance"):
        if not isinstance(data[name], dict):
            return f"{name} is {data[name]!r}; expected an object"
    return None


def parse_manifest(
    text: str | bytes, name: str, form: str, newest: int, keys: Iterable[str], words: tuple[str, str, str]
) -> dict[str, Any]:
    """Return the object of a manifest's text, once its format, version and keys are what they should be.

    Parameters
    ----------
    text : str or bytes
    name : str
        Its path, for messages.
    form : str
        Value of the key ``format``.
    newest : int
        Newest version that this code reads.
    keys : iterable of str
        Keys that it must have.
    words : tuple of str
        For messages: what it describes, that it is corrupt, and what to do then.

    Raises
    ------
    StoreError
        When the text is not JSON, not such a manifest, of a newer version, or lacks a key.
    """
    what, corrupt, mend = words
    try:
        data = json.loads(text)
    except ValueError as error:
        raise StoreError(f"{name} is not valid JSON ({error}); {corrupt}") from error
    if not isinstance(data, dict) or data.get("format") != form:
        raise StoreError(f'{name} does not describe {what}: it has no "format": "{form}"')
    version = data.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise StoreError(f"{name} has format_version {version!r}; expected an integer from 1 on")
    if version > newest:
        raise StoreError(
            f"{name} has format_version {version}; this version of Papilio reads up to {newest}: upgrade it"
        )
    missing = [key for key in keys if key not in data]
    if missing:
        raise StoreError(f"{name} lacks {', '.join(missing)}; {corrupt}, {mend}")
    return data
