"""The commands that make and describe graph stores: convert, info, generate."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any

import click

import papilio
from papilio.cli.options import COLUMN, INTEGER, JSON_FLAG, SEED, SIZE
from papilio.cli.report import info_lines, print_json, report_store, say
from papilio.storage.formats import FORMATS
from papilio.storage.generators.models import Complete, Model, Planted, PowerLaw, Rmat

__all__ = ["convert", "generate", "info"]


@click.command()
@click.argument("input", nargs=-1, required=True, type=click.Path())
@click.argument("output", type=click.Path())
@click.option("--format", type=click.Choice(FORMATS), help="Format of the input; detected by default.")
@click.option(
    "--bipartite/--unipartite",
    default=True,
    show_default=True,
    help="Two layers with their own ids, or one set of vertices.",
)
@click.option("--u", type=COLUMN, help="Column of the endpoints in U: a name, or a number from 1 on.")
@click.option(
    "--v", type=COLUMN, help="Column of the endpoints in V; both are found by usual names, else by place."
)
@click.option("--sign-column", type=COLUMN, help="Column whose values above 0 are positive.")
@click.option(
    "--positive-from",
    type=float,
    metavar="VALUE",
    help="Smallest positive value of the sign column (by default a usual name such as rating, else 3).",
)
@click.option(
    "--sign-values", metavar="POSITIVE:NEGATIVE", help="Words of the sign column, such as yea,aye:nay,no."
)
@click.option(
    "--duplicates",
    type=click.Choice(["first", "last", "error"]),
    default="first",
    show_default=True,
    help="Which of several equal edges is kept: by time where there is a time column, else by place.",
)
@click.option(
    "--labels", type=click.Choice(["integer", "text"]), help="Type of the labels; detected by default."
)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line holds names or sizes; detected by default.",
)
@click.option("--time-column", type=COLUMN, help="Column of times; known from the format or by its name.")
@click.option("--skip-malformed", is_flag=True, help="Leave out and count lines that cannot be read.")
@click.option(
    "--memory", "memory_bytes", type=SIZE, help="Bound of the memory, such as 2GiB; by default a quarter."
)
@click.option("--temp-dir", type=click.Path(), help="Directory for scratch files; by default that of OUTPUT.")
@click.option("--overwrite", is_flag=True, help="Replace an existing store.")
@JSON_FLAG
def convert(input: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """Convert the edge list INPUT (or two .npy files) into the graph store OUTPUT.

    \b
    Formats: KONECT, SNAP, MovieLens, Matrix Market, DIMACS, CSV, TSV, plain edge lists, lists with a line of sizes,
    NumPy and Parquet; plain or compressed with gzip, bzip2 or zstd.
    """
    from papilio.cluster.progress import ProgressBar

    with ProgressBar() as bar:
        store = papilio.convert(
            input[0] if len(input) == 1 else input, output, progress=bar.advance_phase, **options
        )
    report_store(store, as_json)


@click.command()
@click.argument("store", type=click.Path())
@click.option("--verify", is_flag=True, help="Read all edges and compare their hash with the manifest.")
@JSON_FLAG
def info(store: str, verify: bool, as_json: bool) -> None:
    """Describe the graph STORE: sizes, degrees, density, signs, provenance, what ingest dropped."""
    from papilio.storage.statistics import describe

    opened = papilio.open_graph(store)
    if verify:
        opened.verify()
    described = describe(opened)
    if as_json:
        print_json(described)
        return
    click.echo("\n".join(info_lines(described)))
    if verify:
        say("verified: the edges have the hash of the manifest")


@click.group()
def generate() -> None:
    """Generate a synthetic graph into a new store; the same from the same seed."""


_SHARED_MODEL_OPTIONS = (
    click.argument("output", type=click.Path()),
    click.option(
        "--seed", type=SEED, default=0, show_default=True, help="The same seed gives the same graph."
    ),
    click.option(
        "--signs", type=float, help="Make a signed graph: each edge is positive with this probability."
    ),
    click.option("--memory", type=SIZE, help="Host memory to stay within, for example 2GiB."),
    click.option("--overwrite", is_flag=True, help="Replace an existing store."),
    JSON_FLAG,
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
        report_store(store, as_json)

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
    generate.command(model.name, help=summary)(command)


for _model in (Rmat, PowerLaw, Planted, Complete):
    _add_model(_model)
