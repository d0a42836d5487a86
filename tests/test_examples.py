"""Every example runs as a program and prints what its data are known to hold; so does the Python of the guides."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "count_butterflies": ["145 senators, 1056 bills, 27,083 votes", "25,666,956 butterflies"],
    "from_pandas": ["341 butterflies in 89 attendances"],
    "generate_planted": ["60 vertices of U are in as many"],
}
"""Parts of what each example prints, by its name."""


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_example(name: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    for part in PRINTED[name]:
        assert part in run.stdout
    assert run.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("guide", ["generate", "interop"])
def test_python_in_guides(guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), f"{guide}.md", "exec"), {})
