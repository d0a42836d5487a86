"""Other users of the machine: they reach no scheduler and no worker of a run, and read none of its credentials."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import dask
import psutil
import pytest
from distributed import Scheduler, Security, Worker

import papilio
from papilio.cluster import existing, pool
from papilio.cluster.credentials import make_security, tls_config, write_credentials
from papilio.cluster.driver import run_directory
from papilio.cluster.own_cluster import NO_DASHBOARD, LocalExecutor
from papilio.cluster.selection import make_executor, resolve_auto, resolve_workers, with_insecure
from papilio.errors import ClusterError, InputError, StoreError
from papilio.storage.store import GraphStore
from tests.cluster import intruder
from tests.cluster.conftest import dask_processes

NOBODY = 65534

TIMEOUT_S = 300


def answers_of(protocol: str, security: Security | None, arguments: Any) -> str:
    """Return what a scheduler in this process answers."""

    async def ask() -> str:
        async with Scheduler(
            host="127.0.0.1", port=0, protocol=protocol, security=security, **NO_DASHBOARD
        ) as scheduler:
            return await intruder.ask(scheduler.address, arguments)

    return asyncio.run(ask())


def test_the_intruder_gets_in_where_there_are_no_credentials_and_the_owner_where_there_are() -> None:
    own = make_security()
    assert answers_of("tcp://", None, Security().get_connection_args("client")) == "answered: Scheduler"
    assert answers_of("tls://", own, own.get_connection_args("client")) == "answered: Scheduler"
    assert answers_of("tls://", own, intruder.careless(own)) == "answered: Scheduler"


def test_no_process_of_a_local_cluster_talks_to_strangers(local: Any) -> None:
    addresses = intruder.addresses_of(local)
    assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
    answers = intruder.intrude(addresses)
    assert {place: answer for place, answer in answers.items() if not answer.startswith("refused: ")} == {}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that any user can enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_is_refused(local: Any, open_folder: Path) -> None:
    write_credentials(open_folder / "credentials")
    (open_folder / "open").touch(0o644)
    files = [open_folder / "credentials" / name for name in ("certificate.pem", "key.pem")]
    answers = intruder.intrude(intruder.addresses_of(local), [*files, open_folder / "open"], NOBODY)
    assert answers.pop(str(open_folder / "open")) == "read"
    assert {what: answer for what, answer in answers.items() if not answer.startswith("refused: ")} == {}


def test_credentials_lie_where_only_their_owner_goes(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_credentials(tmp_path / "credentials")
    finally:
        os.umask(before)
    folder = tmp_path / "credentials"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "certificate.pem": 0o600, "key.pem": 0o600,
    }  # fmt: skip
    with pytest.raises(StoreError, match="cannot write credentials there"):
        write_credentials(folder)
    config = tls_config(folder)
    assert {key.removeprefix("distributed.comm.") for key in config} == {
        "require-encryption", "tls.ca-file", *(f"tls.{role}.{kind}" for role in ("client", "scheduler", "worker")
                                               for kind in ("cert", "key")),
    }  # fmt: skip


def listening_of(processes: Iterable[psutil.Process]) -> set[tuple[str, int]]:
    """Return the addresses and ports at which the processes take connections."""
    return {
        (connection.laddr.ip, connection.laddr.port)
        for process in processes
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


def test_everything_listens_on_loopback_and_shows_no_pages() -> None:
    def port_of(dask_scheduler: Scheduler) -> int:
        return int(dask_scheduler.http_server.port)

    def port_of_worker(dask_worker: Worker) -> int:
        return int(dask_worker.http_server.port)

    # Clusters of other tests may live in this process and below it.
    mine = psutil.Process()
    others, before = mine.children(), listening_of([mine])
    with LocalExecutor(1) as executor:
        children = [child for child in mine.children() if child not in others]
        below = [process for child in children for process in child.children(recursive=True)]
        listening = (listening_of([mine]) - before) | listening_of([*children, *below])
        ports = [
            executor.client.run_on_scheduler(port_of), *executor.client.run(port_of_worker).values(),
        ]  # fmt: skip
        assert len(children) >= len(ports) - 1
        assert set(ports) <= {port for _, port in listening}
        assert {address for address, _ in listening} == {"127.0.0.1"}
        for port in ports:
            for page in ("", "info/main/workers.html", "json/identity.json", "metrics", "health", "status"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=TIMEOUT_S)


def test_what_python_imports_from_lies_in_a_directory_of_this_user_alone(local: Any) -> None:
    def first_of_path(dask_worker: Worker) -> str:
        return str(dask_worker.local_directory)

    def first_of_scheduler(dask_scheduler: Scheduler) -> str:
        return str(dask_scheduler.local_directory)

    used = [local.client.run_on_scheduler(first_of_scheduler), *local.client.run(first_of_path).values()]
    assert len(used) == 3
    for place in used:
        folder = next(path for path in Path(place).parents if path.name.startswith(".papilio-run-"))
        found = folder.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)


def test_a_graph_in_memory_is_nobody_elses_among_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mode_of(folder: str) -> int:
        return stat.S_IMODE(Path(folder).stat().st_mode) & 0o077

    before = os.umask(0o022)
    try:
        with run_directory(tmp_path) as folder:
            assert mode_of(folder) == 0o055
        with run_directory(tmp_path, private=True) as folder:
            assert mode_of(folder) == 0
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with run_directory(tmp_path) as folder:
            assert mode_of(folder) == 0
    finally:
        os.umask(before)


def test_a_cluster_without_credentials_is_asked_for_and_said(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    executor = make_executor("local:insecure", n_workers=1, threads=1)
    assert isinstance(executor, LocalExecutor)
    with caplog.at_level(logging.WARNING, "papilio"), executor:
        addresses = intruder.addresses_of(executor)
        answers = intruder.intrude(addresses)
        assert [place for place, answer in answers.items() if answer.startswith("answered: ")] == addresses
        assert [path.name.startswith(".papilio-run-") for path in tmp_path.iterdir()] == [True]
    assert "the local cluster starts without credentials" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_the_word_for_a_cluster_without_credentials() -> None:
    assert with_insecure("local") == with_insecure("local:insecure") == "local:insecure"
    assert with_insecure("slurm:cores=4,memory=1GiB") == "slurm:insecure,cores=4,memory=1GiB"
    assert resolve_auto("auto:insecure", "cpu")[0] == "inline:insecure"
    assert resolve_workers("auto:insecure", "cpu") == "local:insecure"
    assert resolve_workers("tcp://auto:1", "cpu") == "tcp://auto:1"
    assert make_executor("inline:insecure").name == "inline"
    with pytest.raises(InputError, match="insecure is only for clusters that a run starts"):
        with_insecure("tcp://head:8786")
    with pytest.raises(InputError, match="'cores=2' is not an option of the local cluster; known: insecure"):
        papilio.open_cluster("local:cores=2")


def test_a_cluster_with_credentials_of_its_own_is_reached_by_the_configuration_of_dask(
    women: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_credentials(tmp_path / "credentials")
    config = tls_config(tmp_path / "credentials")
    for key, value in config.items():
        monkeypatch.setenv(f"DASK_{key.upper().replace('.', '__').replace('-', '_')}", str(value))
    with dask_processes(tmp_path, 1) as (scheduler_file, _):
        assert json.loads(scheduler_file.read_text())["address"].startswith("tls://")
        with pytest.raises(ClusterError, match=r"no Dask scheduler answers at tls://.*Dask's configuration must name"):
            papilio.count(women, papilio.Butterfly(), cluster=scheduler_file)
        monkeypatch.setattr(existing, "CONNECT_S", TIMEOUT_S)
        monkeypatch.setattr(pool, "JOIN_S", TIMEOUT_S)
        with dask.config.set(config):
            assert papilio.count(women, papilio.Butterfly(), cluster=scheduler_file).count == 341
            papilio.submit(women, papilio.Butterfly(), cluster=scheduler_file, job=tmp_path / "job")
            assert papilio.wait_job(tmp_path / "job", timeout_s=TIMEOUT_S).count == 341
