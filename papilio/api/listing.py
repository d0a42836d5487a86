"""The public functions that list motifs one by one, instead of counting them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack, overload

from papilio.api.iterate import Rows
from papilio.api.listing_call import ListingCall
from papilio.api.projection_call import ProjectionCall
from papilio.api.read import AskedOptions, ask, open_graph, read
from papilio.arguments import Count, Workers, checked, names_table
from papilio.cluster.driver import run_directory
from papilio.cluster.events import Progress
from papilio.cluster.progress import shows_progress
from papilio.errors import InputError
from papilio.kernels.engine import EngineChoice
from papilio.motifs import Listing, Motif
from papilio.question import Question
from papilio.storage.answers import listing_batches, listing_schema
from papilio.storage.files import local_path
from papilio.storage.tables import check_table_file, write_batches
from papilio.tasks.directory import JobDirectory
from papilio.tasks.plan import CountPlan
from papilio.tasks.result import ListingResult


@overload
def enumerate(
    graph: Any,
    motif: Motif | str,
    *,
    output: None = None,
    limit: int | None = None,
    with_u: Iterable[str | int] = (),
    with_v: Iterable[str | int] = (),
    containing: Iterable[str | int] = (),
    engine: EngineChoice = "auto",
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> Rows: ...


@overload
def enumerate(
    graph: Any,
    motif: Motif | str,
    *,
    output: str | os.PathLike[str],
    overwrite: bool = False,
    limit: int | None = None,
    with_u: Iterable[str | int] = (),
    with_v: Iterable[str | int] = (),
    containing: Iterable[str | int] = (),
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: int | None = None,
    progress: Progress = None,
    job: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> ListingResult: ...


@checked
@shows_progress
def enumerate(
    graph: Any,
    motif: Motif | str,
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    limit: Count | None = None,
    with_u: Iterable[str | int] = (),
    with_v: Iterable[str | int] = (),
    containing: Iterable[str | int] = (),
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    progress: Progress = None,
    job: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> Rows | ListingResult:
    """List motifs, each once: iterate them, or write them to files.

    Without ``output`` the rows are found during iteration, in this process and in bounded memory::

        for clique in papilio.enumerate(friends, "clique", k=4): ...

    Parameters
    ----------
    graph : Graph, path, or object
        As for :func:`papilio.count`.
    motif : Motif or str
        ``Biclique(p, q)`` with both sizes, ``Clique(k)``, ``MaximalBiclique()`` or ``MaximalClique()``.
    output : path-like, optional
        A file, if it has the suffix of a format (Parquet, CSV, TSV, JSON, JSON lines or Arrow), else a new directory of
        Parquet files. The columns are ``u`` and ``v``, or ``n`` for a unipartite graph: lists of labels, or of ids if
        the graph has no labels, in increasing order of ids. All workers must be able to write to the parent directory,
        which also gets the shards of leases.
    overwrite : bool
        Replace an existing file, or an existing listing.
    limit : int, optional
        Maximum number of rows, all by default. If there are more motifs, an arbitrary selection is listed.
    with_u, with_v : iterable of str or int
        Labels (or ids, without labels) of vertices of U and of V: list only motifs that contain all of them. The search
        is restricted accordingly.
    containing : iterable of str or int
        The same for a unipartite graph, or for the layer that has a vertex with this label.
    cluster, workers, progress
        As for :func:`papilio.count`.
    engine : {"auto", "cpu", "gpu"}
        Bicliques of one size are listed on CPUs only.
    job : path-like, optional
        Job directory, as for :func:`papilio.count`. It keeps the shards; on the same file system the output files share
        their storage.
    options : mapping of str to str, optional
        For bicliques ``anchor`` (``auto``, ``u``, ``v``), for cliques of one k ``order``.
    **asked
        As for :func:`papilio.count`.

    Returns
    -------
    Rows
        Without ``output``: iterable, with ``.head(n)``, ``.to_batches()``, ``.to_arrow()``, ``.to_pandas()``.
    ListingResult
        With it: ``output``, the directory; ``rows``; ``limit_reached``; ``checked``; and run statistics. If all motifs
        of the graph are listed, they are also counted, and the listing fails unless the numbers are equal.

    Raises
    ------
    PapilioError
        As for :func:`papilio.count`; InputError also for unknown labels, StoreError if ``output`` exists and
        may not be replaced.

    Examples
    --------
    >>> papilio.enumerate("graph/", papilio.Biclique(3, 4), limit=2).head()
    [(("Evelyn", "Laura", "Theresa"), ("3", "5", "6", "8")), (("Evelyn", "Laura", "Brenda"), ("3", "5", "6", "8"))]
    >>> papilio.enumerate("graph/", papilio.Biclique(3, 4), output="bicliques").rows
    36
    """
    call = partial(
        _call, graph, motif, limit=limit, required=(containing, with_u, with_v), options=options, asked=asked,
        cluster=cluster, workers=workers, progress=progress, job=job,
    )  # fmt: skip
    if output is None:
        _require_here(cluster=cluster, workers=workers, job=job, progress=progress, gpu=engine == "gpu" or None)
        return call(local_path("rows"), engine="cpu").rows()
    if not names_table(output):
        return call(local_path(output), engine=engine, overwrite=overwrite).execute()
    if job is not None:
        raise InputError(f"output {output} is a file, but a job lists into a directory; leave out the suffix")
    target = check_table_file(output, overwrite)
    with run_directory(target.parent) as scratch:
        result = call(Path(scratch) / "rows", engine=engine).execute()
        rows = f"{scratch}/rows"
        write_batches(target, listing_schema(rows), listing_batches(rows), overwrite=overwrite)
    return replace(result, output=str(target), files=1)


def _require_here(**given: Any) -> None:
    """Raise for options that do not apply to rows iterated in this process."""
    named = [name for name, value in given.items() if value is not None and value not in ("inline", "auto")]
    if named:
        raise InputError(
            f"{', '.join(named)} is given, but rows are iterated on the processors of this process; set output to a "
            f"directory to list elsewhere, as a job or on a GPU"
        )


@checked
def plan_listing(
    graph: Any,
    motif: Motif | str,
    *,
    limit: Count | None = None,
    with_u: Iterable[str | int] = (),
    with_v: Iterable[str | int] = (),
    containing: Iterable[str | int] = (),
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> CountPlan:
    """Prepare a graph on one worker and plan the listing of ``motif``, without running it.

    Its work is an estimate: the number of motifs is unknown before they are counted or listed. Parameters and errors
    are the same as for :func:`enumerate`.
    """
    return _call(
        graph, motif, local_path("listing"), limit=limit, required=(containing, with_u, with_v), options=options,
        asked=asked, cluster=cluster, engine=engine, workers=workers,
    ).plan()  # fmt: skip


def source_of(directory: JobDirectory) -> Any:
    """Return the graph of a job: its store, or the file that was converted, if its conversion has been cleared."""
    if directory.converted_file is None or directory.source is None or os.path.exists(directory.source):
        return directory.source
    file, reading = directory.converted_file
    return read(file, **reading)


def resume_listing(directory: JobDirectory, **where: Any) -> ListingResult:
    """Resume the listing of a job directory; called by :func:`papilio.resume_job`."""
    target = Path(directory.settings["output"])
    question = directory.job
    graph = open_graph(source_of(directory), question.row.graph_kind, {}, question.of_layers)
    return _class_of(question)(graph, question, target, job=directory.root, **where).execute()


def _call(
    graph: Any,
    motif: Motif | str,
    target: Path,
    *,
    limit: int | None,
    required: tuple[Iterable[str | int], ...],
    options: Mapping[str, str] | None,
    asked: Mapping[str, Any],
    **where: Any,
) -> ListingCall:
    graph, question = ask(
        graph, motif, asked, lambda motif: Question.of(motif, "total", options, Listing(limit)),
        by_layer=any(required[1:]),
    )  # fmt: skip
    return _class_of(question)(graph, question, target, required, **where)


def _class_of(question: Question) -> type[ListingCall]:
    """Return the class of the calls that list the motif: rows with numbers are found in two passes."""
    if not question.row.numbers(question.motif):
        return ListingCall
    return ProjectionCall
