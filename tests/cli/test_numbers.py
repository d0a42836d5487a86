"""Every number that a command takes: huge, negative or nought, it ends in an answer or a line that says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import papilio
from papilio.cli.app import cli
from papilio.cli.motifs import MotifGroup
from papilio.cli.options import finite, integer, parse_numbers, share, size
from papilio.errors import PapilioError
from tests.test_arguments import GRAPH

HERE = ("--cluster", "inline", "--engine", "cpu")

BASE: dict[str, tuple[str, ...]] = {
    "convert": ("edges.txt", "nothing"),
    "info": ("graph",),
    "generate rmat": ("nothing", "--scale-u", "2", "--scale-v", "2", "--edges", "3"),
    "generate power-law": ("nothing", "--n-u", "3", "--n-v", "3", "--max-degree-u", "2", "--max-degree-v", "2"),
    "generate planted": ("nothing", "--n-u", "4", "--n-v", "4", "--count", "1", "--size-u", "2", "--size-v", "2"),
    "generate complete": ("nothing", "--n-u", "3", "--n-v", "3"),
    "generate blocks": ("nothing", "--shapes", "2x3"),
    "partition": ("graph", "nothing", "--motif", "biclique", "-p", "2", "-q", "2", "--host-memory", "2GiB"),
    "plan biclique": ("graph", "-p", "2", "-q", "2", *HERE),
    "plan balanced-butterfly": ("graph", "-k", "2", *HERE),
    "count biclique": ("graph", "-p", "2", "-q", "2", *HERE),
    "count balanced-butterfly": ("graph", "-k", "2", *HERE),
    "estimate biclique": ("graph", "-p", "2", "-q", "2", *HERE),
    "significance biclique": ("graph", "-p", "2", "-q", "2", "--samples", "3", *HERE),
    "randomize": ("graph", "nothing"),
    "core": ("graph", "nothing", "--alpha", "1", "--beta", "1", "--engine", "cpu"),
    "census": ("graph", "--pair-side", "u", "--by", "coherent", *HERE),
    "enumerate maximal-clique": ("friends", "--output", "nothing", *HERE),
    "enumerate biclique": ("graph", "-p", "2", "-q", "2", "--output", "nothing", *HERE),
    "project": ("graph", "--layer", "u", "--significance", "hypergeometric", "--output", "nothing", *HERE),
    "decompose": ("core", "graph", "--alpha", "1", "--engine", "cpu"),
    "communities clique": ("friends",),
    "communities biclique": ("graph", "-p", "2", "-q", "2"),
    "measure robins-alexander": ("graph", *HERE),
    "measure latapy": ("graph",),
    "measure local": ("graph", *HERE),
    "measure nestedness": ("graph", "--samples", "3"),
    "measure cooccurrence": ("graph", "--layer", "u", *HERE),
    "measure maximum-clique": ("friends",),
    "measure maximal-biclique-top": ("graph",),
    "measure cohesion": ("graph", *HERE),
    "measure core-table": ("graph", "--engine", "cpu"),
    "measure top": ("graph", *HERE),
    "resume": ("job",),
    "verify": ("job", "--engine", "cpu"),
    "submit count biclique": ("graph", "-p", "2", "-q", "2", "--cluster", "no such", "--job", "new"),
    "wait": ("job",),
    "scale count butterfly": ("graph", "--workers", "1", "--output", "no/such", "--no-figures", "--no-warm-up"),
    "scale run": ("no such",),
    "slurm render count biclique": ("graph", "-p", "2", "-q", "2", "--time", "60", "--memory", "1GiB", "--job", "j"),
    "doctor": ("--cluster", "inline"),
}  # fmt: skip
"""What every command with a number can be called with."""

NUMBERS = (
    "99999999999999999999", "-99999999999999999999", "9" * 400, "0", "-1", "1e400", "-1e400", "nan", "inf", "1e19",
    "1.5", "", "x", "9223372036854775808", "\u0663",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder with a graph, a job and an edge list, in which the commands run."""
    from papilio.storage.store import write_store

    with chdir(tmp_path_factory.mktemp("numbers")):
        write_store("graph", GRAPH, provenance={})
        write_store("friends", papilio.UnipartiteGraph.from_edges([0], [1]), provenance={})
        papilio.count("graph", papilio.Butterfly(), job="job", cluster="inline", engine="cpu")
        Path("edges.txt").write_text("0 0 1\n0 1 1\n1 0 1\n1 1 2\n")
        yield


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that is no group, by its words; of one with all motifs those of the table."""
    if isinstance(command, MotifGroup) and path == ("partition",):
        yield "partition", command.get_command(click.Context(command), "biclique")
    elif isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each is not None
            if not isinstance(command, MotifGroup) or " ".join((*path, name)) in BASE:
                yield from walk(each, (*path, name))
    else:
        yield " ".join(path), command


def is_number(option: click.Parameter) -> bool:
    kinds = (click.types.IntParamType, click.types.FloatParamType)
    read = getattr(option.type, "func", None) or getattr(option, "callback", None)
    return isinstance(option.type, kinds) or read in (finite, integer, share, size, parse_numbers)


CASES = [
    (name, option.opts[0])
    for name, command in walk(cli)
    for option in command.params
    if isinstance(option, click.Option) and is_number(option)
]


def tried() -> Iterator[Any]:
    """Yield the cases as parameters; of an option that many commands have, and read alike, two are fast."""
    met = Counter[str]()
    for name, option in CASES:
        met[option] += 1
        yield pytest.param(name, option, marks=() if met[option] <= 2 else pytest.mark.slow)


def test_every_command_with_a_number_is_in_the_table() -> None:
    assert {name for name, _ in CASES} <= BASE.keys() <= {name for name, _ in walk(cli)}
    assert len(CASES) > 70


@pytest.mark.parametrize(("name", "option"), list(tried()))
def test_a_number_that_makes_no_sense_is_refused_in_words(name: str, option: str) -> None:
    refused = 0
    for number in NUMBERS:
        given = (f"{option}={number}",) if option.startswith("--") else (f"{option}{number}",)
        result = CliRunner().invoke(cli, [*name.split(), *BASE[name], *given], standalone_mode=False)
        error = result.exception
        assert error is None or isinstance(error, click.ClickException | PapilioError), (number, repr(error))
        refused += error is not None
        assert error is None or number not in ("99999999999999999999", "9" * 400) or len(str(error)) < 1000
    assert refused >= len(NUMBERS) // 3
