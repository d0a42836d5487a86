"""Compile kernels ahead for this machine: later runs that see the same caches do not wait for a compiler.

Machine code for CPUs is kept in ``NUMBA_CACHE_DIR``, by default next to the modules; for GPUs in ``CUPY_CACHE_DIR``, by
default in the home directory. Both name code by its content, and write it under another name first: processes may
share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import partial
from time import perf_counter
from typing import Any, get_args, get_type_hints

import numpy as np

from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.biclique.gpu_prober import compile_marks
from papilio.kernels.engine import EngineName
from papilio.kernels.maximal.gpu_prober import compile_near
from papilio.kernels.null.cpu import make_randomizer
from papilio.kernels.null.models import NULL_NAMES, NullModel, NullName
from papilio.kernels.null.small import SmallSamples
from papilio.kernels.peel.core_table import list_cores
from papilio.kernels.peel.decompose import decompose_graph
from papilio.kernels.peel.phases import Layer, PeelingKind, ignore_report
from papilio.kernels.project.cpu import ask_pairs
from papilio.kernels.project.gpu import compile_completion
from papilio.kernels.threads import available_threads
from papilio.motifs import Listing, Motif, Projection
from papilio.question import Question
from papilio.registry import MOTIF_ROWS, motif_row
from papilio.tasks.worker_state import complete_graph, warm_engine

_SIDE, _WIDE, _LARGE, _SIZES = 10, 70, 90, (2, 3, 4, 6)
"""Sides of a graph, of one for pivots in matrices beyond 64 rows, and of one whose random graphs are drawn one by one;
sizes of motifs. They use all kernels."""

_PEELED: tuple[tuple[PeelingKind, Layer | None], ...] = (("wing", None), ("tip", "u"), ("core", "u"))


Tell = Callable[[str, float], None]
"""Called with the name of each compilation, and its seconds."""


def warm_everything(engines: tuple[EngineName, ...], tell: Tell) -> int:
    """Compile for all questions on these engines; calls ``tell`` for each, and returns their number."""
    told = 0
    for what, run in list_compilations(engines):
        began = perf_counter()
        with suppress(InputError, UnsupportedError):  # not every motif goes with every option
            run()
            tell(what, perf_counter() - began)
            told += 1
    return told


def list_compilations(engines: tuple[EngineName, ...]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield all questions on these engines by name, with functions that ask them in tiny graphs.

    A function raises InputError or UnsupportedError if its motif does not go with its options.
    """
    threads = available_threads()
    graph = complete_graph("bipartite", _SIDE)
    assert isinstance(graph, BipartiteGraph)
    for name in engines:
        for question in list_questions(name):
            done = "listed" if question.listing is not None else f"per {question.per}"
            how = "".join(f", {option} {value}" for option, value in question.options)
            pivots = name == "cpu" and ("algorithm", "pivot") in question.options
            sides = {_SIDE: ""}
            if pivots:
                sides[_WIDE] = ", beyond 64 rows"
            if question.row.has_small_way:
                sides[_LARGE] = ", one random graph after the other"
            for side, which in sides.items():
                yield (
                    f"{question.motif.title} {done}{how} ({name}){which}",
                    partial(_ask, question, name, threads, side),
                )
        for kind, layer in _PEELED:
            yield (
                f"{kind} numbers ({name})",
                partial(
                    decompose_graph, graph, kind, layer, name, least=1, threads=threads, memory_bytes=None,
                    with_forest=True, report=ignore_report,
                ),
            )  # fmt: skip
        yield (
            f"sizes of all cores ({name})",
            partial(list_cores, graph, name, threads=threads, memory_bytes=None, report=ignore_report),
        )
    if "cpu" in engines:
        asked = ask_pairs(graph, Projection("u"), 0, np.empty(0, np.int32), graph.degree_v)
        yield "rows of projections that a GPU finds (cpu)", partial(compile_completion, asked, graph.degree_u)
        yield "rows that probes read from a GPU, bicliques (cpu)", compile_marks
        yield "rows that probes read from a GPU, maximal bicliques (cpu)", compile_near
        places = np.arange(_SIDE)
        paths = (
            BipartiteGraph.from_edges(places, places // 2, sign=1 - 2 * (places & 1)),
            UnipartiteGraph.from_edges(places, places + 1),
        )
        for one in paths:
            for model in NULL_NAMES:
                yield f"samples of the null model {model}, {one.kind} (cpu)", partial(_sample, one, model)


def _ask(question: Question, name: EngineName, threads: int, side: int) -> None:
    """Run a question on a complete graph, and its probes, as plans and estimates of larger graphs do."""
    warm_engine(question, name, threads, None, side)
    engine = question.load_engine(name, threads, None)
    graph = complete_graph(question.row.graph_kind, side, signed=question.motif.needs_signs)
    prepared = engine.prepare(graph, question.motif, question.per)
    items, seeds = np.zeros(min(1, prepared.n_items), np.int64), np.ones(min(1, prepared.n_items), np.uint64)
    with suppress(UnsupportedError):
        prober = engine.prober(prepared)
        for use in (prober.walk, lambda *_: prober.count_lots, prober.count):
            with suppress(UnsupportedError):
                use(items, seeds)


def _sample(graph: BipartiteGraph | UnipartiteGraph, model: NullName) -> None:
    randomizer = make_randomizer(graph, NullModel(model))
    randomizer.sample(0, 0)
    small = SmallSamples.of(randomizer)
    if small is not None:
        small.count(small.make_state(), 0, 0, 1, (1,))


def list_questions(engine: EngineName) -> Iterator[Question]:
    """Yield the questions that together use all kernels of an engine."""
    for kind in [row.motif for row in MOTIF_ROWS.values()]:
        algorithms = kind.choices.get("algorithm", ("auto",))
        for motif in _samples(kind):
            row = motif_row(motif)  # which depends on more than the kind
            if engine in row.engines:
                for per in motif.granularities:
                    for algorithm in algorithms:
                        chosen = {} if algorithm == "auto" else {"algorithm": algorithm}
                        yield Question.of(motif, per, chosen)
            if row.listed is not None and engine in row.listed.engines and row.listed.columns(motif):
                yield Question(motif, "total", listing=Listing())


def _samples(kind: type[Motif]) -> Iterator[Motif]:
    """Yield the motif in the size that it has by default, of a fixed size, and of every size."""
    hints = get_type_hints(kind)
    needed = {each.name: get_args(hints[each.name])[0] for each in fields(kind) if each.default is MISSING}
    names = {each.name for each in fields(kind)}
    sizes = [name for name in names if f"max_{name}" in names]
    found: list[Motif] = []
    chosen: list[dict[str, Any]] = [{}, dict.fromkeys(sizes)]
    if "samples" in names:
        chosen += [{"significance": "degrees", "samples": 2}, {"significance": "signs"}]
    for given in (*chosen, *(dict.fromkeys(sizes, size) for size in _SIZES)):
        with suppress(InputError, UnsupportedError):
            motif = kind(**needed, **given)
            if motif not in found:
                found.append(motif)
    yield from found
