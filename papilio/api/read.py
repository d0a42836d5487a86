"""The entry point for graphs: read once, from any source, and used for any number of questions."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from numpy.typing import NDArray

from papilio.arguments import TABLE_SUFFIXES, checked, did_you_mean, plural, read_path
from papilio.cluster.driver import run_directory
from papilio.errors import InputError, StoreError, UnsupportedError
from papilio.graph import BipartiteGraph, GraphKind, UnipartiteGraph
from papilio.motifs import LAYER_FIELDS, Motif, PairSide, SizeOptions, read_motif
from papilio.question import Question
from papilio.storage.answers import write_arrow
from papilio.storage.any_object import holds_triples, label_any
from papilio.storage.device_objects import copy_to_host
from papilio.storage.files import MANIFEST_NAME, filesystem_of, is_pipe, is_url, local_path, os_errors_named
from papilio.storage.inputs import STANDARD_INPUT
from papilio.storage.labelled import LabelledGraph
from papilio.storage.labels import label_type
from papilio.storage.layers import Layers
from papilio.storage.reading import (
    GraphOptions,
    convert_aside,
    describe_reading,
    names_of_columns,
    note_repeated,
    read_as,
    record_of,
    warn_outside,
)
from papilio.storage.store import GraphStore, copy_store, write_store
from papilio.storage.tables import check_table_file
from papilio.tasks.job import hash_graph
from papilio.tasks.worker_state import keep_graph

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowTable, NetworkxGraph, PandasFrame, PolarsFrame, SparseArray


class AskedOptions(SizeOptions, GraphOptions, total=False):
    """Additional parameters of functions with a motif: options for reading the graph, and sizes.

    Sizes are for a motif given by name: ``papilio.count(graph, "biclique", p=3, q=4)``.
    """


_READING = frozenset(GraphOptions.__annotations__)


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options for reading a graph, and the others."""
    return (
        {name: value for name, value in options.items() if name in _READING},
        {name: value for name, value in options.items() if name not in _READING},
    )


