"""A soak: questions of all verbs, one after the other, on a cluster whose workers and clients are killed at random.

Every question is first answered without kills. Each later answer must be the same: the exact counts, rows, samples and
estimates.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import papilio
from papilio.storage.graph_models import Complete, Planted, Rmat
from tests.faults.laboratory import WORKERS, Laboratory

PAUSE_S = 10.0, 20.0
"""Shortest and longest time between two kills."""

CLIENT_SHARE = 0.2
"""Of the kills; the others are of workers."""

MAX_STARTS = 10
"""Of the command of a question, which is repeated as long as a kill or its consequence ends it."""

_VOLATILE = {
    "decisions", "files", "job", "leases", "moved", "output", "peak_memory_bytes", "plan_key", "seconds", "work",
    "workers", "worker_details",
}  # fmt: skip
"""Fields of an answer that depend on the run."""

_POLL_S = 0.05


@dataclass(frozen=True)
class Question:
    """A command of papilio without the cluster, whether it takes a job directory, and whether it writes rows."""

    words: tuple[str, ...]
    has_job: bool = True
    has_rows: bool = False

    def __str__(self) -> str:
        return " ".join(Path(word).name if "/" in word else word for word in self.words)


@dataclass
class Tally:
    """What happened to a question in the soak."""

    asked: int = 0
    exact: int = 0
    worker_kills: int = 0
    client_kills: int = 0
    repeated: int = 0  # commands that ended with an error and were repeated
    seconds: list[float] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)  # last lines of the commands that ended with an error


def make_questions(folder: Path) -> list[Question]:
    """Write some graphs and a partition to a folder, and return questions about them, of some seconds each."""
    complete, dense, sparse, ones = (str(folder / name) for name in ("complete", "dense", "sparse", "ones"))
    papilio.generate(Complete(1500, 1500), complete)
    papilio.generate(Planted(n_u=220, n_v=440, count=0, size_u=1, size_v=1, noise=67_000), dense)
    papilio.generate(Rmat(scale_u=10, scale_v=10, edges=16_000), sparse)
    papilio.generate(Planted(n_u=400, n_v=None, count=0, size_u=1, size_v=None, noise=50_000), ones)
    parts = str(folder / "parts")
    papilio.partition(complete, parts, papilio.Butterfly(), host_memory="420MiB")
    return [
        *(Question(("count", "butterfly", complete, f"--per={per}"), has_rows=per != "total") for per in
          ("total", "vertex", "edge")),
        Question(("count", "butterfly", complete, "--parts", parts, "--host-memory", "420MiB")),
        Question(("count", "biclique", dense, "-p", "5", "-q", "5")),
        Question(("count", "biclique", dense, "-p", "4", "-q", "4", "--per=vertex"), has_rows=True),
        *(Question(("count", "clique", ones, "-k", "9", f"--per={per}"), has_rows=per != "total") for per in
          ("total", "vertex", "edge")),
        Question(("count", "maximal-biclique", sparse)),
        Question(("enumerate", "biclique", sparse, "-p", "2", "-q", "2"), has_rows=True),
        Question(("significance", "butterfly", dense, "--samples", "1000", "--seed", "1")),
        Question(("estimate", "biclique", dense, "-p", "8", "-q", "8", "--error", "0.002"), has_job=False),
    ]  # fmt: skip


class Soak:
    """Ask questions in a laboratory, and kill meanwhile; ``seed`` determines when and whom."""

    def __init__(self, lab: Laboratory, questions: Sequence[Question], seed: int) -> None:
        self._lab, self._questions, self._chance = lab, questions, random.Random(seed)
        self._kill_at = float("inf")
        self.tallies = {question: Tally() for question in questions}

    def run(self, seconds: float) -> None:
        """Answer all questions undisturbed, then again and again with kills, for so many seconds."""
        wanted = {question: self._answer(question, Tally()) for question in self._questions}
        self._plan_kill()
        ends_at = monotonic() + seconds
        for question in cycle(self._questions):
            if monotonic() >= ends_at:
                return
            tally = self.tallies[question]
            began = monotonic()
            found = self._answer(question, tally)
            tally.asked += 1
            tally.exact += found is not None and found == wanted[question]
            if found is not None and found != wanted[question]:
                names = {name for name, value in found.items() if value != (wanted[question] or {}).get(name)}
                tally.messages.append(f"papilio {question}: another answer ({', '.join(sorted(names))})")
            tally.seconds.append(monotonic() - began)

    def _plan_kill(self) -> None:
        self._kill_at = monotonic() + self._chance.uniform(*PAUSE_S)

    def _answer(self, question: Question, tally: Tally) -> dict[str, Any] | None:
        """Repeat the command of a question until it ends well, and return its answer; None if it never does."""
        job, rows = self._lab.new_job(), self._lab.new_job()
        if question.words[0] == "count":  # a listing with a job is a directory
            rows = rows.with_suffix(".parquet")
        words = [*question.words, "--cluster", self._lab.address, "--workers", "1", "--engine", "cpu", "--json"]
        words += ["--job", str(job)] if question.has_job else []
        words += [f"--output={rows}"] if question.has_rows else []
        for _ in range(MAX_STARTS):
            printed, messages = self._lab.new_job(), self._lab.new_job()
            killed = self._run(words, printed, messages, tally)
            if killed is None:
                answer = {name: value for name, value in json.loads(printed.read_text()).items()
                          if name not in _VOLATILE}  # fmt: skip
                return answer | ({"rows": _read_rows(rows)} if question.has_rows else {})
            if not killed:
                tally.repeated += 1
                tally.messages.append((messages.read_text().strip().splitlines() or ["nothing"])[-1])
        return None

    def _run(self, words: list[str], printed: Path, messages: Path, tally: Tally) -> bool | None:
        """Run a command while killing; None if it ended well, else whether it was killed."""
        with printed.open("wb") as out, messages.open("wb") as err:
            process: subprocess.Popen[bytes] = self._lab.papilio("client", *words, stdout=out, stderr=err)
        killed = False
        while process.poll() is None:
            if monotonic() >= self._kill_at:
                self._plan_kill()
                killed = self._chance.random() < CLIENT_SHARE
                if killed:
                    tally.client_kills += 1
                    process.kill()
                else:
                    tally.worker_kills += 1
                    self._lab.kill_worker(self._chance.choice(WORKERS))
            sleep(_POLL_S)
        return None if process.returncode == 0 else process.returncode < 0


def _read_rows(path: Path) -> Any:
    """Return the rows of a file, which are in order, or a digest of those of a listing, which are in any order."""
    if path.is_file():
        return pq.read_table(path)
    table = pa.concat_tables(pq.read_table(file) for file in sorted(path.glob("*.parquet")))
    columns = [column.combine_chunks().flatten().to_numpy(zero_copy_only=False) for column in table.columns]
    rows = np.hstack([column.reshape(table.num_rows, -1) for column in columns])
    return hashlib.sha256(rows[np.lexsort(rows.T)].tobytes()).hexdigest()
