"""Predict how efficiently leases use 1 to 256 workers, from the costs of a real graph.

    python -m benchmarks.lease_simulation                    # an R-MAT graph, made in a temporary directory
    python -m benchmarks.lease_simulation --store graph/     # the costs of a stored graph

Writes ``lease-simulation.json``, ``.md`` and ``.png`` into ``--output``; the plot needs matplotlib
(``pip install "papilio[benchmark]"``). The costs are those that the CPU engine gives, scaled to jobs of several
lengths; :mod:`benchmarks.lease_model` plays the policy of the code on them, and others beside it.
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

from benchmarks.lease_model import Machine, Outcome, Policy, simulate
from papilio.cluster.dispatcher import LEAST_RUN_S, MOST_CUTS
from papilio.families import load_engine
from papilio.graph import BipartiteGraph
from papilio.kernels.engine import MAX_TABLE_ENTRIES, CostTable
from papilio.motifs import Butterfly
from papilio.storage.generate import generate
from papilio.storage.models import Rmat
from papilio.storage.store import open_store
from papilio.tasks.forecast import NS
from papilio.tasks.leases import KEPT_LEASE_S, MAX_LEASE_S, SHORTEST_LEASE_S
from papilio.tasks.run import LEAST_LEFT_S

__all__ = ["JOBS_S", "RATE_PROFILE", "WORKERS", "Workload", "load_costs", "run_experiments"]

WORKERS = tuple(4**k for k in range(5))
"""1 to 256."""

JOBS_S = {"1 s": 1.0, "10 s": 10.0, "1 min": 60.0, "10 min": 600.0, "1 h": 3600.0, "10 h": 36e3}
"""Jobs by the time that one worker needs."""

STUDY_JOB = "1 h"
"""The job for comparing effects in a long run: 14 s on 256 workers."""

SHORT_JOB = "10 min"
"""The job for comparing effects at the end of a run: 2.3 s on 256 workers."""

SLOW_EVERY = 16

AS_IT_IS = Policy()

SEEDS = 2

GRAPH = Rmat(scale_u=19, scale_v=17, edges=6_000_000)

RATE_PROFILE = (
    0.94, 1.08, 0.96, 0.96, 1.01, 0.98, 0.91, 0.99, 0.83, 0.87, 0.99, 0.99, 0.99, 1.05, 1.25, 1.63,
)  # fmt: skip
"""Time per wedge in 16 equal sections of the work, heaviest items first, relative to their mean before scaling.

Measured on one thread of the CPU engine on the graph of this study: the light items at the end take most, for their
tables are small and their fixed costs count. The planner does not predict this.
"""


@dataclass(frozen=True)
class Workload:
    """The items of a job: their predicted and their true times.

    Attributes
    ----------
    costs : ndarray of int64, shape (n_items,)
        Predicted work, heaviest first.
    job_s : float
        Time of all items on one worker.
    wrong : float
        Of 16 sections of the work, each takes a random time up to this many times longer or shorter than predicted.
    seed : int
        Of these times.
    """

    costs: NDArray[np.int64]
    job_s: float
    wrong: float = 1.0
    seed: int = 0

    def cumulative_s(self) -> NDArray[np.float64]:
        """Return the true time of all items before each, shape (n_items + 1,), in seconds."""
        share = np.concatenate(([0.0], np.cumsum(self.costs) / self.costs.sum()))
        draws = np.random.default_rng(self.seed).uniform(-1, 1, len(RATE_PROFILE))
        profile = np.array(RATE_PROFILE) * self.wrong**draws
        knots = np.concatenate(([0.0], np.cumsum(profile) / profile.sum()))
        return np.interp(share, np.linspace(0.0, 1.0, knots.size), knots) * self.job_s

    def table(self, times: float = 1.0, entries: int = MAX_TABLE_ENTRIES) -> CostTable:
        """Return the planner's prediction: ``times`` as long as the job takes."""
        table = CostTable.from_costs(self.costs, entries)
        ns = int(self.job_s * times * NS)
        return CostTable(table.items, tuple(work * ns // max(table.total, 1) for work in table.work))


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
            "the policy as it is, by the job's time on one worker",
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
            f"whether half of a lease is left to idle workers; job of {SHORT_JOB}",
            tuple(Variant(label, SHORT_JOB, policy) for label, policy in kinds),
        ),
        "wrong": Panel(
            f"time of 16 sections of the work mispredicted by up to; job of {SHORT_JOB}",
            tuple(Variant(f"{wrong:g} times", SHORT_JOB, wrong=wrong) for wrong in (1.0, 2.0, 4.0, 10.0)),
        ),
        "predicted": Panel(
            f"time of the whole job predicted as; job of {SHORT_JOB}",
            tuple(
                Variant(label, SHORT_JOB, predicted=times)
                for label, times in (
                    ("a hundredth of it", 0.01),
                    ("a tenth of it", 0.1),
                    ("what it is", 1.0),
                    ("ten times it", 10.0),
                )
            ),
        ),
        "asked_at_once": Panel(
            f"MOST_CUTS; job of {SHORT_JOB}",
            tuple(Variant(str(n), SHORT_JOB, Policy(asked_at_once=n)) for n in (0, 4, 16, 64)),
        ),
    }


