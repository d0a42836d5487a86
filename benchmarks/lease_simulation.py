"""Predict how efficiently leases use 1 to 4,096 workers, from the costs of a real graph.

    python -m benchmarks.lease_simulation                    # an R-MAT graph, made in a temporary directory
    python -m benchmarks.lease_simulation --store graph/     # the costs of a stored graph

Writes ``lease-simulation.json``, ``.md``, ``.png`` and ``.svg`` into ``--output``; the plots need matplotlib
(``pip install "papilio[benchmark]"``). The leases are those of the planner (:mod:`papilio.tasks.plan`) for the
costs that the CPU engine gives, scaled to jobs of several lengths; :mod:`benchmarks.lease_model` plays them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lease_model import Machine, Outcome, simulate, split_equal, split_with_share
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import load_engine
from papilio.motifs import Butterfly
from papilio.partitioning.lease_policy import MAX_LEASE_S, MIN_LEASE_S
from papilio.partitioning.root_ranges import MAX_TABLE_ENTRIES, CostTable, Interval
from papilio.partitioning.work_pool import GUIDED_SHARE
from papilio.storage.generate import generate
from papilio.storage.generators.models import Rmat
from papilio.storage.store import open_store

__all__ = ["JOBS_S", "RATE_PROFILE", "WORKERS", "Workload", "load_costs", "run_experiments"]

WORKERS = tuple(2**k for k in range(13))
"""1 to 4,096."""

JOBS_S = {"10 s": 10.0, "1 min": 60.0, "1 h": 3600.0, "10 h": 36e3, "100 h": 36e4}
"""Jobs by the time that one worker needs."""

STUDY_JOB = "10 h"
"""The job on which policies and constants are compared: 8.8 s on 4,096 workers."""

CUT_S = 0.1
"""With cutting, the end of a worker is cut while it has this much left: fifty times the scheduler's latency."""

LATENCY_S = Machine(1).latency_s

SHORTEST_S = 25 * LATENCY_S
FAIR_PARTS = 64
FAIR_LABEL = f"1/{FAIR_PARTS} of a fair share, {SHORTEST_S} to {MIN_LEASE_S} s"

SHORT_JOB = "10 s"
"""The job on which the shortest leases are compared: 2.5 s on four GPUs."""

SEEDS = 3

GRAPH = Rmat(scale_u=19, scale_v=17, edges=6_000_000)

RATE_PROFILE = (
    0.94, 1.08, 0.96, 0.96, 1.01, 0.98, 0.91, 0.99, 0.83, 0.87, 0.99, 0.99, 0.99, 1.05, 1.25, 1.63,
)  # fmt: skip
"""Time per wedge in 16 equal sections of the work, heaviest items first, relative to their mean before scaling.

Measured on one thread of the CPU engine on the graph of this study: the light items at the end take most, for
their tables are small and their fixed costs count. The planner does not know this.
"""


@dataclass(frozen=True)
class Workload:
    """The items of a job: what the planner believes and what they take.

    Attributes
    ----------
    costs : ndarray of int64, shape (n_items,)
        Work units, heaviest first.
    job_s : float
        Time of all items on one worker.
    """

    costs: NDArray[np.int64]
    job_s: float

    def cumulative_s(self) -> NDArray[np.float64]:
        """Return the true time of all items before each, shape (n_items + 1,), in seconds."""
        share = np.concatenate(([0.0], np.cumsum(self.costs) / self.costs.sum()))
        profile = np.array(RATE_PROFILE)
        knots = np.concatenate(([0.0], np.cumsum(profile) / profile.sum()))
        return np.interp(share, np.linspace(0.0, 1.0, knots.size), knots) * self.job_s

    def units(self, seconds: float) -> int:
        """Return the work units that the planner believes to take this long."""
        return int(seconds * float(self.costs.sum()) / self.job_s)