class Graph:
    """A graph, as returned by :func:`papilio.read`.

    Every function with a graph parameter accepts it. Prepared data stays in memory for the next question as long as
    this object lives and memory allows. Raises InputError if the file or store has changed since it was read.
    """

    def __init__(self, store: GraphStore | None, labelled: LabelledGraph | None = None) -> None:
        if (store is None) == (labelled is None):
            raise InputError("papilio.Graph cannot be created directly; use papilio.read(...), which accepts any graph")
        self.store = store  # None for a graph in memory
        self.labelled = labelled  # the graph in memory, with its labels; None for a store
        self._file: str | None = None  # the source that was converted into the store
        self._seen: dict[str, Any] | None = None  # identity of the file, or of the manifest, when it was read
        self._notes: list[str] = [] if labelled is None else list(labelled.notes)
        self._temporary = False  # whether the store ends with this object

    @property
    def held(self) -> GraphStore | LabelledGraph:
        """The store, or the labelled graph in memory, that holds the edges."""
        return self.labelled if self.store is None else self.store  # type: ignore[return-value]

    @property
    def _sizes(self) -> GraphStore | BipartiteGraph | UnipartiteGraph:
        return self.labelled.graph if self.labelled is not None else self.store  # type: ignore[return-value]

    @property
    def kind(self) -> GraphKind:
        """``bipartite`` or ``unipartite``."""
        return self._sizes.kind

    @property
    def n_u(self) -> int:
        """Number of vertices of layer U, or of a unipartite graph."""
        return self._sizes.n_u

    @property
    def n_v(self) -> int:
        """Number of vertices of layer V, or of a unipartite graph."""
        return self._sizes.n_v

    @property
    def n_edges(self) -> int:
        return self._sizes.n_edges

    @property
    def signed(self) -> bool:
        return self._sizes.signed

    @property
    def path(self) -> str | None:
        """Absolute path of the store; None for a graph in memory, or if the store ends with this object."""
        if self.store is None or self._temporary:
            return None
        return self.store.path if is_url(self.store.path) else os.path.abspath(self.store.path)

    @property
    def converted_file(self) -> tuple[str, dict[str, Any]] | None:
        """The file of edges whose conversion this is, with the options of :func:`read`; None for other graphs."""
        if self._file is None or self._seen is None:
            return None
        return self._file, {"kind": self._seen["kind"], **self._seen["options"]}

    @property
    def name(self) -> str:
        return "the graph in memory" if self.store is None else self.store.path

    @cached_property
    def hash(self) -> str:
        """Content hash: equal for equal graphs, from any source."""
        return self.store.hash if self.store is not None else hash_graph(self.labelled.graph)  # type: ignore[union-attr]

    @property
    def source(self) -> str:
        """Description of the source."""
        if self._file is not None:
            return self._file
        if self.labelled is not None:
            return self.labelled.origin.name if self.labelled.origin is not None else "memory"
        assert self.store is not None
        return str(self.store.manifest.provenance.get("source")) if self._temporary else self.store.path

    @property
    def reading(self) -> dict[str, Any]:
        """How it was read: ``source``, ``format``, ``columns``, ``header``, ``dropped`` lines and edges, ``notes``.

        ``layers`` has the names of the layers, see :attr:`layer_names`.
        """
        if self.labelled is not None:
            dropped = dict(self.labelled.dropped)
            notes = [*filter(None, [self.layers.note]), *self._notes, *note_repeated(dropped)]
            return {"source": self.source, "layers": self.layer_names, "dropped": dropped, "notes": notes}
        assert self.store is not None
        described = describe_reading(self.store.manifest) | {"layers": self.layer_names}
        return described if self._file is None else described | {"source": self._file}

    def __repr__(self) -> str:
        return f"<{self._title}, from {self.source}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._title)}, from <code>{escape(self.source)}</code></p>"

    @property
    def _title(self) -> str:
        signed = "signed " if self.signed else ""
        sizes = f"{self.n_u:,} x {self.n_v:,}" if self.kind == "bipartite" else f"{self.n_u:,}"
        return f"{signed}{self.kind} graph: {sizes} vertices, {plural(self.n_edges, 'edge')}"

    @property
    def layers(self) -> Layers:
        """How the layers were found, if the source has its vertices in one list."""
        return self.held.layers

    @property
    def layer_names(self) -> dict[str, str]:
        """Names of layers ``u`` and ``v``: of the columns of the source, or of values of a node attribute."""
        if self.kind != "bipartite":
            return {}
        if self.layers.names is not None:
            return dict(zip("uv", self.layers.names, strict=True))
        if self.labelled is not None:
            return dict(zip("uv", self.labelled.sides.names, strict=False))
        assert self.store is not None
        return names_of_columns(self.store.manifest.provenance)

    def layer(self, word: str) -> PairSide:
        """Return the layer, ``u`` or ``v``, that a word means: ``u``, ``v``, or the name of the layer.

        Raises InputError for an unknown word, and for a unipartite graph.
        """
        if self.kind != "bipartite":
            raise InputError(f"layer is {word!r}, but {self.source} is a unipartite graph, without layers")
        names = self.layer_names
        if word in ("u", "v"):
            return "u" if word == "u" else "v"
        found = [layer for layer, name in names.items() if name == word]
        if len(found) != 1:
            known = ["u", "v", *(name for name in names.values() if name not in ("u", "v"))]
            raise InputError(
                f"layer is {word!r}{did_you_mean(word, known)}; expected {', '.join(known[:-1])} or {known[-1]}"
            )
        return "u" if found[0] == "u" else "v"

    def labels(self, layer: str) -> NDArray[Any] | None:
        """Return the labels of layer ``u`` or ``v`` (or its name) by id; None if the ids are the labels."""
        if layer not in ("u", "v"):
            layer = self.layer(layer)
        self.require_current()
        return self.held.labels(layer)  # type: ignore[arg-type]

    def save(self, path: str | os.PathLike[str]) -> Graph:
        """Write a graph store, and return it opened; StoreError if ``path`` exists."""
        self.require_current()
        target = local_path(read_path("path", path))
        if self.store is None:
            assert self.labelled is not None
            return _opened(_write_labelled(self.labelled, target))
        return _opened(copy_store(self.store, target))

    def to_pandas(self) -> PandasFrame:
        """Return a data frame of the edges with the labels of their ends: ``u``, ``v``, and ``sign`` if signed."""
        return self._converted("to_pandas")

    def to_arrow(self) -> ArrowTable:
        """Return a :class:`pyarrow.Table` of the edges, as :meth:`to_pandas`."""
        return self._converted("to_arrow")

    def to_polars(self) -> PolarsFrame:
        """Return a polars data frame of the edges, as :meth:`to_pandas`."""
        return self._converted("to_polars")

    def to_networkx(self) -> NetworkxGraph[Any]:
        """Return a NetworkX graph; see :func:`papilio.storage.interop.to_networkx`."""
        return self._converted("to_networkx")

    def to_scipy(self, *, format: str = "csr") -> SparseArray:
        """Return a SciPy sparse array by ids; see :func:`papilio.storage.interop.to_scipy`."""
        return self._converted("to_scipy", format=format)

    def _converted(self, name: str, **how: Any) -> Any:
        from papilio.storage import interop

        self.require_current()
        if self.labelled is not None:
            return getattr(interop, name)(self.labelled, **how)
        assert self.store is not None
        labels_v = None if self.kind == "unipartite" else self.labels("v")
        return getattr(interop, name)(LabelledGraph(self.store.read(), self.labels("u"), labels_v), **how)

    def arrays(self) -> BipartiteGraph | UnipartiteGraph:
        """Return the graph in memory, without labels; a store is read."""
        return self.store.read() if self.labelled is None else self.labelled.graph  # type: ignore[union-attr]

    def stored(self, stack: ExitStack, parent: Path) -> GraphStore:
        """Return the store; a graph in memory is written to one under ``parent`` that ends with ``stack``."""
        if self.store is not None:
            return self.store
        assert self.labelled is not None
        return _write_labelled(self.labelled, Path(stack.enter_context(run_directory(parent))) / "graph")

    def lasting_path(self) -> str:
        """Return where other processes can read the store later; InputError if it ends with this process."""
        if self.path is None:
            raise InputError(
                "the graph ends with this process: it is in memory, or comes from a pipe, a URL or several files; "
                "write it to a store with papilio.Graph.save or papilio convert"
            )
        return self.path

    def require_storable(self, target: Path | None) -> None:
        """Raise GraphError, before counting, if labels of a graph in memory cannot be written."""
        if self.labelled is None or target is None:
            return
        for labels in (self.labelled.labels_u, self.labelled.labels_v):
            if labels is not None:
                label_type(labels)

    def describe(self) -> dict[str, Any]:
        """Return the identity and sizes of the graph, and how it was read."""
        sizes = ("kind", "n_u", "n_v", "n_edges", "signed")
        return {
            "path": None if self.store is None else self.store.path,
            "hash": self.hash,
            **{name: getattr(self, name) for name in sizes},
            "provenance": self.reading,
        }

    def require_current(self) -> None:
        """Raise InputError if the file or store has changed since it was read."""
        if self._seen is not None and _look_at(self._seen["source"], self._seen) != self._seen:
            raise InputError(f"{self.source} changed after it was read; read it again with papilio.read")

    def keep_prepared(self) -> None:
        """Keep the data prepared for this graph until this object ends."""
        keep_graph(self, self.hash)

    def doubt(self, kind: GraphKind) -> None:
        """Raise if a graph looks bipartite but the question needs one set of vertices; warn in the opposite case."""
        if self.labelled is not None:
            if self.labelled.origin is None:
                return
            why, name = self.labelled.sides.doubt(kind), "the graph in memory"
        elif self._file is None and not self._temporary:
            return
        else:
            assert self.store is not None
            why = self.store.manifest.provenance.get("doubt", "") if kind == "unipartite" else ""
            name = self.source
        if why and kind == "unipartite":
            raise UnsupportedError(
                f"{name} looks bipartite ({why}), but the question needs a unipartite graph; if both columns name the "
                f"same things, set kind='unipartite' (--unipartite)"
            )
        if why:
            self._notes.append(f"the graph looks unipartite ({why}), and was read as bipartite")
            warn_outside(
                f"{self._notes[-1]}; set kind='unipartite' if both columns name the same things, else kind='bipartite'"
            )