Progress = Callable[[str], None]


def run_experiments(
    costs: NDArray[np.int64], workers: Sequence[int] = WORKERS, seeds: int = SEEDS, say: Progress = print
) -> dict[str, Any]:
    """Play all panels; return a JSON object with one row per variant and number of workers."""

    @cache
    def play(variant: Variant, n_workers: int, seed: int) -> Outcome:
        load = Workload(costs, JOBS_S[variant.job], variant.wrong, seed)
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
                        "scheduler_share": round(mean(each.scheduler_share for each in outcomes), 4),
                    }
                )
        panels[name] = {"title": panel.title, "rows": rows}
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
        f"- client and scheduler: {machine['latency_s'] * 1e3:g} ms per lease, one at a time, and for each worker "
        f"{machine['look_s'] * 1e6:g} us at every answer; a request to share takes {machine['ask_s'] * 1e3:g} ms "
        "each way",
        f"- noise: {machine['lease_noise']:.0%} per lease, {machine['worker_noise']:.0%} per worker; "
        f"light items up to {max(RATE_PROFILE) / min(RATE_PROFILE):.1f} times as slow per wedge as others",
        f"- constants: SHORTEST_LEASE_S {SHORTEST_LEASE_S}, MAX_LEASE_S {MAX_LEASE_S}, KEPT_LEASE_S {KEPT_LEASE_S}, "
        f"MAX_TABLE_ENTRIES {MAX_TABLE_ENTRIES}, LEAST_RUN_S {LEAST_RUN_S}, LEAST_LEFT_S {LEAST_LEFT_S}, MOST_CUTS "
        f"{MOST_CUTS}, {AS_IT_IS.in_flight} leases in flight; {data['seeds']} seeds, means",
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


def _dump(data: dict[str, Any]) -> str:
    """Return JSON with one line for each variant and number of workers."""
    head = {name: value for name, value in data.items() if name != "panels"}
    panels = []
    for name, panel in data["panels"].items():
        rows = ",\n".join(f"   {json.dumps(row)}" for row in panel["rows"])
        panels.append(
            f'  {json.dumps(name)}: {{"title": {json.dumps(panel["title"])}, "rows": [\n{rows}\n  ]}}'
        )
    return json.dumps(head, indent=1)[:-2] + ',\n "panels": {\n' + ",\n".join(panels) + "\n }\n}\n"


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
    figure.suptitle("Predicted efficiency of leases on 1 to 256 workers", fontsize=14)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(output / "lease-simulation.png", dpi=75)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and write its table, data and plot."""
    parser = argparse.ArgumentParser(description="Predict the efficiency of leases on 1 to 256 workers")
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
            for name in ("latency_s", "ask_s", "look_s", "lease_noise", "worker_noise")
        },
        "panels": run_experiments(costs, [n for n in WORKERS if n <= options.max_workers], SEEDS),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / "lease-simulation"
    stem.with_suffix(".json").write_text(_dump(data), encoding="utf-8")
    stem.with_suffix(".md").write_text(_markdown(data), encoding="utf-8")
    _plot(data, options.output)
    print(f"wrote {stem}.json, .md and .png")


if __name__ == "__main__":
    main()
