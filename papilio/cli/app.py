"""The command ``papilio``: its commands, exit codes and last line of defence."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from papilio.cli.census import census
from papilio.cli.count import count, plan
from papilio.cli.decompose import decompose
from papilio.cli.doctor import doctor
from papilio.cli.enumerate import enumerate_
from papilio.cli.jobs import jobs, resume, status, verify
from papilio.cli.measure import measure
from papilio.cli.partition import partition
from papilio.cli.report import say
from papilio.cli.scaling import report, scale
from papilio.cli.slurm import slurm
from papilio.cli.stores import convert, generate, info
from papilio.cli.submit import cancel, logs, submit, wait
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
from papilio.interrupts import check
from papilio.version import __version__

__all__ = ["EXIT_CODES", "INTERRUPTED", "TERMINATED", "cli", "exit_code_of", "run"]

EXIT_CODES: tuple[tuple[type[PapilioError], int, str], ...] = (
    (InputError, 2, "wrong usage, or an input that is not what it should be"),
    (StoreError, 3, "a graph store or file is missing, corrupt or cannot be written"),
    (UnsupportedError, 4, "motif, engine and graph do not go together"),
    (EngineUnavailableError, 4, "the engine asked for cannot run here"),
    (CapacityError, 5, "something does not fit: ids, counters or memory"),
    (ClusterError, 6, "the cluster cannot be reached or started, or lost what the run needs"),
    (JobCancelledError, 7, "the job was cancelled"),
    (JobUnfinishedError, 8, "the job did not end within the time given to wait; it goes on"),
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


@click.group(
    epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="papilio")
def cli() -> None:
    """Count dense motifs exactly in large graphs, on one machine, its GPUs, or a Dask cluster."""


_COMMANDS = (
    *(
        convert,
        info,
        generate,
        partition,
        plan,
        count,
        census,
        enumerate_,
        decompose,
        measure,
        jobs,
        status,
        resume,
        verify,
    ),
    *(submit, wait, cancel, logs, scale, report, slurm, doctor),
)
for _command in _COMMANDS:
    cli.add_command(_command)


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
        say("papilio: interrupted")
        sys.exit(INTERRUPTED)
    except PapilioError as error:
        check()
        say(f"papilio: {error}")
        sys.exit(exit_code_of(error))
    sys.exit(0)
