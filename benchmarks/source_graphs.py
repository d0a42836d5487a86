"""Real graphs of millions of edges, made from Debian packages, and every family on them, from the shell.

    python -m benchmarks.source_graphs --scratch DIR
    python -m benchmarks.source_graphs --scratch DIR --engine gpu --most 60 --output source-graphs.json
    python -m benchmarks.source_graphs --scratch DIR --graphs casts --only clique

The graphs are made once, in the scratch directory, and reused; they depend only on the version of the package:

``files``      source files x identifiers in them, of the package ``--package``, which holds the sources of the kernel;
``packages``   packages x words of their entries in the index of packages of this machine;
``casts``      pairs of files with an identifier in common that 2 to ``--rare`` files contain;
``peers``      pairs of packages with a word in common that 2 to ``--rare`` entries contain.

``casts`` and ``peers`` are unions of overlapping cliques, one for each rare word. Every question is a command in a
process of its own. It is planned first, and skipped if its predicted time is over ``--most`` seconds; a command is
ended after ``--end`` seconds. ``run`` is the phase that counts, ``processor`` the time of all threads of the command,
and ``memory`` its peak (of the device, with GPUs). Rates on GPUs are those of the run. On CPUs they are work by
processor time of the command less that of its plan, which reads and prepares as well: those of one thread.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Timer
from time import perf_counter
from typing import Any

import numpy as np

import papilio
from benchmarks.harness import describe_machine, make_parser, print_rows
from papilio.graph import BipartiteGraph
from papilio.storage.store import open_store, write_store

BIPARTITE = (
    "count butterfly", "count butterfly --per vertex", "count butterfly --per edge",
    *(f"count biclique -p {p} -q {q}" for p, q in ((2, 3), (3, 2), (3, 3), (4, 4), (6, 6), (8, 8))),
    "count biclique --all", "count maximal-biclique", "count maximal-biclique --min-u 8 --min-v 8",
    "count projection --layer u --min-common 2", "estimate biclique -p 4 -q 4",
    "significance butterfly --samples 4 --null degrees", "decompose tip --layer u", "decompose wing",
)  # fmt: skip

UNIPARTITE = (
    *(f"count clique -k {k}" for k in range(3, 9)), "count clique -k 5 --per vertex", "count clique -k 5 --per edge",
    "count clique --all-k", "count maximal-clique", "estimate clique -k 8",
)  # fmt: skip

WORD = re.compile(rb"[A-Za-z_]\w*")
"""An identifier or keyword of C."""

ENTRY_WORD = re.compile(r"[A-Za-z][\w+.-]+")
"""A word, or the name of a package."""


@dataclass(frozen=True)
class Row:
    """One command; seconds and memory are None if it was skipped, ``count`` if it has no answer."""

    graph: str
    question: str
    predicted: dict[str, float] | None  # of the run: value, low, high
    count: int | float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    processor_s: float | None = None
    peak_bytes: int | None = None
    work: dict[str, int] = field(default_factory=dict)
    note: str = ""
    run_s: float | None = None  # what the rate is by: on the clock on GPUs, of all threads on CPUs

    @property
    def rate(self) -> str:
        """The rate of the run, with the unit of its work; empty for a run too short to tell."""
        unit, work = next(iter(self.work.items()), ("", 0))
        return f"{work / self.run_s:.3g} {unit}/s" if self.run_s and self.run_s > 0.2 and work else ""


def fetch_package(name: str, scratch: Path) -> Path:
    """Download a binary package with apt unless it is there; return its file, whose name holds its version."""
    found = sorted(scratch.glob(f"{name}_*.deb"))
    if not found:
        subprocess.run(["apt-get", "download", name], cwd=scratch, check=True)
        found = sorted(scratch.glob(f"{name}_*.deb"))
    return found[-1]


def read_sources(package: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the C files of the source archive in a package, each with its identifiers; nothing is unpacked to disk."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as outer,
    ):
        for archive in outer:
            if ".tar" not in archive.name:
                continue
            with tarfile.open(fileobj=outer.extractfile(archive), mode="r|*") as inner:
                for member in inner:
                    if member.isfile() and member.name.endswith((".c", ".h", ".S")):
                        text = inner.extractfile(member)
                        assert text is not None
                        yield member.name, sorted(set(WORD.findall(text.read())))


def read_entries() -> Iterator[tuple[str, list[bytes]]]:
    """Yield the packages known to apt on this machine, each with the words of its entry."""
    entries = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True).stdout
    for entry in entries.decode(errors="replace").split("\n\n"):
        if entry.startswith("Package: "):
            name, _, rest = entry.removeprefix("Package: ").partition("\n")
            yield name, [word.encode() for word in sorted(set(ENTRY_WORD.findall(rest)))]


def convert_words(texts: Iterator[tuple[str, list[bytes]]], target: Path) -> None:
    """Write the edges as a file, and convert it."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        edges = Path(scratch) / "edges.tsv"
        with edges.open("wb") as file:
            for name, words in texts:
                row = name.encode() + b"\t"
                file.writelines(row + word + b"\n" for word in words)
        run, _, took_s = run_command(["convert", str(edges), str(target), "--labels", "text"], None)
        print(f"{target.name}: {edges.stat().st_size:,} bytes converted in {took_s:.1f} s of processor time")
        if run is None:
            raise SystemExit(f"{edges} was not converted")


