"""Graphs by their path: a store directly, a file of edges through a cached conversion.

A conversion is a directory of the cache, named after its source and a digest of everything that it depends on: the
absolute path, size, times, inode and device of the source, kind and options, and the version of Papilio. It never
changes: a changed source gets another conversion.

    ratings.csv-0123456789abcdef/
        graph/          the store
        source.json     the input of the digest
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import os
import re
import reprlib
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

from papilio.arguments import checked, show_bytes
from papilio.errors import InputError, InputWarning, StoreError
from papilio.graph import GraphKind
from papilio.settings import CACHE, XDG_CACHE
from papilio.signals import keep_until_end, removed_at_end
from papilio.storage.column_choice import NO_NAME
from papilio.storage.edge_files import FORMAT_VERSION
from papilio.storage.evidence import VALUED, Layout
from papilio.storage.files import is_url, os_errors_named
from papilio.storage.layout import HEADER_NOTE
from papilio.storage.sides import LOOKS_BIPARTITE
from papilio.storage.store import GraphStore, Manifest, open_store
from papilio.system_errors import explain
from papilio.version import __version__

_GRAPH, _SOURCE = "graph", "source.json"

_TICK_NS, _COARSE_NS = 20_000_000, 2_000_000_000
"""Granularity of file times: two ticks of a slow kernel; on file systems that store whole seconds."""

_KEPT_S = 24 * 3600.0
"""Time since the last use after which older conversions of a changed source are removed."""

_LONG_BYTES = 64 << 20
"""Size from which a conversion is announced beforehand."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_ADVICE = "set PAPILIO_CACHE to another directory of your own, or use papilio convert FILE STORE"


class ReadingOptions(TypedDict, total=False):
    """How to read an edge list or an object of another library; accepted by every function that takes a graph.

    None, or a missing keyword, means that the content decides. A keyword that does not apply to the input, such as
    ``header`` for a data frame, raises an InputError.
    """

    # Columns of the two ends, by name or by number from 1 on; for a graph of NetworkX or igraph, and a file such as
    # GraphML, ``u`` is ``ATTRIBUTE=VALUE`` of the nodes of layer U; for a graph also these nodes.
    u: Any
    v: Any
    sign: Any  # column, or attribute of edges, whose values above 0 are positive; True for a SciPy matrix
    positive_from: float | None  # smallest value that is positive
    sign_values: str | None  # words for either sign, ``POSITIVE:NEGATIVE``, such as ``yea:nay,no``
    decimal: Literal[".", ","] | None  # decimal point of numbers in text files
    weight: Any  # column of weights, never an end
    time: Any  # column of times that order equal edges for ``duplicates``
    # Type of the entries: labels of either type, or ids from 0 on (arrays and tables only).
    labels: Literal["integer", "text", "id"] | None
    n_u: int | None  # sizes of the layers, if entries are ids; by default one more than the largest
    n_v: int | None
    header: bool | None  # whether the first line holds names or sizes
    format: str | None
    encoding: str | None
    quotes: bool | None  # whether fields may be quoted
    layout: Layout | None  # what a line or row is
    where: str | Sequence[str] | None  # conditions on columns that all rows meet, such as ``stars >= 4``
    missing: Literal["drop", "label"] | None  # what becomes of missing values; by default an error
    duplicates: Literal["first", "last", "error"] | None  # which of equal edges to keep
    skip_malformed: bool | None  # skip and count malformed lines
    max_malformed: float | None  # share of lines that may be malformed; 0.05 by default


class GraphOptions(ReadingOptions, total=False):
    """The same options, and the kind of graph."""

    # Two layers with their own ids, or one set of vertices; by default what the motif needs.
    kind: GraphKind | None


