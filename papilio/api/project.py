"""Projections to one layer: pairs of vertices with their common neighbours, weights, p-values and q-values."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from papilio.api.listing import enumerate
from papilio.api.projection_call import ProjectedRows, other_names
from papilio.api.read import read_graph, resolve_layers, split_options
from papilio.arguments import Count, Samples, Seed, Workers, checked
from papilio.cluster.driver import run_directory
from papilio.cluster.events import Progress
from papilio.errors import InputError
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import EngineChoice
from papilio.kernels.project.common import CommonNeighbours
from papilio.motifs import CommonForm, PairTest, Projection, Weighting, motif_to_json
from papilio.storage.answers import label_column, listing_batches, listing_schema
from papilio.storage.convert import convert_pairs
from papilio.storage.files import check_replaceable, local_path
from papilio.storage.listings import add_neighbours, neighbours_field
from papilio.storage.reading import GraphOptions
from papilio.storage.store import GraphStore
from papilio.storage.tables import check_table_file, write_batches
from papilio.tasks.result import ListingResult


@overload
def project(
    graph: Any,
    layer: str,
    *,
    min_common: int = 2,
    common: CommonForm = "count",
    weighting: Weighting | None = None,
    significance: PairTest | None = None,
    fdr: float | None = None,
    samples: int | None = None,
    seed: int | None = None,
    output: None = None,
    limit: int | None = None,
    engine: EngineChoice = "auto",
    **reading: Unpack[GraphOptions],
) -> ProjectedRows: ...


@overload
def project(
    graph: Any,
    layer: str,
    *,
    min_common: int = 2,
    weighting: Weighting | None = None,
    significance: PairTest | None = None,
    fdr: float | None = None,
    samples: int | None = None,
    seed: int | None = None,
    output: str | os.PathLike[str],
    overwrite: bool = False,
    as_store: Literal[True],
    limit: int | None = None,
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: int | None = None,
    progress: Progress = None,
    job: str | os.PathLike[str] | None = None,
    **reading: Unpack[GraphOptions],
) -> GraphStore: ...


@overload
def project(
    graph: Any,
    layer: str,
    *,
    min_common: int = 2,
    common: CommonForm = "count",
    weighting: Weighting | None = None,
    significance: PairTest | None = None,
    fdr: float | None = None,
    samples: int | None = None,
    seed: int | None = None,
    output: str | os.PathLike[str],
    overwrite: bool = False,
    limit: int | None = None,
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: int | None = None,
    progress: Progress = None,
    job: str | os.PathLike[str] | None = None,
    **reading: Unpack[GraphOptions],
) -> ListingResult: ...


@checked
def project(
    graph: Any,
    layer: str,
    *,
    min_common: Count = 2,
    common: CommonForm = "count",
    weighting: Weighting | None = None,
    significance: PairTest | None = None,
    fdr: float | None = None,
    samples: Samples | None = None,
    seed: Seed | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    as_store: bool = False,
    limit: Count | None = None,
    cluster: Any = None,
    engine: EngineChoice = "auto",
    workers: Workers | None = None,
    progress: Progress = None,
    job: str | os.PathLike[str] | None = None,
    **reading: Unpack[GraphOptions],
) -> ProjectedRows | ListingResult | GraphStore:
    """Project a bipartite graph to one layer: each pair of its vertices with enough common neighbours is a row.

    The columns are ``source`` and ``target`` (labels, or ids where there are none), ``common`` (int32), with a
    weighting ``weight`` (float64), with a test ``p`` and ``q`` (float64), and ``neighbours`` (lists of labels) if they
    are wanted.

    Parameters
    ----------
    graph : Graph, path, or object
        As for :func:`papilio.count`; bipartite.
    layer : str
        Layer of the pairs: ``u``, ``v``, or its name, such as the name of its column.
    min_common : int
        Minimum number of common neighbours.
    common : {"count", "list"}
        ``list``: each row ends with the common neighbours themselves, by rising ids. This process finds them, some
        pairs at a time. ``output`` must be a file; in CSV and TSV the lists are JSON arrays.
    weighting : {"jaccard", "cosine", "checkerboards", "togetherness", "hyperbolic", "resource"}, optional
        With c common neighbours, degrees d and e, and n vertices in the other layer: c / (d + e - c); c / sqrt(d e);
        (d - c) (e - c) (Stone and Roberts 1990); c (n - d - e + c) (Stone and Roberts 1992); the sum over the common
        neighbours, of degree k, of 1 / (k - 1) (Newman 2001) or of 1 / k (resource allocation, Zhou et al. 2007).
    significance : {"hypergeometric", "expected-degrees", "degrees", "signs"}, optional
        P-value: the probability of c or more common neighbours if both vertices chose their neighbours at random; or
        in random graphs with the same expected degrees (BiCM; Saracco et al. 2017), exact; or
        (r + 1) / (n + 1), where r of n random graphs with the same degrees have c or more (Zweig and Kaufmann 2011).
        ``signs``, for signed graphs, without a weighting: Fisher's exact test of the signs of both vertices at their
        common neighbours. Rows then have ``concordant`` and ``discordant`` common neighbours, of equal and different
        signs, and ``sign``: 1 if more are concordant than expected, -1 if more are discordant (int32), with the p-value
        of as many or more of these.
    fdr : float, optional
        Keep pairs whose q-value (Benjamini-Hochberg) is at most this, with ``significance``; 0.05 by default. All
        pairs of the layer are tests; those with fewer than ``min_common`` count as tests with p-value 1. With
        ``"signs"`` there are two tests of each pair, and the other one counts as a test with p-value 1.
    samples, seed : int, optional
        Number and seed of the random graphs, with ``"degrees"``; 1,000 and 0 by default. A warning gives the
        required number if so few samples cannot lead to any q-value up to ``fdr``.
    output : path-like, optional
        As for :func:`papilio.enumerate`: a file, if it has the suffix of a format, else a directory of Parquet files.
    overwrite : bool
        Replace an existing file, listing or store.
    as_store : bool
        Make ``output`` a unipartite graph store, for cliques and other questions. Stores have no weights.
    limit : int, optional
        Maximum number of rows; not with ``significance``.
    cluster, workers, progress, job
        As for :func:`papilio.enumerate`.
    engine : {"auto", "cpu", "gpu"}
        ``gpu`` needs ``output``: iterated rows, and rows of ``"degrees"``, are found on CPUs.
    **reading
        As for :func:`papilio.count`.

    Returns
    -------
    ProjectedRows
        Without ``output``: to iterate, ``.head(n)``, ``.to_batches()``, ``.to_arrow()``, ``.to_pandas()``,
        ``.to_polars()``, ``.to_networkx()``, ``.plot()``.
    ListingResult
        With it: ``output``, ``rows`` and how it ran.
    GraphStore
        With ``as_store``.

    Raises
    ------
    InputError
        For ``common="list"`` with a directory, a store or a job, an ``fdr`` without ``significance`` or outside
        (0, 1], a ``limit`` with it, ``samples`` without ``"degrees"``, ``as_store`` without ``output``.
    CapacityError
        When the files need more than is free on the disk; the rows are counted before they are written.
    PapilioError
        As for :func:`papilio.enumerate`.

    Examples
    --------
    >>> papilio.project("southern-women/", "u", min_common=6).head(2)
    [("Evelyn", "Laura", 6), ("Evelyn", "Theresa", 7)]
    """
    rest: Any = (min_common, weighting, significance, fdr, samples, seed)
    asked = Projection("u", *rest)  # a wrong parameter raises before the graph is read
    graph, options, named = resolve_layers(graph, reading, {"layer": layer}, needs_signs=asked.needs_signs)
    motif = replace(asked, layer=named["layer"])
    given: dict[str, Any] = {
        "limit": limit, "cluster": cluster, "engine": engine, "workers": workers, "progress": progress, **options
    }  # fmt: skip
    if common == "list":
        given |= {"job": job, "as_store": as_store}
        return _list_common(graph, motif, output, overwrite, given)
    if not as_store:
        listed_to: dict[str, Any] = {"output": output, "overwrite": overwrite, "job": job}
        rows: ProjectedRows | ListingResult = enumerate(graph, motif, **listed_to, **given)
        return rows
    if output is None:
        raise InputError("as_store needs output, the directory of the store")
    target = local_path(output)
    check_replaceable(target, overwrite)
    with run_directory(target.parent) as scratch:
        listed = enumerate(graph, motif, output=f"{scratch}/pairs", job=job, **given)
        if not listed.rows:
            raise InputError(f"no {motif.title} in {listed.graph['path'] or 'the graph'}: a store needs an edge")
        source = listed.graph["provenance"]["source"]
        origin = {
            "source": os.path.basename(source) if isinstance(source, str) else source,
            "source_hash": listed.graph["hash"],
            "projection": motif_to_json(motif),
        }
        return convert_pairs(Path(scratch) / "pairs", target, origin, overwrite)


def _list_common(
    graph: Any, motif: Projection, output: str | os.PathLike[str] | None, overwrite: bool, given: dict[str, Any]
) -> ProjectedRows | ListingResult:
    """Return pairs with their common neighbours as rows, or list them as usual and write them to a file with these."""
    job, as_store = given.pop("job"), given.pop("as_store")
    target = None if output is None else check_table_file(output, overwrite)
    if as_store or job is not None:
        raise InputError(f"{'as_store' if as_store else 'job'} is set, and common is 'list': only rows have lists")
    options, where = split_options(given)
    held = read_graph(graph, "bipartite", options, needs_signs=motif.needs_signs)
    if target is None:
        rows: ProjectedRows = enumerate(held, motif, **where)
        return rows.add_neighbours()
    with run_directory(target.parent) as scratch:
        pairs = f"{scratch}/pairs"
        listed: ListingResult = enumerate(held, motif, output=pairs, **where)
        arrays, others = held.arrays(), other_names(held, motif.layer)
        assert isinstance(arrays, BipartiteGraph)
        find = CommonNeighbours(arrays, motif.layer).find
        schema = listing_schema(pairs).append(neighbours_field(others))
        labels = label_column(held.held, motif.layer)
        rows_with = add_neighbours(listing_batches(pairs), schema, labels, others, find)
        write_batches(target, schema, rows_with, overwrite=overwrite)
    return replace(listed, output=str(target), files=1)
