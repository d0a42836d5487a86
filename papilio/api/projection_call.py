"""A call that lists the pairs of a projection, with their numbers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from papilio import charts
from papilio.api.iterate import Rows, as_tuples
from papilio.api.listing_call import ListingCall
from papilio.api.read import Graph
from papilio.arguments import plural
from papilio.cluster.driver import JobOutcome, count_job, run_directory
from papilio.cluster.events import ignore_events
from papilio.cluster.executor import Executor
from papilio.errors import ExecutionError, InputError
from papilio.graph import BipartiteGraph
from papilio.kernels.project.common import CommonNeighbours
from papilio.kernels.project.q_values import FalseDiscovery
from papilio.kernels.threads import available_threads
from papilio.motifs import PairSide
from papilio.storage.answers import Drawn
from papilio.storage.evidence import VALUED
from papilio.storage.interop import pairs_to_networkx
from papilio.storage.labelled import plain_labels
from papilio.storage.listings import (
    NEIGHBOURS,
    PAIR_COLUMNS,
    ListingShard,
    choose_rows,
    flat_pairs,
    pair_batch,
    pair_schema,
    read_numbers,
)
from papilio.storage.reading import REPEATED
from papilio.tasks.forecast import Range

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowSchema
    from papilio.tasks.job import JobSpec
    from papilio.tasks.session import JobSession

_LOG = logging.getLogger("papilio")

_PAIR_BYTES, _NUMBER_BYTES, _BYTES_FACTOR = 3.0, 6.0, 3.0
"""Bytes of a pair on disk, and of each number in addition to its common neighbours; approximate."""

_REWRITERS = 8
"""Files of pairs that are read and written at a time, at most."""


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
        self._note_multiplicities()
        return ProjectedRows(self)

    def plain(self) -> ProjectionCall:
        """Return the call for all pairs with enough common neighbours, without a test."""
        return ProjectionCall(
            self.graph, replace(self.question, motif=self.motif.plain), self._directory, self._required
        )

    @property
    def numbers(self) -> Mapping[str, str]:
        return {**super().numbers, **({} if self.motif.significance is None else {"q": "double"})}

    def discovery(self) -> FalseDiscovery | None:
        """Return an empty collection of p-values, one for each pair of the layer; None without a test."""
        return None if self.motif.fdr is None else FalseDiscovery(self._n_tests, self.motif.fdr)

    def _note_multiplicities(self) -> None:
        """Warn if edges had multiplicities, which other projections add up."""
        noted = [note for note in self.graph.reading["notes"] if note.startswith((REPEATED, VALUED))]
        if noted:
            _LOG.warning(f"papilio: {self.graph.source}: {'; '.join(noted)}; a common neighbour counts once")

    @property
    def _n_tests(self) -> int:
        """One test for each pair of the layer; of signs two, for concordant and for discordant common neighbours."""
        n = self.graph.n_u if self.motif.layer == "u" else self.graph.n_v
        return n * (n - 1) // (1 if self.motif.needs_signs else 2)

    def count(self, executor: Executor, job: JobSpec, session: JobSession | None, shards: Path | None) -> JobOutcome:
        self._note_multiplicities()
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


class ProjectedRows(Rows, Drawn):
    """The pairs of a projection, found while they are iterated; :func:`papilio.project` returns it.

    Each row is a tuple: both labels (ids, where there are none), the number of common neighbours and further numbers,
    in the order of :attr:`columns`. With a test the pairs are found twice, first for the q-values. Otherwise like
    :class:`Rows`.
    """

    _call: ProjectionCall

    _common: CommonNeighbours | None = None

    def __init__(self, call: ProjectionCall) -> None:
        super().__init__(call)
        self.columns = *PAIR_COLUMNS, *call.numbers

    def add_neighbours(self) -> Self:
        """Append the common neighbours of each pair to its row, as a tuple of labels or ids; return the rows."""
        graph = self._call.graph.arrays()
        assert isinstance(graph, BipartiteGraph)
        self._common = CommonNeighbours(graph, self._call.motif.layer)
        self.columns = *PAIR_COLUMNS, *self._call.numbers, NEIGHBOURS
        return self

    def __iter__(self) -> Generator[tuple[Any, ...], None, None]:
        others = self._others
        with closing(self._listed()) as blocks:
            for names, columns in blocks:
                source, target, *numbers = columns
                lists = [] if others is None else [as_tuples(others, numbers.pop())]
                labels = (plain_labels(names[places]) for places in (source, target))
                yield from zip(*labels, *map(np.ndarray.tolist, numbers), *lists, strict=True)

    @property
    def schema(self) -> ArrowSchema:
        """Schema of the batches; reading it prepares the graph."""
        with ExitStack() as stack:
            names, *_ = self._prepare(stack)
            return pair_schema(names[0], self._call.numbers, self._others)

    def _batches(self, schema: Any | None) -> Iterator[Any]:
        others = self._others
        with closing(self._listed()) as blocks:
            for names, columns in blocks:
                schema = schema or pair_schema(names, self._call.numbers, others)
                yield pair_batch(names, columns, schema, others)

    @property
    def _others(self) -> NDArray[Any] | None:
        """Names of the vertices that are common neighbours, by id; None if these are not listed."""
        return None if self._common is None else other_names(self._call.graph, self._call.motif.layer)

    def _listed(self) -> Generator[tuple[NDArray[Any], list[Any]], None, None]:
        """Yield the names of the layer, and columns of pairs: with common neighbours, if they are listed."""
        with closing(self._blocks()) as blocks:
            for names, _, columns in blocks:
                if self._common is None:
                    yield names[0], columns
                    continue
                for part, lists in self._common.find(*columns[:3]):
                    yield names[0], [*(each[part] for each in columns), lists]

    def to_networkx(self) -> Any:
        """Return a NetworkX graph: all vertices of the layer as nodes, the numbers of a pair as attributes of its edge.

        NetworkX has the number of common neighbours, here ``common``, in ``weight``.
        """
        graph, layer = self._call.graph, self._call.motif.layer
        labels = graph.labels(layer)
        n_vertices = graph.n_u if layer == "u" else graph.n_v
        vertices = range(n_vertices) if labels is None else plain_labels(labels)
        return pairs_to_networkx(vertices, self.columns[len(PAIR_COLUMNS) :], self)

    def _draw(self, axes: Any) -> None:
        """Draw how many pairs have a number of common neighbours, and with a test how many of them are kept."""
        pairs = ProjectedRows(self._call.plain())._count_by_common()
        lines = {"pairs": pairs}
        if self._call.motif.significance is not None:
            lines[f"kept, q up to {self._call.motif.fdr:g}"] = self._count_by_common()
        at = sorted(pairs)
        numbers = {name: [counts[common] for common in at] for name, counts in lines.items()}
        charts.draw_lines(axes, at, numbers, "common neighbours")
        axes.set_ylabel("pairs")

    def _count_by_common(self) -> Counter[int]:
        """Return the number of pairs by common neighbours."""
        counts: Counter[int] = Counter()
        with closing(self._blocks()) as blocks:
            for _, _, columns in blocks:
                values, numbers = np.unique(columns[2], return_counts=True)
                counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
        return counts

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


def other_names(graph: Graph, layer: PairSide) -> NDArray[Any]:
    """Return the labels, or the ids, of the vertices of the other layer."""
    other: PairSide = "v" if layer == "u" else "u"
    labels = graph.labels(other)
    return np.arange(graph.n_v if layer == "u" else graph.n_u, dtype=np.int32) if labels is None else labels
