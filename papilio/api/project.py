"""Projections to one layer: pairs of vertices with their common neighbours, weights, p-values and q-values."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from papilio.api.graph import resolve_layers
from papilio.api.listing import ListingCall, enumerate
from papilio.api.rows import Rows
from papilio.arguments import Count, Samples, Seed, Workers, checked, plural
from papilio.cluster.driver import JobOutcome, count_job, run_directory
from papilio.cluster.events import Progress, ignore_events
from papilio.cluster.executor import Executor
from papilio.errors import ExecutionError, InputError
from papilio.kernels.engine import EngineChoice
from papilio.kernels.project.discovery import FalseDiscovery
from papilio.kernels.threads import available_threads
from papilio.motifs import PairTest, Projection, Weighting, motif_to_json
from papilio.storage.convert import convert_pairs
from papilio.storage.files import check_replaceable, local_path
from papilio.storage.labelled import plain_labels
from papilio.storage.listings import (
    PAIR_COLUMNS,
    ListingShard,
    choose_rows,
    flat_pairs,
    pair_batch,
    pair_schema,
    read_numbers,
)
from papilio.storage.reading import GraphOptions
from papilio.tasks.forecast import Range

if TYPE_CHECKING:
    from papilio.tasks.job import JobSpec
    from papilio.tasks.result import ListingResult
    from papilio.tasks.session import JobSession

_LOG = logging.getLogger("papilio")

_PAIR_BYTES, _NUMBER_BYTES, _BYTES_FACTOR = 3.0, 6.0, 3.0
"""Bytes of a pair on disk, and of each number in addition to its common neighbours; approximate."""


_REWRITERS = 8
"""Files of pairs that are read and written at a time, at most."""


@checked
def project(
    graph: Any,
    layer: str,
    *,
    min_common: Count = 2,
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
) -> Any:
    """Project a bipartite graph to one layer: each pair of its vertices with enough common neighbours is a row.

    The columns are ``source`` and ``target`` (labels, or ids where there are none), ``common`` (int32), with a
    weighting ``weight`` (float64), and with a test ``p`` and ``q`` (float64).

    Parameters
    ----------
    graph : Graph, path, or object
        As for :func:`papilio.count`; bipartite.
    layer : str
        Layer of the pairs: ``u``, ``v``, or its name, such as the name of its column.
    min_common : int
        Minimum number of common neighbours.
    weighting : {"jaccard", "cosine", "hyperbolic", "resource"}, optional
        With c common neighbours and degrees d and e: c / (d + e - c); c / sqrt(d e); the sum over the common
        neighbours, of degree k, of 1 / (k - 1) (Newman 2001) or of 1 / k (resource allocation, Zhou et al. 2007).
    significance : {"hypergeometric", "expected-degrees", "degrees"}, optional
        P-value: the probability of c or more common neighbours if both vertices chose their neighbours at random; or
        in random graphs with the same expected degrees (BiCM), by Poisson's approximation (Saracco et al. 2017); or
        (r + 1) / (n + 1), where r of n random graphs with the same degrees have c or more (Zweig and Kaufmann 2011).
    fdr : float, optional
        Keep pairs whose q-value (Benjamini-Hochberg) is at most this, with ``significance``; 0.05 by default. All
        pairs of the layer are tests; those with fewer than ``min_common`` count as tests with p-value 1.
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
        ``.to_polars()``.
    ListingResult
        With it: ``output``, ``rows`` and how it ran.
    GraphStore
        With ``as_store``.

    Raises
    ------
    InputError
        For an ``fdr`` without ``significance`` or outside (0, 1], a ``limit`` with it, ``samples`` without
        ``"degrees"``, ``as_store`` without ``output``.
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
    Projection("u", *rest)  # a wrong parameter raises before the graph is read
    graph, options, named = resolve_layers(graph, reading, {"layer": layer}, needs_signs=False)
    motif = Projection(named["layer"], *rest)
    given: dict[str, Any] = {
        "limit": limit, "cluster": cluster, "engine": engine, "workers": workers, "progress": progress, **options
    }  # fmt: skip
    if not as_store:
        return enumerate(graph, motif, output=output, overwrite=overwrite, job=job, **given)
    if output is None:
        raise InputError("as_store needs output, the directory of the store")
    target = local_path(output)
    check_replaceable(target, overwrite)
    with run_directory(target.parent) as scratch:
        listed: ListingResult = enumerate(graph, motif, output=f"{scratch}/pairs", job=job, **given)
        if not listed.rows:
            raise InputError(f"no {motif.title} in {listed.graph['path'] or 'the graph'}: a store needs an edge")
        source = listed.graph["provenance"]["source"]
        origin = {
            "source": os.path.basename(source) if isinstance(source, str) else source,
            "source_hash": listed.graph["hash"],
            "projection": motif_to_json(motif),
        }
        return convert_pairs(Path(scratch) / "pairs", target, origin, overwrite)


