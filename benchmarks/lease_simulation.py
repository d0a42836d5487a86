"""Predict how efficiently leases use 1 to 4,096 workers, from the probes of a real search.

    python -m benchmarks.lease_simulation                    # an R-MAT graph, made in a temporary directory
    python -m benchmarks.lease_simulation --store graph/     # the search of a stored graph

Writes ``lease-simulation.json``, ``.md`` and ``.png`` into ``--output``; the plot needs matplotlib
(``pip install "papilio[benchmark]"``). Predictions are those of the CPU engine's probes, which plans consist of; true
times are those of its search, measured in ``SECTIONS`` sections. Both are scaled to jobs of several lengths, and
:mod:`benchmarks.lease_model` runs the product's dispatcher on them, with its own policy and others beside it.
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
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lease_model import Machine, Outcome, Policy, simulate
from papilio.cluster.dispatcher import LEAST_RUN_S, MOST_CUTS
from papilio.graph import BipartiteGraph
from papilio.kernels.biclique.items import MOST_ITEMS
from papilio.kernels.engine import MAX_TABLE_ENTRIES, CostTable
from papilio.motifs import Biclique
from papilio.registry import load_engine
from papilio.storage.generate import generate
from papilio.storage.graph_models import Rmat
from papilio.storage.store import open_store
from papilio.tasks.forecast import NS, Pace, predict
from papilio.tasks.leases import KEPT_LEASE_S, MAX_LEASE_S, SHORTEST_LEASE_S
from papilio.tasks.run import LEAST_LEFT_S

__all__ = ["JOBS_S", "WORKERS", "Search", "Workload", "measure_search", "run_experiments"]

WORKERS = tuple(4**k for k in range(7))
"""1 to 4,096."""

JOBS_S = {"1 min": 60.0, "10 min": 600.0, "1 h": 3600.0, "10 h": 36e3, "100 h": 36e4}
"""Jobs by the time that one worker needs."""

STUDY_JOB = "1 h"
"""The job for comparing effects: 56 s on 64 workers, 14 s on 256."""

SLOW_EVERY = 16

AS_IT_IS = Policy()

SEEDS = 1

MOTIF = Biclique(3, 3)

GRAPH = Rmat(scale_u=17, scale_v=16, edges=1_000_000)

SECTIONS = 256
"""Sections of equal predicted time whose true time is measured."""


@dataclass(frozen=True)
class Search:
    """A search as it was predicted and measured.

    Attributes
    ----------
    costs : ndarray of int64, shape (n_items,)
        Predicted nanoseconds of the items, in their order.
    profile : tuple of float
        True time of equal sections of the predicted work, relative to the prediction; the mean is 1.
    described : str
    """

    costs: NDArray[np.int64]
    profile: tuple[float, ...] = (1.0,)
    described: str = ""


@dataclass(frozen=True)
class Workload:
    """The items of a job: their predicted and their true times.

    Attributes
    ----------
    search : Search
    job_s : float
        Time of all items on one worker.
    wrong : float
        Of 16 sections of the work, each takes a random time up to this many times longer or shorter than measured.
    seed : int
        Of these times.
    """

    search: Search
    job_s: float
    wrong: float = 1.0
    seed: int = 0

    def cumulative_s(self) -> NDArray[np.float64]:
        """Return the true time of all items before each, shape (n_items + 1,), in seconds."""
        costs, profile = self.search.costs, np.array(self.search.profile)
        share = np.concatenate(([0.0], np.cumsum(costs) / costs.sum()))
        draws = np.random.default_rng(self.seed).uniform(-1, 1, 16)
        profile = np.resize(profile, max(profile.size, draws.size))
        profile = profile * self.wrong ** draws[np.arange(profile.size) * draws.size // profile.size]
        knots = np.concatenate(([0.0], np.cumsum(profile) / profile.sum()))
        return np.interp(share, np.linspace(0.0, 1.0, knots.size), knots) * self.job_s

    def table(self, times: float = 1.0, entries: int = MAX_TABLE_ENTRIES) -> CostTable:
        """Return the planner's prediction: ``times`` as long as the job takes."""
        table = CostTable.from_costs(self.search.costs, entries)
        ns = int(self.job_s * times * NS)
        return CostTable(table.items, tuple(work * ns // max(table.total, 1) for work in table.work))


def measure_search(store: Path | None, n_sections: int = SECTIONS) -> Search:
    """Predict and run the search for ``MOTIF`` on a store, or on the study's own graph, with one thread.

    Items are divided as those of a search of hours would be: into ``MOST_ITEMS`` of about the same predicted time.
    """
    with tempfile.TemporaryDirectory() as directory:
        opened = open_store(store) if store else generate(GRAPH, Path(directory) / "graph", seed=1)
        graph = opened.read()
    if not isinstance(graph, BipartiteGraph):
        raise SystemExit(f"{store} is unipartite; specify a bipartite store")
    engine = load_engine(MOTIF, "cpu", 1)
    prepared = engine.prepare(graph, MOTIF, "total")
    work = engine.work(prepared)
    engine.run(prepared, work.size - 1, work.size)  # compile the kernels
    forecast, pace = predict(engine, prepared, 1, Pace.even(int(work.sum()), float(NS)), same_work=False)
    ends = pace.ns_of(np.concatenate(([0], np.cumsum(work))))
    bounds = np.unique(np.searchsorted(ends, np.linspace(0, ends[-1], n_sections + 1)))
    bounds[-1] = work.size
    seconds = []
    for start, stop in zip(bounds.tolist(), bounds[1:].tolist(), strict=False):
        began = process_time()
        engine.run(prepared, start, stop)
        seconds.append(process_time() - began)
    # From sections that end at items to equal sections.
    knots = np.concatenate(([0.0], np.cumsum(seconds))) / sum(seconds)
    shares = np.interp(np.linspace(0, 1, n_sections + 1), ends[bounds] / ends[-1], knots)
    costs = np.diff(ends)
    pieces = np.maximum(1, np.ceil(costs * (MOST_ITEMS / ends[-1]))).astype(np.int64)
    what = (
        str(store)
        if store
        else f"R-MAT, {GRAPH.edges:,} draws over 2^{GRAPH.scale_u} x 2^{GRAPH.scale_v} vertices, seed 1"
    )
    assert forecast.seconds is not None, "the engine has probes"
    return Search(
        np.repeat(costs // pieces, pieces),
        tuple((np.diff(shares) * n_sections).round(4).tolist()),
        f"({MOTIF.p},{MOTIF.q})-bicliques of {what}: {graph.n_edges:,} edges, {work.size:,} items; predicted by "
        f"{forecast.probes} probes to take {forecast.seconds.show('s')} with one thread, measured {sum(seconds):.3g} s",
    )


@dataclass(frozen=True)
class Variant:
    """One line of a panel: which job is run with which policy on which machine."""

    label: str
    job: str = STUDY_JOB
    policy: Policy = AS_IT_IS
    entries: int = MAX_TABLE_ENTRIES
    slow_every: int = 0
    predicted: float = 1.0
    wrong: float = 1.0


@dataclass(frozen=True)
class Panel:
    """Variants that are compared."""

    title: str
    variants: tuple[Variant, ...]


def _panels() -> dict[str, Panel]:
    """Return the panels of the study."""
    never = Policy(asked_at_once=0)
    slow = f"every {SLOW_EVERY}th worker at half speed"
    kinds = (("shares, halved", AS_IT_IS), ("shares", never))
    return {
        "jobs": Panel(
            "the current policy, by the time of the job on one worker",
            tuple(Variant(name, name) for name in JOBS_S),
        ),
        "slow_jobs": Panel(
            f"the same with {slow}", tuple(Variant(name, name, slow_every=SLOW_EVERY) for name in JOBS_S)
        ),
        "kept_jobs": Panel(
            "the same with a job directory",
            tuple(Variant(name, name, Policy(kept=True)) for name in list(JOBS_S)[:-1]),
        ),
        "policy": Panel(
            f"with and without sharing of leases; job of {STUDY_JOB}",
            tuple(Variant(label, policy=policy) for label, policy in kinds),
        ),
        "wrong": Panel(
            f"time of 16 sections of the work mispredicted by up to; job of {STUDY_JOB}",
            tuple(Variant(f"{wrong:g} times", wrong=wrong) for wrong in (1.0, 2.0, 4.0, 10.0)),
        ),
        "predicted": Panel(
            f"time of the whole job predicted as; job of {STUDY_JOB}",
            tuple(
                Variant(label, predicted=times)
                for label, times in (
                    ("a hundredth", 0.01),
                    ("a tenth", 0.1),
                    ("the true time", 1.0),
                    ("ten times as long", 10.0),
                )
            ),
        ),
        "asked_at_once": Panel(
            f"MOST_CUTS; job of {STUDY_JOB}",
            tuple(Variant(str(n), policy=Policy(asked_at_once=n)) for n in (0, 4, 16, 64)),
        ),
    }


Progress = Callable[[str], None]


def run_experiments(
    search: Search, workers: Sequence[int] = WORKERS, seeds: int = SEEDS, say: Progress = print
) -> dict[str, Any]:
    """Play all panels; return a JSON object with one row per variant and number of workers."""

    @cache
    def play(variant: Variant, n_workers: int, seed: int) -> Outcome:
        load = Workload(search, JOBS_S[variant.job], variant.wrong, seed)
        machine = Machine(n_workers, slow_every=variant.slow_every, seed=seed)
        table = load.table(variant.predicted, variant.entries)
        outcome = simulate(load.cumulative_s(), table, machine, variant.policy)
        return replace(outcome, intervals=())

    panels: dict[str, Any] = {}
    for name, panel in _panels().items():
        say(f"{name}: {panel.title}")
        rows = []
        for variant in panel.variants:
            for n_workers in workers:
                outcomes = [play(replace(variant, label=""), n_workers, seed) for seed in range(seeds)]
                rows.append(
                    {
                        "variant": variant.label,
                        "workers": n_workers,
                        "efficiency": round(mean(outcome.efficiency for outcome in outcomes), 4),
                        "makespan_s": round(mean(outcome.makespan_s for outcome in outcomes), 3),
                        "leases": round(mean(outcome.leases for outcome in outcomes)),
                        "shares": round(mean(outcome.shares for outcome in outcomes)),
                        "client_share": round(mean(outcome.client_share for outcome in outcomes), 4),
                        "code_us": round(mean(1e6 * each.code_s / max(each.leases, 1) for each in outcomes)),
                    }
                )
        panels[name] = {"title": panel.title, "rows": rows}
    return panels


def _markdown(data: dict[str, Any]) -> str:
    """Return the report: a table of efficiencies for each panel."""
    machine = data["machine"]
    ms = {name: f"{seconds * 1e3:g} ms" for name, seconds in machine.items()}
    low, high = np.percentile(data["profile"], [5, 95])
    lines = [
        "# Simulation of the lease policy",
        "",
        "Command: `python -m benchmarks.lease_simulation`. [Leases](../../docs/leases.md) draws the conclusions.",
        "",
        f"- search: {data['search']}; simulated with {data['items']:,} items, like a search of hours",
        f"- of {len(data['profile'])} sections of equal predicted time, nine in ten take {low:.2f} to {high:.2f} times "
        f"the mean, the longest {max(data['profile']):.1f} times",
        f"- the client takes {ms['submit_s']} to dispatch a lease, {ms['collect_s']} to collect its result, and "
        f"{ms['record_s']} to register it in a job directory; the Dask scheduler takes {ms['scheduler_s']} for a "
        f"lease, and a message {ms['message_s']} ([measurements](lease-costs.md))",
        f"- noise: {machine['lease_noise']:.0%} per lease, {machine['worker_noise']:.0%} per worker",
        f"- constants: SHORTEST_LEASE_S {SHORTEST_LEASE_S}, MAX_LEASE_S {MAX_LEASE_S}, KEPT_LEASE_S {KEPT_LEASE_S}, "
        f"MAX_TABLE_ENTRIES {MAX_TABLE_ENTRIES}, LEAST_RUN_S {LEAST_RUN_S}, LEAST_LEFT_S {LEAST_LEFT_S}, MOST_CUTS "
        f"{MOST_CUTS}, {AS_IT_IS.in_flight} leases in flight; seeds: {data['seeds']}",
        "",
        "Efficiency in percent: the work divided by the capacity of all workers until the last lease ends.",
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
    lines += [
        "",
        "## Processor time of the dispatcher and the lease scheduler for one lease",
        "",
        "Measured in the runs of the first table, with all that happens between two results, such as looking for work "
        "to share; in microseconds. Dask's own time comes in addition.",
        "",
        "| workers | " + " | ".join(JOBS_S) + " |",
        "| ---: |" + " ---: |" * len(JOBS_S),
    ]
    rows = data["panels"]["jobs"]["rows"]
    for n_workers in sorted({row["workers"] for row in rows}):
        values = [str(row["code_us"]) for row in rows if row["workers"] == n_workers]
        lines.append(f"| {n_workers:,} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def _dump(data: dict[str, Any]) -> str:
    """Return JSON with one line for each variant and number of workers."""
    head = {name: value for name, value in data.items() if name not in ("panels", "profile")}
    panels = []
    for name, panel in data["panels"].items():
        rows = ",\n".join(f"   {json.dumps(row)}" for row in panel["rows"])
        panels.append(f'  {json.dumps(name)}: {{"title": {json.dumps(panel["title"])}, "rows": [\n{rows}\n  ]}}')
    parts = [json.dumps(head, indent=1)[:-2], f' "profile": {json.dumps(data["profile"])}']
    return ",\n".join(parts) + ',\n "panels": {\n' + ",\n".join(panels) + "\n }\n}\n"


def _plot(data: dict[str, Any], output: Path) -> None:
    """Draw the panels into ``lease-simulation.png``."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    n_rows = (len(data["panels"]) + 1) // 2
    figure, axes = pyplot.subplots(n_rows, 2, figsize=(13, 4.4 * n_rows), sharey=True, squeeze=False)
    for axis, panel in zip(axes.flat, data["panels"].values(), strict=False):
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
        ticks = list(WORKERS)
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.set_ylim(0, 103)
        axis.set_xlabel("workers")
        axis.set_ylabel("efficiency (%)")
        axis.yaxis.set_tick_params(labelleft=True)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=9, loc="best")
    for axis in axes.flat[len(data["panels"]) :]:
        axis.set_axis_off()
    figure.suptitle("Predicted efficiency of leases on 1 to 4,096 workers", fontsize=14)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(output / "lease-simulation.png", dpi=75)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and write its table, data and plot."""
    parser = argparse.ArgumentParser(description="Predict the efficiency of leases on 1 to 4,096 workers")
    parser.add_argument("--store", type=Path, help="bipartite graph store to search")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results", help="directory")
    parser.add_argument("--max-workers", type=int, default=max(WORKERS), help="leave out larger numbers")
    options = parser.parse_args(arguments)
    search = measure_search(options.store)
    defaults = Machine(1)
    data = {
        "search": search.described,
        "items": int(search.costs.size),
        "seeds": SEEDS,
        "machine": {
            name: getattr(defaults, name)
            for name in (
                "submit_s",
                "collect_s",
                "record_s",
                "scheduler_s",
                "message_s",
                "lease_noise",
                "worker_noise",
            )
        },
        "profile": search.profile,
        "panels": run_experiments(search, [n for n in WORKERS if n <= options.max_workers], SEEDS),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / "lease-simulation"
    stem.with_suffix(".json").write_text(_dump(data), encoding="utf-8")
    stem.with_suffix(".md").write_text(_markdown(data), encoding="utf-8")
    _plot(data, options.output)
    print(f"wrote {stem}.json, .md and .png")


if __name__ == "__main__":
    main()
