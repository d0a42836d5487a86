"""Motifs one by one: the rows of a listing during the search, in bounded memory, without a file."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from itertools import islice, pairwise
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from papilio.api.read import Graph
from papilio.arguments import Count, checked
from papilio.graph import RowColumn
from papilio.question import Question
from papilio.signals import check
from papilio.storage.answers import Previewed, Tabular
from papilio.storage.labelled import plain_labels
from papilio.storage.listings import batch_of, list_schema, table_of
from papilio.tasks.job import JobSpec
from papilio.tasks.machine import describe_worker
from papilio.tasks.run import SLICE_S, prepare_rows

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowBatch, ArrowSchema, ArrowTable


class RowsCall(Protocol):
    """The call that asks for rows."""

    graph: Graph
    question: Question
    stack: ExitStack

    def local_job(self) -> AbstractContextManager[JobSpec]: ...


_WAITING = 8
"""Maximum number of blocks of rows found ahead of the iteration; beyond it the search pauses."""

_POLL_S = 0.1
"""Interval at which a paused search checks if its rows are still wanted."""


class _Left(Exception):
    """Raised to end a search whose rows are no longer wanted."""


class Rows(Previewed, Tabular):
    """The motifs of a graph, found during iteration; returned by :func:`papilio.enumerate`.

    Each row is a tuple of labels (or ids, without labels) in increasing order of ids; for a biclique a pair of tuples,
    its vertices of U and of V. Every iteration searches again, on the processors of this process, a few blocks of rows
    ahead; an abandoned iteration ends its search. The order of the rows is not defined. The prepared graph stays in
    memory as long as this object lives.
    """

    def __init__(self, call: RowsCall) -> None:
        self._call = call
        weakref.finalize(self, call.stack.close)
        call.graph.keep_prepared()
        self.motif = call.question.motif
        self.columns = tuple(call.question.row.columns(self.motif))  # ``u`` and ``v``, or ``n``
        self.limit = None if call.question.listing is None else call.question.listing.limit

    @property
    def headline(self) -> str:
        """The question and the columns in one line; no row is searched for."""
        most = "" if self.limit is None else f", at most {self.limit:,}"
        columns = ", ".join(self.columns)
        what = f"rows ({columns}) of {self.motif.title} in {self._call.graph.source}{most}"
        return f"{what}: iterate them, or use .head() or .to_arrow()"

    def __iter__(self) -> Generator[tuple[Any, ...], None, None]:
        with closing(self._blocks()) as blocks:
            for names, _, columns in blocks:
                lists = [as_tuples(each, of) for each, of in zip(names, columns, strict=True)]
                yield from lists[0] if len(lists) == 1 else zip(*lists, strict=True)

    @checked
    def head(self, n: Count = 10) -> list[tuple[Any, ...]]:
        """Return the first ``n`` rows found."""
        with closing(self.__iter__()) as rows:
            return [*islice(rows, n)]

    def to_batches(self) -> Iterator[ArrowBatch]:
        """Yield the rows as Arrow batches: a column of lists of labels for each of :attr:`columns`.

        Raises GraphError if labels of a graph in memory have no Arrow type.
        """
        return self._batches(None)

    @property
    def schema(self) -> ArrowSchema:
        """Schema of the batches; reading it prepares the graph."""
        with ExitStack() as stack:
            names, sizes, _, _, _ = self._prepare(stack)
            return list_schema(self.columns, names, sizes)

    def _batches(self, schema: Any | None) -> Iterator[Any]:
        with closing(self._blocks()) as blocks:
            for names, sizes, columns in blocks:
                schema = schema or list_schema(self.columns, names, sizes)
                yield batch_of(names, columns, schema)

    def to_arrow(self) -> ArrowTable:
        """Return all rows as a table, in memory; errors as :meth:`to_batches`."""
        schema = self.schema
        return table_of(self._batches(schema), schema)

    def _prepare(self, stack: ExitStack) -> tuple[list[Any], list[int | None], Any, Any, list[int]]:
        """Return the names of each column, the vertices of a row in each, engine, prepared graph and ends of slices."""
        call = self._call
        call.graph.require_current()
        job = stack.enter_context(call.local_job())
        worker = describe_worker("rows", None)
        engine, graph = prepare_rows(job, worker)
        sizes = job.row.columns(job.motif)
        names = []
        for layer in sizes:
            ids = getattr(graph.prepared, f"ids_{layer}")
            labels = call.graph.labels("v" if layer == "v" else "u")
            names.append(ids if labels is None else labels[ids])
        slice_work = int(SLICE_S * graph.speed)
        bounds = graph.bounds(0, int(graph.prepared.n_items), slice_work)
        return names, [*sizes.values()], engine, graph.prepared, bounds

    def _blocks(self) -> Generator[tuple[list[Any], list[int | None], list[RowColumn]], None, None]:
        """Yield blocks of rows: the names of each column, vertices in a row of it, and positions in the names."""
        with ExitStack() as stack:
            names, sizes, engine, prepared, bounds = self._prepare(stack)
            found: Queue[list[RowColumn] | BaseException | None] = Queue(_WAITING)
            left = threading.Event()

            def give(what: list[RowColumn] | BaseException | None) -> None:
                while not left.is_set():
                    with suppress(Full):
                        found.put(what, timeout=_POLL_S)
                        return
                raise _Left

            def sink(*columns: RowColumn, part: int | None = None) -> None:
                give([_copied(each) for each in columns])

            def search() -> None:
                with suppress(_Left):
                    try:
                        engine.run(prepared, 0, prepared.n_items, bounds, left.is_set, sink)
                    except _Left:
                        return
                    except BaseException as error:
                        give(error)
                    give(None)

            thread = threading.Thread(target=search, name="papilio-rows", daemon=True)
            thread.start()
            try:
                while True:
                    check()
                    with suppress(Empty):
                        block = found.get(timeout=_POLL_S)
                        if block is None:
                            return
                        if isinstance(block, BaseException):
                            raise block
                        yield names, sizes, block
            finally:
                left.set()
                thread.join()


def _copied(column: RowColumn) -> RowColumn:
    return (column[0].copy(), column[1].copy()) if isinstance(column, tuple) else column.copy()


def as_tuples(names: NDArray[Any], column: RowColumn) -> list[tuple[Any, ...]]:
    """Return the labels of each row of a column as a tuple."""
    if not isinstance(column, tuple):
        columns = [plain_labels(names[column[:, at]]) for at in range(column.shape[1])]
        return [*zip(*columns, strict=True)] if columns else [()] * len(column)
    ends, labels = column[0].tolist(), plain_labels(names[column[1]])
    return [tuple(labels[a:b]) for a, b in pairwise(ends)]