class ProjectionCall(ListingCall):
    """A listing of pairs with numbers: their number is known first, and q-values once all of them are listed."""

    _counted: int | None = None
    _warned = False

    def __init__(self, *given: Any, **where: Any) -> None:
        super().__init__(*given, **where)
        limit, test = self._listing.limit, self.motif.significance
        if limit is not None and test is not None:
            raise InputError(
                f"limit is {limit}, and significance {test!r}: q-values need all pairs; leave out one of them"
            )

    @property
    def motif(self) -> Any:
        return self.question.motif

    def rows(self) -> ProjectedRows:
        return ProjectedRows(self)

    @property
    def numbers(self) -> Mapping[str, str]:
        return {**super().numbers, **({} if self.motif.significance is None else {"q": "double"})}

    def discovery(self) -> FalseDiscovery | None:
        """Return an empty collection of p-values, one for each pair of the layer; None without a test."""
        return None if self.motif.fdr is None else FalseDiscovery(self._n_tests, self.motif.fdr)

    @property
    def _n_tests(self) -> int:
        n = self.graph.n_u if self.motif.layer == "u" else self.graph.n_v
        return n * (n - 1) // 2

    def count(self, executor: Executor, job: JobSpec, session: JobSession | None, shards: Path | None) -> JobOutcome:
        if self._listing.limit is None:
            asked = replace(job, listing=None, motif=self.motif.plain if self.motif.samples else self.motif)
            found = count_job(executor, asked, self.engine, None, ignore_events).result.count
            if self.motif.samples is None:
                self._counted = found
            elif found:
                self._require_samples(found)
            rows = Range(*[float(found)] * 3)
            width = _PAIR_BYTES + _NUMBER_BYTES * (len(self.numbers) - 1)
            n_bytes = rows.value * width * (1 if self.motif.significance is None else 2)
            self.require_space(rows, Range(n_bytes, n_bytes / _BYTES_FACTOR, n_bytes * _BYTES_FACTOR))
        return super().count(executor, job, session, shards)

    def settle(self, discovery: FalseDiscovery) -> None:
        """Compute the q-values; warn if none of them is small enough and more random graphs could change that."""
        discovery.settle()
        samples = self.motif.samples
        if samples is not None and discovery.n_kept == 0 and (n := discovery.count(1 / (1 + samples))):
            self._require_samples(n)

    def _require_samples(self, n_pairs: int) -> None:
        """Warn if no q-value is up to ``fdr`` although all of these pairs have the smallest p-value."""
        samples, fdr = self.motif.samples, self.motif.fdr
        needed = ceil(self._n_tests / (n_pairs * fdr)) - 1
        if samples < needed and not self._warned:
            self._warned = True
            _LOG.warning(
                f"papilio: {samples:,} random graphs are too few for q-values up to {fdr:g}: the smallest p-value is "
                f"1 / {samples + 1:,}, and {n_pairs:,} of {plural(self._n_tests, 'pair')} can have it; give at least "
                f"{needed:,} samples"
            )

    def check(self, executor: Executor, outcome: JobOutcome) -> dict[str, float]:
        if self._counted is not None and outcome.result.count != self._counted:
            raise ExecutionError(
                f"{outcome.result.count} of {self.motif.title} were listed in {self.spec.source}, and "
                f"{self._counted} are counted there; nothing was written"
            )
        self._checked = self._counted is not None
        return {}

    @contextmanager
    def settled(self, shards: Sequence[ListingShard]) -> Iterator[Sequence[ListingShard]]:
        """Give files of the pairs that pass the test, with their q-values."""
        discovery = self.discovery()
        if discovery is None:
            yield shards
            return
        for p_values in read_numbers(shards, "p"):
            discovery.add(p_values)
        self.settle(discovery)
        with run_directory(self._directory.parent) as scratch:
            threads = min(_REWRITERS, available_threads())
            yield choose_rows(shards, Path(scratch), "p", "q", discovery.q_values, threads)


class ProjectedRows(Rows):
    """The pairs of a projection, found while they are iterated; :func:`papilio.project` returns it.

    Each row is a tuple: both labels (ids, where there are none), the number of common neighbours and further numbers,
    in the order of :attr:`columns`. With a test the pairs are found twice, first for the q-values. Otherwise like
    :class:`Rows`.
    """

    _call: ProjectionCall

    def __init__(self, call: ProjectionCall) -> None:
        super().__init__(call)
        self.columns = *PAIR_COLUMNS, *call.numbers

    def __iter__(self) -> Generator[tuple[Any, ...], None, None]:
        with closing(self._blocks()) as blocks:
            for names, _, columns in blocks:
                source, target, *numbers = columns
                labels = (plain_labels(names[0][places]) for places in (source, target))
                yield from zip(*labels, *map(np.ndarray.tolist, numbers), strict=True)

    @property
    def schema(self) -> Any:
        """Schema of the batches; reading it prepares the graph."""
        with ExitStack() as stack:
            names, *_ = self._prepare(stack)
            return pair_schema(names[0], self._call.numbers)

    def _batches(self, schema: Any | None) -> Iterator[Any]:
        with closing(self._blocks()) as blocks:
            for names, _, columns in blocks:
                schema = schema or pair_schema(names[0], self._call.numbers)
                yield pair_batch(names[0], columns, schema)

    def _blocks(self) -> Generator[tuple[list[Any], list[int | None], list[Any]], None, None]:
        """Yield blocks as the base class, with a column for each vertex and each number."""
        discovery = self._call.discovery()
        if discovery is not None:
            for _, _, block in super()._blocks():
                discovery.add(flat_pairs(block)[-1])
            self._call.settle(discovery)
        with closing(super()._blocks()) as blocks:
            for names, sizes, block in blocks:
                columns = flat_pairs(block)
                if discovery is not None:
                    found, kept = discovery.q_values(columns[-1])
                    columns = [each[kept] for each in (*columns, found)]
                yield names, sizes, [*columns]
