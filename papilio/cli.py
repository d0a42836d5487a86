"""The command line: translates flags to the calls of the Python interface and answers to text or JSON."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, NoReturn

import click

import papilio
from papilio.errors import (
    CapacityError,
    ClusterError,
    EngineUnavailableError,
    ExecutionError,
    InputError,
    PapilioError,
    StoreError,
    UnsupportedError,
)
from papilio.motifs import GRANULARITIES, motif_from_json
from papilio.storage.generators.models import Complete, Model, Planted, PowerLaw, Rmat

__all__ = ["EXIT_CODES", "cli", "exit_code_of", "main", "parse_size"]

EXIT_CODES: tuple[tuple[type[PapilioError], int, str], ...] = (
    (InputError, 2, "wrong usage, or an input that is not what it should be"),
    (StoreError, 3, "a graph store or file is missing, corrupt or cannot be written"),
    (UnsupportedError, 4, "motif, engine and graph do not go together"),
    (EngineUnavailableError, 4, "the engine asked for cannot run here"),
    (CapacityError, 5, "something does not fit: ids, counters or memory"),
    (ClusterError, 6, "the cluster cannot be reached or lost what the run needs"),
    (ExecutionError, 1, "the run did not end with an exact answer"),
)
"""Exit code of each class of errors; the first class that fits counts."""

INTERRUPTED, TERMINATED = 130, 143

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    [
        "  0    success",
        *(f"  {code}    {meaning}" for _, code, meaning in sorted(EXIT_CODES, key=lambda row: row[1])),
        f"  {INTERRUPTED}  interrupted (Ctrl-C); nothing partial is left behind",
        f"  {TERMINATED}  terminated (SIGTERM); nothing partial is left behind",
    ]
)

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Return the bytes that ``8GiB``, ``2GB``, ``500M`` or ``1048576`` mean.

    Raises
    ------
    ValueError
        When the text is no size.
    """
    match = _SIZE.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        raise ValueError(
            f"{text!r} is no size; write bytes, or a number with KB, MB, GB, TB, KiB, MiB, GiB or TiB"
        )
    unit = match[2].upper()
    return int(float(match[1]) * (_BINARY_UNITS[unit] if match[3] else _UNITS[unit]))


if TYPE_CHECKING:
    IntegerParam = click.ParamType[int]
else:
    IntegerParam = click.ParamType


