"""The commands of scaling experiments and reports: scale and report."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from papilio.arguments import plural
from papilio.charts import require_matplotlib
from papilio.cli.cluster import ALLOCATION, allocation_options
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import (
    CLUSTER_OPTIONS,
    COMMAND_LINE,
    DIRECTORY,
    ENGINE_FLAG,
    INSECURE,
    JSON_FLAG,
    PER_FLAG,
    SEED,
    THREADS,
    TIME_FLAG_BESIDE_SLURM,
    TRUST_FLAG,
    CommandGroup,
    graph_argument,
    parse_numbers,
)
from papilio.cli.report import print_json, put, say, show_progress
from papilio.cluster.sbatch import SbatchSpec
from papilio.errors import ExecutionError, InputError, PapilioError
from papilio.motifs import Motif
from papilio.reports.experiment import ExperimentDirectory, begin_scaling
from papilio.reports.measure import SHORT_S, counting_s, run_experiment, submit_points
from papilio.reports.page import write_report
from papilio.tasks.result import CountResult

_WARM_UP_FLAG = click.option(
    "--warm-up/--no-warm-up", default=True, show_default=True,
    help="First run the point with the most workers once, unmeasured, to compile kernels.",
)  # fmt: skip


def _require_figures(context: click.Context, parameter: click.Parameter, figures: bool) -> bool:
    """Raise before anything runs if the figures could not be drawn at its end."""
    if figures and not context.resilient_parsing:
        require_matplotlib()
    return figures


_FIGURES_FLAG = click.option(
    "--figures/--no-figures", default=True, show_default=True, callback=_require_figures,
    help="Draw the figures of the report, which needs matplotlib (papilio[report]).",
)  # fmt: skip


@click.group(cls=CommandGroup)
def scale() -> None:
    """Measure how a count scales with the workers."""


@scale.command(cls=MotifGroup)
@graph_argument("stores", nargs=-1, time_flag=TIME_FLAG_BESIDE_SLURM)
@click.option(
    "--workers", required=True, callback=parse_numbers, metavar="N,N,...",
    help="The points: numbers of workers, such as 1,2,4.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.IntRange(1, 10**6), default=3, show_default=True, help="Repetitions of each point."
)
@click.option(
    "--output", required=True, type=click.Path(), metavar="DIR",
    help="Directory of the experiment; repeat the command to resume.",
)  # fmt: skip
@click.option("--weak", is_flag=True, help="Let the graph grow with the workers: give one store for each, or --model.")
@click.option(
    "--model", metavar="MODEL:NAME=VALUE,...",
    help="With --weak: generate the graphs from this model, such as power-law:n_u=100000,n_v=20000, for the smallest "
    "number of workers, and proportionally larger ones for the others.",
)  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the generated graphs.")
@click.option(
    "--threads", type=THREADS,
    help="Threads of each local worker; by default the processors divided by the largest number of workers.",
)  # fmt: skip
@click.option("--slurm", is_flag=True, help="Submit one Slurm job for each point, with the flags of slurm render.")
@_WARM_UP_FLAG
@_FIGURES_FLAG
@JSON_FLAG
@PER_FLAG
@CLUSTER_OPTIONS
@ENGINE_FLAG
@allocation_options(required=False)
@click.pass_context
def count(
    context: click.Context, /, motif: Motif, stores: tuple[str, ...], output: str, slurm: bool, warm_up: bool,
    figures: bool, as_json: bool, engine_options: dict[str, str], **options: Any,
) -> None:  # fmt: skip
    """Count MOTIF in STORES with several numbers of workers, several times each, and report.

    All numbers of workers count one store (strong scaling), or with --weak one store each. Every run starts its own
    workers and keeps its job directory in DIR/jobs. The report is DIR/report/report.html.
    """
    allocation = {name: options.pop(name) for name in ALLOCATION}
    options["time"] = options.pop("time_column")
    given = [name for name in ALLOCATION if _is_given(context, name)]
    if slurm:
        missing = [flag for flag, name in (("--time", "time"), ("--memory", "memory_bytes"))
                   if allocation[name] is None]  # fmt: skip
        if missing:
            raise InputError(f"--slurm needs {' and '.join(missing)} for the jobs of the points")
        if _is_given(context, "cluster") or options["threads"] is not None:
            raise InputError(
                "--slurm starts a cluster for each point; leave out --cluster, and give --cpus-per-worker in place of "
                "--threads"
            )
        options["cluster"] = "sbatch"
        if allocation["gpus_per_node"] is not None and options["engine"] == "auto":
            options["engine"] = "gpu"
    elif given:
        raise InputError(f"{given[0].removesuffix('_bytes')} describes the jobs of --slurm; give both or neither")
    command = f"cd {shlex.quote(os.getcwd())}\n{context.meta[COMMAND_LINE]}"
    directory = begin_scaling(output, motif, stores, command=command, options=engine_options, **options)
    if slurm:
        _submit(directory, motif, {**allocation, "insecure": INSECURE in context.meta}, figures)
        return
    _run(directory, options["workers"], None, warm_up, figures)
    _report(directory.root, None, figures, as_json)


@scale.command()
@DIRECTORY
@click.option("--workers", callback=parse_numbers, metavar="N,N,...", help="Points to run; by default all.")
@click.option("--cluster", metavar="CLUSTER", help="As for count; by default as at the start of the experiment.")
@TRUST_FLAG
@_WARM_UP_FLAG
@_FIGURES_FLAG
@JSON_FLAG
def run(
    directory: str, workers: tuple[int, ...], cluster: str | None, trust: bool, warm_up: bool, figures: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Run the unfinished points of the experiment in DIRECTORY, or some of them, and report.

    The jobs of --slurm call this command. Several may run at the same time, each on different points.
    """
    opened = ExperimentDirectory(directory)
    if cluster is None and opened.experiment.cluster == "sbatch":
        raise InputError(f"{directory} was started with --slurm; name a cluster to run its points on")
    if cluster is None and not trust:
        opened.require_trusted()
    _run(opened, workers or opened.experiment.workers, cluster, warm_up, figures)
    _report(opened.root, None, figures, as_json)


