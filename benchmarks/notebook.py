"""What a notebook waits for: frames in, second questions about a graph, rows out; beside pandas and DuckDB.

    python -m benchmarks.notebook --data DATA --engine cpu --output notebook.json

Milliseconds, the median of the repeats (``--repeats``), once everything is compiled; beside it the least processor time
of all threads, which a busy machine changes less. The frame has 1.5 million rows, of
30,000 users, most of them with few rows, and 38,000 items. ``csv`` is the same rows as a file: read by pandas, and
converted anew by Papilio. The self-join of DuckDB counts butterflies, too, of a tenth of the rows.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

import papilio
from benchmarks.harness import describe_machine, make_parser, print_rows
from papilio.errors import InputWarning

ROWS, USERS, ITEMS = 1_500_000, 30_000, 38_000


@dataclass(frozen=True)
class Row:
    """One thing that is waited for."""

    what: str
    ms: float
    processor_ms: float
    answer: int


def make_frame(n_rows: int = ROWS) -> Any:
    """Return a pandas data frame of n_rows rows, columns ``user`` and ``item``; the same at every call."""
    import pandas

    rng = np.random.default_rng(1)
    users = (rng.zipf(1.3, 2 * n_rows) % USERS)[:n_rows]
    return pandas.DataFrame({"user": users * 7 + 100, "item": rng.integers(0, ITEMS, n_rows) * 3})


def count_by_join(frame: Any) -> int:
    """Count the butterflies of a frame by a self-join in DuckDB."""
    import duckdb

    found = duckdb.sql(
        """
        with edges as (select distinct "user" u, item v from frame),
             pairs as (select a.u, b.u w, count(*) n from edges a join edges b on a.v = b.v and a.u < b.u group by all)
        select sum(n * (n - 1) // 2) from pairs
        """
    ).fetchall()
    return int(found[0][0])


def ask_all(data: Path, engine: Any, repeats: int) -> Iterator[Row]:
    """Yield a row for everything that is asked, in order."""
    import pandas

    def ask(what: str, run: Callable[[], Any]) -> Row:
        answer = run()  # compiles
        times, processor_times = [], []
        for _ in range(repeats):
            began, used = perf_counter(), process_time()
            answer = run()
            times.append(1e3 * (perf_counter() - began))
            processor_times.append(1e3 * (process_time() - used))
        number = answer if isinstance(answer, int) else getattr(answer, "count", getattr(answer, "n_edges", 0))
        return Row(what, round(median(times), 1), round(min(processor_times), 1), int(number))

    def count(graph: Any, motif: str = "butterfly", **options: Any) -> Any:
        return papilio.count(graph, motif, engine=engine, cluster="inline", **options)

    frame = make_frame()
    text = frame.astype(str)
    yield ask("count a frame of integers", lambda: count(frame))
    yield ask("count a frame of strings", lambda: count(text))
    categories = text.astype("category")
    yield ask("count a frame of categories", lambda: count(categories))
    yield ask("read a frame of integers", lambda: papilio.read(frame))
    graph = papilio.read(frame)
    yield ask("count a graph read before", lambda: count(graph))
    yield ask("the same per vertex", lambda: count(graph, per="vertex"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        frame.to_csv(path, index=False)
        yield ask("csv: pandas.read_csv", lambda: len(pandas.read_csv(path)))

        def convert() -> Any:
            return papilio.convert(path, f"{folder}/store", overwrite=True)

        yield ask("csv: papilio.convert", convert)
        yield ask("csv: count, converted before", lambda: count(path))
    few = frame[: ROWS // 10]
    by_join = ask("a tenth of the rows: DuckDB's self-join", lambda: count_by_join(few))
    by_count = ask("a tenth of the rows: count the frame", lambda: count(few))
    yield by_join
    yield by_count
    assert by_join.answer == by_count.answer, (by_join, by_count)
    yelp = data / "bipartite" / "yelp2018.txt.gz"
    if yelp.is_file():
        named = papilio.read(yelp)
        yield ask("yelp2018: butterflies again", lambda: count(named))
        yield ask("yelp2018: butterflies per vertex again", lambda: count(named, per="vertex"))
        yield ask("yelp2018: (3,3)-bicliques again", lambda: count(named, "biclique", p=3, q=3))
    cliques = data / "unipartite" / "ca-AstroPh.txt.gz"
    if cliques.is_file():
        friends = papilio.read(cliques, kind="unipartite")
        yield ask(
            "ca-AstroPh: iterate its triangles",
            lambda: sum(1 for _ in papilio.enumerate(friends, "clique", k=3)),
        )
        yield ask(
            "ca-AstroPh: its 4-cliques as Arrow batches",
            lambda: sum(len(each) for each in papilio.enumerate(friends, "clique", k=4).to_batches()),
        )
        yield ask(
            "ca-AstroPh: the first ten 6-cliques",
            lambda: len(papilio.enumerate(friends, "clique", k=6).head(10)),
        )


def main() -> int:
    parser = make_parser(__doc__, engines=True)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", InputWarning)
    columns = {
        "what": lambda row: row.what,
        "ms": lambda row: f"{row.ms:,.1f}",
        "processor, ms": lambda row: f"{row.processor_ms:,.1f}",
        "answer": lambda row: f"{row.answer:,}",
    }
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PAPILIO_CACHE"] = cache
        asked = ask_all(options.data, options.engine, options.repeats)
        print_rows(describe_machine(options.engine), columns, asked, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
