"""Converting an edge list of any known format into a graph store: the public function and its options."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import psutil

from papilio.arguments import Bytes, checked, read_bytes
from papilio.errors import CapacityError, InputError
from papilio.interrupts import removed_at_end
from papilio.storage.column_choice import ColumnRef, WantedColumns
from papilio.storage.formats import FORMATS, LabelType, ReadOptions
from papilio.storage.ingest import ConvertJob, ConvertProgress, Duplicates, InputPath, ingest
from papilio.storage.location import check_replaceable, local_path
from papilio.storage.signs import sign_rule
from papilio.storage.store import GraphStore

__all__ = ["MIN_MEMORY_BYTES", "ConvertProgress", "Duplicates", "convert"]

MIN_MEMORY_BYTES = 512 << 20
"""Smallest memory bound: the libraries themselves take 150 to 200 MiB."""


@checked
def convert(
    input: InputPath | Sequence[InputPath],
    output: InputPath,
    *,
    format: str | None = None,
    bipartite: bool = True,
    u: ColumnRef | None = None,
    v: ColumnRef | None = None,
    sign_column: ColumnRef | None = None,
    positive_from: float | None = None,
    sign_values: str | None = None,
    duplicates: Duplicates = "first",
    labels: LabelType | None = None,
    header: bool | None = None,
    time_column: ColumnRef | None = None,
    skip_malformed: bool = False,
    memory_bytes: Bytes | None = None,
    temp_dir: InputPath | None = None,
    overwrite: bool = False,
    progress: ConvertProgress | None = None,
) -> GraphStore:
    """Convert an edge list into a graph store.

    Parameters
    ----------
    input : path-like, or two of them
        A file of a format of :mod:`papilio.storage.formats`, plain or compressed with gzip, bzip2 or zstd; or
        two ``.npy`` files with one endpoint each.
    output : path-like
        The store to create, in an existing local directory.
    format : str, optional
        Name of the format; detected by default.
    bipartite : bool
        Whether the two columns are two layers, each with its own ids (then an edge 3 3 is no loop), or vertices
        of one undirected graph (then self loops are dropped, and a b and b a are the same edge).
    u, v : int or str, optional
        Columns of the endpoints, by number from 1 on or by name; by default by usual names, without names the first
        two, see :mod:`papilio.storage.column_choice`.
    sign_column : int or str, optional
        Column whose sign becomes the edge's: positive above 0, else negative.
    positive_from : float, optional
        Smallest value of the sign column (by default one with a usual name, such as rating, else 3) that is positive.
    sign_values : str, optional
        The words in the sign column (by default as before), ``POSITIVE:NEGATIVE``, such as ``yea,aye:nay,no``.
    duplicates : {"first", "last", "error"}
        Which of several equal edges is kept, by time where there is a time column, else by place in the input.
    labels : {"integer", "text"}, optional
        Type of the labels; by default the first line of data decides.
    header : bool, optional
        Whether the first line holds names or sizes; by default its content decides.
    time_column : int or str, optional
        Column of times; by default what the format or a line of names says.
    skip_malformed : bool
        Count malformed lines instead of raising.
    memory_bytes : int, optional
        Bound of the memory of the process in bytes; by default a quarter of the machine's.
    temp_dir : path-like, optional
        Directory for scratch files, about 10 to 40 bytes per edge; by default that of ``output``.
    progress : callable, optional
        See :data:`ConvertProgress`.

    Returns
    -------
    GraphStore
        ``manifest.provenance`` says what was detected, ``manifest.dropped`` what was left out.

    Raises
    ------
    MalformedLineError
        At the first malformed line; names file, line number and text.
    DuplicateEdgeError
        When equal edges are met and ``duplicates`` is ``"error"``.
    InputError
        For an input or an option that cannot be right.
    CapacityError
        For more than 2^31 - 1 vertices, or when memory or disk do not suffice.
    StoreError
        When ``output`` exists or cannot be written.
    """
    if duplicates not in get_args(Duplicates):
        raise InputError(f"duplicates is {duplicates!r}; expected one of {', '.join(get_args(Duplicates))}")
    rule = sign_rule(sign_column is not None, positive_from, sign_values)
    options = ReadOptions(
        format=_format_name(format),
        bipartite=bipartite,
        sign=rule,
        columns=WantedColumns(u, v, sign_column, time_column, signed=rule is not None),
        labels=_label_type(labels),
        header=header,
        skip_malformed=skip_malformed,
    )
    memory = read_bytes("memory_bytes", memory_bytes) or psutil.virtual_memory().total // 4
    if memory < MIN_MEMORY_BYTES:
        raise CapacityError(
            f"memory is {memory} bytes; converting needs at least {MIN_MEMORY_BYTES} (512 MiB)"
        )
    target = local_path(output)
    check_replaceable(target, overwrite)
    parent = target.parent if temp_dir is None else local_path(Path(temp_dir) / "scratch").parent
    try:
        with (
            tempfile.TemporaryDirectory(dir=parent, prefix=f".{target.name}.convert-") as scratch,
            removed_at_end(scratch),
        ):
            job = ConvertJob(
                output=target,
                scratch=Path(scratch),
                options=options,
                duplicates=duplicates,
                memory_bytes=memory,
                threads=max(1, min(os.cpu_count() or 1, 8, memory // MIN_MEMORY_BYTES)),
                overwrite=overwrite,
                progress=progress or (lambda phase, done, total: None),
            )
            return ingest(input, job)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise CapacityError(
                f"the disk of {parent} is full; free some space or use another temp_dir"
            ) from error
        raise


def _format_name(name: str | None) -> Any:
    if name is not None and name not in FORMATS:
        raise InputError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")
    return name


def _label_type(name: str | None) -> Any:
    if name is not None and name not in get_args(LabelType):
        raise InputError(f"labels is {name!r}; expected one of {', '.join(get_args(LabelType))}")
    return name
