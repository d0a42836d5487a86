"""Rendered batch scripts keep every argument: bash runs them, with programs that note theirs in place of real ones."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from papilio.cli.app import cli
from papilio.cluster.sbatch import SbatchSpec, render_count
from papilio.errors import InputError
from papilio.motifs import Butterfly, Clique

NOTE = """#!/bin/bash
printf '%s\\0' "$@" >"$NOTES/${0##*/}-$1"
[[ $1 != scheduler ]] || printf '{}' >"$3"
[[ $1 != slurm ]] || mkdir "$3"
"""

TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12)


def run_script(script: str) -> dict[str, list[str]]:
    """Run a script; return the arguments of the programs that it called, by program and first argument."""
    with tempfile.TemporaryDirectory(prefix="a folder ") as folder:
        programs, notes = Path(folder) / "bin", Path(folder) / "notes"
        programs.mkdir()
        notes.mkdir()
        for name in ("papilio", "dask", "srun"):
            (programs / name).write_text(NOTE)
            (programs / name).chmod(0o755)
        environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "NOTES": str(notes),
            "SLURM_JOB_ID": "7",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        assert not (Path(folder) / "papilio-run-7").exists()
        return {
            path.name: [os.fsdecode(word) for word in path.read_bytes().split(b"\0")[:-1]] for path in notes.iterdir()
        }


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(store=TEXTS, job=TEXTS, parts=TEXTS, counts=TEXTS, interface=TEXTS)
@example(store="-rf", job="--help", parts="-", counts="--", interface="-x")
@example(store="$(touch x)", job="`id`", parts="a'b\"c", counts="a\\b", interface="; exit 3 #")
@example(store="@setup@", job="@command@", parts="*", counts="~", interface="a  b")
def test_a_script_keeps_every_argument(store: str, job: str, parts: str, counts: str, interface: str) -> None:
    spec = SbatchSpec(
        "butterfly", store, "60", 2**30, per="vertex", job=job, counts=f"{counts}.parquet", interface=interface,
        motif_flags=(f"--parts={parts}",),
    )  # fmt: skip
    called = run_script(render_count(spec))
    words = called["papilio-count"]
    assert words[-3:] == ["--", "butterfly", store]
    with (
        patch("papilio.count", side_effect=InputError("asked")) as asked,
        pytest.raises(InputError, match="asked"),
    ):
        cli.main(words, standalone_mode=False)
    read = asked.call_args.kwargs
    assert asked.call_args.args == (store, Butterfly())
    assert (read["job"], read["parts"], read["output"], read["workers"]) == (
        job,
        parts,
        f"{counts}.parquet",
        1,
    )
    assert f"--interface={interface}" in called["dask-scheduler"]
    step = next(words for program, words in called.items() if program.startswith("srun-"))
    assert f"--interface={interface}" in step


def test_a_script_keeps_the_null_model() -> None:
    asked = (
        "--null",
        "degrees",
        "--samples",
        "250",
        "--seed",
        "7",
        "--steps",
        "9",
        "--per",
        "vertex",
        "-k",
        "4",
    )
    where = ("--time", "60", "--memory", "1GiB", "--job", "a b", "--counts", "z.csv", "--json")
    words = ["slurm", "render", "significance", "clique", "graph", *asked, *where]
    script = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    called = run_script(script)["papilio-significance"]
    with (
        patch("papilio.significance", side_effect=InputError("asked")) as given_,
        pytest.raises(InputError, match="asked"),
    ):
        cli.main(called, standalone_mode=False)
    assert given_.call_args.args == ("graph", Clique(4))
    expected = {
        "null": "degrees", "samples": 250, "seed": 7, "steps": 9, "per": "vertex", "job": "a b", "output": "z.csv",
    }  # fmt: skip
    assert {name: given_.call_args.kwargs[name] for name in expected} == expected
    plain = CliRunner().invoke(cli, [*words[:5], "-k", "3", *where[:4]], catch_exceptions=False).stdout
    assert "significance -k 3 --samples=1000 --seed=0 --per=total --engine=auto" in plain


@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(experiment=TEXTS)
@example(experiment="-x")
def test_a_script_of_an_experiment_keeps_its_directory(experiment: str) -> None:
    spec = SbatchSpec("butterfly", "graph", "60", 2**30, experiment=experiment, array=(1,), insecure=True)
    called = run_script("export SLURM_ARRAY_TASK_ID=1\n" + render_count(spec))
    assert called["papilio-scale"][-2:] == ["--", experiment]
    assert "papilio-slurm" not in called
