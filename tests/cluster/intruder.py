"""Somebody else on the same machine: tries to talk to Dask processes, and to read files; prints what came of it.

Tests start it with :func:`intrude`. To be another user it is started as root, and becomes that user once it has
imported what it needs, which that user might not be able to read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import Security
from distributed.comm import connect

from papilio.cluster.credentials import make_security
from tests.conftest import ROOT

TIMEOUT_S = 60
"""Of a connection to an address where somebody listens."""


def careless(security: Security) -> dict[str, Any]:
    """Return connection arguments that trust any server and show it the certificate of ``security``."""
    arguments: dict[str, Any] = security.get_connection_args("client")
    arguments["ssl_context"].verify_mode = ssl.CERT_NONE
    return arguments


async def ask(address: str, arguments: dict[str, Any]) -> str:
    """Return the type of the server that answers, or the error."""
    try:
        comm = await connect(address, timeout=TIMEOUT_S, **arguments)
        try:
            await comm.write({"op": "identity", "reply": True})
            answer = await comm.read()
        finally:
            comm.abort()
    except (OSError, TypeError, ValueError) as error:
        return f"refused: {type(error).__name__}: {error}"
    return f"answered: {answer['type']}"


def intrude(addresses: Sequence[str], files: Sequence[object] = (), user: int | None = None) -> dict[str, str]:
    """Return what every address answers, and whether every file can be read, to a process of its own.

    It is one of ``user``, if that is given, which needs root.
    """
    asked = {"addresses": [*addresses], "files": [*map(str, files)], "user": user}
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.intruder", json.dumps(asked)],
        cwd=ROOT, capture_output=True, text=True, timeout=4 * TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: dict[str, str] = json.loads(done.stdout)
    assert len(answers) == 2 * len(addresses) + len(files)
    return answers


def ask_twice(addresses: Sequence[str]) -> dict[str, str]:
    """Ask every address without encryption, and with credentials of one's own."""

    async def ask_all() -> dict[str, str]:
        found = {}
        for address in addresses:
            _, _, place = address.partition("://")
            found[f"tcp://{place}"] = await ask(f"tcp://{place}", Security().get_connection_args("client"))
            found[f"tls://{place}"] = await ask(f"tls://{place}", careless(make_security()))
        return found

    return asyncio.run(ask_all())


def addresses_of(executor: Any) -> list[str]:
    """Return where the scheduler, the workers and their nannies listen."""
    workers = executor.client.scheduler_info(n_workers=-1)["workers"]
    found = [executor.client.scheduler.address, *workers, *(each["nanny"] for each in workers.values())]
    assert len(found) == 1 + 2 * len(workers)
    return found


def read(path: str) -> str:
    """Return whether a file can be read."""
    try:
        Path(path).read_bytes()
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return "read"


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asked = json.loads(sys.argv[1])
    if asked["user"] is not None:
        ask_twice(asked["addresses"][:1])
        os.setgroups([])
        os.setresgid(asked["user"], asked["user"], asked["user"])
        os.setresuid(asked["user"], asked["user"], asked["user"])
    answers = ask_twice(asked["addresses"])
    print(json.dumps({**answers, **{path: read(path) for path in asked["files"]}}))
