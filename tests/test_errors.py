"""Every error says whether the lease that raised it is to blame."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import papilio
from papilio import errors
from papilio.errors import FAULTS, ExecutionError, LeaseTooLargeError, PapilioError, fault_of
from tests.conftest import ROOT


def kinds_below(kind: type[PapilioError]) -> set[type[PapilioError]]:
    return {kind}.union(*(kinds_below(each) for each in kind.__subclasses__()))


def test_each_class_is_classified_and_drawn() -> None:
    kinds = {kind for kind in kinds_below(PapilioError) if kind.__module__ == errors.__name__}
    assert {kind for kind in FAULTS if issubclass(kind, PapilioError)} == kinds
    assert errors.__doc__ is not None
    assert all(f" {kind.__name__} " in errors.__doc__ for kind in kinds - {PapilioError})


def test_only_in_doubt_is_the_lease_held_to_be_the_cause() -> None:
    assert {kind for kind, fault in FAULTS.items() if fault == "lease"} == {ExecutionError, Exception}
    assert {kind for kind, fault in FAULTS.items() if fault == "size"} == {LeaseTooLargeError}


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ValueError("a bug"), "lease"),
        (OSError(errno.EMFILE, "too many open files"), "worker"),
        (FileNotFoundError("gone"), "worker"),
        (MemoryError(), "run"),
    ],
)
def test_errors_of_others_are_classified_by_their_nearest_class(error: Exception, fault: str) -> None:
    assert fault_of(error) == fault


def ask_for_nothing() -> None:
    papilio.count("nowhere", "butterfly", cluster="inline", engine="cpu")


def test_a_notebook_shows_the_lines_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAPILIO_TRACEBACK", raising=False)
    with pytest.raises(PapilioError) as caught:
        ask_for_nothing()
    error: Any = caught.value
    lines = error._render_traceback_()
    assert [line for line in lines if line.startswith("  File")] == [
        line for line in lines if f'File "{__file__}"' in line
    ]
    assert any("in ask_for_nothing" in line for line in lines)
    assert f"{type(error).__name__}: {error}" in lines
    monkeypatch.setenv("PAPILIO_TRACEBACK", "full")
    assert not hasattr(error, "_render_traceback_")


RUN = """
import json, sys
import nbclient, nbformat
from jupyter_client.manager import AsyncKernelManager

cells = ["import papilio\\npapilio.count('nowhere', 'butterfly')", "%env PAPILIO_TRACEBACK=full", "%tb"]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
kernel = AsyncKernelManager()
kernel.kernel_spec.argv[0] = sys.executable
nbclient.NotebookClient(notebook, km=kernel, allow_errors=True).execute()
print(json.dumps(["\\n".join(notebook.cells[at].outputs[-1].traceback).splitlines() for at in (0, 2)]))
"""


def test_an_error_in_a_kernel_is_short_unless_all_is_asked_for(tmp_path: Path) -> None:
    for needed in ("nbclient", "ipykernel"):
        pytest.importorskip(needed, reason=f"{needed} is not installed (papilio[docs])")
    environment = {name: value for name, value in os.environ.items() if name != "PAPILIO_TRACEBACK"}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        capture_output=True, text=True, cwd=tmp_path, check=False, env=environment | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    short, whole = json.loads(done.stdout)
    assert len(short) == 4
    assert "papilio.count('nowhere', 'butterfly')" in short[1]
    assert short[2].startswith("StoreNotFoundError: nowhere does not exist")
    assert len(whole) > 60
