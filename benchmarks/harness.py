"""One harness for all motifs: phases timed apart, medians over repeats, a table and JSON.

Phases: ``read`` (Parquet store to host arrays), ``copy`` (host to device; GPU only), ``prepare`` (rank, relabel, CSR,
costs, schedules), ``kernels`` (device time of the counting kernels by events; on the CPU the whole run),
``run`` (the engine's run as the caller sees it), ``processor`` (time of all threads of a run, a mean; CPU only).
``after_copy`` is prepare and run: everything once the graph is where the engine is.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, TypeVar

import papilio
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.engine import EngineName
from papilio.motifs import Granularity, Motif
from papilio.registry import load_engine
from papilio.storage.store import open_store, write_store

__all__ = [
    "Asker",
    "Measurement",
    "TimedKernels",
    "describe_machine",
    "in_time",
    "make_parser",
    "measure",
    "print_rows",
    "print_table",
    "show_ms",
    "write_json",
]

Row = TypeVar("Row")

LOAD_S, ONCE_S = 0.5, 2.0
"""Seconds by which loading delays the first run of a question, and after which a run is not repeated."""


@dataclass(frozen=True)
class Measurement:
    """One engine on one case and granularity; times are medians in seconds."""

    case: str
    engine: EngineName
    per: Granularity
    n_edges: int
    work: int
    count: int
    correct: bool
    seconds: dict[str, float]
    kernels_s: dict[str, float]
    limit: float
    target_s: float | None = None
    peers_s: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Work units per second of the kernels."""
        return self.work / self.seconds["kernels"]


@dataclass(frozen=True)
class _TimedModule:
    """A module whose launches are added to ``launches``: name, begin, end."""

    module: Any
    launches: list[tuple[str, Any, Any]]

    def get_function(self, name: str) -> Callable[..., None]:
        import cupy

        kernel = self.module.get_function(name)

        def launch(*args: Any, **options: Any) -> None:
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            kernel(*args, **options)
            end.record()
            self.launches.append((name, begin, end))

        return launch


class TimedKernels:
    """Wraps a device so that every kernel launch is timed by events."""

    def __init__(self, device: Any) -> None:
        self._load = device.load
        self.launches: list[tuple[str, Any, Any]] = []

    def __call__(self, stem: str, defines: Mapping[str, int]) -> _TimedModule:
        return _TimedModule(self._load(stem, defines), self.launches)

    def seconds(self) -> tuple[float, dict[str, float]]:
        """Return the time in which at least one kernel ran, and the time of each kernel; these may overlap."""
        import cupy

        sums: dict[str, float] = {}
        spans = []
        for name, begin, end in self.launches:
            end.synchronize()
            first = self.launches[0][1]
            span = [cupy.cuda.get_elapsed_time(first, event) * 1e-3 for event in (begin, end)]
            sums[name] = sums.get(name, 0.0) + span[1] - span[0]
            spans.append(span)
        busy, until = 0.0, float("-inf")
        for begin, end in sorted(spans):
            busy += max(0.0, end - max(begin, until))
            until = max(until, end)
        return busy, sums


def _timed(function: Callable[[], Any], repeats: int, wait: Callable[[], None]) -> tuple[Any, float]:
    times = []
    for _ in range(repeats):
        wait()
        started = perf_counter()
        result = function()
        wait()
        times.append(perf_counter() - started)
    return result, median(times)