class _Size(IntegerParam):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Integer(IntegerParam):
    """An integer that may be written as 3e7."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            try:
                number = int(float(value))
                exact = number == float(value)
            except (ValueError, OverflowError):
                exact = False
            if not exact:
                self.fail(f"{value!r} is no integer", param, ctx)
        return number


SIZE, INTEGER = _Size(), _Integer()


def _say(text: str) -> None:
    click.echo(text, err=True)


def _print_json(data: dict[str, Any]) -> None:
    click.echo(json.dumps(data, ensure_ascii=False))


@click.group(
    epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(papilio.__version__, prog_name="papilio")
def cli() -> None:
    """Count dense motifs exactly in large graphs, on one machine, its GPUs, or a Dask cluster."""


def _job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that ``plan`` and ``count`` share."""
    options = [
        click.argument("motif"),
        click.argument("store", type=click.Path()),
        click.option(
            "--per", type=click.Choice(GRANULARITIES), default="total", show_default=True,
            help="Count in all, for every vertex of both layers, or for every edge.",
        ),
        click.option(
            "--cluster", metavar="CLUSTER", default="auto", show_default=True,
            help="auto (cuda where GPUs are seen, else local), inline, local, cuda, an address such as "
            "tcp://host:8786, or a scheduler file.",
        ),
        click.option(
            "--engine", type=click.Choice(["auto", "cpu", "gpu"]), default="auto", show_default=True,
            help="auto takes GPUs where the workers have them; gpu is never replaced by cpu.",
        ),
        click.option(
            "--workers", type=click.IntRange(min=1),
            help="Worker processes (local), GPUs (cuda), or workers to wait for (an existing cluster).",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@cli.command(epilog=_EPILOG)
@_job_options
@click.option("--output", type=click.Path(), help="Parquet file for the counts per vertex or edge.")
def count(
    motif: str,
    store: str,
    per: Any,
    cluster: str,
    engine: Any,
    workers: int | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Count MOTIF (butterfly) in the graph STORE.

    The count goes to standard output, everything else to standard error.
    """
    from papilio.cluster.progress import ProgressBar

    with ProgressBar() as bar:
        result = papilio.count(
            store, motif_from_json({"name": motif}), per=per, cluster=cluster, engine=engine,
            output=output, workers=workers, progress=bar,
        )  # fmt: skip
    if as_json:
        _print_json(result.to_json())
        return
    click.echo(result.count)
    if result.output is None:
        for entry in result.top:
            names = "\t".join(str(label) for label in entry.labels)
            click.echo(f"{entry.place}\t{names}\t{entry.count}")
    _say(
        f"{motif}: {result.count:,} in {result.graph['n_u']:,} x {result.graph['n_v']:,} vertices, "
        f"{result.graph['n_edges']:,} edges"
    )
    _say(
        f"engine {result.engine}, {_n(len(result.workers), 'worker')} ({result.cluster}), "
        f"{_n(result.items, 'work item')} in {_n(result.leases, 'lease')}, each counted once"
    )
    _say(f"{result.work:,} {result.work_unit}, {result.work_per_second:,.0f} per second")
    _say("seconds: " + ", ".join(f"{phase} {value:.3f}" for phase, value in result.seconds.items()))
    if result.output is not None:
        _say(f"counts per {per}: {result.output}")


@cli.command(epilog=_EPILOG)
@_job_options
def plan(
    motif: str, store: str, per: Any, cluster: str, engine: Any, workers: int | None, as_json: bool
) -> None:
    """Show how MOTIF would be counted in STORE: tasks, predicted work, memory, decisions."""
    made = papilio.plan(
        store, motif_from_json({"name": motif}), per=per, cluster=cluster, engine=engine, workers=workers
    )
    if as_json:
        _print_json(made.to_json())
        return
    work = [lease.work for lease in made.leases]
    memory = made.memory
    lines = [
        f"plan        {made.key}",
        f"graph       {made.job.source}: {made.job.n_u:,} x {made.job.n_v:,} vertices, {made.job.n_edges:,} edges",
        f"tasks       {_n(len(made.leases), 'lease')} for {_n(made.n_workers, 'worker')}, engine {made.engine}",
        f"work        {_n(made.n_items, 'item')}, {made.total_work:,} {made.work_unit}, "
        f"about {made.predicted_run_s:.3g} s",
        f"leases      {max(work, default=0):,} to {min(work, default=0):,} {made.work_unit} each",
        f"memory      about {_gib(memory.host_bytes)} on a worker, {_gib(memory.device_bytes)} on its device, "
        f"{_gib(memory.client_bytes)} here",
        "decisions",
        *(f"  {d.number}. {d.what}: {d.reason}" for d in made.decisions),
    ]
    click.echo("\n".join(lines))


def _n(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.2f} GiB"


@cli.group(epilog=_EPILOG)
def generate() -> None:
    """Generate a synthetic graph into a new store; the same from the same seed."""


_SHARED_MODEL_OPTIONS = (
    click.argument("output", type=click.Path()),
    click.option(
        "--seed", type=INTEGER, default=0, show_default=True, help="The same seed gives the same graph."
    ),
    click.option(
        "--signs", type=float, help="Make a signed graph: each edge is positive with this probability."
    ),
    click.option("--memory", type=SIZE, help="Host memory to stay within, for example 2GiB."),
    click.option("--overwrite", is_flag=True, help="Replace an existing store."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output."),
)


def _attribute_help(model: type[Model]) -> dict[str, str]:
    """Return what the docstring of a model says of each of its attributes."""
    text = (model.__doc__ or "").split("----------", 1)[-1].split("References", 1)[0]
    found = re.findall(r"^    (\w[\w, ]*) : [^\n]*\n((?:        [^\n]*\n?)+)", text, re.MULTILINE)
    return {name.strip(): " ".join(body.split()) for names, body in found for name in names.split(",")}


def _add_model(model: type[Model]) -> None:
    """Add ``papilio generate <model>`` with one flag per field of the model."""
    types: dict[str, Any] = {"int": INTEGER, "float": float}

    def run(
        output: str,
        seed: int,
        signs: float | None,
        memory: int | None,
        overwrite: bool,
        as_json: bool,
        **own: Any,
    ) -> None:
        from papilio.cluster.progress import ProgressBar

        with ProgressBar() as bar:
            bar.describe(f"generating {model.name}")
            store = papilio.generate(
                model(**own), output, seed=seed, signs=signs, memory_bytes=memory, overwrite=overwrite,
                progress=bar.advance,
            )  # fmt: skip
        _report_store(store, as_json)

    command: Any = run
    for option in reversed(_SHARED_MODEL_OPTIONS):
        command = option(command)
    helps = _attribute_help(model)
    for item in reversed(fields(model)):
        kind = str(item.type).removesuffix(" | None")
        optional = str(item.type).endswith("| None")
        flag = f"--{item.name.replace('_', '-')}"
        settings: dict[str, Any] = {"help": helps[item.name]}
        if kind == "bool":
            settings["is_flag"] = True
        else:
            settings["type"] = types[kind]
            if item.default is not MISSING and item.default is not None:
                settings |= {"default": item.default, "show_default": True}
            elif not optional:
                settings["required"] = True
        command = click.option(flag, item.name, **settings)(command)
    summary = (model.__doc__ or "").split("Attributes\n", 1)[0].strip()
    generate.command(model.name, help=summary, epilog=_EPILOG)(command)


for _model in (Rmat, PowerLaw, Planted, Complete):
    _add_model(_model)


def _report_store(store: papilio.GraphStore, as_json: bool) -> None:
    manifest = store.manifest
    if as_json:
        _print_json({"path": store.path, **json.loads(manifest.to_json())})
        return
    click.echo(store.path)
    _say(
        f"{manifest.kind} graph, {store.n_u:,} x {store.n_v:,} vertices, {store.n_edges:,} edges, hash {store.hash}"
    )
    dropped = {reason: number for reason, number in manifest.dropped.items() if number}
    if dropped:
        _say("dropped: " + ", ".join(f"{number:,} {reason}" for reason, number in dropped.items()))


def exit_code_of(error: PapilioError) -> int:
    """Return the exit code of an error, by the first fitting row of :data:`EXIT_CODES`."""
    return next((code for kind, code, _ in EXIT_CODES if isinstance(error, kind)), 1)


def _on_terminate(signum: int, frame: Any) -> NoReturn:
    raise SystemExit(TERMINATED)


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with one of the documented codes; no traceback for expected errors."""
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        cli.main(args=args, prog_name="papilio", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _say("papilio: interrupted")
        sys.exit(INTERRUPTED)
    except PapilioError as error:
        _say(f"papilio: {error}")
        sys.exit(exit_code_of(error))
    sys.exit(0)
