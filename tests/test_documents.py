"""What the documents say holds: commands and flags exist, quoted errors are the program's, links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import networkx as nx
import pytest
import yaml

import papilio
from papilio.cli import cli
from papilio.errors import UnsupportedError
from papilio.settings import COMPILE_SECONDS, VARIABLES
from papilio.version import __version__
from tests.tools.commands import Run

ROOT = Path(__file__).resolve().parents[1]
GUIDES = [
    "bicliques",
    "cliques",
    "cores",
    "decomposition",
    "jobs",
    "maximal-bicliques",
    "measures",
    "more-than-chance",
    "out-of-memory",
    "papers",
    "signed",
]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("*/README.md"))]


def commands_in(document: Path) -> Iterator[list[str]]:
    """The words after ``papilio`` of every command that stands on lines of its own, without what is said beside it."""
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    text = re.sub(r"^```r\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)  # code of R
    for line in re.findall(r"^ {0,4}papilio (\S.*)$", text, re.MULTILINE):
        line = re.sub(r"\[.*?\]", "", line)  # what may be left out
        command = re.split(r"\s{2,}\S* ?\S|\s{3,}|\s#", line + " ")[0]
        yield shlex.split(re.split(r" [>|] ", command)[0], comments=True)


def unknown_words(words: list[str]) -> list[str]:
    """The first name that is no command, or the flags that the command does not have."""
    command: click.Command = cli
    context = click.Context(cli)
    words = list(words)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0].isupper() or words[0] == "...":
            return []
        name = words[words.index("--motif") + 1] if command is not cli and "--motif" in words else words.pop(0)
        try:
            found = command.get_command(context, name)
        except UnsupportedError:
            return [name]
        if found is None:
            return [name]
        command = found
    flags = {"--motif", "--help"} | {
        name for each in command.get_params(context) for name in (*each.opts, *each.secondary_opts)
    }
    return [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in flags]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_commands_and_flags_exist(document: Path) -> None:
    wrong = {" ".join(words): bad for words in commands_in(document) if (bad := unknown_words(words))}
    assert not wrong


ELSEWHERE = (
    "cuda",
    "://",
    "slurm",
    "submit",
    "scheduler",
    "/shared/",
    "scale ",
    "report ",
    "MOTIF",
    "DIR",
    "...",
    "wait ",
)
"""What the commands hold that need another machine, a cluster, or a directory of the reader's."""


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the guides call their graphs: attendances, with and without signs, and friends."""
    root = tmp_path_factory.mktemp("graphs")
    women = [
        f"{a.split()[0]} {b} {1 if i % 3 else -1} {i % 5 + 1}"
        for i, (a, b) in enumerate(nx.davis_southern_women_graph().edges())
    ]
    (root / "ratings.dat").write_text(
        "\n".join(f"{row.rsplit(' ', 2)[0]} {row.rsplit(' ', 1)[1]}" for row in women), "utf-8"
    )
    (root / "votes.txt").write_text("\n".join(row.rsplit(" ", 1)[0] for row in women), "utf-8")
    named = {0: "Ada", 1: "Grace"}
    friends = [f"{named.get(a, a)} {named.get(b, b)}" for a, b in nx.karate_club_graph().edges()]
    (root / "friends.txt").write_text("\n".join(friends), "utf-8")
    for name in ("STORE", "graph", "drugs", "signed"):
        papilio.convert(root / "votes.txt", root / name, sign=3)
    papilio.convert(root / "votes.txt", root / "ratings", u=1, v=2)
    papilio.convert(root / "friends.txt", root / "friends", kind="unipartite")
    return root


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_commands_of_the_guides_run(
    guide: str, graphs: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in graphs.iterdir():
        Path(each.name).symlink_to(each)
    Path("runs").mkdir()
    ran = 0
    for command in commands_in(ROOT / "docs" / f"{guide}.md"):
        target = Path(command[command.index("--output") + 1] if "--output" in command else command[2])
        if any(part in " ".join([*command, ""]) for part in ELSEWHERE):
            continue
        if command[0] == "convert" and target.is_symlink():
            target.unlink()
        elif "--output" in command:
            shutil.rmtree(target, ignore_errors=True)
            target.unlink(missing_ok=True)
        result = run(*command)
        assert result.exit_code == 0, (command, result.stderr)
        ran += 1
    assert ran > 0


def test_commands_are_found() -> None:
    assert sum(1 for document in DOCUMENTS for _ in commands_in(document)) > 120
    assert unknown_words(["count", "butterfly", "graph", "--no-such-flag"]) == ["--no-such-flag"]
    assert unknown_words(["count", "moth", "graph"]) == ["moth"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_links_lead_to_files(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    assert [each for each in targets if not (document.parent / each).exists()] == []


def test_quoted_errors_are_those_of_the_program() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = [each for row in re.findall(r"^\| (.*?) \|", text, re.MULTILINE) for each in re.findall(r"`([^`]+)`", row)]
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "papilio").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    assert len(quoted) > 12
    for each in quoted:
        pieces = re.split(r"line \d+: '.*': \d+ |expected \d+|^is |(?:uni|bi)partite| \.\.\. |^\d+ ", each)
        assert all(piece.strip() in source for piece in pieces), each


def test_the_table_of_environment_variables_is_that_of_the_settings() -> None:
    rows = "".join(f"| `{each.name}` | {each.sets} | {each.default} |\n" for each in VARIABLES)
    table = f"## Environment variables\n\n| variable | sets | otherwise |\n|---|---|---|\n{rows}\n"
    assert table in (ROOT / "docs/cli.md").read_text(encoding="utf-8"), table
    hook = (ROOT / "tools/wheel_hook.py").read_text(encoding="utf-8")
    assert f'VARIABLE, LIMIT_S = "{COMPILE_SECONDS.name}"' in hook


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run = {need.replace(" ", "") for need in recipe["requirements"]["run"]}
    names = {"dask>": "dask-core>", "duckdb>": "python-duckdb>", "xxhash>": "python-xxhash>"}
    renamed = set(project["dependencies"])
    for name, other in names.items():
        renamed = {need.replace(name, other) for need in renamed}
    assert run == renamed | {f"python{project['requires-python']}"}
    assert recipe["context"]["version"] == __version__
    assert recipe["about"]["license"] == project["license"]
    assert recipe["tests"][0]["python"]["imports"] == ["papilio"]


def test_files_of_the_project_name_what_there_is() -> None:
    """Workflows run targets that the Makefile has, on the Python versions that the package declares."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {each.rsplit(" ", 1)[1] for each in project["classifiers"] if ":: Python :: 3." in each}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8"))
    jobs = workflow["jobs"].values()
    ran = {step["run"].removeprefix("make ") for job in jobs for step in job["steps"] if "run" in step}
    assert ran
    assert ran <= targets
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == declared
    for template in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(template.read_text("utf-8"))
    assert yaml.safe_load((ROOT / ".readthedocs.yaml").read_text("utf-8"))["version"] == 2
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    archived = json.loads((ROOT / ".zenodo.json").read_text("utf-8"))
    assert (cited["version"], cited["title"]) == (__version__, archived["title"])
    assert [each["name"] for each in cited["authors"]] == [each["name"] for each in archived["creators"]]


@pytest.mark.parametrize("word", ["incidence", "matrix", "pollinator", "z-score", "backbone", "modularity", "weights"])
def test_the_search_of_the_site_finds_the_words_of_other_fields(word: str) -> None:
    found = [each.stem for each in DOCUMENTS if each.parent.name == "docs" and word in each.read_text("utf-8").lower()]
    assert "not-here" in found
