"""Labels that are more than text to a terminal, a browser or a spreadsheet reach files and pipes unchanged."""

import io
import sys
from pathlib import Path

import pytest

import papilio
from papilio.arguments import visible
from papilio.cli.app import cli

RED, FORMULA, SCRIPT = "\x1b]0-title\x07\x9b31mred", "=HYPERLINK(1)", "<script>f()</script>"


class Output(io.TextIOWrapper):
    """A standard output that keeps its bytes, and is a terminal or not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def text(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.tsv"
    path.write_text(f"u\tv\n{RED}\t{FORMULA}\n{RED}\t{SCRIPT}\na\t{FORMULA}\na\t{SCRIPT}\n")
    return path


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(
    "words",
    [
        "count butterfly EDGES --per vertex",
        "enumerate biclique EDGES -p 2 -q 2",
        "enumerate biclique EDGES -p 2 -q 2 --format csv",
        "project EDGES --layer u",
        "measure top EDGES",
        "decompose wing EDGES --format tsv",
    ],
)
def test_a_terminal_shows_control_characters(
    words: str, is_terminal: bool, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = Output(is_terminal), Output(is_terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    cli.main([str(edges) if word == "EDGES" else word for word in ["--quiet", *words.split()]], standalone_mode=False)
    expected = visible(RED) if is_terminal else RED
    assert expected in out.text()
    assert (RED in out.text()) is not is_terminal


def test_lines_and_letters_of_all_languages_stay() -> None:
    assert visible("a\tb\nŁódź 東京 \U0001f98b") == "a\tb\nŁódź 東京 \U0001f98b"
    assert visible("\r\x1b[2J\x7f\x85") == "\\x0d\\x1b[2J\\x7f\\x85"


def test_errors_show_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    from papilio.cli.app import run

    with pytest.raises(SystemExit):
        run(["count", "butterfly", "no\x1b[2Jfile"])
    assert "\x1b" not in capsys.readouterr().err


def test_notebooks_escape_labels(edges: Path) -> None:
    result = papilio.count(edges, papilio.Butterfly(), per="vertex")
    for html in (result._repr_html_(), papilio.read(edges)._repr_html_(), papilio.project(edges, "v")._repr_html_()):
        assert "<script" not in html


def test_files_keep_labels(edges: Path, tmp_path: Path) -> None:
    papilio.count(edges, papilio.Butterfly(), per="vertex", output=tmp_path / "counts.csv")
    assert f'"{FORMULA}"' in (tmp_path / "counts.csv").read_text()
