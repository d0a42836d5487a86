"""Files of graphs with their vertices: GraphML, GML, GEXF, Pajek and others, read by NetworkX or igraph.

| format | names end in | reader |
|---|---|---|
| ``graphml``, ``gml``, ``gexf`` | ``.graphml``, ``.gml``, ``.gexf`` | NetworkX |
| ``pajek``, ``dl``, ``lgl``, ``ncol`` | ``.net``, ``.dl``, ``.lgl``, ``.ncol`` | igraph |
| ``adjlist``, ``multiline-adjlist`` | ``.adjlist``, ``.multiadj`` | NetworkX |
| ``networkx-edges`` | found by the content | NetworkX: edge lists with attributes in braces |
| ``graph6``, ``sparse6`` | ``.g6``, ``.s6`` | NetworkX; a single graph |
| ``hif`` | ``.hif.json``, or found by the content | here: hypergraphs in JSON; U has the nodes, V the edges |
| ``sif``, ``metis`` | ``.sif``, ``.metis`` | here |

The name of a file determines its format, else its first bytes. Labels are the attributes ``name`` or ``label`` if all
vertices have different ones, else the ids of the file; they are integers if all of them are. Layers are found as in
:mod:`papilio.storage.layers`, and isolated vertices are kept.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from papilio.errors import GraphError, InputError, MalformedLineError
from papilio.extras import import_extra
from papilio.graph import GraphKind
from papilio.storage.formats import FormatName, ReadOptions
from papilio.storage.inputs import InputFile
from papilio.storage.labelled import LabelledGraph, Origin, assemble, label_array, read_signs
from papilio.storage.layers import Layers
from papilio.storage.store import GraphStore, StoreWriter
from papilio.storage.vertices import Vertices, from_vertices

HEAD_BYTES = 1 << 14
"""Beginning of a file that shows its format."""

_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")
"""Labels that are integers: without leading zeros, below 2^63."""

_NAMES = ("name", "label")
"""Attributes that hold the labels of the vertices."""


def _networkx(reader: str, **options: Any) -> Callable[[Path, str], Vertices]:
    """Return a reader by a function of NetworkX; formats of bare text keep the direction of their edges."""

    def read(path: Path, name: str) -> Vertices:
        networkx = import_extra("networkx", f"reading {name} needs")
        directed = {"create_using": networkx.DiGraph} if reader.endswith(("list",)) else {}
        return Vertices.of_networkx(getattr(networkx, reader)(path, **directed, **options))

    return read


def _igraph(reader: str, **options: Any) -> Callable[[Path, str], Vertices]:
    def read(path: Path, name: str) -> Vertices:
        igraph = import_extra("igraph", f"reading {name} needs")
        return Vertices.of_igraph(getattr(igraph.Graph, reader)(str(path), **options))

    return read


def _single(reader: Callable[[Path, str], Vertices]) -> Callable[[Path, str], Vertices]:
    """Return a reader that rejects a file with several graphs, one a line."""

    def read(path: Path, name: str) -> Vertices:
        lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
        if len(lines) != 1:
            raise InputError(f"{name} holds {len(lines):,} graphs; expected one: save one line to its own file")
        return reader(path, name)

    return read


def _read_dl(path: Path, name: str) -> Vertices:
    head = path.read_bytes()[:HEAD_BYTES].lower()
    if re.search(rb"\bn[rc]\s*=", head):
        raise InputError(
            f"{name} is a two-mode DL file (nr and nc), which igraph does not read; save it in UCINET as a matrix in "
            "CSV, or as an edge list"
        )
    return _igraph("Read_DL")(path, name)


def _lines_of(path: Path, name: str) -> list[str]:
    try:
        return path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text ({error}); convert it first") from error


def _read_sif(path: Path, name: str) -> Vertices:
    """Read the simple interaction format: a node, its relation, and the nodes that it is related to.

    Fields are separated by tabs if a line has one, else by blanks (Cytoscape manual, Network Formats).
    """
    lines = _lines_of(path, name)
    mark = "\t" if any("\t" in line for line in lines) else None
    place: dict[str, int] = {}
    edges = []
    for number, line in enumerate(lines, 1):
        fields = [field.strip() for field in line.split(mark)] if line.strip() else []
        while fields and not fields[-1]:
            fields.pop()
        if len(fields) == 2 or "" in fields:
            raise MalformedLineError(
                f"{name}, line {number}: {line!r} has {len(fields)} fields; expected a node, or NODE RELATION NODE ..."
            )
        at = [place.setdefault(field, len(place)) for field in (*fields[:1], *fields[2:])]
        edges += [(at[0], other) for other in at[1:]]
    return Vertices([*place], edges, {}, directed=True)


def _read_metis(path: Path, name: str) -> Vertices:
    """Read an adjacency list of METIS: ``n m [fmt [ncon]]``, then the neighbours of each vertex, numbered from 1."""
    lines = [(at, line) for at, line in enumerate(_lines_of(path, name), 1) if not line.startswith("%")]

    def numbers(at: int, line: str) -> list[int]:
        if not all(field.isdecimal() for field in line.split()):
            raise MalformedLineError(f"{name}, line {at}: {line!r}; expected integers separated by blanks")
        return [int(field) for field in line.split()]

    head = numbers(*lines[0]) if lines else []
    if not 2 <= len(head) <= 4:
        raise InputError(f"{name}, line 1: expected the header of METIS, n m [fmt [ncon]]")
    n, n_edges, form, n_weights = [*head, *(0, 0)[len(head) - 2 :]]
    has_size, has_weights, weighted = form // 100 % 10, form // 10 % 10, form % 10
    before = bool(has_size) + (max(n_weights, 1) if has_weights else 0)
    rows = lines[1:]
    while len(rows) > n and not rows[-1][1].strip():
        rows.pop()
    if len(rows) != n:
        raise InputError(f"{name} has {len(rows):,} lines of neighbours; its header declares {n:,} vertices")
    edges = []
    for vertex, (at, line) in enumerate(rows):
        for other in numbers(at, line)[before :: 2 if weighted else 1]:
            if not 1 <= other <= n:
                raise MalformedLineError(f"{name}, line {at}: vertex {other}; expected 1 to {n}")
            edges.append((vertex, other - 1))
    if len(edges) != 2 * n_edges:
        raise InputError(f"{name} has {len(edges):,} neighbours; {n_edges:,} edges have {2 * n_edges:,}")
    forward, backward = {edge for edge in edges if edge[0] < edge[1]}, {(b, a) for a, b in edges if a > b}
    if len(forward) != n_edges or forward != backward:
        a, b = min(forward ^ backward, default=(0, 0))
        raise InputError(f"{name}: vertices {a + 1} and {b + 1} do not list each other exactly once, as METIS requires")
    return Vertices([*range(1, n + 1)], sorted(forward), {})


_HIF_LAYERS = Layers(names=("node", "edge"), said="layer U has the nodes of the hypergraph, layer V its edges")


def _read_hif(path: Path, name: str, sign: str | None, positive_from: float | None) -> LabelledGraph:
    """Read a hypergraph in JSON (Hypergraph Interchange Format): an edge for each incidence."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not readable JSON ({error})") from error
    incidences = found.get("incidences") if isinstance(found, dict) else None
    if not isinstance(incidences, list):
        raise InputError(f"{name} is JSON without a list of incidences; expected a hypergraph (HIF)")
    layers: tuple[dict[Any, int], dict[Any, int]] = ({}, {})
    for layer, key, rows in ((0, "node", found.get("nodes")), (1, "edge", found.get("edges"))):
        for at, row in enumerate(rows if isinstance(rows, list) else ()):
            layers[layer].setdefault(_hif_id(name, key, row, f"{key}s[{at}]"), len(layers[layer]))
    ends, values = [], []
    for at, row in enumerate(incidences):
        ids = [_hif_id(name, key, row, f"incidences[{at}]") for key in ("node", "edge")]
        ends.append([layer.setdefault(each, len(layer)) for layer, each in zip(layers, ids, strict=True)])
        if sign is not None:
            attributes = row.get("attrs") if isinstance(row.get("attrs"), dict) else {}
            values.append({**attributes, **row}.get(sign))
    if sign is not None and None in values:
        raise GraphError(f"{name}: incidences[{values.index(None)}] has no {sign!r}")
    pairs = np.array(ends, np.int64).reshape(-1, 2)
    signs = None if sign is None else read_signs(label_array(values), positive_from)
    graph = assemble("bipartite", pairs[:, 0], pairs[:, 1], signs, len(layers[0]), len(layers[1]))
    labels_u, labels_v = (label_array(_plain(list(layer))) for layer in layers)
    return replace(graph, labels_u=labels_u, labels_v=labels_v, layers=_HIF_LAYERS)


