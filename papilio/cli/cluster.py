"""`papilio doctor`: check the machine and the cluster before a run."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import click

from papilio.cli.count import ENSEMBLE_OPTIONS
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import (
    BUDGET_OPTIONS,
    ENGINES,
    JSON_FLAG,
    PER_FLAG,
    TIME_FLAG_BESIDE_SLURM,
    WORKERS,
    CommandGroup,
    Decorator,
    graph_argument,
    parse_numbers,
    read_store,
    size,
    take_reading_words,
    with_options,
)
from papilio.cli.report import print_json, put, say
from papilio.cluster.credentials import write_credentials
from papilio.cluster.doctor import Check, check_cluster, check_machine, check_store, failure_of
from papilio.cluster.sbatch import SbatchSpec, render_count
from papilio.errors import StoreError
from papilio.motifs import Motif
from papilio.storage.files import atomic_file, check_file
from papilio.system_errors import explain


@click.command()
@graph_argument(required=False)
@click.option(
    "--cluster", metavar="CLUSTER",
    help="Check this cluster too: inline, local, cuda, auto, an address, or a scheduler file.",
)  # fmt: skip
@click.option("--workers", type=WORKERS, help="Workers to start or to wait for.")
@click.option(
    "--warm", is_flag=True,
    help="Compile all kernels now, into the caches that later runs read; takes minutes the first time.",
)  # fmt: skip
@JSON_FLAG
def doctor(
    store: str | None, cluster: str | None, workers: int | None, warm: bool, as_json: bool, **reading: Any
) -> None:
    """Check this machine, and a cluster and a graph STORE if given.

    One line per check: ok; warn or FAIL with advice; or - if something is absent and not needed. Warnings do not
    change the exit code.
    """
    if store is None and (given := [name for name, value in reading.items() if value is not None]):
        raise click.UsageError(f"{', '.join(given)} sets how a STORE is read; name one")
    checks, opened = check_machine(), None
    if warm:
        checks.append(_warm())
    if store is not None:
        check, opened = check_store(store, lambda path: read_store(path, reading))
        checks.append(check)
    if cluster is not None:
        checks += check_cluster(cluster, opened, workers)
    failure = failure_of(checks)
    if as_json:
        print_json({"ok": failure is None, "checks": [vars(check) for check in checks]})
    else:
        put("\n".join(_lines(checks)))
    if failure is not None:
        raise failure


def _warm() -> Check:
    from papilio.kernels.announce import silent_compiling
    from papilio.kernels.device.discovery import missing_for_gpu
    from papilio.tasks.warming import warm_everything

    began = perf_counter()
    with silent_compiling():
        told = warm_everything(
            ("cpu",) if missing_for_gpu() is not None else ("cpu", "gpu"),
            lambda what, seconds: say(f"compiled in {seconds:.1f} s: {what}"),
        )
    return Check("compiled kernels", "ok", f"for {told} questions, in {perf_counter() - began:.1f} s")


def _lines(checks: list[Check]) -> list[str]:
    marks = {"ok": "ok", "warn": "warn", "fail": "FAIL", "skip": "-"}
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{marks[check.status]:<4}  {check.name:<{width}}  {check.found}")
        if check.advice:
            lines.append(f"{'':<4}  {'':<{width}}  -> {check.advice}")
    return lines


@click.group(cls=CommandGroup)
def slurm() -> None:
    """Run on a cluster that Slurm manages."""


@slurm.command(hidden=True)
@click.argument("directory", type=click.Path(path_type=Path))
def credentials(directory: Path) -> None:
    """Make credentials for one run in DIRECTORY, which only its owner can enter; rendered scripts call this."""
    write_credentials(directory)


@slurm.group()
def render() -> None:
    """Write a batch script for sbatch: scheduler, workers and count inside one allocation."""


ALLOCATION = (
    "time", "memory_bytes", "nodes", "workers_per_node", "gpus_per_node", "cpus_per_worker", "partition",
    "account", "name", "interface", "setup", "grace_s",
)  # fmt: skip
"""Names of the flags of :func:`allocation_options`."""


def allocation_options(*, required: bool) -> Decorator:
    """Return a decorator that adds the flags of an allocation; Slurm requires its time and memory."""
    return with_options(
        click.option("--time", required=required, help="Time limit: minutes, HH:MM:SS or D-HH:MM:SS."),
        click.option(
            "--memory", "memory_bytes", type=size, required=required,
            help="Memory of each node, such as 64GiB; its workers share nine tenths of it.",
        ),
        click.option("--nodes", type=WORKERS, default=1, show_default=True, help="Nodes of the allocation."),
        click.option(
            "--workers-per-node", type=WORKERS, default=1, show_default=True, help="CPU workers on each node."
        ),
        click.option(
            "--gpus-per-node", metavar="[TYPE:]N", help="GPUs on each node, one worker each: 4, or a100:4."
        ),
        click.option(
            "--cpus-per-worker", type=WORKERS, default=1, show_default=True,
            help="Processors of each worker; a CPU worker runs a thread on each.",
        ),
        click.option("--partition", help="Slurm partition; by default the site's default."),
        click.option("--account", help="Account to charge; by default the user's default."),
        click.option("--name", help="Job name; by default papilio- and the motif."),
        click.option("--interface", help="Network interface of scheduler and workers, such as ib0."),
        click.option(
            "--setup", multiple=True, metavar="LINE",
            help="Shell line that activates the environment, such as 'source .venv/bin/activate'; repeatable.",
        ),
        click.option(
            "--grace", "grace_s", type=click.IntRange(1, 10**9), default=120, show_default=True,
            help="Number of seconds before the time limit at which to end the count.",
        ),
    )  # fmt: skip


def _script_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds the flags of a batch script, with the ones of its command in the middle."""
    return with_options(
        graph_argument(time_flag=TIME_FLAG_BESIDE_SLURM),
        click.option(
            "--engine", type=ENGINES, default="auto", show_default=True,
            help="With --gpus-per-node, auto means gpu.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object."),
        *options,
        click.option(
            "--job", metavar="DIR", help="Keep the job in DIR; submitting the script again resumes it."
        ),
        click.option(
            "--requeue", "max_requeues", type=click.IntRange(0, 10**6), default=0, metavar="N",
            help="With --job: requeue and resume a run that reaches its time limit, up to N times.",
        ),
        allocation_options(required=True),
        click.option(
            "--array", callback=parse_numbers, metavar="N,N,...",
            help="Scaling experiment: an array of jobs with these numbers of workers, each in the same allocation.",
        ),
        click.option(
            "--insecure", is_flag=True,
            help="Accept connections without credentials: anyone who can connect to the nodes may run code as you.",
        ),
        click.option("--output", type=click.Path(), help="File for the script; by default standard output."),
        click.option(
            "--overwrite", is_flag=True, help="Replace a file at --output, which is otherwise an error."
        ),
    )  # fmt: skip


