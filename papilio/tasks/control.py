"""The control files of a job directory: what was submitted, which process coordinates it, what was cancelled.

    control/submission.json     written by ``papilio submit``
    control/coordinator.json    written by the coordinator inside the cluster
    control/cancel.json         written by ``papilio cancel``

Each has one kind of writer and is replaced whole, so that no lock is needed to read or to write them. A request to
cancel names what it cancels, so that it says nothing about a later submission or session of the same directory.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeVar

from papilio.errors import StoreError
from papilio.families import EngineChoice
from papilio.storage.ledger import write_durably
from papilio.storage.records import read_record, read_sealed, seal_json

Priority = Literal["low", "normal", "high"]
"""How long the leases of a job let those of others pass, see ``papilio.cluster.pool.LAG_S``."""

_ADVICE = "remove it, then submit again"

CoordinatorState = Literal["waiting", "running", "finished", "failed", "cancelled"]


@dataclass(frozen=True)
class Submission:
    """A job that was given to a cluster."""

    id: str  # another one each time
    cluster: str  # address of the scheduler
    engine: EngineChoice
    workers: int | None  # workers to wait for before the first lease
    priority: Priority
    output: str | None  # file for the counts per vertex or edge
    host: str  # where it was submitted from
    submitted_at: float  # seconds since 1970


@dataclass(frozen=True)
class Coordinator:
    """The process that hands out the leases of a submission, and how it ended."""

    submission: str  # id of the submission
    attempt: int  # from 1 on: how often the cluster has started it
    losses: int  # starts before this one that were lost without a finished lease
    host: str
    pid: int
    worker: str  # address of the Dask worker
    state: CoordinatorState
    reason: str | None  # what it waits for, or why it failed
    n_sessions: int  # sessions in the ledger when this was written; a later one is not this coordinator's
    written_at: float  # seconds since 1970

    @property
    def ended(self) -> bool:
        return self.state in ("finished", "failed", "cancelled")


@dataclass(frozen=True)
class CancelRequest:
    """The wish that a job end."""

    submission: str | None  # id of the submission that it is about, if any
    holder: str | None  # claim of the process that wrote the ledger at that time, if any
    host: str
    pid: int  # where it was asked
    requested_at: float  # seconds since 1970

    @classmethod
    def now(cls, submission: str | None, holder: str | None) -> CancelRequest:
        """Return a request of this process."""
        return cls(submission, holder, socket.gethostname(), os.getpid(), time.time())


Record = TypeVar("Record", Submission, Coordinator, CancelRequest)


class JobControl:
    """The control files of one job directory, read anew at every access."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "control"

    @property
    def submission(self) -> Submission | None:
        """The last submission; None for a job that was never submitted."""
        return self._read("submission", Submission)

    @property
    def coordinator(self) -> Coordinator | None:
        """The coordinator of :attr:`submission`; None until the cluster has started one."""
        submission, found = self.submission, self._read("coordinator", Coordinator)
        fits = submission is not None and found is not None and found.submission == submission.id
        return found if fits else None

    @property
    def request(self) -> CancelRequest | None:
        return self._read("cancel", CancelRequest)

    @property
    def active(self) -> Submission | None:
        """The last submission, unless its coordinator has ended."""
        coordinator = self.coordinator
        return None if coordinator is not None and coordinator.ended else self.submission

    def is_cancelled(self, *, submission: str | None = None, holder: str | None = None) -> bool:
        """Whether the last request is about this submission, or this process that holds the ledger."""
        request = self.request
        if request is None:
            return False
        by_submission = submission is not None and request.submission == submission
        return by_submission or (holder is not None and request.holder == holder)

    def write(self, record: Submission | Coordinator | CancelRequest) -> None:
        """Replace one of the files, durably. StoreError when it cannot be written."""
        names: Mapping[type, str] = {
            Submission: "submission", Coordinator: "coordinator", CancelRequest: "cancel"
        }  # fmt: skip
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.folder}: cannot be created ({error.strerror})") from error
        path = self.folder / f"{names[type(record)]}.json"
        write_durably(path, seal_json(asdict(record), indent=2))

    def withdraw(self, submission: Submission) -> None:
        """Remove a submission that no cluster has got."""
        if self.submission == submission:
            (self.folder / "submission.json").unlink(missing_ok=True)

    def _read(self, name: str, kind: type[Record]) -> Record | None:
        path = self.folder / f"{name}.json"
        try:
            return read_record(kind, read_sealed(path, _ADVICE), str(path), _ADVICE)
        except FileNotFoundError:
            return None
