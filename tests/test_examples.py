"""Every example runs as a program and prints what its data are known to hold; so does the Python of the guides."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import networkx
import pytest

import papilio
from tests.tools.commands import Run

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "count_butterflies": ["145 senators, 1056 bills, 27,083 votes", "25,666,956 butterflies"],
    "drug_targets": [
        "75 drugs, 60 targets, 815 interactions",
        "6,847 butterflies, 4,123 balanced",
        "dopamine agonist 5 and dopamine antagonist 5: both activate 0 targets, both inhibit 0, differ on 8",
    ],
    "from_pandas": ["341 butterflies in 89 attendances"],
    "more_than_chance": [
        "341 butterflies; with the same degrees 313 on average: z = 1.7, p = 0.096",
        "q = 4: 160, by chance  78.3 ± 22.9, z = 3.6",
    ],
    "generate_planted": ["60 vertices of U are in as many"],
}
"""Parts of what each example prints, by its name."""


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTED)


RUN = """
import contextlib, io, json, os, runpy, sys
for path, folder, *args in json.loads(sys.argv[1]):
    os.chdir(folder)
    sys.argv = [path, *args]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(path, run_name="__main__")
    sys.__stdout__.write(json.dumps(out.getvalue()) + "\\n")
"""
"""Run programs one after the other in one process, which imports the libraries once."""


def run_examples(*examples: tuple[str, Path, *tuple[str, ...]]) -> list[str]:
    """Return what examples print, each in its folder and with its arguments; none may write anything else."""
    asked = [(str(EXAMPLES / f"{name}.py"), str(cwd), *args) for name, cwd, *args in examples]
    run = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", RUN, json.dumps(asked)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_examples(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in sorted(PRINTED)}
    for folder in folders.values():
        folder.mkdir()
    for name, printed in zip(folders, run_examples(*folders.items()), strict=True):
        for part in PRINTED[name]:
            assert part in printed, name
        assert list(folders[name].iterdir()) == []


def test_drug_targets_of_a_file(tmp_path: Path) -> None:
    effects = {"D1": "+++--", "D2": "++---", "D3": "--+  "}
    lines = [
        f"{drug},T{target},{'activates' if effect == '+' else 'inhibits'}\n"
        for drug, row in effects.items()
        for target, effect in enumerate(row, 1)
        if effect != " "
    ]
    (tmp_path / "own.csv").write_text("drug,target,effect\n" + "".join(lines), encoding="utf-8")
    printed = run_examples(("drug_targets", tmp_path, "own.csv"))[0]
    assert "3 drugs, 5 targets, 13 interactions\n16 butterflies, 10 balanced\n" in printed
    assert (
        "D1 and D2: both activate 2 targets, both inhibit 2, differ on 1; coherent 6, incoherent 0, mixed 4" in printed
    )
    assert (
        "D1 and D3: both activate 1 targets, both inhibit 0, differ on 2; coherent 0, incoherent 1, mixed 2" in printed
    )


REFERENCE = sorted(f"api/{path.stem}" for path in ROOT.glob("docs/api/*.md"))


@pytest.mark.parametrize("guide", ["coming-from", "generate", "interop", "not-here", *REFERENCE])
def test_python_in_guides(guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), f"{guide}.md", "exec"), {})


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    pages = [ROOT / "docs" / "api.md", *(ROOT / "docs" / f"{each}.md" for each in REFERENCE)]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = re.findall(r"^\.\. auto(?:function|class):: (\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted({*papilio.__all__} - {"__version__"})


def commands_of(section: str) -> list[list[str]]:
    """The papilio commands of a section of the README, in order, without their comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    part = text[text.index(f"## {section}\n") :]
    block = re.findall(r"```\n(.*?)```", part, re.DOTALL)[0]
    return [
        shlex.split(line.partition(" | ")[0], comments=True)[1:]
        for line in block.splitlines()
        if line.startswith("papilio ")
    ]


@pytest.mark.slow
def test_commands_of_the_readme(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    women = networkx.davis_southern_women_graph()
    lines = [f"{a},{b},{5 - i % 5}\n" for i, (a, b) in enumerate(women.edges())]
    Path("ratings.csv").write_text("user,item,stars\n" + "".join(lines), "utf-8")
    Path("friends.txt").write_text("".join(f"{a} {b}\n" for a, b in networkx.karate_club_graph().edges()), "utf-8")
    assert run("convert", "friends.txt", "friends", "--unipartite").exit_code == 0
    commands = commands_of("Real use")
    assert len(commands) == 4
    for command in commands:
        result = run(*command)
        assert result.exit_code == 0, (command, result.stderr)
        if command[:2] == ["count", "butterfly"]:
            assert "341" in result.stdout, command


def test_python_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile("\n".join(blocks), "README.md", "exec"), {})
    assert out.getvalue().startswith("36\n(TopEntry(")


def test_python_of_the_first_page_of_the_site() -> None:
    """Each comment that begins with a number has the value of its line."""
    pytest.importorskip("matplotlib").use("agg")
    lines = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "index.md").read_text("utf-8"), re.DOTALL)[0]
    names: dict[str, object] = {}
    checked = 0
    for line in lines.splitlines():
        code, _, said = line.partition("# ")
        value = eval(code, names) if code.startswith("papilio.") else exec(code, names)
        if number := re.match(r"[\d.]*\d", said):
            assert f"{value:.3g}" == number[0], line
            checked += 1
    assert checked >= 2