@click.command()
@DIRECTORY
@click.option(
    "--output", type=click.Path(), metavar="DIR",
    help="Directory for the report; by default DIRECTORY/report.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace a report at --output, which is otherwise an error.")
@_FIGURES_FLAG
@JSON_FLAG
def report(directory: str, output: str | None, overwrite: bool, figures: bool, as_json: bool) -> None:
    """Write the report of a job directory or of a scaling experiment, finished or not.

    \b
    report.html       one page that holds everything and loads nothing
    figures/          its figures as SVG and PNG
    results.json      its numbers
    leases.parquet    the timeline of the leases
    runs.parquet      the runs of an experiment
    """
    _report(Path(directory), output, figures, as_json, overwrite)


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _run(
    directory: ExperimentDirectory,
    workers: tuple[int, ...],
    cluster: str | None,
    warm_up: bool,
    figures: bool,
) -> None:
    """Run the missing repetitions; after an error, write the report of the finished ones first."""

    def tell(number: int, repeat: int, outcome: CountResult | PapilioError | None) -> None:
        name = f"{plural(number, 'worker')}, run {repeat} of {directory.experiment.repeat}"
        if outcome is None:
            say(f"{name}: finished before")
        elif isinstance(outcome, PapilioError):
            say(f"{name}: FAILED, {outcome}")
        else:
            say(f"{name}: {outcome.count:,} in {counting_s(outcome.seconds):.3f} s")

    try:
        with show_progress() as bar:
            run_experiment(
                directory,
                workers=sorted(workers),
                cluster=cluster,
                warm_up=warm_up,
                listener=bar,
                on_run=tell,
            )
    except ExecutionError:
        with suppress(PapilioError):
            say(f"report: {write_report(directory.root, figures=figures)}")
        raise


def _submit(directory: ExperimentDirectory, motif: Motif, allocation: dict[str, Any], figures: bool) -> None:
    points = directory.unfinished_points()
    if not points:
        say("all runs are finished; nothing was submitted")
        _report(directory.root, None, figures, as_json=False)
        return
    experiment = directory.experiment
    spec = SbatchSpec(
        motif=motif.name,
        store=experiment.graphs[0].path,
        per=experiment.per,
        engine=experiment.engine,
        array=points,
        experiment=str(directory.root),
        figures=figures,
        **allocation,
    )
    job = submit_points(directory, spec)
    put(job)
    say(f"submitted an array of {len(points)} jobs from {directory.root / 'slurm'}")
    say(f"the jobs write the report; papilio report {shlex.quote(str(directory.root))} shows their progress")


def _report(root: Path, output: str | None, figures: bool, as_json: bool, overwrite: bool = False) -> None:
    page = write_report(root, output, overwrite=overwrite, figures=figures)
    results = json.loads((page.parent / "results.json").read_text(encoding="utf-8"))
    if as_json:
        print_json({"report": str(page), **results})
        return
    for point in results.get("points", ()):
        put(
            f"{point['workers']}\t{point['seconds_median']:.3f} s\tspeed-up {point['speedup']:.2f}\t"
            f"efficiency {100 * point['efficiency']:.1f} %"
        )
    points = results.get("points")
    if points and points[-1]["seconds_median"] < SHORT_S:
        say(f"runs of less than {SHORT_S:.0f} s say little about scaling: use a larger graph or a longer question")
    say(f"report: {page}")
