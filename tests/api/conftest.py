"""What the tests of the public functions share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import papilio
from papilio.cluster.executor import Executor


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Executor]:
    """A cluster of two processes on this machine."""
    with papilio.open_cluster("local", workers=2) as cluster:
        yield cluster
