"""How long the first calls take after an installation from source: README's commands, the tutorial's calls, and others.

    python -m benchmarks.first_calls [--before COMMIT] [--wheel FILE] [--only WORD ...] [--output FILE]

Installs the commit of this checkout as README says, and likewise another commit or a wheel to compare with, each into
an empty environment. Every call is the first ever: a process of its own, with empty caches of kernels and of converted
files. Wall time, processor time of all threads, and the kernels that were compiled meanwhile; for the installation, by
it. ``--only`` keeps the calls whose name holds one of the words.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.time_to_answer import Row, time_command

ROOT = Path(__file__).resolve().parents[1]

_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

COMMANDS = (
    "count biclique southern-women.csv --all",
    "count butterfly ratings.csv --header --u reader --v book",
    "convert ratings.csv ratings",
    "count butterfly ratings.csv --per vertex --output vertices.parquet",
    "enumerate maximal-biclique ratings.csv --min-u 5 --format csv",
    "count biclique ratings.csv -p 6 -q 6 --job ratings-job",
    "count butterfly ratings.csv --host-memory 16GiB",
    "count butterfly ratings.csv --cluster local",
    "plan butterfly ratings.csv",
    "decompose wing ratings.csv --output wings",
    "count clique friends.txt -k 3 --unipartite",
    "count clique friends.txt --all-k --unipartite",
)
"""README's commands that need no GPU, cluster or earlier result, and the first ones of other pages."""

_WOMEN = "women = papilio.example('southern-women'); "

CALLS = {
    "README: (3,4)-bicliques": _WOMEN + "papilio.count(women, 'biclique', p=3, q=4)",
    "README: per vertex": _WOMEN + "papilio.count(women, 'butterfly', per='vertex').top(3)",
    "tutorial: count": "papilio.count('ratings.csv', 'butterfly')",
    "tutorial: per vertex": "papilio.count('ratings.csv', 'butterfly', per='vertex').to_pandas()",
    "tutorial: decompose": "papilio.decompose('ratings.csv', 'wing').to_pandas()",
    "tutorial: components": "papilio.decompose('ratings.csv', 'wing').forest.components_at(30)",
    "tutorial: top bicliques": "papilio.top_bicliques('ratings.csv', n=1, by='edges')",
    "tutorial: every size": "papilio.count('ratings.csv', papilio.Biclique(None, None, max_p=6)).to_pandas()",
    "tutorial: robins_alexander": "papilio.robins_alexander('ratings.csv')",
    "tutorial: significance": "papilio.significance('ratings.csv', 'butterfly', samples=200)",
    "per edge": "papilio.count('ratings.csv', 'butterfly', per='edge').to_pandas()",
    "maximal bicliques": "list(papilio.enumerate('ratings.csv', 'maximal-biclique'))",
    "plan": "papilio.plan('ratings.csv', papilio.Biclique(3, 3))",
    "estimate": "papilio.estimate('ratings.csv', papilio.Biclique(3, 3))",
    "project": "papilio.project('ratings.csv', 'u').to_pandas()",
    "cliques": "papilio.count('friends.txt', papilio.Clique(4), kind='unipartite')",
}
"""Calls in Python, after ``import papilio``."""


def write_graphs(folder: Path) -> None:
    """Write the tutorial's ratings (with other random numbers), a friendship graph, and the Southern Women."""
    draw = random.Random(7)
    pairs = {(draw.randrange(400), draw.randrange(300)) for _ in range(2600)}
    for circle, (readers, books) in enumerate([(12, 9), (8, 14), (20, 6)]):
        pairs |= {
            (40 * circle + r, 30 * circle + b) for r in range(readers) for b in range(books) if draw.random() < 0.9
        }
    lines = "".join(f"reader {r},book {b}\n" for r, b in sorted(pairs))
    (folder / "ratings.csv").write_text(f"reader,book\n{lines}")
    friends = {tuple(sorted(draw.sample(range(80), 2))) for _ in range(900)}
    (folder / "friends.txt").write_text("".join(f"{a} {b}\n" for a, b in sorted(friends)))
    women = ROOT / "papilio" / "data" / "southern-women.csv"
    (folder / women.name).write_bytes(women.read_bytes())


def install(what: str, environment: Path) -> Row:
    """Install a source folder or a wheel with two extras into an empty environment."""
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    words = [f"{environment}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    row = time_command("pip install", [*words, f"{what}[frames,graphs]"], _ENVIRONMENT, 1)
    code = environment.glob("lib/python3*/site-packages/papilio/kernels/machine_code/*")
    return replace(row, n_compiled=len(list(code)))


def measure(environment: Path, only: list[str]) -> Iterator[Row]:
    """Yield the rows of all calls with the package of an environment."""
    named = {words: [f"{environment}/bin/papilio", *words.split()] for words in COMMANDS}
    for name, call in CALLS.items():
        text = f"import warnings; warnings.simplefilter('ignore'); import papilio; {call}"
        named[name] = [f"{environment}/bin/python", "-c", text]
    for name, words in named.items():
        if only and not any(word in name for word in only):
            continue
        with tempfile.TemporaryDirectory() as caches, tempfile.TemporaryDirectory() as scratch:
            write_graphs(Path(scratch))
            settings = _ENVIRONMENT | {
                "NUMBA_CACHE_DIR": f"{caches}/kernels",
                "PAPILIO_CACHE": f"{caches}/files",
            }
            row = time_command(name, words, settings, 1, Path(scratch))
            yield replace(row, n_compiled=len(list(Path(caches).glob("kernels/*"))))


def table(measured: dict[str, list[Row]]) -> list[str]:
    """Return the rows of several installations side by side, as a table of Markdown."""
    lines = [
        "| call |" + "".join(f" {name}: wall, s | processor, s | compiled |" for name in measured),
        "|---|" + "---:|---:|---:|" * len(measured),
    ]
    for row in next(iter(measured.values())):
        found = [next((each for each in rows if each.name == row.name), None) for rows in measured.values()]
        cells = (
            " | | |" if each is None else f" {each.wall_s:.2f} | {each.processor_s:.2f} | {each.n_compiled} |"
            for each in found
        )
        lines.append(f"| {row.name} |{''.join(cells)}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT")
    parser.add_argument("--wheel", metavar="FILE")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--output", type=Path, help="Also write the rows there, as JSON.")
    given = parser.parse_args()
    measured: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        sources = {} if given.before is None else {given.before: given.before}
        sources["now"] = "HEAD"
        folders = {}
        for name, commit in sources.items():
            folders[name] = folder = f"{scratch}/source-{name}"
            subprocess.run(["git", "clone", "--quiet", str(ROOT), folder], check=True)
            subprocess.run(["git", "-C", folder, "checkout", "--quiet", "--detach", commit], check=True)
        if given.wheel is not None:
            folders["wheel"] = str(Path(given.wheel).resolve())
        for name, what in folders.items():
            environment = Path(scratch, f"environment-{name}")
            measured[name] = rows = [install(what, environment)]
            for row in measure(environment, given.only):
                rows.append(row)
                print(*table({name: [row]})[2:], file=sys.stderr)
    print("\n".join(table(measured)))
    if given.output is not None:
        rows_of = {name: [asdict(row) for row in rows] for name, rows in measured.items()}
        given.output.write_text(json.dumps(rows_of, indent=1) + "\n")


if __name__ == "__main__":
    main()