def _look_at(path: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    with suppress(StoreError):
        return record_of(path, asked["kind"], asked["options"])
    return None


def _opened(store: GraphStore) -> Graph:
    graph = Graph(store)
    if not is_url(store.path):
        graph._seen = _look_at(os.path.join(store.path, MANIFEST_NAME), {"kind": store.kind, "options": {}})
    return graph


def save_graph(graph: Graph, target: Path, facts: Mapping[str, str], *, overwrite: bool = False) -> str:
    """Write a graph to a store, or a table of its edges where the name has the suffix of one; return the path.

    The metadata of a Parquet or Arrow file has the ``facts``. Raises StoreError if something exists at ``target``,
    unless it is a table and ``overwrite`` is set.
    """
    if target.suffix.lower() not in TABLE_SUFFIXES:
        return str(graph.save(target).path)
    check_table_file(target, overwrite)
    write_arrow(target, graph.to_arrow(), facts, overwrite=overwrite)
    return str(target)


def _write_labelled(graph: LabelledGraph, path: Path) -> GraphStore:
    layers = graph.layers
    if layers.names is None and len(graph.sides.names) > 1 and graph.kind == "bipartite":
        layers = replace(layers, names=(graph.sides.names[0], graph.sides.names[1]))
    provenance: dict[str, Any] = {"source": "memory"} | ({} if layers == Layers() else {"layers": layers.to_dict()})
    notes = [*graph.notes, *note_repeated(graph.dropped)]
    provenance |= {"notes": notes} if notes else {}
    return write_store(path, graph.graph, provenance=provenance, labels_u=graph.labels_u, labels_v=graph.labels_v)


@checked
def read(source: Any, **reading: Unpack[GraphOptions]) -> Graph:
    """Read a graph, once, from any source.

    Parameters
    ----------
    source : path, URL, pattern, ``-``, several paths, or object
        A graph store; an edge list in a format supported by :func:`papilio.convert`; a pattern such as
        ``part-*.csv``, a list of files, a URL or standard input (``-``); a data frame of pandas, polars (lazy, too) or
        Dask, a table of pyarrow, a relation of DuckDB; a graph of NetworkX, igraph or graph-tool; a SciPy sparse
        matrix, a NumPy array of shape (k, 2), or pairs; an array or sparse matrix of CuPy, a frame of cuDF or a tensor
        of PyTorch, which is copied to the host.
    **reading
        Keywords of :class:`papilio.storage.reading.GraphOptions`, such as ``kind="unipartite"`` or
        ``u="user", v="film", sign="stars", positive_from=4``.

    Returns
    -------
    Graph
        The graph is bipartite unless ``kind`` is "unipartite". A file is converted to a store once. The store is kept
        in the directory ``PAPILIO_CACHE``, else ``papilio`` in ``XDG_CACHE_HOME``, else ``~/.cache/papilio``, and
        reused as long as the path, size, times and inode of the file are the same. An
        :class:`papilio.errors.InputWarning` reports a doubt about how a file was read. Standard input, patterns, URLs
        and lists of files are converted anew; the store lives as long as the graph.

    Raises
    ------
    PapilioError
        InputError if it is not a graph or the keywords do not apply; otherwise as :func:`papilio.convert`;
        StoreError for a graph store that is missing, damaged, foreign or of a newer version.

    Examples
    --------
    >>> ratings = papilio.read("ratings.csv", u="user", v="film")
    >>> papilio.count(ratings, "butterfly").count
    3
    >>> papilio.count(ratings, "biclique", p=2, q=3).count
    0
    """
    return read_graph(source, "bipartite", reading)


def _refuse_threshold(reading: Mapping[str, Any], needs_signs: bool) -> None:
    """Raise InputError for a threshold of signs where the question ignores signs: all edges would be read."""
    threshold = reading.get("positive_from")
    if needs_signs or threshold is None:
        return
    column = reading.get("sign") or reading.get("weight") or "COLUMN"
    column = "value" if column is True else column
    condition = f"{column} >= {threshold:g}"
    raise InputError(
        f"positive_from makes signs, which this question ignores; to read only some edges, use where={condition!r} "
        f"(--where {condition!r})"
    )


def read_graph(source: Any, kind: GraphKind, reading: Mapping[str, Any], *, needs_signs: bool = False) -> Graph:
    """Return the graph of ``source``, read as ``kind`` unless ``reading`` sets it; errors as :func:`read`.

    Raises or warns if a graph looks like the other kind and its kind was not set.
    """
    options = {name: value for name, value in reading.items() if value is not None}
    if isinstance(source, Graph):
        if options:
            raise InputError(f"the graph is already read; pass {_listed(options)} to papilio.read")
        source.require_current()
        return source
    source, said = copy_to_host(source), options.pop("kind", None)
    if needs_signs and "sign" not in options and "positive_from" not in options and holds_triples(source):
        options["sign"] = True
    graph = _read_new(source, said or kind, options)
    if said is None and not isinstance(source, GraphStore | LabelledGraph):
        graph.doubt(kind)
    return graph


def open_graph(
    source: Any,
    kind: GraphKind,
    reading: Mapping[str, Any],
    of_layers: str = "the answer",
    *,
    needs_signs: bool = True,
) -> Graph:
    """Return the graph of one call; a graph that the caller holds keeps what is prepared for it.

    ``kind`` is the default for a file or an object without one. ``of_layers`` describes an answer that depends on which
    layer is U, and is empty for any other. Without ``needs_signs`` the question ignores signs, so a threshold for them
    is an error. Raises InputError if the answer depends on the layers and they are unknown; otherwise as :func:`read`.
    """
    _refuse_threshold(reading, needs_signs)
    graph = read_graph(source, kind, reading, needs_signs=needs_signs)
    if of_layers and graph.kind == "bipartite":
        graph.layers.require(of_layers)
    if graph is source:
        graph.keep_prepared()
    return graph


def ask(
    source: Any,
    motif: Motif | str,
    options: Mapping[str, Any],
    make: Callable[[Motif], Question],
    *,
    by_layer: bool = False,
) -> tuple[Graph, Question]:
    """Return the graph and the question of one call.

    ``options`` are :class:`AskedOptions`; ``make`` returns the question of a motif that has its sizes. The answer also
    depends on which layer is U if ``by_layer``. Raises as :func:`open_graph` and :meth:`Question.of`.
    """
    reading, sizes = split_options(options)
    source, reading, sizes = resolve_layers(source, reading, sizes)
    question = make(read_motif(motif, sizes))
    of_layers = question.of_layers or (question.title if by_layer else "")
    needs_signs = question.motif.needs_signs
    return open_graph(source, question.row.graph_kind, reading, of_layers, needs_signs=needs_signs), question


def resolve_layers(
    graph: Any, reading: Mapping[str, Any], given: Mapping[str, Any], *, needs_signs: bool = True
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the graph, its reading options and parameters, with ``u`` or ``v`` for each name of a layer.

    ``needs_signs`` is as for :func:`open_graph`. The graph is read only if :data:`papilio.motifs.LAYER_FIELDS` of
    ``given`` has a name. Raises as :func:`read` and :meth:`Graph.layer`.
    """
    named = {name: given[name] for name in LAYER_FIELDS if given.get(name) not in (None, "u", "v")}
    if not named:
        return graph, dict(reading), dict(given)
    _refuse_threshold(reading, needs_signs)
    held = read_graph(graph, "bipartite", reading, needs_signs=needs_signs)
    return held, {}, {**given, **{name: held.layer(word) for name, word in named.items()}}


def _read_new(source: Any, kind: GraphKind, options: dict[str, Any]) -> Graph:
    if isinstance(source, GraphStore | LabelledGraph | BipartiteGraph | UnipartiteGraph):
        if options:
            raise InputError(f"the graph is already read; {_listed(options)} would change how a file is read")
        return _opened(source) if isinstance(source, GraphStore) else Graph(None, label_any(source))
    paths = _paths_of(source)
    if paths is None:
        return Graph(None, label_any(source, kind=kind, **options))
    unfit = [name for name in ("n_u", "n_v") if name in options]
    if unfit or options.get("labels") == "id":
        raise InputError(f"{paths[0]} is a file of labels; {_listed(unfit or ['labels'])} applies to ids only")
    if len(paths) == 1 and not _is_converted_aside(paths[0]):
        (path,) = paths
        store = read_as(path, kind, options)
        if is_url(path) or not os.path.isfile(path):
            return _opened(store)
        graph = Graph(store)
        graph._file, graph._seen = os.path.abspath(path), record_of(path, kind, options)
        return graph
    store, scratch = convert_aside(paths, kind, options)
    graph = Graph(store)
    graph._temporary = True
    weakref.finalize(store, shutil.rmtree, scratch, ignore_errors=True)
    return graph


def _listed(options: Any) -> str:
    return ", ".join(options)


def _paths_of(source: Any) -> list[str] | None:
    """Return the given paths; None for an object."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(read_path("graph", source))
        if not path:
            raise InputError("graph is an empty path; name a file or a graph store")
        return [path]
    if isinstance(source, list | tuple) and source and all(isinstance(each, str | os.PathLike) for each in source):
        return [os.fspath(read_path("graph", each)) for each in source]
    return None


def _is_converted_aside(path: str) -> bool:
    if path == STANDARD_INPUT or (not is_url(path) and is_pipe(path)):
        return True
    if is_url(path):
        filesystem, inner = filesystem_of(path)
        with os_errors_named(path):
            return "*" in path or bool(filesystem.get_file_info(inner).is_file)
    return any(mark in path for mark in "*?[") and not os.path.lexists(path)
