"""How long a user waits: whole commands from the shell to the prompt, warm and for the first time on a machine.

    python -m benchmarks.time_to_answer STORE [STORE ...] [--only WORD ...] [--repeat 3] [--output FILE]

Each row is a command in a process of its own, on the store of its kind of graph; the least of its runs counts.
``first`` has empty caches of Numba and CuPy, and runs once. Beside the wall time stands the processor time of all
threads, which a busy machine changes less, and the ratio of both to those of importing Numba, Arrow and click, in the
same session; and, of a first run on a GPU, the kernels that CuPy has compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from papilio.kernels.device.discovery import missing_for_gpu
from papilio.storage.store import open_store

BASE = [sys.executable, "-c", "import numba, pyarrow.parquet, click"]
_PAPILIO = [sys.executable, "-m", "papilio"]


@dataclass(frozen=True)
class Row:
    """The times of one command."""

    name: str
    wall_s: float
    processor_s: float
    n_compiled: int = 0  # kernels of GPUs that lie in CuPy's cache after a first run


COUNTS: dict[str, tuple[str, ...]] = {
    "bipartite": (
        "count butterfly", "count biclique --all", "count biclique -p 3 -q 3", "count biclique -p 6 -q 6",
        "count maximal-biclique", "decompose wing",
    ),
    "unipartite": ("count clique -k 5", "count maximal-clique"),
}  # fmt: skip
"""Commands by kind of graph, without the store."""


def commands(stores: Sequence[str], only: Sequence[str]) -> dict[str, list[str]]:
    """Return the commands by name; with ``only`` those alone whose name holds one of the words."""
    engine = ["--engine", "cpu" if missing_for_gpu() is not None else "gpu"]
    named = {"--help": ["--help"], "count --help": ["count", "--help"]}
    for store in stores:
        for name in COUNTS[open_store(store).kind]:
            verb, motif, *flags = name.split()
            named[f"{name}, {Path(store).name}"] = [verb, motif, store, *flags, *engine]
    return {name: words for name, words in named.items() if not only or any(word in name for word in only)}


def time_command(
    name: str, words: Sequence[str], environment: Mapping[str, str], repeat: int, folder: Path | None = None
) -> Row:
    """Run a command so often, in a folder, and return the least wall time and the least processor time."""
    walls, processors = [], []
    for _ in range(repeat):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, check=True, capture_output=True, env=dict(environment), cwd=folder)
        walls.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processors.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Row(name, min(walls), min(processors))


def measure(named: Mapping[str, Sequence[str]], repeat: int) -> list[Row]:
    """Return all rows; the first one is for the imports."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    rows = [time_command("imports", BASE, plain, repeat)]
    for name, words in named.items():
        with tempfile.TemporaryDirectory() as caches:
            environment = plain | {"NUMBA_CACHE_DIR": f"{caches}/numba", "CUPY_CACHE_DIR": f"{caches}/cupy"}
            if not name.endswith("--help"):
                first = time_command(f"{name}, first", [*_PAPILIO, *words], environment, 1)
                rows.append(replace(first, n_compiled=len(list(Path(caches).glob("cupy/*.cubin")))))
            rows.append(time_command(name, [*_PAPILIO, *words], environment, repeat))
            print(*table(rows)[-2:], sep="\n", file=sys.stderr)
    return rows


def table(rows: list[Row]) -> list[str]:
    """Return the rows as a table of Markdown."""
    base = rows[0]
    lines = [
        "| command | wall, s | ratio | processor, s | ratio | compiled for GPUs |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        wall, processor = row.wall_s / base.wall_s, row.processor_s / base.processor_s
        lines.append(
            f"| {row.name} | {row.wall_s:.2f} | {wall:.2f} | {row.processor_s:.2f} | {processor:.2f} | "
            f"{row.n_compiled} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="+", metavar="STORE")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="Rows whose name holds one.")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, help="Also write the rows there, as JSON.")
    given = parser.parse_args()
    rows = measure(commands(given.stores, given.only), given.repeat)
    print("\n".join(table(rows)))
    if given.output is not None:
        given.output.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
