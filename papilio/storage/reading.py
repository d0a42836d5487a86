"""Graphs by their path: a store as it is, an edge list through a store that is kept beside it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from papilio.arguments import checked
from papilio.errors import InputError, StoreError
from papilio.graph import GraphKind
from papilio.storage.column_choice import ColumnRef
from papilio.storage.location import MANIFEST_NAME, is_url
from papilio.storage.store import GraphStore, open_store

STORE_SUFFIX = ".papilio"

_LOG = logging.getLogger("papilio")


@checked
def read(
    path: str | os.PathLike[str],
    *,
    kind: GraphKind = "bipartite",
    u: ColumnRef | None = None,
    v: ColumnRef | None = None,
    sign_column: ColumnRef | None = None,
    positive_from: float | None = None,
) -> GraphStore:
    """Open a graph store, or the edge list in a file, which is converted once.

    The store of ``ratings.csv`` is ``ratings.csv.papilio`` beside it (``ratings.csv.unipartite.papilio`` if unipartite;
    other options than the defaults add eight hexadecimal digits). It is made again when the file is newer or has
    another size.

    Parameters
    ----------
    path : path-like
        A graph store, a URL of one, or a file of a format that :func:`papilio.convert` reads.
    kind : {"bipartite", "unipartite"}
        What an edge list is read as; a store is what it is.
    u, v, sign_column, positive_from
        As for :func:`papilio.convert`, which has more options, for an edge list.

    Raises
    ------
    InputError
        For options with a store, or a file in a directory that cannot be written to.
    PapilioError
        As for :func:`papilio.convert` and :func:`papilio.open_graph`.

    Examples
    --------
    >>> papilio.count(papilio.read("ratings.csv"), "butterfly").count
    """
    given = {"u": u, "v": v, "sign_column": sign_column, "positive_from": positive_from}
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    name = os.fspath(path)
    if is_url(name) or not os.path.isfile(name):
        if options:
            raise InputError(f"{name} is a graph store; {', '.join(options)} would change how a file is read")
        return open_store(name)
    target = _store_of(name, kind, options)
    with suppress(StoreError):
        store = open_store(target)
        made_s = os.stat(target / MANIFEST_NAME).st_mtime
        source = os.stat(name)
        if store.manifest.provenance.get("source_bytes") == source.st_size and source.st_mtime < made_s:
            return store
    if not os.access(target.parent, os.W_OK):
        raise InputError(
            f"{name} is no graph store, and {target.parent}, where one would be kept for it, cannot be written to; "
            f"'papilio convert {name} STORE' makes one elsewhere"
        )
    from papilio.storage.convert import convert  # slow to import, and only needed once for each file

    _LOG.warning("papilio: %s is converted into %s, which is read from then on", name, target)
    return convert(name, target, bipartite=kind == "bipartite", overwrite=True, **options)


def _store_of(name: str, kind: GraphKind, options: dict[str, Any]) -> Path:
    layout = "" if kind == "bipartite" else f".{kind}"
    text = json.dumps(options, sort_keys=True, default=str)
    digest = f".{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}" if options else ""
    return Path(f"{name}{layout}{digest}{STORE_SUFFIX}")
