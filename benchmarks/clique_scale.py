"""k-cliques on several GPUs of one host: seconds of the slowest, beside those of one.

Each GPU has a process that reads and orders the graph and compiles. Work items are dealt out in turn, heaviest first:
their work is not known before, but items of about one cost have about the same. Time begins when all are ready.

python -m benchmarks.clique_scale --data ../shared/data --gpus 1,2
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.clique_gpu import CASES, CliqueCase, read_graph
from papilio.families import load_engine
from papilio.kernels.tree.layout import TreeClass

_DEFAULT = "facebook_combined:8;facebook_combined:all"


def deal(prepared: Any, number: int, n_gpus: int) -> Any:
    """Return what was prepared with every ``n_gpus``-th item alone, from item ``number`` on."""
    items, n = prepared.items, prepared.n_items
    kept = slice(number, None, n_gpus)
    own = replace(
        items,
        **{name: getattr(items, name)[kept].copy() for name in ("roots", "first", "last", "sizes", "costs")},
    )
    need = np.zeros(n, np.int64)
    for one in prepared.classes:
        need[one.items] = one.need_words
    classes = []
    for one in prepared.classes:
        numbers = one.items[one.items % n_gpus == number]
        classes.append(TreeClass(need[numbers], ((numbers - number) // n_gpus).astype(np.int32)))
    return replace(prepared, items=own, classes=tuple(classes))


def serve(
    number: int, n_gpus: int, case: CliqueCase, root: str, options: Any, barrier: Any, answers: Any
) -> None:
    """Count the items of one GPU again and again; put (begin, end, kernel blocks' words, total) of each time."""
    engine: Any = load_engine(case.motif, "gpu", root=root)
    prepared = engine.prepare(read_graph(options.data, case.graph), case.motif, "total")
    own = deal(prepared, number, n_gpus)
    engine.run(own, 0, own.n_items)
    for _ in range(options.repeats):
        barrier.wait()
        began = monotonic()
        partial = engine.run(own, 0, own.n_items)
        answers.put((number, began, monotonic(), int(engine.block_words.sum()), partial.total))
        barrier.wait()


def measure(n_gpus: int, case: CliqueCase, root: str, options: Any) -> tuple[float, int, list[float]]:
    """Return the median seconds from the first begin to the last end, the count, and the share of words of each GPU."""
    context = get_context("spawn")
    barrier, answers = context.Barrier(n_gpus), context.Queue()
    workers = [
        context.Process(target=serve, args=(number, n_gpus, case, root, options, barrier, answers))
        for number in range(n_gpus)
    ]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(n_gpus)))).split(",")
    for worker, gpu in zip(workers, visible, strict=False):
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # of the process that begins now
        worker.start()
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(visible)
    seconds, total, words = [], 0, [0.0] * n_gpus
    for _ in range(options.repeats):
        got = [answers.get(timeout=300) for _ in range(n_gpus)]
        seconds.append(max(one[2] for one in got) - min(one[1] for one in got))
        total = sum(one[4] for one in got)
        for number, _, _, done, _ in got:
            words[number] = done / sum(one[3] for one in got)
    for worker in workers:
        worker.join()
    return median(seconds), total, words


def main() -> int:
    """Measure and print; the exit status is 1 when two numbers of GPUs count differently."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument(
        "--cases", default=_DEFAULT, help="names of benchmarks.clique_gpu, split by semicolons"
    )
    parser.add_argument("--roots", default="vertex,edge", help="what a work item is, split by commas")
    parser.add_argument("--gpus", default="1,2", help="numbers of GPUs, the first one is compared with")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    cases, right = {case.name: case for case in CASES}, True
    print("| case | root | GPUs | ms | speed-up | words by GPU | count |\n|" + " --- |" * 7, flush=True)
    for name in options.cases.split(";"):
        totals = set()
        for root in options.roots.split(","):
            first: float | None = None
            for n_gpus in map(int, options.gpus.split(",")):
                seconds, total, words = measure(n_gpus, cases[name], root, options)
                first = seconds if first is None else first
                totals.add(total)
                shares = "/".join(f"{share:.2f}" for share in words)
                times = f"{seconds * 1e3:.2f} | {first / seconds:.2f}"
                print(f"| {name} | {root} | {n_gpus} | {times} | {shares} | {total} |", flush=True)
        right &= len(totals) == 1
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
