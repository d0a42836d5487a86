"""The code of docs/from-r.md, run by R, prints what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "from-r.md").read_text(encoding="utf-8")


def run_r(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run R with the command and the Python of these tests."""
    binaries = str(Path(sys.executable).parent)
    env = os.environ | {
        "LC_ALL": "C", "PATH": os.pathsep.join((binaries, os.environ["PATH"])), "RETICULATE_PYTHON": sys.executable
    }  # fmt: skip
    (directory / "code.R").write_text(code, encoding="utf-8")
    command = ["Rscript", "--vanilla", "code.R"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=directory, env=env)


@pytest.mark.parametrize("section", ["The command line", "reticulate"])
def test_the_code_of_the_page_prints_what_it_says(section: str, tmp_path: Path) -> None:
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    code = "".join(re.findall(r"^```r\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    needed = sorted(set(re.findall(r"library\((\w+)\)|(\w+)::", code)))
    for package in map("".join, needed):
        if run_r(f"library({package})", tmp_path).returncode != 0:
            pytest.skip(f"the R package {package} is not installed")
    run = run_r(code, tmp_path)
    assert run.returncode == 0, run.stderr
    said = [line[2:].strip() for line in code.splitlines() if line.startswith("#>")]
    assert len(said) > 8
    assert [line.strip() for line in run.stdout.splitlines()] == said