def measure(
    name: str,
    graph: BipartiteGraph | UnipartiteGraph,
    motif: Motif,
    engine_name: EngineName,
    per: Granularity,
    *,
    limit: float,
    expected: int,
    repeats: int,
    target_s: float | None = None,
    peers_s: dict[str, float] | None = None,
    through_store: bool = True,
) -> Measurement:
    """Time one engine on one graph; the first, untimed round compiles, and ``read`` needs ``through_store``."""
    engine: Any = load_engine(motif, engine_name)
    on_gpu = engine_name == "gpu"
    wait: Callable[[], None] = engine.device.synchronize if on_gpu else lambda: None
    seconds: dict[str, float] = {}
    if through_store:
        with tempfile.TemporaryDirectory() as directory:
            store = Path(directory) / "store"
            write_store(store, graph, provenance={"source": name})
            graph, seconds["read"] = _timed(lambda: open_store(store).read(), min(repeats, 3), wait)
    if on_gpu:
        xp = engine.device.xp
        (u, v), seconds["copy"] = _timed(lambda: (xp.asarray(graph.u), xp.asarray(graph.v)), repeats, wait)
        sign = None if graph.sign is None else xp.asarray(graph.sign)
        graph = replace(graph, u=u, v=v, sign=sign)
    engine.run(engine.prepare(graph, motif, per), 0, 0)
    prepared, seconds["prepare"] = _timed(lambda: engine.prepare(graph, motif, per), repeats, wait)
    engine.run(prepared, 0, prepared.n_items)
    spent = process_time()
    partial, seconds["run"] = _timed(lambda: engine.run(prepared, 0, prepared.n_items), repeats, wait)
    spent = process_time() - spent
    kernels: dict[str, float] = {}
    if on_gpu:
        rounds = []
        for _ in range(repeats):
            timer = TimedKernels(engine.device)
            engine.device.load = timer
            engine.run(prepared, 0, prepared.n_items)
            del engine.device.load
            rounds.append(timer.seconds())
        rounds.sort(key=lambda one: one[0])
        seconds["kernels"], kernels = rounds[len(rounds) // 2]
    else:
        seconds["kernels"] = seconds["run"]
        seconds["processor"] = spent / repeats
    seconds["after_copy"] = seconds["prepare"] + seconds["run"]
    correct = partial.total == expected and all(
        _exact_sum(vector) == (2 if name in ("u", "v") else 4) * expected for name, vector in partial.vectors.items()
    )
    return Measurement(
        name, engine_name, per, graph.n_edges, partial.work, partial.total, correct, seconds, kernels, limit,
        target_s, peers_s or {},
    )  # fmt: skip


def _exact_sum(vector: Any) -> int:
    low = int((vector & 0xFFFFFFFF).sum())
    return low + (int((vector >> 32).sum()) << 32)


def describe_machine(engine: EngineName) -> dict[str, str]:
    """Date, commit, versions and device of a run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "papilio": papilio.__version__,
        "commit": commit or "not a git checkout",
        "python": platform.python_version(),
    }
    if engine == "gpu":
        import cupy

        properties = cupy.cuda.runtime.getDeviceProperties(0)
        facts["device"] = properties["name"].decode()
        facts["cupy"] = cupy.__version__
        facts["driver"] = str(cupy.cuda.runtime.driverGetVersion())
    else:
        import os

        facts["device"] = f"{len(os.sched_getaffinity(0))} CPU cores ({platform.machine()})"
    return facts


class Asker:
    """A process that counts in one graph, begun again when an answer takes too long; ``first`` is not timed."""

    def __init__(self, graph: Any, engine: EngineName, threads: int | None, first: Motif | None = None) -> None:
        self._arguments, self._first = (graph, engine, threads), first
        self._process: Any = None

    def ask(
        self,
        motif: Motif,
        most_s: float,
        per: Granularity = "total",
        *,
        within_s: float = inf,
        by_processor: bool = False,
        **options: Any,
    ) -> tuple[float, int, Any] | None:
        """Return the seconds of the better of two runs, the count and the decisions; None after ``most_s``.

        The processor time of all threads ``by_processor``. A run is cut, and None returned, after ``within_s`` of these
        seconds; the first one, which may load compiled functions, after :data:`LOAD_S` more.
        """
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_answer, args=(theirs, *self._arguments), daemon=True)
            self._process.start()
            if self._first is not None:
                self._pipe.send((self._first, "total", (inf, False), {}))
                self._pipe.recv()
        self._pipe.send((motif, per, (within_s, by_processor), options))
        if self._pipe.poll(most_s):
            found: tuple[float, int, Any] | None = self._pipe.recv()
            return found
        self.close()
        return None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _answer(pipe: Connection, graph: Any, engine: EngineName, threads: int | None) -> None:
    """Answer the questions of an asker."""
    while True:
        motif, per, (within_s, by_processor), options = pipe.recv()
        made: Any = load_engine(motif, engine, threads, **options)
        clock = process_time if by_processor else perf_counter
        seconds: list[float] = []
        while len(seconds) < 2:
            began = clock()
            prepared = made.prepare(graph, motif, per)
            ends = began + within_s + (0 if seconds else LOAD_S)
            found = made.run(prepared, 0, prepared.n_items, cut=lambda now=clock, at=ends: now() > at)
            seconds.append(clock() - began)
            if found.n_items < prepared.n_items or clock() > ends or seconds[-1] > ONCE_S:
                break
        is_whole = found.n_items == prepared.n_items and min(seconds) <= within_s
        pipe.send((min(seconds), found.total, prepared.decisions) if is_whole else None)


def make_parser(
    description: str | None, *, engines: bool = False, seconds: float | None = None
) -> argparse.ArgumentParser:
    """Return a parser of ``--data`` and ``--output``; of ``--engine`` and, with a default, ``--seconds`` on request."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with bipartite and unipartite")
    parser.add_argument("--output", type=Path, help="file for the measurements")
    if engines:
        parser.add_argument("--engine", choices=["cpu", "gpu"], default="cpu")
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds, help="begin nothing more after this time")
    return parser


