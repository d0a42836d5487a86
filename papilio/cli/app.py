"""The command ``papilio``: commands, exit codes and the handling of errors."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from select import poll
from typing import Any, NoReturn

import click

from papilio.arguments import visible
from papilio.cli.options import COMMAND_LINE, CommandGroup
from papilio.cli.report import AT_LEAST, QUIET, VERBOSE
from papilio.errors import (
    CapacityError,
    ClusterError,
    EngineUnavailableError,
    ExecutionError,
    InputError,
    JobCancelledError,
    JobUnfinishedError,
    PapilioError,
    StoreError,
    UnsupportedError,
)
from papilio.kernels.announce import silent_compiling
from papilio.signals import check
from papilio.system_errors import explain, place_of
from papilio.version import __version__

EXIT_CODES: tuple[tuple[type[PapilioError], int, str], ...] = (
    (InputError, 2, "wrong usage, or invalid input"),
    (StoreError, 3, "a graph store or file is missing, corrupt or cannot be written"),
    (UnsupportedError, 4, "motif, engine and graph do not match"),
    (EngineUnavailableError, 4, "the requested engine cannot run here"),
    (CapacityError, 5, "something does not fit: ids, counters or memory"),
    (ClusterError, 6, "the cluster cannot be reached or started, or lost what the run needs"),
    (JobCancelledError, 7, "the job was cancelled"),
    (JobUnfinishedError, 8, "the job did not end within the waiting time; it continues"),
    (ExecutionError, 1, "the run did not end with an exact answer"),
)
"""Exit code of each error class; the first matching row applies."""

INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    [
        "  0    success",
        *(f"  {code}    {meaning}" for _, code, meaning in sorted(EXIT_CODES, key=lambda row: row[1])),
        f"  {AT_LEAST}    few probes carry the estimate: only its lower end is known",
        f"  {INTERRUPTED}  interrupted (Ctrl-C); no partial output is left behind",
        f"  {PIPE_CLOSED}  the reader of the output ended first, as head does",
        f"  {TERMINATED}  terminated (SIGTERM); no partial output is left behind",
    ]
)


_COMMANDS = {
    "convert": ("stores:convert", "Convert an edge list into a graph store."),
    "cache": ("stores:cache", "List or clear cached conversions of edge lists."),
    "info": ("stores:info", "Describe a graph: sizes, degrees, signs, provenance."),
    "generate": ("stores:generate", "Generate a synthetic graph into a new store."),
    "example": ("stores:example", "Write a small public graph, to try Papilio on it."),
    "partition": ("stores:partition", "Cut a graph into parts that fit in a worker's memory."),
    "plan": ("count:plan", "Show how a motif would be counted: work, memory, decisions."),
    "count": ("count:count", "Count a motif in a graph."),
    "estimate": ("count:estimate", "Estimate a count by random probes, with an interval."),
    "significance": ("count:significance", "Compare a count with the counts of random graphs."),
    "randomize": ("stores:randomize", "Draw random graphs like a graph: stores or tables of edges."),
    "census": ("measure:census", "Count the butterflies of a signed graph by class."),
    "enumerate": ("count:enumerate_", "List every occurrence of a motif, as rows."),
    "project": ("count:project", "Project to one layer: pairs with weights and q-values."),
    "decompose": ("count:decompose", "Peel a graph into dense parts: wing, tip or core numbers."),
    "core": ("stores:core", "Write the k-core or (alpha, beta)-core of a graph."),
    "communities": ("measure:communities", "Find communities of overlapping cliques or bicliques."),
    "measure": ("measure:measure", "Measure a graph: clustering, cohesion, top vertices and edges."),
    "jobs": ("jobs:jobs", "List the job directories in a directory, three levels deep."),
    "status": ("jobs:status", "Show the state and progress of a job."),
    "resume": ("jobs:resume", "Resume a job."),
    "verify": ("jobs:verify", "Check a finished job; optionally recount a sample."),
    "submit": ("jobs:submit", "Submit a job to a cluster and return."),
    "wait": ("jobs:wait", "Wait for a job, and print the count."),
    "cancel": ("jobs:cancel", "Cancel a job; completed work is kept."),
    "logs": ("jobs:logs", "Print the log of a submitted job."),
    "scale": ("scaling:scale", "Measure how a count scales with the number of workers."),
    "report": ("scaling:report", "Write a report on a job or a scaling experiment."),
    "slurm": ("cluster:slurm", "Run on a Slurm cluster."),
    "doctor": ("cluster:doctor", "Check this machine, a cluster and a graph."),
}
"""Location of each command in ``papilio.cli``, and its summary."""


_SPEECH = {"--quiet": QUIET, "--verbose": VERBOSE}


@contextmanager
def _ended_with_its_reader() -> Iterator[None]:
    """End the process silently if the reader of its output is gone.

    Raises ClusterError if another connection broke.
    """
    try:
        yield
    except BrokenPipeError as error:
        pipes = poll()
        for stream in (sys.stdout, sys.stderr):
            pipes.register(stream.fileno(), 0)
        closed = [descriptor for descriptor, _ in pipes.poll(0)]
        if not closed:
            raise ClusterError(f"a connection broke {explain(error)}") from error
        for descriptor in closed:  # discard the remaining output
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        sys.exit(PIPE_CLOSED)


class _LazyGroup(CommandGroup):
    """Commands whose modules are imported on demand; all accept ``--quiet`` and ``--verbose`` anywhere."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> click.Context:
        words = shlex.join(["papilio", *args])
        given = {word for word in args[: args.index("--") if "--" in args else None] if word in _SPEECH}
        if len(given) > 1:
            raise click.UsageError("--quiet and --verbose contradict each other; use one of them")
        args = [word for word in args if word not in given]
        with _ended_with_its_reader():
            context = super().make_context(info_name, args, *rest, **extra)
        context.meta[COMMAND_LINE] = words
        context.meta.update({_SPEECH[word]: True for word in given})
        if "--quiet" in given:
            logger = logging.getLogger("papilio")
            context.call_on_close(partial(logger.setLevel, logger.level))
            logger.setLevel(logging.ERROR)
            context.with_resource(silent_compiling())
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with _ended_with_its_reader():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name][0].partition(":")
        command: click.Command = getattr(import_module(f"papilio.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="papilio")
@click.option(
    "--quiet",
    is_flag=True,
    expose_value=False,
    help="Print only the answer and errors; allowed anywhere on the command line.",
)
@click.option(
    "--verbose", is_flag=True, expose_value=False,
    help="Also print each step with its time, and every decision; allowed anywhere on the command line.",
)  # fmt: skip
def cli() -> None:
    """Count dense motifs exactly in large graphs, on one machine, its GPUs, or a Dask cluster."""


def exit_code_of(error: PapilioError) -> int:
    """Return the exit code of an error, by the first fitting row of :data:`EXIT_CODES`."""
    return next((code for kind, code, _ in EXIT_CODES if isinstance(error, kind)), 1)


def run(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with one of the documented codes; no traceback for expected errors."""
    try:
        cli.main(args=args, prog_name="papilio", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("papilio: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except PapilioError as error:
        check()
        click.echo(f"papilio: {visible(str(error))}", err=True)
        sys.exit(exit_code_of(error))
    except OSError as error:
        check()
        text = f"papilio: the system reports an error{place_of(error)} {explain(error)}"
        click.echo(visible(text), err=True)
        sys.exit(exit_code_of(StoreError()))
    except Exception:
        check()  # libraries turn an exception raised by a signal into their own errors
        raise
    sys.exit(0)