@dataclass(frozen=True)
class Policy:
    """How the items are cut; the defaults are the constants of the planner.

    Attributes
    ----------
    kind : str
        ``guided``, ``shortest`` (all of ``min_lease_s``), ``sixteen`` (equal leases, 16 for each worker) or
        ``one`` (one lease for each worker).
    share, min_lease_s, entries
        In place of ``GUIDED_SHARE``, ``MIN_LEASE_S`` and ``MAX_TABLE_ENTRIES``.
    per_worker_s : float
        The least lease is also at least this long for each worker there is.
    fair_parts : int
        Where above 0, the least lease is no longer than this part of a worker's share of the job, but at least
        0.05 s, which is 25 times the scheduler's latency.
    """

    kind: str = "guided"
    share: int = GUIDED_SHARE
    min_lease_s: float = MIN_LEASE_S
    entries: int = MAX_TABLE_ENTRIES
    per_worker_s: float = 0.0
    fair_parts: int = 0

    def split(self, load: Workload, table: CostTable, n_workers: int) -> tuple[Interval, ...]:
        """Return the leases."""
        least_s = max(self.min_lease_s, self.per_worker_s * n_workers)
        if self.fair_parts:
            least_s = min(least_s, max(load.job_s / n_workers / self.fair_parts, SHORTEST_S))
        least = load.units(least_s)
        if self.kind == "guided":
            most = load.units(max(MAX_LEASE_S, least_s))
            return split_with_share(table, n_workers, self.share, least, most)
        if self.kind == "shortest":
            return split_equal(table, least)
        parts = n_workers * (16 if self.kind == "sixteen" else 1)
        floor = least if self.kind == "sixteen" else 1
        return split_equal(table, max(-(-table.total // parts), floor))


def load_costs(store: Path | None) -> tuple[NDArray[np.int64], str]:
    """Return the costs of the butterfly items of a store, or of the study's own graph, and its description."""
    with tempfile.TemporaryDirectory() as directory:
        opened = open_store(store) if store else generate(GRAPH, Path(directory) / "graph", seed=1)
        graph = opened.read()
    if not isinstance(graph, BipartiteGraph):
        raise SystemExit(f"{store} is unipartite; give a bipartite store")
    engine = load_engine(Butterfly(), "cpu")
    costs = engine.work(engine.prepare(graph, Butterfly(), "total"))
    what = (
        str(store)
        if store
        else (f"R-MAT, {GRAPH.edges:,} draws over 2^{GRAPH.scale_u} x 2^{GRAPH.scale_v} vertices, seed 1")
    )
    return costs, f"{what}: {graph.n_edges:,} edges, {costs.size:,} items, {int(costs.sum()):,} wedges"


@dataclass(frozen=True)
class Variant:
    """One line of a panel: what is run with which policy on which machine."""

    label: str
    job: str = STUDY_JOB
    policy: Policy = Policy()
    cut_s: float | None = None
    in_flight: int = 2
    slow_every: int = 0


def _panels() -> dict[str, tuple[str, tuple[Variant, ...]]]:
    """Return the variants of each panel, with the panel's title."""
    entries = (MAX_TABLE_ENTRIES, 4 * MAX_TABLE_ENTRIES, 16 * MAX_TABLE_ENTRIES, 64 * MAX_TABLE_ENTRIES)
    finest = Policy(entries=entries[-1])
    policies = (("guided", "guided"), ("shortest", f"equal, {MIN_LEASE_S} s each"),
                ("sixteen", "equal, 16 per worker"), ("one", "one per worker"))  # fmt: skip
    kinds = tuple((label, replace(finest, kind=kind)) for kind, label in policies)
    return {
        "jobs": (
            "the policy as it is, by the job's time on one worker",
            tuple(Variant(name, name) for name in JOBS_S),
        ),
        "cut": (
            f"with cutting and {entries[-1]:,} table entries, by the job's time on one worker",
            tuple(Variant(name, name, finest, CUT_S) for name in JOBS_S),
        ),
        "policy": (
            f"how the work is cut; job of {STUDY_JOB}",
            (*(Variant(label, policy=policy) for label, policy in kinds),
             Variant("guided and cutting", policy=finest, cut_s=CUT_S)),
        ),
        "slow": (
            f"the same where every 16th worker runs at half speed; job of {STUDY_JOB}",
            (*(Variant(label, policy=policy, slow_every=16) for label, policy in kinds),
             Variant("guided and cutting", policy=finest, cut_s=CUT_S, slow_every=16)),
        ),
        "entries": (
            f"entries of the cost table; job of {STUDY_JOB}",
            tuple(Variant(f"{n:,}", policy=Policy(entries=n)) for n in entries),
        ),
        "share": (
            f"GUIDED_SHARE; job of {STUDY_JOB}",
            tuple(Variant(str(n), policy=replace(finest, share=n)) for n in (1, 2, 3, 4, 8)),
        ),
        "min_lease": (
            f"MIN_LEASE_S; job of {STUDY_JOB}",
            (
                *(Variant(f"{s} s", policy=replace(finest, min_lease_s=s)) for s in (0.05, 0.2, 0.5, 2.0, 5.0)),
                Variant(FAIR_LABEL, policy=replace(finest, fair_parts=FAIR_PARTS)),
                Variant("0.5 s and 2 ms per worker", policy=replace(finest, per_worker_s=LATENCY_S)),
            ),
        ),
        "short_min_lease": (
            f"MIN_LEASE_S; job of {SHORT_JOB}",
            (
                *(Variant(f"{s} s", SHORT_JOB, replace(finest, min_lease_s=s)) for s in (0.02, 0.05, 0.1, 0.5)),
                Variant(FAIR_LABEL, SHORT_JOB, replace(finest, fair_parts=FAIR_PARTS)),
            ),
        ),
        "short_share": (
            f"GUIDED_SHARE, with cutting at 0.1 s; job of {SHORT_JOB}",
            tuple(Variant(str(n), SHORT_JOB, replace(finest, share=n), CUT_S) for n in (1, 2, 3, 4, 8)),
        ),
        "in_flight": (
            f"leases held by a worker; job of {STUDY_JOB}",
            tuple(Variant(str(n), policy=finest, in_flight=n) for n in (1, 2, 3)),
        ),
    }  # fmt: skip


Progress = Callable[[str], None]


def run_experiments(
    costs: NDArray[np.int64], workers: Sequence[int] = WORKERS, seeds: int = SEEDS, say: Progress = print
) -> dict[str, Any]:
    """Play all panels; return a JSON object with one row per variant and number of workers."""
    loads = {name: Workload(costs, job_s) for name, job_s in JOBS_S.items()}
    times = cache(lambda job: loads[job].cumulative_s())
    tables = cache(lambda entries: CostTable.from_costs(costs, entries))

    @cache
    def play(variant: Variant, n_workers: int, seed: int) -> Outcome:
        load, policy = loads[variant.job], variant.policy
        leases = policy.split(load, tables(policy.entries), n_workers)
        machine = Machine(
            n_workers,
            in_flight=variant.in_flight,
            cut_s=variant.cut_s,
            slow_every=variant.slow_every,
            seed=seed,
        )
        return replace(simulate(times(variant.job), leases, machine), intervals=())

    panels: dict[str, Any] = {}
    for name, (title, variants) in _panels().items():
        say(f"{name}: {title}")
        rows = []
        for variant in variants:
            for n_workers in workers:
                if variant.policy.share * n_workers % GUIDED_SHARE:
                    continue
                outcomes = [play(variant, n_workers, seed) for seed in range(seeds)]
                rows.append(
                    {
                        "variant": variant.label,
                        "workers": n_workers,
                        "efficiency": round(mean(outcome.efficiency for outcome in outcomes), 4),
                        "makespan_s": round(mean(outcome.makespan_s for outcome in outcomes), 3),
                        "leases": outcomes[0].leases,
                        "cuts": round(mean(outcome.cuts for outcome in outcomes)),
                        "scheduler_share": round(mean(each.scheduler_share for each in outcomes), 4),
                    }
                )
        panels[name] = {"title": title, "rows": rows}
    return panels


def _markdown(data: dict[str, Any]) -> str:
    """Return the report: a table of efficiencies for each panel."""
    machine = data["machine"]
    lines = [
        "# Simulation of the lease policy",
        "",
        "`python -m benchmarks.lease_simulation`; see [docs/leases.md](../../docs/leases.md) for what follows from it.",
        "",
        f"- costs: {data['graph']}; the heaviest item is {data['heaviest_share']:.2%} of the work",
        f"- scheduler: {machine['latency_s'] * 1e3:g} ms per lease, one at a time; "
        f"{machine['in_flight']} leases in flight per worker unless said otherwise",
        f"- noise: {machine['lease_noise']:.0%} per lease, {machine['worker_noise']:.0%} per worker; "
        f"light items up to {max(RATE_PROFILE) / min(RATE_PROFILE):.1f} times as slow per wedge as others",
        f"- constants: GUIDED_SHARE {GUIDED_SHARE}, MIN_LEASE_S {MIN_LEASE_S}, MAX_LEASE_S {MAX_LEASE_S}, "
        f"MAX_TABLE_ENTRIES {MAX_TABLE_ENTRIES}; {data['seeds']} seeds, means",
        "",
        "Efficiency in percent: the work over what all workers together could have done until the last lease ended.",
    ]
    for panel in data["panels"].values():
        rows = panel["rows"]
        names = list(dict.fromkeys(row["variant"] for row in rows))
        cells = {(row["variant"], row["workers"]): row for row in rows}
        lines += ["", f"## {panel['title'][0].upper()}{panel['title'][1:]}", ""]
        lines += ["| workers | " + " | ".join(names) + " |", "| ---: |" + " ---: |" * len(names)]
        for n_workers in sorted({row["workers"] for row in rows}):
            shown = [cells.get((name, n_workers)) for name in names]
            values = ["" if row is None else f"{row['efficiency'] * 100:.1f}" for row in shown]
            lines.append(f"| {n_workers:,} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def _plot(data: dict[str, Any], output: Path) -> None:
    """Draw the panels into ``lease-simulation.png`` and ``.svg``."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "lease-simulation"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(5, 2, figsize=(13, 22), sharey=True)
    for axis, panel in zip(axes.flat, data["panels"].values(), strict=True):
        names = list(dict.fromkeys(row["variant"] for row in panel["rows"]))
        for name, marker in zip(names, cycle("osD^vPX"), strict=False):
            rows = [row for row in panel["rows"] if row["variant"] == name]
            axis.plot(
                [row["workers"] for row in rows],
                [100 * row["efficiency"] for row in rows],
                marker=marker,
                markersize=4,
                label=name,
            )
        axis.set_title(panel["title"], fontsize=11)
        axis.set_xscale("log", base=2)
        ticks = [4**k for k in range(7)]
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.set_ylim(0, 103)
        axis.set_xlabel("workers")
        axis.set_ylabel("efficiency (%)")
        axis.yaxis.set_tick_params(labelleft=True)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=9, loc="best")
    figure.suptitle("Predicted efficiency of leases on 1 to 4,096 workers", fontsize=14)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(output / "lease-simulation.png", dpi=90)
    figure.savefig(output / "lease-simulation.svg", metadata={"Date": None})
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and write its table, data and plots."""
    parser = argparse.ArgumentParser(description="Predict the efficiency of leases on 1 to 4,096 workers")
    parser.add_argument("--store", type=Path, help="bipartite graph store whose costs are used")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results", help="directory")
    parser.add_argument("--max-workers", type=int, default=max(WORKERS), help="leave out larger numbers")
    options = parser.parse_args(arguments)
    costs, described = load_costs(options.store)
    defaults = Machine(1)
    data = {
        "graph": described,
        "heaviest_share": float(costs[0] / costs.sum()),
        "seeds": SEEDS,
        "machine": {
            name: getattr(defaults, name)
            for name in ("latency_s", "in_flight", "lease_noise", "worker_noise")
        },
        "panels": run_experiments(costs, [n for n in WORKERS if n <= options.max_workers], SEEDS),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / "lease-simulation"
    stem.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(_markdown(data), encoding="utf-8")
    _plot(data, options.output)
    print(f"wrote {stem}.json, .md, .png and .svg")


if __name__ == "__main__":
    main()
