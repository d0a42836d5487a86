"""What engines and oracles answer to a case, in a form that can be compared, and how they are asked."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import monotonic
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from papilio.graph import RowColumn
from papilio.kernels.device.protocol import Device
from papilio.kernels.engine import EngineName, Partial, fold_partials
from papilio.kernels.peel.decompose import Decomposed, decompose_on_cpu, decompose_on_gpu
from papilio.kernels.peel.gpu import PeelTuning
from papilio.kernels.peel.phases import ignore_report
from papilio.motifs import Cell
from papilio.registry import motif_row
from tests.families.examples import Row
from tests.tools.differential.cases import Question
from tests.tools.differential.graphs import Graph

MOST_ROWS = 200_000
"""Rows that are compared one by one; of more the number and the checksum are."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What the first ``items`` of ``n_items`` answer for; None where it is not known, or not asked."""

    n_items: int | None
    items: int | None
    total: int
    cells: Mapping[Cell, int] = field(default_factory=dict)
    vectors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    checksum: int | None = None
    rows: Sequence[Row] | None = None  # rising

    def differs_from(self, other: Answer) -> str:
        """Say in what two answers differ; empty where in nothing."""
        for name in ("n_items", "items", "total", "checksum"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if None not in (ours, theirs) and ours != theirs:
                return f"{name}: {ours} and {theirs}"
        if self.cells != other.cells:
            wrong = sorted(
                cell for cell in {*self.cells, *other.cells} if self.cells.get(cell) != other.cells.get(cell)
            )
            cell = wrong[0]
            return f"{len(wrong)} cells, {cell}: {self.cells.get(cell, 0)} and {other.cells.get(cell, 0)}"
        for name in self.vectors.keys() & other.vectors.keys():
            ours, theirs = self.vectors[name], other.vectors[name]
            if ours.shape != theirs.shape:
                return f"{name} has shapes {ours.shape} and {theirs.shape}"
            if (ours != theirs).any():
                at = int(np.flatnonzero(ours != theirs)[0])
                return f"{int((ours != theirs).sum())} of {name}, at {at}: {ours[at]} and {theirs[at]}"
        if self.rows is not None and other.rows is not None and list(self.rows) != list(other.rows):
            apart = set(self.rows) ^ set(other.rows)
            return f"rows, {len(self.rows)} and {len(other.rows)}; such as {sorted(apart)[:1] or 'a row twice'}"
        return ""

    @property
    def digest(self) -> str:
        """A name of all of it."""
        content = repr((self.n_items, self.items, self.total, sorted(self.cells.items()), self.checksum, self.rows))
        whole = hashlib.sha256(content.encode())
        for name, vector in sorted(self.vectors.items()):
            whole.update(name.encode() + np.asarray(vector, np.int64).tobytes())
        return whole.hexdigest()[:24]


class Answerer(Protocol):
    """Whoever answers."""

    name: str

    def __call__(self, graph: Graph, question: Question, tuning: Mapping[str, Any], items: int | None = None) -> Answer:
        """Answer for the first ``items``, or for as many as there is time for."""
        ...


class EngineAnswerer:
    """An engine of the package, on ``device`` or, without one, on the CPU.

    A run of all items ends after ``seconds``: then the answer is for the first of them.
    """

    def __init__(self, name: str, device: Device | None, seconds: float = 4.0) -> None:
        self.name, self.device, self.seconds = name, device, seconds

    def make(self, question: Question, tuning: Mapping[str, Any]) -> Any:
        """Return the engine, or the lister."""
        family = motif_row(question.motif)
        kind: EngineName = "cpu" if self.device is None else "gpu"
        names = family.engines if question.listing is None else family.listed and family.listed.engines
        if not names or kind not in names:  # bicliques are listed on CPUs alone
            kind = "cpu"
        assert names
        given: dict[str, Any] = dict(question.options)
        if question.listing is not None:
            given["listing"] = question.listing
        if kind == "cpu":
            return names[kind]()(tuning.get("cpu_threads", 1), **given)
        engine = names[kind]()(self.device, **given)
        counts = getattr(engine, "engine", engine)  # of a lister
        counts.tuning = _change(counts.tuning, tuning)
        for name in ("patience", "max_words", "chunk_values"):
            for owner in (engine, counts):
                if name in tuning and hasattr(owner, name):
                    setattr(owner, name, tuning[name])
        return engine

    def __call__(self, graph: Graph, question: Question, tuning: Mapping[str, Any], items: int | None = None) -> Answer:
        if question.peels:
            return _answer_of(self._decompose(graph, question, tuning), graph, question.peels)
        engine = self.make(question, tuning)
        prepared = engine.prepare(graph, question.motif, question.per)
        n = prepared.n_items if items is None else items
        end = monotonic() + self.seconds
        bounds = np.unique(np.linspace(0, n, 65).astype(int))[1:-1].tolist() if items is None else []
        partial, rows = run(engine, prepared, question, (0, n), bounds, lambda: monotonic() > end)
        return answer_of(question, prepared.n_items, partial, rows)

    def split(self, graph: Graph, question: Question, tuning: Mapping[str, Any], cuts: Sequence[int]) -> Answer:
        """Answer for the items between the first and the last cut, in the intervals between, the last one first."""
        engine = self.make(question, tuning)
        prepared = engine.prepare(graph, question.motif, question.per)
        parts = [run(engine, prepared, question, span, [], lambda: False) for span in reversed(list(pairwise(cuts)))]
        whole = parts[0][0]
        for partial, _ in parts[1:]:
            whole = fold_partials(whole, partial)
        return answer_of(question, prepared.n_items, whole, sorted(row for _, rows in parts for row in rows))

    def _decompose(self, graph: Any, question: Question, tuning: Mapping[str, Any]) -> Decomposed:
        kind, _, layer = question.peels.rpartition(" ")
        asked: Any = ("wing", None) if layer == "wing" else (kind or "tip", layer)
        if self.device is None:
            return decompose_on_cpu(graph, *asked, tuning.get("cpu_threads", 1), None, True, ignore_report, least=2)
        constants = _change(PeelTuning(), tuning)
        return decompose_on_gpu(self.device, graph, *asked, True, ignore_report, tuning=constants, least=2)


def _change(constants: Any, changes: Mapping[str, Any]) -> Any:
    """Return constants of launches, with the changes of those that there are."""
    return replace(constants, **{name: value for name, value in changes.items() if hasattr(constants, name)})


def run(
    engine: Any,
    prepared: Any,
    question: Question,
    span: tuple[int, int],
    bounds: Sequence[int],
    cut: Callable[[], bool],
) -> tuple[Partial, list[Row]]:
    """Run an engine, and collect the rows of a lister."""
    if question.listing is None:
        return engine.run(prepared, *span, bounds, cut), []
    family = motif_row(question.motif)
    ids = [getattr(prepared, f"ids_{layer}") for layer in family.columns(question.motif)]
    rows: list[Row] = []
    lock = threading.Lock()

    def sink(*columns: RowColumn, part: int | None = None) -> None:
        members, numbers = columns[: len(ids)], columns[len(ids) :]
        sides = [_cut_rows(column) for column in members]
        with lock:
            if len(rows) <= MOST_ROWS:
                found = [
                    tuple(tuple(of[each].tolist()) for of, each in zip(ids, row, strict=True))
                    for row in zip(*sides, strict=True)
                ]
                rows.extend(_add_numbers(found, numbers) if numbers else found)

    return engine.run(prepared, *span, bounds, cut, sink=sink), rows


def _add_numbers(rows: Sequence[Row], columns: Sequence[Any]) -> Iterator[Row]:
    """Yield the rows with their numbers, to nine digits: sums depend on the order of their terms."""
    for row, *numbers in zip(rows, *(column.tolist() for column in columns), strict=True):
        yield (*row, tuple(float(f"{each:.9g}") for each in numbers))  # type: ignore[misc]


def _cut_rows(column: RowColumn) -> Sequence[NDArray[Any]]:
    return np.split(column[1], column[0][1:-1]) if isinstance(column, tuple) else column.copy()


def answer_of(question: Question, n_items: int, partial: Partial, rows: Sequence[Row]) -> Answer:
    """Return what a partial says."""
    has_checksum = motif_row(question.motif).has_checksum
    listed = None if question.listing is None or partial.total > MOST_ROWS else sorted(rows)
    checksum = partial.checksum if has_checksum else None
    return Answer(n_items, partial.n_items, partial.total, partial.cells, partial.vectors, checksum, listed)


def _answer_of(found: Decomposed, graph: Any, peels: str) -> Answer:
    """Return numbers, of cores by layer, and forest."""
    numbers, forest = found.peeled.numbers, found.forest
    assert forest is not None
    names = ("item_nodes", "levels", "parents", "members", "sizes")
    return Answer(
        None, None, int(numbers.sum(dtype=np.uint64)), {},
        {**numbers_by_place(graph, peels, numbers), **{name: getattr(forest, name) for name in names}},
    )  # fmt: skip


def numbers_by_place(graph: Any, peels: str, numbers: Any) -> dict[str, Any]:
    """Return the numbers of a decomposition: one vector, or one for each layer."""
    if peels.startswith("core"):
        return {"u": numbers[: graph.n_u], "v": numbers[graph.n_u :]}
    return {"number": numbers}
