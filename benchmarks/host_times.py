"""The host beside the kernels: what a run, and a second question about a graph, take beyond their kernels.

    python -m benchmarks.host_times --data DATA [--profile OUT]

``kernels`` is the time in which at least one kernel runs, by events, ``run`` one run of all items through the engine
without events, ``second`` a further :func:`papilio.count` of the same graph; medians in ms. With ``--profile`` the
functions in which the host spends its time are written, a file for each question and kind.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import papilio
from benchmarks.harness import TimedKernels, describe_machine, make_parser, print_rows
from papilio.motifs import Biclique, Butterfly, Clique, MaximalBiclique, MaximalClique, Motif, Projection
from papilio.registry import load_engine

QUESTIONS: tuple[tuple[str, Motif], ...] = (
    ("bipartite/yelp2018", Biclique(3, 3)),
    ("bipartite/yelp2018", Biclique(4, 4)),
    ("bipartite/yelp2018", Biclique(6, 6)),
    ("bipartite/movielens-1m", Biclique(3, 3)),
    ("bipartite/youtube-groupmemberships", Biclique(4, 4)),
    ("bipartite/youtube-groupmemberships", Biclique()),
    ("bipartite/marvel", Biclique(8, 8)),
    ("bipartite/yelp2018", Butterfly()),
    ("bipartite/yelp2018", Projection("u", 2)),
    ("bipartite/youtube-groupmemberships", MaximalBiclique()),
    ("unipartite/facebook_combined", Clique(4)),
    ("unipartite/soc-Epinions1", Clique(5)),
    ("unipartite/facebook_combined", Clique()),
    ("unipartite/soc-Epinions1", MaximalClique()),
)
REPEATS = 11


@dataclass(frozen=True)
class Row:
    """One question; times are medians in seconds."""

    graph: str
    question: str
    count: int
    kernels_s: float
    run_s: float
    second_s: float


def time_of(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the median seconds of a call."""
    seconds = []
    for _ in range(repeats):
        began = perf_counter()
        call()
        seconds.append(perf_counter() - began)
    return median(seconds)


def profile(call: Callable[[], Any], path: Path) -> None:
    """Write the functions of ten calls, by their own time and by the time below them."""
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(10):
        call()
    profiler.disable()
    with path.open("w", encoding="utf-8") as file:
        stats = pstats.Stats(profiler, stream=file)
        stats.sort_stats("tottime").print_stats(30)
        stats.sort_stats("cumtime").print_stats(60)


def measure(data: Path, profiles: Path | None) -> Iterator[Row]:
    """Ask every question whose graph is there."""
    for name, motif in QUESTIONS:
        path = data / f"{name}.txt.gz"
        if not path.is_file():
            continue
        graph = papilio.read(path, kind="unipartite" if name.startswith("unipartite") else "bipartite")
        counted = papilio.count(graph, motif, engine="gpu").count
        engine: Any = load_engine(motif, "gpu")
        prepared = engine.prepare(graph.arrays(), motif, "total")

        def run(engine: Any = engine, prepared: Any = prepared) -> Any:
            return engine.run(prepared, 0, prepared.n_items)

        def ask(graph: Any = graph, motif: Motif = motif) -> Any:
            return papilio.count(graph, motif, engine="gpu")

        if run().total != counted or run().total != counted:
            raise SystemExit(f"{name}: {motif.title} is counted differently")
        kernels = []
        for _ in range(REPEATS):
            timer = TimedKernels(engine.device)
            engine.device.load = timer
            run()
            del engine.device.load
            kernels.append(timer.seconds()[0])
        yield Row(name.split("/")[1], motif.title, counted, median(kernels), time_of(run), time_of(ask))
        if profiles is not None:
            stem = f"{name.split('/')[1]}-{''.join(c if c.isalnum() else '-' for c in motif.title)}"
            profile(run, profiles / f"{stem}-run.txt")
            profile(ask, profiles / f"{stem}-second.txt")


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--profile", type=Path, help="directory for what the host does")
    given = parser.parse_args()
    if given.profile is not None:
        given.profile.mkdir(parents=True, exist_ok=True)
    print_rows(
        describe_machine("gpu"),
        {
            "graph": lambda row: row.graph,
            "question": lambda row: row.question,
            "count": lambda row: str(row.count) if row.count < 10**24 else f"{len(str(row.count)):,} digits",
            "kernels ms": lambda row: f"{row.kernels_s * 1e3:.2f}",
            "run ms": lambda row: f"{row.run_s * 1e3:.2f}",
            "run beyond": lambda row: f"{(row.run_s - row.kernels_s) * 1e3:.2f}",
            "second ms": lambda row: f"{row.second_s * 1e3:.2f}",
            "second beyond": lambda row: f"{(row.second_s - row.kernels_s) * 1e3:.2f}",
        },
        measure(given.data, given.profile),
        given.output,
    )


if __name__ == "__main__":
    main()