def read_as(name: str, kind: GraphKind, options: Mapping[str, Any]) -> GraphStore:
    """Open the store at a path or a URL, or the file at a path through its conversion; report how a file was read.

    A conversion is reused as long as path, size, times and inode of the file are unchanged. Raises InputError for
    options with a store, or a file that changes while it is read; StoreError if the cache cannot be written, or the
    store cannot be opened; other errors as :func:`papilio.convert`.
    """
    if is_url(name) or not os.path.isfile(name):
        opened = open_store(name)
        if options:
            raise InputError(f"{name} is a graph store; {', '.join(options)} would change how a file is read")
        return opened
    record = record_of(name, kind, options)
    cache = cache_directory()
    _require_private(cache)
    entry = cache / _entry_name(record)
    store = _find(entry, record)
    reused = store is not None
    if store is None:
        store, entry = _convert(name, kind, options)
    with suppress(OSError):
        os.utime(entry)  # the time of the last use
    _reporter.get()(Reading(name, store, reused))
    return store


def convert_aside(inputs: Sequence[str], kind: GraphKind, options: Mapping[str, Any]) -> tuple[GraphStore, Path]:
    """Convert inputs that are not cached: standard input, URLs, patterns and several files; raises as :func:`read_as`.

    Returns the store and its directory, which the caller removes.
    """
    from papilio.storage.convert import convert

    name = ", ".join(inputs) if len(inputs) < 4 else f"{inputs[0]} and {len(inputs) - 1} more"
    cache = _make_cache(name)
    scratch = _make_scratch(name, cache, "aside")
    with removed_at_end(scratch), os_errors_named(cache, _ADVICE):
        try:
            store = convert(list(inputs), scratch / _GRAPH, kind=kind, **options)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    _reporter.get()(Reading("standard input" if name == "-" else name, store, False))
    return store, scratch


class Reading(NamedTuple):
    """How a file of edges was read."""

    name: str  # the file, as given
    store: GraphStore
    reused: bool  # whether an earlier conversion was reused

    @property
    def line(self) -> str:
        manifest = self.store.manifest
        described = describe_reading(manifest)
        columns = ", ".join(f"{_ROLES.get(role, role)} is {at}" for role, at in described["columns"].items())
        facts = [f"read as {described['format']}", columns, first_line(manifest)]
        before = " (converted before)" if self.reused else ""
        return f"{self.name}: {', '.join(filter(None, facts))}; dropped: {show_dropped(manifest)}{before}"

    @property
    def doubts(self) -> list[str]:
        """The notes about what may have been meant differently; the others say what was done."""
        notes = self.store.manifest.provenance.get("notes", ())
        return [note for note in notes if not note.startswith(_FACTS)]


REPEATED = "repeated edges"
"""Beginning of the note on edges that were given several times."""

_FACTS = (
    "not used: ", LOOKS_BIPARTITE, HEADER_NOTE, "lines equal to the line of names", "entries that are 0", VALUED,
    REPEATED, "lines that do not meet", "missing values, left out", "read as ", "column 1 names the rows",
    "field 1 of a line", "a line is a group", "the matrix is symmetric",
)  # fmt: skip
"""Beginnings of notes that say what was done, and leave no doubt."""

_ROLES = {"u": "U", "v": "V"}
_WITH_NAMES = ("csv", "tsv", "edges", "snap")
"""Formats whose first line may hold names."""


def first_line(manifest: Manifest) -> str:
    """Return a note on a first line that might be names and was read as an edge, or an empty string."""
    provenance = manifest.provenance
    may_hold = provenance.get("format") in _WITH_NAMES
    return "" if not may_hold or provenance["layout"].get("names") else "no line of names"


def show_dropped(manifest: Manifest) -> str:
    """Return the dropped lines and edges in words."""
    return ", ".join(f"{number:,} {reason}" for reason, number in manifest.dropped.items() if number) or "nothing"


def note_repeated(dropped: Mapping[str, int]) -> list[str]:
    """Return the note on repeated edges, if there are any."""
    n_repeated = dropped.get("duplicates", 0)
    return [f"{REPEATED}, read once each: {n_repeated:,}"] if n_repeated else []