def project_rare(source: Path, target: Path, rare: int) -> None:
    """Write the projection to U through the vertices of V with 2 to ``rare`` neighbours."""
    store = open_store(source)
    graph = store.read()
    assert isinstance(graph, BipartiteGraph)
    degrees = np.bincount(graph.v, minlength=graph.n_v)
    kept = np.flatnonzero((degrees >= 2) & (degrees <= rare))
    number = np.full(graph.n_v, -1, np.int32)
    number[kept] = np.arange(kept.size)
    v = number[graph.v]
    part = BipartiteGraph(graph.n_u, int(kept.size), graph.u[v >= 0], v[v >= 0])
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        write_store(Path(scratch) / "rare", part, provenance={"source": source.name}, labels_u=store.labels("u"))
        papilio.project(
            Path(scratch) / "rare",
            layer="u",
            min_common=1,
            output=target,
            as_store=True,
            engine="cpu",
        )


def make_graph(name: str, scratch: Path, package: str, rare: int) -> Path:
    """Return the store of a graph, made unless it is there."""
    suffix = {"files": f"-{package}", "casts": f"-{package}-{rare}", "peers": f"-{rare}"}.get(name, "")
    store = scratch / f"{name}{suffix}.papilio"
    if not store.exists():
        began = perf_counter()
        if name == "files":
            convert_words(read_sources(fetch_package(package, scratch)), store)
        elif name == "packages":
            convert_words(read_entries(), store)
        else:
            source = {"casts": "files", "peers": "packages"}[name]
            project_rare(make_graph(source, scratch, package, rare), store, rare)
        print(f"{name}: made in {perf_counter() - began:.0f} s")
    return store


def run_command(words: list[str], most_s: float | None) -> tuple[dict[str, Any] | None, int, float]:
    """Run ``papilio``; return its object or None, the peak of its memory, and the processor time of its threads."""
    command = [sys.executable, "-m", "papilio", *words, "--json"]
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=answer, stderr=errors)
        timer = Timer(most_s or 0.0, process.kill)
        if most_s is not None:
            timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        answer.seek(0)
        errors.seek(0)
        if process.returncode not in (0, -9):
            print(errors.read().decode(), file=sys.stderr)
        found = json.loads(answer.read()) if process.returncode == 0 else None
    return found, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime


