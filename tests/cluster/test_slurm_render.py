"""The batch scripts that papilio slurm render writes, and the declarative files of deploy/."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml
from click.testing import CliRunner

from papilio.cli import cli
from papilio.cluster.credentials import tls_config
from papilio.cluster.sbatch import SbatchSpec, parse_time, render_count
from papilio.cluster.slurm import NO_LOCKS, parse_slurm_options
from papilio.errors import InputError, PapilioError, UnsupportedError
from tests.cluster.conftest import USERS_CONFIG
from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"


def spec(**fields: Any) -> SbatchSpec:
    """Return a specification with the required fields filled in."""
    return SbatchSpec(**{"motif": "butterfly", "store": "graph", "time": "60", "memory_bytes": 2**30, **fields})


def render(*flags: str) -> str:
    """Return what the command line writes to standard output; raises its errors."""
    command = ["slurm", "render", "count", *flags]
    result = CliRunner().invoke(cli, command, catch_exceptions=False, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400), ("1:30", 90), ("02:00:00", 7200), ("1-12", 129_600), ("1-00:30", 88_200),
        ("2-01:02:03", 176_523),
    ],
)  # fmt: skip
def test_times_are_read_as_slurm_reads_them(text: str, seconds: int) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "2h", "1:2:3:4", "-5", "00:00:00"])
def test_times_that_slurm_would_not_take(text: str) -> None:
    with pytest.raises(InputError, match="expected minutes, HH:MM:SS or D-HH:MM:SS"):
        parse_time(text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": 0}, "nodes is 0; the minimum is 1"),
        ({"cpus_per_worker": 0}, "cpus_per_worker is 0"),
        ({"gpus_per_node": "many"}, "gpus per node is 'many'"),
        ({"gpus_per_node": "2", "workers_per_node": 2}, "each GPU has one worker"),
        ({"gpus_per_node": "2", "engine": "cpu"}, "leave the GPUs idle"),
        ({"engine": "gpu"}, "needs gpus per node"),
        ({"memory_bytes": 100}, "memory is 100 bytes"),
        ({"time": "1"}, "grace is 120 s with a time limit of 60 s"),
        ({"array": (1, 3), "nodes": 2}, "from 1 to 2"),
        ({"array": (1,), "counts": "c.parquet", "per": "edge"}, "same file of counts"),
        ({"array": (1,), "job": "dir"}, "share one job directory"),
        ({"max_requeues": 2}, "which needs a job directory"),
        ({"counts": "c.parquet"}, "per vertex or per edge"),
        ({"partition": 'a"b'}, """partition is 'a"b'; leave out the character '"'"""),
        ({"account": "a\\b"}, "leave out the character"),
        ({"name": "a/b"}, "part of the log names: leave out the /"),
        *(
            ({name: value}, f"is {text!r}; leave out the character {character!r}")
            for character in ("\n", "\r", "\x1b", "\0", "\x7f", "\x9b", "\udcff")
            for text in [f"a{character}b"]
            for name, value in (
                ("store", text),
                ("job", text),
                ("name", text),
                ("partition", text),
                ("account", text),
                ("interface", text),
                ("setup", (text,)),
                ("motif_flags", (text,)),
            )
        ),
        ({"counts": "a\nb.parquet", "per": "edge"}, "counts is 'a\\nb.parquet'"),
        ({"experiment": "a\nb", "array": (1,)}, "experiment is 'a\\nb'"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        render_count(spec(**fields))


def test_an_unknown_motif_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="moth"):
        render("moth", "graph", "--time", "60", "--memory", "1GiB")


def test_the_request_reaches_slurm() -> None:
    flags = ["--nodes", "3", "--gpus-per-node", "a100:4", "--cpus-per-worker", "6", "--time", "1-00"]
    flags += [
        "--memory",
        "100GiB",
        "--partition",
        "gpu",
        "--account",
        "p1",
        "--job",
        "my job",
        "--requeue",
        "5",
    ]
    script = render("butterfly", "a graph", *flags)
    for directive in (
        "--nodes=3", "--ntasks-per-node=4", "--cpus-per-task=6", "--mem=102400M", "--time=1-00",
        "--gres=gpu:a100:4", '--partition="gpu"', '--account="p1"', "--requeue", "--open-mode=append",
        "--signal=B:USR1@120",
    ):  # fmt: skip
        assert f"#SBATCH {directive}\n" in script
    assert "workers=12\n" in script
    assert "max_requeues=5\n" in script
    assert "papilio count --per=total --engine=gpu '--job=my job' \\\n" in script
    assert '    --cluster "$run/scheduler.json" --workers "$workers" -- butterfly \'a graph\' &\n' in script
    assert f"--memory-limit {100 * 2**30 * 9 // 10 // 4} " in script
    assert "@" not in script.replace("USR1@120", "").replace('"$@"', "")


def test_workers_get_the_configuration_of_local_workers() -> None:
    """And credentials: what the script exports is what Dask finds in its configuration."""
    lines = [*render_count(spec()).splitlines()]
    begin = next(index for index, line in enumerate(lines) if line.startswith("run="))
    end = next(index for index, line in enumerate(lines) if line.startswith("# 1. "))
    kept = [line for line in lines[begin:end] if line.startswith(("run=", "export", "for", "    export", "done"))]
    program = "import dask, json; print(json.dumps(dask.config.config))"
    script = "\n".join(["set -eu", *kept, f"exec \"{sys.executable}\" -c '{program}'"])
    others = {name: value for name, value in os.environ.items() if not name.startswith("DASK_")}
    environment = {**others, "SLURM_JOB_ID": "7", "DASK_CONFIG": "/nonexistent"}
    answer = subprocess.run(
        ["bash", "-c", script],
        env=environment,
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    found = json.loads(answer.stdout)
    scratch = Path("//papilio-run-7")
    wanted = {**USERS_CONFIG, **NO_LOCKS, **tls_config(scratch / "credentials")}
    wanted["temporary-directory"] = str(scratch / "scratch")
    assert {key: dask.config.get(key, config=found) for key in wanted} == wanted


SPECS = [
    spec(setup=("module load python", "export A='b c'")),
    spec(gpus_per_node="2", job="a job", max_requeues=3, interface="ib0"),
    spec(insecure=True),
    spec(array=(1, 2), nodes=2, store="it's a (graph) & more"),
]


@pytest.mark.parametrize("one", SPECS)
def test_the_script_is_clean_bash(one: SbatchSpec, tmp_path: Path) -> None:
    path = tmp_path / "job.sbatch"
    path.write_text(render_count(one))
    subprocess.run(["bash", "-n", str(path)], check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed; bash has parsed the script")
    answer = subprocess.run(["shellcheck", str(path)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout


def test_an_output_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "job.sbatch"
    flags = ["butterfly", "graph", "--time", "60", "--memory", "1GiB"]
    assert render(*flags, "--output", str(path)) == ""
    assert path.read_text() == render(*flags)
    assert path.stat().st_mode & 0o111
    with pytest.raises(PapilioError, match="does not exist"):
        render(*flags, "--output", str(tmp_path / "none" / "job.sbatch"))
    path.write_text("mine")
    with pytest.raises(PapilioError, match="already exists"):
        render(*flags, "--output", str(path))
    assert path.read_text() == "mine"
    assert render(*flags, "--output", str(path), "--overwrite") == ""
    assert path.read_text() == render(*flags)
    assert list(tmp_path.iterdir()) == [path]


def test_options_of_the_slurm_cluster() -> None:
    assert parse_slurm_options("partition=long,cores=4,memory=16GiB,time=01:00:00,gpus=1") == {
        "queue": "long", "cores": 4, "memory": "16GiB", "walltime": "01:00:00",
        "job_extra_directives": ["--gres=gpu:1"],
    }  # fmt: skip
    lost = [f"{key}=a{c}b" for c in " \n\t\x1b'\"\\$`;" for key in ("partition", "account", "logs", "interface")]
    for wrong in ("colour=red", "cores", "cores=", "cores=four", "gpus=1\n", *lost):
        with pytest.raises(InputError, match="slurm"):
            parse_slurm_options(wrong)


def test_the_examples_are_what_render_writes() -> None:
    text = (DEPLOY / "README.md").read_text()
    commands = [shlex.split(block.replace("\\\n", " ")) for block in re.findall(r"```sh\n(papilio .*?)```", text, re.S)]
    written = {}
    for command in commands:
        assert command[:4] == ["papilio", "slurm", "render", "count"]
        assert command[-2] == "--output"
        written[command[-1]] = render(*command[4:-2])
    assert sorted(written) == sorted(str(path.relative_to(ROOT)) for path in (DEPLOY / "slurm").iterdir())
    for name, script in written.items():
        assert (ROOT / name).read_text() == script, f"{name}: write it again with the command in deploy/README.md"


def test_the_kubernetes_manifest_describes_a_cluster() -> None:
    manifest = yaml.safe_load((DEPLOY / "kubernetes" / "daskcluster.yaml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    name, parts = manifest["metadata"]["name"], manifest["spec"]
    service = parts["scheduler"]["service"]
    assert service["selector"] == {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    (scheduler,) = parts["scheduler"]["spec"]["containers"]
    (worker,) = parts["worker"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in scheduler["ports"]}
    assert {port["targetPort"] for port in service["ports"]} <= set(ports)
    assert scheduler["readinessProbe"]["tcpSocket"]["port"] in ports
    assert scheduler["args"][:2] == ["dask", "scheduler"]
    assert worker["args"][:2] == ["dask", "worker"]
    assert int(worker["args"][worker["args"].index("--nthreads") + 1]) == int(worker["resources"]["limits"]["cpu"])
    volumes = {volume["name"] for volume in parts["worker"]["spec"]["volumes"]}
    assert {mount["name"] for mount in worker["volumeMounts"]} <= volumes
    given = {entry["name"]: entry["value"] for container in (scheduler, worker) for entry in container["env"]}
    assert given["DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE"] == "False"
    assert all(isinstance(value, str) for value in given.values())


def test_the_container_file_copies_what_exists() -> None:
    lines = (DEPLOY / "container" / "Containerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert "papilio" in copied
    assert all((ROOT / word).exists() for word in copied)
