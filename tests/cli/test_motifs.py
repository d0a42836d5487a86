"""The subcommands of motifs: their flags are the fields of their dataclasses, whatever motifs there are."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import click
import pytest
from click.shell_completion import ShellComplete

import papilio
from papilio.arguments import Between
from papilio.cli.app import cli
from papilio.errors import InputError
from papilio.motifs import MOTIFS, BalancedButterfly, Biclique, Motif
from papilio.registry import MOTIF_ROWS
from tests.tools.commands import Run

COMMANDS = ("plan", "count", "submit count", "slurm render count", "scale count")

FLAGS = {
    "biclique": {
        "-p", "-q", "--max-p", "--max-q", "--all-p", "--all-q", "--all", "--algorithm", "--anchor",
    },
    "balanced-butterfly": {"-k", "--max-k", "--all-k", "--pair-side"},
    "butterfly": set(),
    "census": {"--pair-side"},
}  # fmt: skip
"""All flags of motifs."""


@dataclass(frozen=True)
class Chain(Motif):
    """A chain of vertices, which nothing counts.

    Attributes
    ----------
    length : int
        Vertices of it, however named.
    mark : {"red", "blue"}
        How it is marked.
    closed : bool
        Whether it is a ring.

    Other Parameters
    ----------------
    way : {"there", "back"}
        The direction.
    """

    name: ClassVar[str] = "chain"
    graph_kind: ClassVar[str] = "bipartite"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"way": ("there", "back")}

    length: Annotated[int, Between(3, 9)] = 4
    mark: Literal["red", "blue"] = "red"
    closed: bool = False


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What papilio.count was called with: the motif, the store and the options of engines; it counts nothing."""
    calls: list[tuple[Any, ...]] = []

    def note(store: str, motif: Motif, *, options: dict[str, str], **others: Any) -> None:
        calls.append((store, motif, options))
        raise InputError("noted")

    monkeypatch.setattr(papilio, "count", note)
    return calls


def flags_of(words: str) -> dict[str, click.Option]:
    """Return the flags of the command that these words call."""
    command: click.Command | None = cli
    for word in words.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return {flag: option for option in command.params if isinstance(option, click.Option) for flag in option.opts}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("motif", FLAGS)
def test_a_motif_has_its_own_flags_and_no_others(command: str, motif: str, run: Run) -> None:
    shared = flags_of(f"{command} butterfly").keys()
    flags = flags_of(f"{command} {motif}")
    assert flags.keys() - shared == FLAGS[motif]
    assert all(len(option.help or "") > len("Every p.") for option in flags.values())
    text = run(*command.split(), motif, "--help").stdout
    words = set(text.replace(",", " ").split())
    assert words & set().union(*FLAGS.values()) == FLAGS[motif]


@pytest.mark.parametrize("motif", sorted(MOTIFS))
def test_all_that_is_said_of_motifs_is_for_people(motif: str, run: Run) -> None:
    assert all(len(option.help or "") > len("Every p.") for option in flags_of(f"count {motif}").values())
    text = run("count", motif, "--help").stdout
    assert not any(markup in text for markup in ("``", ":class:", "None"))


@pytest.mark.parametrize("model", ["rmat", "power-law", "planted", "complete"])
def test_flags_of_models_say_what_they_are(model: str) -> None:
    assert all(len(option.help or "") > 15 for option in flags_of(f"generate {model}").values())


def test_a_listing_has_one_size_of_what_can_be_listed(run: Run) -> None:
    flags = flags_of("enumerate biclique").keys()
    assert flags & FLAGS["biclique"] == {"-p", "-q", "--algorithm", "--anchor"}
    text = run("enumerate", "--help").stdout
    listed = {name for name, family in MOTIF_ROWS.items() if family.listed is not None}
    assert {name for name in MOTIFS if f"\n  {name} " in text} == listed
    assert listed == {"biclique", "clique", "maximal-biclique", "maximal-clique", "projection"}