def ask(graph: str, store: Path, question: str, engine: str, most_s: float, end_s: float) -> Row:
    """Plan a question and run it."""
    verb, motif, *flags = question.split()
    words, predicted, before_s = [motif, str(store), *flags, "--engine", engine], None, None
    if verb in ("count", "significance"):
        plan, _, before_s = run_command(["plan", *words], end_s)
        predicted = None if plan is None else plan["run_s"]
        if plan is None:
            return Row(graph, question, None, note="the plan failed, or took too long")
        if predicted is not None and predicted["value"] > most_s:
            return Row(graph, question, predicted, note="skipped: predicted to take longer")
    if verb == "estimate":
        words += ["--seconds", str(most_s)]
    scratch = store.parent / "answer"
    if verb == "decompose":
        words += ["--output", str(scratch)]
    found, peak_bytes, processor_s = run_command([verb, *words], end_s)
    shutil.rmtree(scratch, ignore_errors=True)
    if found is None:
        return Row(graph, question, predicted, None, {}, processor_s, peak_bytes, note="failed, or ended at its time")
    run_s = found.get("seconds", {}).get("run")
    if engine == "cpu" and before_s is not None:
        run_s = processor_s - before_s
    count = found.get("count", found.get("estimate", found.get("max_number")))
    device_bytes = found.get("peak_device_bytes", 0)
    return Row(
        graph, question, predicted, count, found.get("seconds", {}), processor_s, device_bytes or peak_bytes,
        found.get("work", {}) if isinstance(found.get("work"), dict) else {}, "", run_s,
    )  # fmt: skip


def show_range(row: Row) -> str:
    """Return the prediction and its interval."""
    each = row.predicted
    return "" if each is None else f"{each['value']:.3g} ({each['low']:.2g} to {each['high']:.2g})"


def describe_graph(store: Path) -> str:
    """Return sizes, the content hash of the graph, and the bytes of its store."""
    graph = open_store(store)
    sizes = f"{graph.n_u:,} x {graph.n_v:,}" if graph.kind == "bipartite" else f"{graph.n_u:,}"
    return f"{sizes} vertices, {graph.n_edges:,} edges, hash {graph.hash[:12]}, {graph.stored_bytes() / 2**20:.0f} MiB"


def main() -> None:
    """Make the graphs, ask the questions, print the table."""
    parser = make_parser(__doc__, engines=True)
    parser.add_argument("--scratch", type=Path, required=True, help="directory for the packages and the stores")
    parser.add_argument("--package", default="linux-source-6.1")
    parser.add_argument("--rare", type=int, default=100, help="most files, or packages, that contain a rare word")
    parser.add_argument("--graphs", nargs="+", default=["files", "packages", "casts", "peers"])
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="questions with one of the words")
    parser.add_argument("--most", type=float, default=60.0, help="seconds that a question may take, as predicted")
    parser.add_argument("--end", type=float, default=300.0, help="seconds after which a command is ended")
    given = parser.parse_args()
    stores = {name: make_graph(name, given.scratch, given.package, given.rare) for name in given.graphs}
    package = fetch_package(given.package, given.scratch)
    facts = describe_machine(given.engine)
    facts |= {"package": f"{package.name}, SHA-256 {sha256(package.read_bytes()).hexdigest()[:16]}"}
    facts |= {name: describe_graph(store) for name, store in stores.items()}
    columns = {
        "graph": lambda row: row.graph,
        "question": lambda row: row.question,
        "count": lambda row: "" if row.count is None else f"{row.count:,}" if row.count < 1e15 else f"{row.count:.6e}",
        "predicted, s": show_range,
        "run, s": lambda row: f"{row.seconds['run']:.3g}" if "run" in row.seconds else "",
        "read and prepare, s": lambda row: (
            f"{row.seconds['read'] + row.seconds['prepare']:.3g}" if {"read", "prepare"} <= {*row.seconds} else ""
        ),
        "processor, s": lambda row: "" if row.processor_s is None else f"{row.processor_s:.1f}",
        "memory, GiB": lambda row: "" if row.peak_bytes is None else f"{row.peak_bytes / 2**30:.2f}",
        "rate": lambda row: row.rate,
        "note": lambda row: row.note,
    }  # fmt: skip
    rows = (
        ask(name, store, question, given.engine, given.most, given.end)
        for name, store in stores.items()
        for question in (BIPARTITE if open_store(store).kind == "bipartite" else UNIPARTITE)
        if any(word in question for word in given.only)
    )
    print_rows(facts, columns, rows, given.output)


if __name__ == "__main__":
    main()
