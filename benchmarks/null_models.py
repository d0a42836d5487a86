"""What a reviewer of a p-value asks: are random graphs drawn as the model says, do intervals hold, are tails exact?

    python -m benchmarks.null_models
    python -m benchmarks.null_models --only uniform mixing

* ``uniform``: for small degree sequences all graphs are enumerated, and each must be drawn equally often: a chi-square
  test for each sequence. Of right samplers a hundredth of the p-values are below 0.01.
* ``expected``: the expected degrees of the maximum-entropy graphs beside the degrees, and exact tails of sums of 0s and
  1s beside a convolution in large integers.
* ``mixing``: means of samples beside those after 400 steps, on graphs with a planted block, nested and dense ones, and
  ones with hubs, in standard deviations.
* ``intervals``: how often the 95 % intervals of z and p hold the value of the distribution that the counts are from.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from itertools import combinations, product
from math import sqrt
from typing import Any

import numpy as np
import scipy.stats

import papilio
from benchmarks.harness import describe_machine, print_rows
from papilio.graph import BipartiteGraph, UnipartiteGraph
from papilio.kernels.null.cpu import make_randomizer
from papilio.kernels.null.fitness import solve_chances
from papilio.kernels.null.models import NullModel
from papilio.kernels.project.tails import TailQuestion, make_room, sum_tails
from papilio.tasks.significance import Comparison

Row = tuple[str, ...]


def bipartite(n_u: int, n_v: int, edges: set[tuple[int, int]]) -> BipartiteGraph:
    pairs = np.array(sorted(edges))
    return BipartiteGraph.from_edges(pairs[:, 0], pairs[:, 1], n_u, n_v)


def square(n: int) -> set[tuple[int, int]]:
    return {(i, j) for i in range(n) for j in range(n)}


def scatter(random: np.random.Generator, n: int, begin: set[tuple[int, int]], size: int) -> set[tuple[int, int]]:
    edges = set(begin)
    while len(edges) < size:
        edges.add((int(random.integers(n)), int(random.integers(n))))
    return edges


def planted() -> BipartiteGraph:
    """A block of 15 x 15 in a sparse graph."""
    return bipartite(200, 200, scatter(np.random.default_rng(1), 200, square(15), 825))


def beside_singles() -> BipartiteGraph:
    """K(15, 15) beside 400 single edges."""
    return bipartite(415, 415, square(15) | {(each, each) for each in range(15, 415)})


def clique_beside_singles() -> UnipartiteGraph:
    """A clique of 15 vertices beside 200 single edges."""
    pairs = [(i, j) for j in range(15) for i in range(j)] + [(at, at + 1) for at in range(15, 415, 2)]
    return UnipartiteGraph.from_edges(np.array(pairs)[:, 0], np.array(pairs)[:, 1], 415)


def nested() -> BipartiteGraph:
    """A nested graph, some cells of which are turned."""
    random, edges = np.random.default_rng(2), {(i, j) for i in range(40) for j in range(40 - i)}
    for _ in range(60):
        edges ^= {(int(random.integers(40)), int(random.integers(40)))}
    return bipartite(40, 40, edges)


def complement() -> BipartiteGraph:
    """All edges but those of a sparse graph with a block."""
    sparse = scatter(np.random.default_rng(3), 60, square(12), 294)
    return bipartite(60, 60, square(60) - sparse)


def star() -> BipartiteGraph:
    """One hub on each side, in a sparse graph."""
    hubs = {(0, each) for each in range(300)} | {(each, 0) for each in range(300)}
    return bipartite(300, 300, scatter(np.random.default_rng(4), 300, hubs, 899))


MADE: dict[str, Callable[[], Any]] = {
    each.__name__: each for each in (planted, beside_singles, clique_beside_singles, nested, complement, star)
}


def _uniform(random: np.random.Generator) -> Iterator[Row]:
    """Test whether all graphs with the degrees of a small random graph are drawn equally often."""
    p_values: dict[str, list[float]] = defaultdict(list)
    for _ in range(20):
        for kind, sizes in (("bipartite", (4, 4)), ("bipartite", (3, 5)), ("unipartite", (6, 6))):
            pairs = product(range(sizes[0]), range(sizes[1])) if kind == "bipartite" else combinations(range(6), 2)
            cells = list(pairs)
            n_edges = int(random.integers(4, len(cells) - 3))

            def make(edges: Any, kind: str = kind, sizes: tuple[int, int] = sizes) -> Any:
                pairs = np.array(edges)
                made = BipartiteGraph if kind == "bipartite" else UnipartiteGraph
                return made.from_edges(pairs[:, 0], pairs[:, 1], *sizes[: 2 if kind == "bipartite" else 1])

            def degrees(graph: Any) -> Hashable:
                both = (graph.degree_u, graph.degree_v) if isinstance(graph, BipartiteGraph) else (graph.degree,)
                return tuple(tuple(each.tolist()) for each in both)

            graph = make([cells[at] for at in sorted(random.choice(len(cells), n_edges, replace=False))])
            same = [each for each in combinations(cells, n_edges) if degrees(make(each)) == degrees(graph)]
            if not 2 <= len(same) <= 200:
                continue
            randomizer = make_randomizer(graph, NullModel("degrees"))
            drawn = Counter(
                frozenset(zip(found.u.tolist(), found.v.tolist(), strict=True))
                for found in (randomizer.sample(11, at) for at in range(40 * len(same)))
            )
            counts = [drawn[frozenset(each)] for each in same]
            assert sum(counts) == 40 * len(same), "a graph with other degrees was drawn"
            p_values[kind].append(float(scipy.stats.chisquare(counts).pvalue))
    for kind, found in p_values.items():
        low, level = sum(p < 0.01 for p in found), scipy.stats.kstest(found, "uniform").pvalue
        yield (
            "uniform",
            f"{kind}, {len(found)} degree sequences",
            f"{low} p below 0.01; uniform p-values: p = {level:.2g}",
        )


def _expected(random: np.random.Generator) -> Iterator[Row]:
    """Compare expected degrees with degrees, and tails with a convolution in integers of 1,200 binary digits."""
    worst = 0.0
    for _ in range(50):
        n_u, n_v = (int(each) for each in random.integers(2, 60, 2))
        cells = np.flatnonzero(random.random(n_u * n_v) < random.random() ** 2)
        if cells.size:
            chances = solve_chances(BipartiteGraph.from_edges(cells // n_v, cells % n_v, n_u, n_v))
            worst = max(worst, float(np.abs(chances.expect_degrees() - chances.degrees).max()))
    yield "expected", "expected degrees of 50 graphs", f"{worst:.1e} from the degrees"
    worst, one = 0.0, 1 << 1200
    for _ in range(100):
        n = int(random.integers(1, 12))
        row, other = (np.sort(random.random(n) ** random.choice([1, 3, 8, 20]))[::-1].copy() for _ in range(2))
        sizes = random.choice([1, 1, 1, 2, 3, 7, 20, 60], n).astype(np.int64)
        top = int(min(sizes.sum(), random.integers(1, 60)))
        room = make_room(TailQuestion.of(2, 0, np.arange(top + 1), np.stack([row, other]), sizes))
        sum_tails(row, other, sizes, top, room)
        exact = [one]
        for chance in np.repeat(row * other, sizes):
            above, below = float(chance).as_integer_ratio()
            share = one * above // below
            exact = [(a * share + b * (one - share)) // one for a, b in zip([0, *exact], [*exact, 0], strict=True)]
        for at in range(top + 1):
            right = sum(exact[at:]) / one
            if right > 1e-290:
                worst = max(worst, abs(float(room.below[at]) - right) / right)
    yield "expected", "tails of 100 sums", f"relative error at most {worst:.1e}"


def _mixing(random: np.random.Generator) -> Iterator[Row]:
    """Compare samples as drawn by default with samples after 20 and after 400 steps."""
    for name, make in MADE.items():
        graph = make()
        motif: dict[str, Any] = (
            {"motif": "butterfly"} if isinstance(graph, BipartiteGraph) else {"motif": "clique", "k": 3}
        )

        def ask(graph: Any = graph, motif: dict[str, Any] = motif, **options: Any) -> Any:
            return papilio.significance(graph, **motif, samples=4000, engine="cpu", cluster="inline", **options)

        far, found, plain = ask(steps=400, seed=1), ask(), ask(steps=20)
        off = [(each.mean - far.mean) / far.std for each in (found, plain)]
        yield (
            "mixing", name.replace("_", " "),
            f"{off[0]:+.3f} std with {found.trades} trades; {off[1]:+.3f} with {plain.trades}; z {found.z:.4g}, and "
            f"{far.z:.4g} after 400 steps",
        )  # fmt: skip


def _intervals(random: np.random.Generator) -> Iterator[Row]:
    """Draw counts from known distributions, and count how often the intervals hold what they are of."""
    distributions: tuple[tuple[str, Callable[[int], Any], float, float, int], ...] = (
        ("Poisson of mean 9", lambda size: random.poisson(9, size), 9.0, 3.0, 300),
        ("geometric of mean 4", lambda size: random.geometric(0.25, size), 4.0, sqrt(12), 1000),
        ("binomial of 40 and 1/2", lambda size: random.binomial(40, 0.5, size), 20.0, sqrt(10), 1000),
    )
    for name, draw, mean, deviation, n in distributions:
        held = Counter[str]()
        for _ in range(1000):
            counts = draw(n).tolist()
            for far in (0, 2, 8):
                observed = round(mean + far * deviation)
                one = Comparison.of(observed, counts)
                assert one.z_low is not None
                assert one.z_high is not None
                held[f"z near {far}"] += one.z_low <= (observed - mean) / deviation <= one.z_high
        yield "intervals", name, ", ".join(f"{what}: {number / 10:.1f} %" for what, number in held.items())


PARTS: dict[str, Callable[[np.random.Generator], Iterator[Row]]] = {
    "uniform": _uniform, "expected": _expected, "mixing": _mixing, "intervals": _intervals,
}  # fmt: skip


def main() -> None:
    """Print a table, a row for each check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    columns = {"what": lambda row: row[0], "of": lambda row: row[1], "found": lambda row: row[2]}
    rows = (row for part in options.only for row in PARTS[part](np.random.default_rng(options.seed)))
    print_rows(describe_machine("cpu"), columns, rows)


if __name__ == "__main__":
    main()