@pytest.mark.parametrize(
    ("words", "begun", "completed"),
    [
        ("count", "bicl", {"biclique"}),
        ("count", "--eng", {"--engine"}),
        ("count biclique", "--al", {"--all", "--all-p", "--all-q", "--algorithm"}),
        ("slurm render count -k 3 balanced-butterfly", "--pai", {"--pair-side"}),
        ("partition", "--mot", {"--motif"}),
        ("partition STORE --motif biclique", "--anch", {"--anchor"}),
    ],
)
def test_shells_complete_motifs_and_flags(words: str, begun: str, completed: set[str]) -> None:
    found = ShellComplete(cli, {}, "papilio", "_PAPILIO_COMPLETE").get_completions(words.split(), begun)
    assert {item.value for item in found} == completed


def test_every_command_lists_the_motifs(run: Run) -> None:
    for command in (*COMMANDS, "partition"):
        text = run(*command.split(), "--help").stdout
        assert all(f"  {name} " in text for name in MOTIFS), command


@pytest.mark.parametrize(
    "words",
    [
        "biclique STORE -p 3 -q 4 --anchor v",
        "-p 3 biclique -q4 --anchor=v STORE",
        "-p 3 -q 4 --anchor v --workers 2 -- biclique STORE",
        "biclique -p 3 -q 4 --anchor v -- STORE",
        "--job biclique --parts balanced-butterfly biclique STORE -p3 -q 4 --anchor v",
    ],
)
def test_the_motif_is_the_first_word_that_is_no_flag(words: str, asked: list[tuple[Any, ...]], run: Run) -> None:
    assert run("count", *words.split()).stderr == "papilio: noted\n"
    assert asked == [("STORE", Biclique(3, 4), {"anchor": "v"})]


@pytest.mark.parametrize(
    ("words", "motif"),
    [
        ("biclique S -p 3 --all-q", Biclique(3)),
        ("biclique S --all-p --max-p 9 -q 2", Biclique(None, 2, 9)),
        ("biclique S --all --max-q 5", Biclique(max_q=5)),
        ("biclique S --all-p --all-q", Biclique()),
        ("balanced-butterfly S", BalancedButterfly()),
        ("balanced-butterfly S -k 2 --pair-side v", BalancedButterfly()),
        ("balanced-butterfly S -k 5 --pair-side u", BalancedButterfly(5)),
        ("balanced-butterfly S --all-k --max-k 9 --pair-side v", BalancedButterfly(None, 9, "v")),
    ],
)
def test_flags_make_the_motif(words: str, motif: Motif, asked: list[tuple[Any, ...]], run: Run) -> None:
    assert run("count", *words.split()).stderr == "papilio: noted\n"
    assert asked == [("S", motif, {})]
    assert run("count", *motif.words, "S").stderr == "papilio: noted\n"
    assert asked[1] == asked[0]


def test_a_new_motif_needs_nothing_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, asked: list[tuple[Any, ...]], run: Run
) -> None:
    monkeypatch.setitem(MOTIFS, Chain.name, Chain)
    for command in COMMANDS:
        flags = flags_of(f"{command} chain")
        assert {f"--{field.name}" for field in fields(Chain)} | {"--way"} <= flags.keys()
        assert flags["--length"].help == "Vertices of it, however named; 4 by default."
        assert flags["--way"].help == "The direction."
    run("count", "chain", "S", "--length", 5, "--mark", "blue", "--closed", "--way", "back")
    assert asked == [("S", Chain(5, "blue", True), {"way": "back"})]
    refused = run("count", "chain", "S", "--length", 10)
    assert (refused.exit_code, "10 is not in the range 3<=x<=9" in refused.stderr) == (2, True)
    assert "chain --length 5 needs --mark red or blue" in run("count", "chain", "S", "--length", 5).stderr
    assert "butterfly has no option --way; it belongs to chain" in run("count", "butterfly", "S", "--way=there").stderr
    assert "chain" in run("plan", "moth", "S").stderr


@pytest.mark.parametrize(("command", "missing"), [("count", "MOTIF"), ("enumerate", "MOTIF"), ("partition", "--motif")])
def test_a_command_without_a_motif_says_which_there_are(command: str, missing: str, run: Run) -> None:
    for words in ([], ["--json"]):
        code, out, err = run(command, *words)
        assert (code, out) == (2, "")
        assert f"'{missing}'; known: b" in err