def describe_reading(manifest: Manifest) -> dict[str, Any]:
    """Return the source of a stored graph and how it was read: ``provenance`` of a result's graph."""
    provenance = manifest.provenance
    layout = provenance.get("layout", {})
    repeated = note_repeated(manifest.dropped) if provenance.get("format") else []  # else they were generated
    return {
        "source": provenance.get("source"),
        "format": provenance.get("format"),
        "columns": dict(layout.get("read", {})),
        "header": layout.get("names"),
        "dropped": dict(manifest.dropped),
        "notes": [*provenance.get("notes", ()), *repeated],
    }


def names_of_columns(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the columns that hold ``u`` and ``v``, as far as the columns have names."""
    read = provenance.get("layout", {}).get("read", {})
    found = {layer: re.fullmatch(r"(.*) \(column \d+\)", read.get(layer, "")) for layer in ("u", "v")}
    return {layer: each[1] for layer, each in found.items() if each is not None and each[1] != NO_NAME}


def warn_outside(text: str) -> None:
    """Issue an InputWarning at the caller of Papilio."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, InputWarning, stacklevel=level)


def _warn(reading: Reading) -> None:
    """Issue a warning if the reading is in doubt; otherwise log it, unless an earlier conversion is reused."""
    if reading.doubts:
        advice = "papilio.read has options to read it differently"
        warn_outside("; ".join([reading.line, *reading.doubts, advice]))
    elif not reading.reused:
        import logging

        notes = reading.store.manifest.provenance.get("notes", ())
        logging.getLogger("papilio").info("papilio: %s", "; ".join([reading.line, *notes]))


Reporter = Callable[[Reading], None]

_reporter: ContextVar[Reporter] = ContextVar("reporter", default=_warn)


@contextmanager
def readings_reported(reporter: Reporter) -> Iterator[None]:
    """Send the readings of the block to ``reporter`` instead of issuing warnings."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        # If nobody ended the block, the garbage collector does, in any context.
        with suppress(ValueError):
            _reporter.reset(token)


def cache_directory() -> Path:
    """Return the directory of conversions, which may not exist yet.

    Where neither ``PAPILIO_CACHE`` is set nor the default can be written, as in a home that can only be read, it is a
    temporary one of this process. Raises StoreError if no home directory is known.
    """
    own, shared = CACHE.value, XDG_CACHE.value or ""
    try:
        if own:
            return Path(own).expanduser().absolute() / "conversions"
        base = Path(shared) if os.path.isabs(shared) else Path.home() / ".cache"
    except RuntimeError as error:
        raise StoreError(f"no cache directory for conversions ({error}); {_ADVICE}") from error
    usual = base / "papilio" / "conversions"
    nearest = next(place for place in (usual, *usual.parents) if os.path.lexists(place))
    return usual if os.access(nearest, os.W_OK) or not nearest.is_dir() else _temporary_cache(usual)


@cache
def _temporary_cache(usual: Path) -> Path:
    """Create a private directory in the place of a cache that cannot be written; it ends with the process."""
    with os_errors_named(usual, _ADVICE):
        made = Path(tempfile.mkdtemp(prefix="papilio-"))
    keep_until_end(made)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    import logging

    text = f"{usual} cannot be written: conversions are kept in {made} until this process ends; {_ADVICE}"
    logging.getLogger("papilio").warning("papilio: %s", text)
    return made


def is_cached(path: str) -> bool:
    """Return whether a store is a conversion in the cache."""
    return not is_url(path) and Path(os.path.abspath(path)).is_relative_to(cache_directory())


def record_of(name: str, kind: GraphKind, options: Mapping[str, Any]) -> dict[str, Any]:
    source = os.path.realpath(name)
    for option, value in options.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            raise InputError(f"{option} is {reprlib.repr(value)}; of a file, expected text or a number") from None
    with os_errors_named(name):
        found = os.stat(source)
    return {
        "source": source,
        "kind": kind,
        "options": dict(options),
        "reader": f"{__version__}, store {FORMAT_VERSION}",
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "ctime_ns": found.st_ctime_ns,
        "inode": found.st_ino,
        "device": found.st_dev,
    }


def _entry_name(record: dict[str, Any]) -> str:
    digest = hashlib.blake2b(json.dumps(record, sort_keys=True).encode(), digest_size=8).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', os.path.basename(record['source']))[:100]}-{digest}"


def _read_record(entry: Path) -> dict[str, Any] | None:
    """Return the record of an entry, or None if the entry is not named after it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        record: dict[str, Any] = json.loads((entry / _SOURCE).read_bytes())
        if entry.name == _entry_name(record):
            return record
    return None


def _find(entry: Path, record: dict[str, Any]) -> GraphStore | None:
    if _read_record(entry) == record:
        with suppress(StoreError):
            return open_store(entry / _GRAPH)
    return None


def _convert(name: str, kind: GraphKind, options: Mapping[str, Any]) -> tuple[GraphStore, Path]:
    """Convert a file to an entry of the cache; raise InputError if the file changes meanwhile."""
    from papilio.storage.convert import convert  # slow to import, and only needed once per file

    cache = _make_cache(name)
    record = _settled_record(name, kind, options)
    entry = cache / _entry_name(record)
    if record["size"] >= _LONG_BYTES:
        import logging

        text = f"converting {name} ({show_bytes(record['size'])}), reused by later runs"
        logging.getLogger("papilio").warning("papilio: %s", text)
    scratch = _make_scratch(name, cache, entry.name)
    with removed_at_end(scratch), os_errors_named(cache, _ADVICE):
        try:
            convert(name, scratch / _GRAPH, kind=kind, **options)
            if record_of(name, kind, options) != record:
                raise InputError(f"{name} changed while it was read; run it again once the file is complete")
            (scratch / _SOURCE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
            _publish(scratch, entry, record)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    _remove_former(cache, record)
    return open_store(entry / _GRAPH), entry


def _settled_record(name: str, kind: GraphKind, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a file once any further change would give it a different time."""
    record = record_of(name, kind, options)
    grain_ns = _TICK_NS if record["ctime_ns"] % 1_000_000_000 else _COARSE_NS
    rest_ns = record["ctime_ns"] + grain_ns - time.time_ns()
    if rest_ns <= 0:
        return record
    time.sleep(min(rest_ns, grain_ns) / 1e9)
    return record_of(name, kind, options)


def _make_cache(name: str) -> Path:
    """Create the cache with access for this user only.

    Raises StoreError if this fails, or another user could change the cache.
    """
    cache = cache_directory()
    missing = [place for place in (cache, *cache.parents) if not place.exists()]
    try:
        for place in reversed(missing):
            place.mkdir(0o700, exist_ok=True)
    except OSError as error:
        raise _unwritable(name, cache, error) from error
    _require_private(cache)
    return cache


def _make_scratch(name: str, cache: Path, entry: str) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=f".{entry}.", dir=cache))
    except OSError as error:
        raise _unwritable(name, cache, error) from error


def _require_private(cache: Path) -> None:
    """Raise StoreError if another user could put a file into the cache."""
    try:
        found = cache.stat()
    except OSError:  # the first write creates it, or raises the error
        return
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError(
            f"{cache}, the cache of conversions, is writable by other users (mode {stat.S_IMODE(found.st_mode):04o}, "
            f"owner {found.st_uid}); {_ADVICE}"
        )


def _unwritable(name: str, cache: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{name} is not a graph store, and its conversion cannot be written to {cache} {explain(error, _ADVICE)}"
    )


def _publish(scratch: Path, entry: Path, record: dict[str, Any]) -> None:
    """Rename a conversion into place, unless another process was first; an entry that cannot be opened is replaced."""
    while True:
        try:
            scratch.rename(entry)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        if _find(entry, record) is not None:
            return
        _discard(entry)


def _discard(entry: Path) -> None:
    """Remove an entry; meanwhile it is either complete or absent."""
    hidden = entry.with_name(f".{entry.name}.old-{os.getpid()}-{time.time_ns()}")
    with suppress(FileNotFoundError):
        entry.rename(hidden)
    if hidden.is_dir():
        shutil.rmtree(hidden, ignore_errors=True)
    else:
        hidden.unlink(missing_ok=True)


def _remove_former(cache: Path, record: dict[str, Any]) -> None:
    same = ("source", "kind", "options")
    for entry in _entries(cache):
        former = _read_record(entry)
        if former is not None and former != record and all(former[key] == record[key] for key in same):
            with suppress(OSError):
                if time.time() - entry.stat().st_mtime > _KEPT_S:
                    _discard(entry)


def _entries(cache: Path) -> list[Path]:
    with os_errors_named(cache):
        if not cache.is_dir():
            return []
        return sorted(each for each in cache.iterdir() if not each.name.startswith("."))


@dataclass(frozen=True)
class Conversion:
    """The conversion of a file of edges in the cache."""

    source: str  # absolute path of the file; empty if the entry is damaged
    kind: str
    options: dict[str, Any]  # of :func:`papilio.read`, without the kind
    path: str  # the directory of the entry
    n_bytes: int  # on disk
    used_s: float  # time of the last use, in seconds since the epoch
    # ``valid``: reused by the next call. ``changed``, ``gone``: the source. ``outdated``: made by another version of
    # Papilio. ``damaged``: it cannot be opened.
    state: Literal["valid", "changed", "gone", "outdated", "damaged"]


@checked
def list_conversions() -> tuple[Conversion, ...]:
    """Return the conversions in the cache, by source.

    Raises
    ------
    StoreError
        If the cache cannot be read.
    """
    found = []
    for entry in _entries(cache_directory()):
        with suppress(FileNotFoundError):  # another process has just removed it
            found.append(_look_at(entry))
    return tuple(sorted(found, key=lambda each: (each.source, each.kind, each.used_s)))


def _look_at(entry: Path) -> Conversion:
    used_s = entry.stat().st_mtime
    sizes = [(Path(folder) / name).lstat().st_size for folder, _, names in os.walk(entry) for name in names]
    record = _read_record(entry)
    if record is None:
        return Conversion("", "", {}, str(entry), sum(sizes), used_s, "damaged")
    source, kind, options = record["source"], record["kind"], record["options"]
    state: Literal["valid", "changed", "gone", "outdated", "damaged"] = "damaged"
    if not os.path.isfile(source):
        state = "gone"
    else:
        now = record_of(source, kind, options)
        if now["reader"] != record["reader"]:
            state = "outdated"
        elif now != record:
            state = "changed"
        elif _find(entry, record) is not None:
            state = "valid"
    return Conversion(source, kind, options, str(entry), sum(sizes), used_s, state)


@checked
def clear_conversions(pattern: str | None = None, *, stale: bool = False) -> tuple[Conversion, ...]:
    """Remove conversions from the cache and return them. Stores elsewhere, and the sources, are not touched.

    Parameters
    ----------
    pattern : str, optional
        Path or name of the sources; ``*`` and ``?`` are wildcards. By default all.
    stale : bool
        Only remove conversions that are not ``valid``, and leftovers of killed processes.

    Raises
    ------
    StoreError
        If the cache cannot be read or written.
    """
    cache = cache_directory()
    chosen = [each for each in list_conversions() if not (stale and each.state == "valid")]
    if pattern is not None:
        whole = os.path.abspath(pattern)
        chosen = [
            each
            for each in chosen
            if fnmatchcase(each.source, whole) or fnmatchcase(os.path.basename(each.source), pattern)
        ]
    with os_errors_named(cache):
        for each in chosen:
            _discard(Path(each.path))
        for left in cache.glob(".*") if pattern is None and cache.is_dir() else ():
            if time.time() - left.lstat().st_mtime > _KEPT_S:
                shutil.rmtree(left, ignore_errors=True)
    return tuple(chosen)
