"""Flags: sizes, integers, and the flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from papilio.arguments import MAX_THREADS, MAX_WORKERS, did_you_mean, read_bytes
from papilio.errors import InputError
from papilio.motifs import GRANULARITIES

if TYPE_CHECKING:
    from papilio.storage.store import GraphStore

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def with_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds flags and arguments to a command, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class CommandGroup(click.Group):
    """Commands; the error for an unknown name suggests a similar one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(f"No such command {args[0]!r}{did_you_mean(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


def parse_numbers(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Return the numbers of workers that ``1,2,4`` means; the callback of a flag."""
    try:
        numbers = () if text is None else tuple(int(word) for word in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers of workers, such as 1,2,4") from None
    if any(number > MAX_WORKERS for number in numbers):
        raise click.BadParameter(f"{text!r} exceeds the maximum of {MAX_WORKERS} workers")
    return numbers


def size(text: str) -> int:
    """Return the bytes that ``8GiB`` means; the type of a flag."""
    try:
        return read_bytes("it", text) or 0
    except InputError as error:
        raise click.BadParameter(str(error)) from None


def integer(text: str | int) -> int:
    """Return an integer, which may be written as ``3e7``; the type of a flag."""
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        number = float(text)
        if number.is_integer():
            return int(number)
    raise click.BadParameter(f"{text!r} is no integer")


def share(text: str) -> float:
    """Return the share that ``1%`` or ``0.01`` means; the type of a flag."""
    number = text.strip().removesuffix("%")
    try:
        return float(number) / (1 if number == text.strip() else 100)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a share; write 1% or 0.01") from None


def finite(text: str) -> float:
    """Return a finite number; the type of a flag."""
    with suppress(ValueError):
        if isfinite(number := float(text)):
            return number
    raise click.BadParameter(f"{text!r} is not a finite number")


def column(text: str) -> int | str:
    """Return a column of a table, by its number, from 1 on, or its name; the type of a flag."""
    return int(text) if text.isdecimal() else text


LAYER: dict[str, Any] = {"type": str, "metavar": "[u|v|NAME]"}
"""The type of a flag for a layer: by its letter, or its name in the graph."""

WORKERS, THREADS = click.IntRange(1, MAX_WORKERS), click.IntRange(1, MAX_THREADS)

SEED = click.IntRange(0, 2**63 - 1)


def _report_reading(context: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """Report how files of edges are read on standard error, instead of by warnings."""
    from papilio.cli.report import say_reading
    from papilio.storage.reading import readings_reported

    context.with_resource(readings_reported(say_reading))
    return given


class ReadingOption(click.Option):
    """A flag that sets how a graph is read."""


def _given(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str] | None:
    """Return the values of a flag that may be repeated; None if it is not given."""
    return list(values) or None


_reading_option = partial(click.option, cls=ReadingOption)


def reading_options(*time_flag: str) -> Decorator:
    """Return a decorator that adds the flags of :class:`papilio.storage.reading.ReadingOptions`.

    ``time_flag`` has the names of the flag for the column of times, and the name of its parameter.
    """
    return with_options(
        _reading_option(
            "--u", type=column,
            help="Column of the endpoints in U: a name, or a number from 1 on; in files such as GraphML, "
            "ATTRIBUTE=VALUE of the nodes in U.",
        ),
        _reading_option(
            "--v", type=column,
            help="Column of the endpoints in V. By default, both are found by usual names, otherwise by position.",
        ),
        _reading_option("--sign", type=column, help="Column whose values above 0 are positive."),
        _reading_option(
            "--positive-from", type=finite, metavar="VALUE",
            help="Smallest positive value of the sign column, by default one named rating or similar, else column 3.",
        ),
        _reading_option(
            "--sign-values", metavar="POSITIVE:NEGATIVE",
            help="Words for positive and negative signs, such as yea,aye:nay,no.",
        ),
        _reading_option(
            "--decimal", type=click.Choice([".", ","]), help="Decimal point of numbers; a point by default."
        ),
        _reading_option(
            "--duplicates", type=click.Choice(["first", "last", "error"]),
            help="Which of several equal edges to keep, by default the first: by time if known, otherwise by position.",
        ),
        _reading_option(
            "--labels", type=click.Choice(["integer", "text"]), help="Type of the labels; detected by default."
        ),
        _reading_option(
            "--header/--no-header", default=None,
            help="Whether the first line holds names or sizes; detected by default.",
        ),
        _reading_option(
            *time_flag, type=column, help="Time column; by default known from the format or found by its name.",
        ),
        _reading_option(
            "--weight", type=column,
            help="Weight column: neither an endpoint nor kept; --positive-from and --sign-values turn it into signs.",
        ),
        _reading_option("--encoding", help="Encoding of text, such as latin-1; UTF-8 or UTF-16 by default."),
        _reading_option(
            "--quotes/--no-quotes", default=None,
            help="Whether fields may be quoted (RFC 4180); by default only in CSV.",
        ),
        _reading_option(
            "--layout", type=click.Choice(["edges", "matrix", "adjacency", "groups"]),
            help="What a line is: an edge, a row of a matrix, a vertex with its neighbours, or a group with its "
            "members; detected by default.",
        ),
        _reading_option(
            "--where", multiple=True, default=None, callback=_given, metavar="CONDITION",
            help="Condition on a column that all lines meet, such as 'stars >= 4'; repeat it for several.",
        ),
        _reading_option(
            "--missing", type=click.Choice(["drop", "label"]),
            help="Whether words for missing values (NA, NULL ...) are left out, or are names; by default an error.",
        ),
        _reading_option(
            "--skip-malformed", is_flag=True, default=None, help="Skip and count lines that cannot be read."
        ),
        _reading_option(
            "--max-malformed", type=share, metavar="SHARE",
            help="Share of the lines that --skip-malformed may skip; 5% by default.",
        ),
    )  # fmt: skip


KIND_FLAG = with_options(
    _reading_option(
        "--bipartite", "kind", flag_value="bipartite",
        help="Read the two columns of an edge list as two layers with separate ids.",
    ),
    _reading_option(
        "--unipartite", "kind", flag_value="unipartite",
        help="Read both columns of an edge list as one set of vertices.",
    ),
)  # fmt: skip

TIME_FLAG = ("--time", "--time-column", "time")
"""The flag for the column of times."""

TIME_FLAG_BESIDE_SLURM = ("--time-column", "time_column")
"""The same flag on a command whose ``--time`` is the time limit of a Slurm job."""


def graph_argument(
    name: str = "store", *, has_kind: bool = True, time_flag: Sequence[str] = TIME_FLAG, **settings: Any
) -> Decorator:
    """Return a decorator that adds a graph and the flags that read it; without ``has_kind`` it must be bipartite.

    A graph is a graph store, a file of edges, a pattern, a URL, or - for standard input.
    """
    return with_options(
        click.argument(name, type=click.Path(allow_dash=True), callback=_report_reading, **settings),
        _reading_option(
            "--input-format", "format", metavar="FORMAT", help="Format of an edge list; detected by default."
        ),
        reading_options(*time_flag),
        *([KIND_FLAG] if has_kind else ()),
    )  # fmt: skip


def reading_given() -> dict[str, Any]:
    """Return the options of the current command that set how its graph is read."""
    context = click.get_current_context()
    given = {
        (each.name or "").removesuffix("_column"): context.params[each.name or ""]
        for each in context.command.params
        if isinstance(each, ReadingOption)
    }
    return {name: value for name, value in given.items() if value is not None}


def take_reading_words(options: dict[str, Any]) -> list[str]:
    """Take how a graph is read from the options of the current command; return it as words of a command line.

    A value shares a word with its flag, so that it may begin with a dash.
    """
    words: list[str] = []
    context = click.get_current_context()
    for each in context.command.params:
        if not isinstance(each, ReadingOption):
            continue
        options.pop(each.name or "", None)
        value = context.params[each.name or ""]
        if value is None:
            continue
        if each.multiple:
            words += [f"{each.opts[0]}={part}" for part in value]
            continue
        if not each.is_flag:
            words.append(f"{each.opts[0]}={value}")
        elif not each.is_bool_flag:  # one flag of several for the same parameter
            words += each.opts if each.flag_value == value else ()
        else:
            words += each.opts if value else each.secondary_opts
    return words


def read_store(path: str, reading: dict[str, Any]) -> GraphStore:
    """Return the graph store at a path, or the one that a file of edges is converted into.

    Raises what :func:`papilio.read` raises.
    """
    import papilio
    from papilio.storage.store import GraphStore

    held = papilio.read(path, **reading).held
    assert isinstance(held, GraphStore), "a path has no graph in memory"
    return held


BIPARTITE_STORE = graph_argument(has_kind=False)
"""A graph that must be bipartite, and the flags that read it."""

STORE = graph_argument()
"""A graph, and the flags that read it."""

DIRECTORY = click.argument("directory", type=click.Path())

JSON_FLAG = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")

ENGINES = click.Choice(["auto", "cpu", "gpu"])

ENGINE_FLAG = click.option(
    "--engine", type=ENGINES, default="auto", show_default=True,
    help="auto uses GPUs if the workers have them; gpu never falls back to cpu.",
)  # fmt: skip

LOCAL_ENGINE_FLAG = click.option(
    "--engine", type=ENGINES, default="auto", show_default=True,
    help="auto uses the first usable GPU; gpu never falls back to cpu.",
)  # fmt: skip
"""The engine of commands that run in their own process."""

SAME_ENGINE_FLAG = click.option("--engine", type=ENGINES, help="As for count; gpu never falls back to cpu.")

TRUST_FLAG = click.option(
    "--trust", is_flag=True,
    help="Connect to the scheduler named in DIRECTORY, and replace the output, although other users can write there, "
    "and so run code as you.",
)  # fmt: skip

PER_FLAG = click.option(
    "--per", type=click.Choice(GRANULARITIES), default="total", show_default=True,
    help="Count in total, for every vertex of both layers, or for every edge.",
)  # fmt: skip

JOB_FLAG = click.option(
    "--job", type=click.Path(), metavar="DIR",
    help="Job directory that keeps every finished lease; repeat the command to resume.",
)  # fmt: skip

BUDGET_OPTIONS = with_options(
    click.option(
        "--device-memory", type=size, metavar="SIZE",
        help="GPU memory that a worker may use, such as 8GiB; a graph that needs more is counted in parts.",
    ),
    click.option(
        "--host-memory", type=size, metavar="SIZE",
        help="Host memory that a worker may use, such as 16GiB; a graph that needs more is counted in parts.",
    ),
)  # fmt: skip


COMMAND_LINE = "papilio.command-line"
"""Key in the context of a command for the command line that called it."""

INSECURE = "papilio.insecure"
"""Key in the context of a command whose ``--insecure`` is given."""


def _note_insecure(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        context.meta[INSECURE] = True


def _read_cluster(context: click.Context, parameter: click.Parameter, cluster: str) -> str:
    """Return the cluster, without credentials if ``--insecure`` is given; that flag is read first."""
    if INSECURE not in context.meta:
        return cluster
    from papilio.cluster.selection import with_insecure

    return with_insecure(cluster)


CLUSTER_OPTIONS = with_options(
    click.option(
        "--cluster", metavar="CLUSTER", default="auto", show_default=True, callback=_read_cluster,
        help="auto (inline with one GPU or none, cuda with several), inline (this process), local, cuda, slurm, an "
        "address such as tcp://host:8786, or a scheduler file.",
    ),
    click.option(
        "--insecure", is_flag=True, is_eager=True, expose_value=False, callback=_note_insecure,
        help="Start the cluster without credentials: anyone who can connect to this machine may run code as you.",
    ),
)  # fmt: skip

RUN_OPTIONS = with_options(
    ENGINE_FLAG,
    click.option(
        "--workers", type=WORKERS,
        help="Worker processes (local), GPUs (cuda), or workers to wait for (an existing cluster).",
    ),
    JSON_FLAG,
)  # fmt: skip
"""How a job runs, apart from its cluster."""

COUNT_OPTIONS = with_options(
    STORE,
    PER_FLAG,
    BUDGET_OPTIONS,
    click.option(
        "--parts", type=click.Path(), metavar="DIR",
        help="Count the parts that papilio partition wrote to DIR. If DIR has none and the graph does not fit, cut and "
        "keep them there.",
    ),
)  # fmt: skip
"""Flags that ``plan``, ``count`` and ``submit count`` share, apart from how they run."""


def with_output(holds: str) -> Decorator:
    """Return a decorator that adds the flags of a file of values: ``--output`` and ``--overwrite``."""
    return with_options(
        click.option(
            "--output", type=click.Path(), metavar="FILE",
            help=f"File for {holds}; its suffix is its format: .parquet, .csv, .tsv, .json, .jsonl or .arrow.",
        ),
        click.option(
            "--overwrite", is_flag=True, help="Replace an existing file, which is otherwise an error."
        ),
    )  # fmt: skip
