"""The commands that create, cache and describe graph stores: convert, cache, info, generate, randomize, core,
partition."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click

import papilio
from papilio.api.decompose import PHASES
from papilio.api.example import EXAMPLES, ExampleName
from papilio.api.read import save_graph
from papilio.arguments import plural, show_bytes
from papilio.cli.motifs import MotifGroup, attribute_help, field_option
from papilio.cli.options import (
    BUDGET_OPTIONS,
    JSON_FLAG,
    KIND_FLAG,
    LOCAL_ENGINE_FLAG,
    SEED,
    STORE,
    THREADS,
    TIME_FLAG,
    CommandGroup,
    integer,
    read_store,
    reading_options,
    size,
    with_options,
)
from papilio.cli.report import (
    conversion_lines,
    info_lines,
    partition_lines,
    print_json,
    put,
    report_store,
    say,
    show_progress,
)
from papilio.cli.tables import STANDARD_OUTPUT, RowTarget, take_target, with_rows
from papilio.kernels.null.models import NULL_NAMES
from papilio.motifs import GRANULARITIES, Motif
from papilio.partitioning.cut_request import STRATEGIES
from papilio.storage.files import atomic_file, check_file
from papilio.storage.formats import FORMATS
from papilio.storage.graph_models import Blocks, Complete, Model, Planted, PowerLaw, Rmat
from papilio.storage.reading import Conversion, cache_directory
from papilio.storage.statistics import describe


@click.command()
@click.argument("input", nargs=-1, required=True, type=click.Path())
@click.argument("output", type=click.Path())
@click.option("--format", type=click.Choice(FORMATS), help="Format of the input; detected by default.")
@reading_options(*TIME_FLAG)
@KIND_FLAG
@click.option(
    "--memory",
    "memory_bytes",
    type=size,
    help="Memory limit, such as 2GiB; a quarter of the memory by default.",
)
@click.option("--temp-dir", type=click.Path(), help="Directory for scratch files; the directory of OUTPUT by default.")
@click.option("--overwrite", is_flag=True, help="Replace an existing store.")
@JSON_FLAG
def convert(input: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """Convert the edge lists INPUT... into the one graph store OUTPUT.

    INPUT is a file, a directory of files (such as Spark, Dask and Hive write), a pattern, a URL (https, s3 ...), or -
    for standard input; the first file determines how the others are read. Two .npy files hold one endpoint each.

    \b
    Formats: KONECT, SNAP, MovieLens, Matrix Market, DIMACS, CSV, TSV, plain edge lists, lists with a line of sizes,
    NumPy and Parquet; plain or compressed with gzip, bzip2 or zstd.
    """
    with show_progress() as bar:
        from papilio.api.stores import CONVERT_PHASES

        show = bar.follow(CONVERT_PHASES)
        show("read", 0, 0)
        given = {name: value for name, value in options.items() if value is not None}
        store = papilio.convert(input[0] if len(input) == 1 else input, output, progress=show, **given)
    report_store(store, as_json)


_CACHE_COLUMNS = ("source", "kind", "options", "state", "n_bytes", "last_used", "path")


@click.group(cls=CommandGroup, invoke_without_command=True)
@with_rows("the conversions")
@JSON_FLAG
@click.pass_context
def cache(context: click.Context, /, as_json: bool, **options: Any) -> None:
    """List the cached conversions of edge lists: size, last use, state, kind and options, source.

    The state is valid (the next call uses it), changed or gone (the source), outdated (made by another version of
    Papilio) or damaged. Standard error gets the directory: PAPILIO_CACHE, else papilio in XDG_CACHE_HOME or ~/.cache.
    """
    if context.invoked_subcommand is None:
        _list_conversions(take_target(options, as_json, writes_files=False), as_json)


@cache.command("list")
@with_rows("the conversions")
@JSON_FLAG
def list_(as_json: bool, **options: Any) -> None:
    """List the cached conversions, as papilio cache does without a subcommand."""
    _list_conversions(take_target(options, as_json, writes_files=False), as_json)


def _list_conversions(target: RowTarget | None, as_json: bool) -> None:
    found = papilio.list_conversions()
    if target is None:
        _report_conversions(found, as_json, "kept in")
        return
    rows = [
        {
            "source": each.source,
            "kind": each.kind,
            "options": json.dumps(each.options),
            "state": each.state,
            "n_bytes": each.n_bytes,
            "last_used": datetime.fromtimestamp(each.used_s, UTC).isoformat(timespec="seconds"),
            "path": each.path,
        }
        for each in found
    ]
    target.write_rows(rows, _CACHE_COLUMNS)


@cache.command()
@click.argument("pattern", required=False)
@click.option("--all", "everything", is_flag=True, help="Remove every conversion.")
@click.option("--stale", is_flag=True, help="Remove all conversions that are not valid.")
@JSON_FLAG
def clear(pattern: str | None, everything: bool, stale: bool, as_json: bool) -> None:
    """Remove cached conversions of sources whose path or name matches PATTERN; stores and sources are kept.

    \b
    papilio cache clear 'ratings*.csv'
    papilio cache clear --stale
    """
    if everything == (pattern is not None or stale):
        raise click.UsageError("give a PATTERN, --stale or both, or --all")
    _report_conversions(papilio.clear_conversions(pattern, stale=stale), as_json, "removed from")


def _report_conversions(conversions: Sequence[Conversion], as_json: bool, what: str) -> None:
    if as_json:
        print_json({"directory": str(cache_directory()), "conversions": [asdict(each) for each in conversions]})
        return
    if conversions:
        put("\n".join(conversion_lines(conversions, time.time())))
    n_bytes = sum(each.n_bytes for each in conversions)
    say(f"{plural(len(conversions), 'conversion')} ({show_bytes(n_bytes)}) {what} {cache_directory()}")


@click.command()
@STORE
@click.option("--verify", is_flag=True, help="Read all edges and compare their hash with the manifest.")
@JSON_FLAG
def info(store: str, verify: bool, as_json: bool, **reading: Any) -> None:
    """Describe the graph STORE: sizes, degrees, density, signs, provenance, what ingest dropped."""
    opened = read_store(store, reading)
    if verify:
        opened.verify()
    described = describe(opened)
    if as_json:
        print_json(described)
        return
    put("\n".join(info_lines(described)))
    if verify:
        say("verified: the edges have the hash of the manifest")


@click.group(cls=CommandGroup)
def generate() -> None:
    """Generate a synthetic graph into a new store; the same seed gives the same graph."""


_MODEL_OPTIONS = with_options(
    click.option("--seed", type=SEED, default=0, show_default=True, help="The same seed gives the same graph."),
    click.option("--signs", type=float, help="Make a signed graph: each edge is positive with this probability."),
    click.option("--memory", "memory_bytes", type=size, help="Limit of host memory, for example 2GiB."),
    click.option("--overwrite", is_flag=True, help="Replace an existing store."),
    JSON_FLAG,
)


def _add_model(model: type[Model]) -> None:
    helps, hints = attribute_help(model), get_type_hints(model)
    flags = []
    for field in fields(model):
        settings: dict[str, Any] = {"help": helps.get(field.name)}
        if field.default not in (MISSING, None):
            settings |= {"default": field.default, "show_default": hints[field.name] is not bool}
        settings["required"] = field.default is MISSING and type(None) not in get_args(hints[field.name])
        flags.append(field_option(field.name, hints[field.name], **settings))

    @_MODEL_OPTIONS
    def run(output: str, as_json: bool, **given: Any) -> None:
        made = model(**{flag.name: given.pop(flag.name) for flag in flags if flag.name})
        with show_progress() as bar:
            bar.describe(f"generating {model.name}")
            store = papilio.generate(made, output, progress=bar.advance, **given)
        report_store(store, as_json)

    summary = (model.__doc__ or "").split("Attributes\n", 1)[0].strip()
    command = generate.command(model.name, help=summary)(run)
    command.params[:0] = [click.Argument(["output"], type=click.Path()), *flags]


for _model in (Rmat, PowerLaw, Planted, Blocks, Complete):
    _add_model(_model)


@click.command()
@STORE
@click.argument("output", type=click.Path())
@click.option(
    "--null", type=click.Choice(NULL_NAMES), default="degrees", show_default=True,
    help="What random graphs share with the graph: the degree of each vertex, these on average, the number of edges or "
    "all edges.",
)  # fmt: skip
@click.option("--samples", type=integer, default=1, show_default=True, metavar="N", help="Random graphs.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random graphs.")
@click.option("--steps", type=integer, metavar="N", help="Steps of the chain to a sample, as of papilio significance.")
@click.option(
    "--trades", type=integer, metavar="N", help="Global trades of the chain to a sample, in the place of steps."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing table.")
@JSON_FLAG
def randomize(store: str, output: str, as_json: bool, overwrite: bool, **options: Any) -> None:
    """Draw random graphs like the graph STORE: those that papilio significance counts, with the same seed.

    OUTPUT is a graph store, or a table of edges by its suffix (.csv, .tsv, .parquet, .json, .jsonl, .arrow); of several
    samples it is a directory of stores, 0, 1, ... The paths go to standard output.

    \b
    papilio randomize STORE random.csv
    papilio randomize STORE randoms --samples 100 --seed 7
    """
    made = papilio.randomize(store, **{name: value for name, value in options.items() if value is not None})
    paths = made.save(output, overwrite=overwrite)
    if as_json:
        print_json({"null": made.null, "seed": made.seed, "trades": made.trades, "paths": paths})
        return
    put("\n".join(paths))
    say(repr(made))


@click.command()
@click.argument("name", required=False, type=click.Choice([*EXAMPLES]))
@click.option(
    "--output", "-o", type=click.Path(allow_dash=True), metavar="FILE",
    help="File to write; standard output by default.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace an existing file, which is otherwise an error.")
def example(name: ExampleName | None, output: str | None, overwrite: bool) -> None:
    """Write the edges of the public graph NAME, which the package contains; without NAME list these graphs.

    \b
    papilio example southern-women | papilio count butterfly -
    papilio example senate-votes --output votes.txt
    """
    if name is None:
        put("\n".join(f"{each:<16}{graph.holds}" for each, graph in EXAMPLES.items()))
        return
    graph = EXAMPLES[name]
    if output is None or output == STANDARD_OUTPUT:
        put(graph.text, end="")
        return
    target = check_file(output, overwrite)
    with atomic_file(target, overwrite) as scratch:
        scratch.write_text(graph.text, "utf-8")
    put(target)
    say(f"{graph.holds}; {graph.source}")


@click.command()
@STORE
@click.argument("output", type=click.Path())
@click.option("-k", type=integer, metavar="N", help="Minimum degree of all vertices, for a unipartite graph.")
@click.option("--alpha", type=integer, metavar="N", help="Minimum degree of vertices of U, for a bipartite graph.")
@click.option("--beta", type=integer, metavar="N", help="Minimum degree of vertices of V, for a bipartite graph.")
@LOCAL_ENGINE_FLAG
@click.option("--threads", type=integer, metavar="N", help="Number of threads; all processors by default.")
@click.option("--overwrite", is_flag=True, help="Replace an existing table.")
@JSON_FLAG
def core(store: str, output: str, as_json: bool, overwrite: bool, **options: Any) -> None:
    """Write the k-core, or the (alpha, beta)-core, of the graph STORE: the largest subgraph with such degrees.

    OUTPUT is a graph store, or a table of edges by its suffix (.csv, .tsv, .parquet, .json, .jsonl, .arrow). Its path
    goes to standard output.

    \b
    papilio core STORE dense -k 20
    papilio core STORE dense.csv --alpha 3 --beta 4
    """
    with show_progress() as bar:
        found = papilio.core(store, progress=bar.follow(PHASES), **options)
    facts = {f"papilio.{name}": str(options[name]) for name in ("k", "alpha", "beta") if options[name] is not None}
    path = save_graph(found, Path(output), facts, overwrite=overwrite)
    if as_json:
        print_json({"path": path, "n_u": found.n_u, "n_v": found.n_v, "n_edges": found.n_edges})
        return
    put(path)
    say(repr(found))


@click.command(cls=MotifGroup, motif_flag=True)
@STORE
@click.argument("output", type=click.Path())
@click.option("--motif", required=True, metavar="MOTIF", help="Motif to count.")
@click.option(
    "--per",
    type=click.Choice(GRANULARITIES),
    default="total",
    show_default=True,
    help="Finest granularity of counts that the parts support.",
)
@BUDGET_OPTIONS
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="auto",
    show_default=True,
    help="Grouping of work items; auto compares the bytes moved by bcpar and pair_blocks.",
)
@click.option(
    "--threads",
    type=THREADS,
    help="Number of threads, for cutting and for the CPU workers of the parts; all processors by default.",
)
@click.option("--temp-dir", type=click.Path(), help="Directory for scratch files; the directory of OUTPUT by default.")
@JSON_FLAG
def partition(
    store: str, output: str, motif: Motif, as_json: bool, engine_options: dict[str, str], **options: Any
) -> None:
    """Cut the graph STORE into parts that fit in a worker's memory, and write them to the directory OUTPUT.

    With --device-memory the parts are for GPU workers, else for CPU workers. Parts for bicliques and cliques also
    support all larger sizes.

    \b
    papilio partition STORE PARTS --motif butterfly --device-memory 8GiB --host-memory 16GiB
    papilio count butterfly STORE --parts PARTS --device-memory 8GiB
    """
    with show_progress() as bar:
        bar.describe("cutting into parts")
        made = papilio.partition(store, output, motif, options=engine_options, progress=bar.advance_share, **options)
    if as_json:
        print_json({"path": made.path, **json.loads(made.manifest.to_json())})
        return
    put(made.path)
    for line in partition_lines(made.manifest):
        say(line)