@render.command(cls=MotifGroup)
@_script_options(
    PER_FLAG,
    click.option("--counts", metavar="FILE", help="File for the counts per vertex or edge: .parquet, .csv and so on."),
    BUDGET_OPTIONS,
    click.option("--parts", metavar="DIR", help="As for count: the parts of the graph, or where to cut them."),
)
def count(device_memory: int | None, host_memory: int | None, parts: str | None, **fields: Any) -> None:
    """Write the batch script that counts MOTIF in the graph STORE.

    STORE and --counts are paths as the nodes see them; relative ones start at the directory of sbatch.
    """
    memory = {"device-memory": device_memory, "host-memory": host_memory, "parts": parts}
    _write_script("count", memory, **fields)


@render.command(cls=MotifGroup)
@_script_options(
    ENSEMBLE_OPTIONS,
    click.option(
        "--counts", metavar="FILE",
        help="File for the counts of the samples, or the sizes or vertices with their z: .parquet, .csv and so on.",
    ),
)  # fmt: skip
def significance(null: str | None, samples: int, seed: int, steps: int | None, **fields: Any) -> None:
    """Write the batch script that compares the count of MOTIF in the graph STORE with random graphs.

    STORE and --counts are paths as the nodes see them; relative ones start at the directory of sbatch.
    """
    _write_script("significance", {"null": null, "samples": samples, "seed": seed, "steps": steps}, **fields)


def _write_script(
    command: Literal["count", "significance"],
    flags: dict[str, Any],
    *,
    motif: Motif,
    engine_options: dict[str, str],
    output: str | None,
    overwrite: bool,
    **fields: Any,
) -> None:
    name, *words = motif.words
    given = {**engine_options, **{flag: value for flag, value in flags.items() if value is not None}}
    words += [f"--{flag}={value}" for flag, value in given.items()]
    words += take_reading_words(fields)
    script = render_count(SbatchSpec(command=command, motif=name, motif_flags=tuple(words), **fields))
    if output is None:
        put(script, end="")
        return
    target = check_file(output, overwrite)
    try:
        with atomic_file(target, overwrite) as scratch:
            scratch.write_text(script, encoding="utf-8")
            scratch.chmod(0o755)
    except OSError as error:
        raise StoreError(f"{output}: cannot be written {explain(error, 'or choose another file')}") from error
    say(f"wrote {output}; submit it: sbatch {output}")