def in_time(turns: Iterable[Row], seconds: float) -> Iterator[Row]:
    """Yield items until ``seconds`` have passed, and report the others as skipped."""
    began = perf_counter()
    for turn in turns:
        if perf_counter() - began <= seconds:
            yield turn
        else:
            print(f"{turn}: no time left, skipped", file=sys.stderr)


def print_rows(
    facts: Mapping[str, str],
    columns: Mapping[str, Callable[[Row], str]],
    rows: Iterable[Row],
    output: Path | None = None,
) -> list[Row]:
    """Print a Markdown table, each row as it comes; write the rows, dataclasses, to ``output``; return them."""
    print("\n".join(f"- {name}: {value}" for name, value in facts.items()) + "\n")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
    printed = []
    for row in rows:
        printed.append(row)
        print(f"| {' | '.join(cell(row) for cell in columns.values())} |", flush=True)
    if output is not None:
        write_json(output, facts, printed)
    return printed


def show_ms(seconds: float | None, digits: int = 1) -> str:
    """Return the milliseconds, or ``-`` for None."""
    return "-" if seconds is None else f"{seconds * 1e3:.{digits}f}"


def print_table(facts: dict[str, str], rows: list[Measurement], output: Path | None) -> None:
    """Print the measurements as a Markdown table, times in milliseconds, and write them to ``output``."""
    limit = {"limit measured in this run": f"{rows[0].limit:.3g} wedges/s"} if rows else {}
    phases = ("read", "copy", "prepare", "kernels", "run", "after_copy")
    columns: dict[str, Callable[[Measurement], str]] = {
        "case": lambda row: row.case,
        "per": lambda row: row.per,
        "edges": lambda row: f"{row.n_edges:,}",
        "wedges": lambda row: f"{row.work:,}",
        "correct": lambda row: "yes" if row.correct else "NO",
        **{phase: lambda row, phase=phase: show_ms(row.seconds.get(phase), 3) for phase in phases},
        "wedges/s": lambda row: f"{row.rate:.3g}",
        "of limit": lambda row: f"{row.rate / row.limit:.0%}",
        "target": lambda row: show_ms(row.target_s, 3),
        "others": lambda row: ", ".join(f"{peer} {show_ms(s, 3)}" for peer, s in row.peers_s.items()),
    }
    print_rows(facts | limit, columns, rows, output)


def write_json(path: Path, facts: Mapping[str, str], rows: Iterable[Any]) -> None:
    """Write the measurements, dataclasses, with the facts common to all of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": {**facts}, "measurements": [asdict(row) for row in rows]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