def _hif_id(name: str, key: str, row: Any, where: str) -> str | int:
    found = row.get(key) if isinstance(row, dict) else None
    if isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    raise InputError(f"{name}: {where} has {key} {found!r}; expected a string or an integer")


@dataclass(frozen=True)
class _Row:
    """A format: its usual name, how it is recognised, and its reader."""

    called: str
    suffixes: tuple[str, ...]
    begins: re.Pattern[bytes] | None
    read: Callable[[Path, str], Vertices] | None  # None for a hypergraph, which has its layers


def _begins(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\s*" + pattern, re.IGNORECASE | re.DOTALL)


_XML = rb"(<\?xml[^>]*>\s*)?(<!--.*?-->\s*|<!DOCTYPE[^>]*>\s*)*"

_FORMATS: Mapping[FormatName, _Row] = {
    "graphml": _Row("GraphML", (".graphml",), _begins(_XML + rb"<graphml\b"), _networkx("read_graphml")),
    "gexf": _Row("GEXF", (".gexf",), _begins(_XML + rb"<gexf\b"), _networkx("read_gexf")),
    "gml": _Row(
        "GML", (".gml",), _begins(rb"(#[^\n]*\n\s*|(creator|version|comment)\b[^\n]*\n\s*)*graph\s*\["),
        _networkx("read_gml", label="id"),
    ),
    "pajek": _Row(
        "Pajek", (".net", ".pajek"), _begins(rb"(%[^\n]*\n\s*)*\*(network|vertices)\b"), _igraph("Read_Pajek")
    ),
    "dl": _Row("UCINET DL", (".dl",), _begins(rb"dl\s+n[rc]?\s*=\s*\d"), _read_dl),
    "lgl": _Row("LGL", (".lgl",), None, _igraph("Read_Lgl", directed=True)),
    "ncol": _Row("NCOL", (".ncol",), None, _igraph("Read_Ncol", directed=True)),
    "adjlist": _Row("NetworkX adjacency list", (".adjlist",), None, _networkx("read_adjlist")),
    "multiline-adjlist": _Row(
        "NetworkX multiline adjacency list", (".multiadj", ".multiadjlist", ".multiline_adjlist"), None,
        _networkx("read_multiline_adjlist"),
    ),
    "networkx-edges": _Row(
        "NetworkX edge list", (), _begins(rb"(#[^\n]*\n\s*)*[^\s#]+[ \t]+[^\s]+[ \t]+\{[^\n]*\}\s*(\n|\Z)"),
        _networkx("read_edgelist"),
    ),
    "graph6": _Row("graph6", (".g6", ".graph6"), _begins(rb">>graph6<<"), _single(_networkx("read_graph6"))),
    "sparse6": _Row("sparse6", (".s6", ".sparse6"), _begins(rb">>sparse6<<"), _single(_networkx("read_sparse6"))),
    "hif": _Row("HIF", (".hif", ".hif.json"), _begins(rb"\{.*\"(incidences|network-type)\"\s*:"), None),
    "sif": _Row("SIF", (".sif",), None, _read_sif),
    "metis": _Row("METIS", (".metis",), None, _read_metis),
}  # fmt: skip

_DOT = re.compile(rb"\s*(//[^\n]*\n\s*|/\*.*?\*/\s*)*(strict\s+)?(di)?graph\b[^\[\n]*\{", re.IGNORECASE | re.DOTALL)


_SURE: tuple[FormatName, ...] = ("graph6", "sparse6", "hif")
"""Formats that the name of a file determines, although files of another beginning exist."""


def is_graph_format(name: FormatName | None) -> bool:
    """Return whether a format is one of this module."""
    return name in _FORMATS


def find_graph_format(name: str, head: bytes) -> FormatName | None:
    """Return the format of a file by its name, without the suffix of its compression, else by its first bytes.

    ``head`` are decompressed. A name is only believed if the first bytes do not contradict it. Raises InputError for
    DOT, which neither NetworkX nor igraph reads without Graphviz.
    """
    lower = re.sub(r"\.(gz|bz2|zst)$", "", name.lower())
    text = head.removeprefix(b"\xef\xbb\xbf")
    if _DOT.match(text):
        raise InputError(
            f"{name} is a DOT file of Graphviz; read it with networkx.nx_pydot.read_dot (which needs pydot) and pass "
            "the graph, or save it as GraphML"
        )
    begins = [found for found, row in _FORMATS.items() if row.begins and row.begins.match(text)]
    named = [found for found, row in _FORMATS.items() if row.suffixes and lower.endswith(row.suffixes)]
    if named and (named[0] in begins or _FORMATS[named[0]].begins is None or named[0] in _SURE):
        return named[0]
    return begins[0] if begins else None


_USED = ("format", "bipartite", "sign", "columns", "where", "decimal")
"""Options that apply to files of graphs."""


def _check_options(name: str, options: ReadOptions) -> None:
    """Raise InputError for an option that does not apply to a file of a graph."""
    plain = ReadOptions()
    strange = [
        each.name for each in fields(ReadOptions)
        if each.name not in _USED and getattr(options, each.name) != getattr(plain, each.name)
    ]  # fmt: skip
    strange += [role for role in ("v", "time") if getattr(options.columns, role) is not None]
    if strange:
        raise InputError(
            f"{', '.join(strange)} cannot be used with {name}, a {options.format} file, which takes u (as "
            "ATTRIBUTE=VALUE of the nodes of layer U), sign, positive_from, where and kind"
        )
    for role in ("u", "sign"):
        given = getattr(options.columns, role)
        if isinstance(given, int):
            what = "ATTRIBUTE=VALUE of the nodes of layer U" if role == "u" else "an attribute of the edges"
            raise InputError(f"{role} is {given}, but {name} has no columns; expected {what}")


def _sign_attribute(name: str, options: ReadOptions) -> tuple[str | None, float | None]:
    """Return the attribute of the edges that determines signs, and the smallest positive value."""
    rule, given = options.sign, options.columns.sign
    if rule is None:
        return None, None
    if rule.positive:
        raise InputError(f"sign_values are for tables; give the edges of {name} numbers, and set positive_from")
    return "weight" if given is None else str(given), rule.threshold


def read_graph_file(path: Path, name: str, options: ReadOptions) -> tuple[LabelledGraph, list[str]]:
    """Return the graph of an uncompressed local file, called ``name`` in messages, and notes on its reading.

    ``options`` have the format; the column ``u`` is ``ATTRIBUTE=VALUE`` of the vertices of layer U, ``sign`` the
    attribute of the edges that determines their signs. Raises InputError for a file that cannot be read, or options
    that do not apply; MissingPackageError if the reader is not installed; and other errors as
    :func:`papilio.storage.interop.from_networkx`.
    """
    assert options.format is not None
    _check_options(name, options)
    sign, positive_from = _sign_attribute(name, options)
    row, u = _FORMATS[options.format], options.columns.u
    kind: GraphKind = "bipartite" if options.bipartite else "unipartite"
    origin = Origin(f"{row.called} file", "edges")
    if row.read is None:
        if options.where:
            raise InputError(f"where cannot be used with {name}, a hypergraph in JSON")
        if kind == "unipartite" or u is not None:
            what = "kind is 'unipartite'" if u is None else f"u is {u!r}"
            raise InputError(f"{what}, but the layers of {name} are the nodes and the edges of a hypergraph")
        labelled = _read_hif(path, name, sign, positive_from)
        return replace(labelled, origin=origin), []
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        vertices = _read_named(row, path, name)
    notes = [f"{row.called} reader: {each.message}" for each in issued]
    try:
        layer_u = None if u is None else str(u)
        named = replace(vertices, names=_labels_of(vertices))
        labelled = from_vertices(named, kind, layer_u, sign, positive_from, options.where)
    except InputError as error:
        raise type(error)(f"{name}: {error}") from error
    return replace(labelled, origin=origin), [*filter(None, [labelled.layers.note]), *notes]


def write_graph_file(
    file: InputFile,
    scratch: Path,
    options: ReadOptions,
    target: Path,
    overwrite: bool,
    source: Mapping[str, Any],
) -> GraphStore:
    """Write the graph of a file as a store; ``source`` describes the file in the provenance.

    Raises as :func:`read_graph_file` and :class:`papilio.storage.store.StoreWriter`.
    """
    labelled, notes = read_graph_file(file.spool(scratch), file.name, options)
    graph, rule = labelled.graph, options.sign
    provenance = {
        **source,
        "edges_read": int(labelled.edge_of_row.size),
        "notes": notes,
        "format": options.format,
        "layout": {},
        "layers": labelled.layers.to_dict(),
        "options": {"bipartite": options.bipartite, "sign": None if rule is None else rule.describe()},
        "lines": None,
    }
    labelled.sides.note(provenance, labelled.kind)
    with StoreWriter(
        target, kind=graph.kind, n_u=graph.n_u, n_v=graph.n_v, signed=graph.signed, provenance=provenance,
        labels_u=labelled.labels_u, labels_v=labelled.labels_v, overwrite=overwrite,
    ) as writer:  # fmt: skip
        writer.append(graph.u, graph.v, graph.sign)
        writer.dropped.update({"self_loops": 0, "duplicates": 0} | labelled.dropped)
    return writer.store


def _read_named(row: _Row, path: Path, name: str) -> Vertices:
    """Return the vertices and edges of a file; errors of its reader become InputError."""
    assert row.read is not None
    try:
        return row.read(path, name)
    except (InputError, ImportError):
        raise
    except Exception as error:  # each reader has its own errors, down to IndexError and AttributeError
        reason = re.sub(r"^Error at [^:]*:\d+: ", "", str(error)) or type(error).__name__
        raise InputError(f"{name} is not a readable {row.called} file ({reason})") from error


def _labels_of(vertices: Vertices) -> list[Any]:
    for attribute in _NAMES:
        values = vertices.attributes.get(attribute)
        if values is not None and None not in values and len(set(map(str, values))) == len(values):
            return _plain(values)
    return _plain(vertices.names)


def _plain(labels: Sequence[Any]) -> list[Any]:
    """Return labels as integers if all of them are written as integers, else as text."""
    text = [str(label) for label in labels]
    return [int(label) for label in text] if all(map(_INTEGER.match, text)) else text
