"""Batch scripts for Slurm: scheduler, workers and client inside one allocation; and calls of its commands."""

from __future__ import annotations

import re
import shlex
import subprocess
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from papilio.arguments import Number, Workers, check_fields
from papilio.errors import ClusterError, InputError
from papilio.kernels.engine import EngineChoice
from papilio.motifs import Granularity
from papilio.storage.tables import format_of
from papilio.tasks.leases import MAX_LEASE_S

_COMMAND_S = 60.0
"""A controller that does not answer for this long is down."""

MIN_GRACE_S = 10
"""Ending a count, its workers and its scheduler takes a few seconds."""

_PATIENCE_SHARE, _MAX_PATIENCE_S = 0.5, 30
"""Time for a count to end normally: a share of the grace, at most this many seconds; it needs a
second, or three if workers do not answer."""

_ENDING_S, _MAX_WRAP_UP_S = 3, 15
"""Of that time, seconds for the end of the client after its leases; at most this long for the leases to end."""

_WORKER_SHARE = 0.9
"""Share of a node's memory for its workers; the client and the scheduler share the first node with them."""

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")
_GPUS = re.compile(r"(?:[A-Za-z0-9_.-]+:)?(?P<count>[1-9]\d*)")
_LOST_IN_DIRECTIVES = '"\\'
"""Characters that sbatch removes from the lines that it reads."""


@dataclass(frozen=True)
class SbatchSpec:
    """A count as one Slurm job, or as one array of jobs that differ in the number of workers."""

    motif: str
    store: str  # path of the graph store or the file of edges, as the nodes see it
    time: str  # time limit as Slurm writes it: ``02:00:00``, ``90`` (minutes), ``1-12``
    memory_bytes: int  # of each node; nine tenths of it are divided among the node's workers
    nodes: Workers = 1
    workers_per_node: Workers = 1  # CPU workers on each node; one per GPU with ``gpus_per_node``
    cpus_per_worker: Workers = 1  # processors of each worker, and threads of a CPU worker
    # GPUs on each node, as ``4`` or with their type as ``a100:4``; one worker each
    gpus_per_node: str | None = None
    command: Literal["count", "significance"] = "count"
    engine: EngineChoice = "auto"  # with GPUs ``auto`` means ``gpu``
    per: Granularity = "total"
    as_json: bool = False  # whether the answer is one JSON object
    counts: str | None = None  # file for the counts per vertex or edge, or of samples: Parquet, CSV, ..., by its suffix
    job: str | None = None  # directory of the durable job: running the script again resumes it
    max_requeues: Number = 0  # how often a run that hit the time limit is queued again; needs ``job``
    partition: str | None = None  # where Slurm runs the job and whom it charges; None: up to the site
    account: str | None = None
    name: str | None = None  # of the job; by default ``papilio-`` and the motif
    interface: str | None = None  # network interface of scheduler and workers, such as ``ib0``
    setup: tuple[str, ...] = ()  # shell lines that activate the environment with Papilio
    # Numbers of workers, one job each: a scaling experiment; empty for a single job with all workers.
    array: tuple[int, ...] = ()
    grace_s: int = 120  # seconds before the time limit at which the count is ended
    # Directory of a scaling experiment: each job of the array runs its point there, not a separate count.
    experiment: str | None = None
    figures: bool = True  # whether the jobs of an experiment draw the figures of its report
    motif_flags: tuple[str, ...] = ()  # words of the command line for the motif and the graph, such as sizes
    insecure: bool = False  # whether the scheduler takes connections without credentials

    @property
    def tasks_per_node(self) -> int:
        if self.gpus_per_node is None:
            return self.workers_per_node
        match = _GPUS.fullmatch(self.gpus_per_node)
        if match is None:
            raise InputError(
                f"gpus per node is {self.gpus_per_node!r}; expected a number from 1, or a type and a number such as "
                f"a100:4"
            )
        return int(match["count"])

    def validate(self) -> None:
        """Raise InputError for values that Slurm or the script cannot use."""
        check_fields(self)
        total, limit_s = self.nodes * self.tasks_per_node, parse_time(self.time)
        has_gpus, has_job, has_counts = (each is not None for each in (self.gpus_per_node, self.job, self.counts))
        refusals = [
            (has_gpus and self.workers_per_node != 1,
             f"workers per node is {self.workers_per_node} and gpus per node is {self.gpus_per_node}; each GPU has "
             f"one worker: set only one of the two"),
            (has_gpus and self.engine == "cpu",
             "the engine cpu would leave the GPUs idle; leave out the gpus per node"),
            (not has_gpus and self.engine == "gpu", "the engine gpu needs gpus per node"),
            (self.store == "-", "a batch job has no standard input (-); name a graph store or a file of edges"),
            (self.memory_bytes < self.tasks_per_node * 2**20,
             f"memory is {self.memory_bytes} bytes for a node; each worker needs at least 1 MiB"),
            (not MIN_GRACE_S <= self.grace_s < limit_s,
             f"grace is {self.grace_s} s with a time limit of {limit_s} s; expected between {MIN_GRACE_S} s and the "
             f"limit"),
            (any(not 1 <= n <= total for n in self.array),
             f"array is {', '.join(map(str, self.array))}; expected numbers of workers from 1 to {total} (nodes "
             f"times workers per node)"),
            (self.array and has_counts,
             "the jobs of an array would write the same file of counts; leave out one of the two"),
            (self.array and has_job,
             "the jobs of an array would share one job directory; leave out one of the two"),
            (self.max_requeues and not has_job,
             f"requeue is {self.max_requeues}, which needs a job directory: without one, each run would start again"),
            (has_counts and self.per == "total" and self.command == "count",
             "a file of counts needs per vertex or per edge; the output of the job contains the total"),
            (self.experiment is not None and not self.array,
             "the jobs of a scaling experiment are an array; set its numbers of workers"),
        ]  # fmt: skip
        refusal = next((message for is_wrong, message in refusals if is_wrong), None)
        if refusal is not None:
            raise InputError(refusal)
        if self.counts is not None:
            format_of(self.counts)
        for name in ("motif", "store", "interface", "counts", "job", "experiment"):
            require_plain(name, getattr(self, name) or "")
        for word in (*self.motif_flags, *self.setup):
            require_plain("a word of the script", word)
        for name in ("partition", "account", "name"):
            require_plain(name, getattr(self, name) or "", _LOST_IN_DIRECTIVES)
        if "/" in (self.name or ""):
            raise InputError(f"name is {self.name!r}; it is part of the log names: leave out the /")


def call_slurm(
    command: list[str], refusal: str, advice: str, *, script: str | None = None, folder: Path | None = None
) -> str:
    """Return the output of a Slurm command, called in ``folder`` with ``script`` on its standard input.

    ClusterError holds ``refusal``, the first line of Slurm's answer and ``advice``, or reports that it does not answer.
    """
    try:
        return subprocess.run(
            command, input=script, cwd=folder, check=True, capture_output=True, text=True, timeout=_COMMAND_S
        ).stdout
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"{command[0]} ended with exit code {error.returncode}"]
        raise ClusterError(f"{refusal}: {lines[0]}; {advice}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(
            f"{command[0]} does not answer ({error}); check that Slurm's controller is running"
        ) from error


def require_plain(what: str, text: str, others: str = "") -> None:
    """Raise InputError for characters that a script or a command line would not keep.

    These are control characters, lone surrogates, and ``others``; ``what`` names the text.
    """
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") or character in others:
            raise InputError(f"{what} is {text!r}; leave out the character {character!r}, which is lost there")


def parse_time(text: str) -> int:
    """Return the seconds of a time limit as Slurm writes it; InputError for anything else, and for zero.

    Minutes, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours``, ``days-hours:minutes`` or
    ``days-hours:minutes:seconds``.
    """
    match = _TIME.fullmatch(text)
    seconds = 0
    if match is not None:
        parts = [int(part) for part in match["clock"].split(":")]
        if match["days"] is not None:
            hours, minutes, rest = [*parts, 0, 0][:3]
        else:
            hours, minutes, rest = {1: [0, *parts, 0], 2: [0, *parts], 3: parts}[len(parts)]
        seconds = ((int(match["days"] or 0) * 24 + hours) * 60 + minutes) * 60 + rest
    if seconds < 1:
        raise InputError(f"time is {text!r}; expected minutes, HH:MM:SS or D-HH:MM:SS")
    return seconds


def render_count(spec: SbatchSpec) -> str:
    """Return the batch script of a count: bash, with its directives for sbatch.

    The scheduler and the client run on the first node of the allocation, the workers as one step over all nodes. The
    script ends with the exit code of the client, and ends the workers however the client ended. InputError for an
    invalid specification.
    """
    spec.validate()
    patience_s = min(int(_PATIENCE_SHARE * spec.grace_s), _MAX_PATIENCE_S)
    templates = Environment(
        loader=PackageLoader("papilio.cluster"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
    )
    templates.filters["quote"] = shlex.quote
    return templates.get_template("count.sbatch").render(
        spec=spec,
        gpu=spec.gpus_per_node is not None,
        memory_mib=-(-spec.memory_bytes // 2**20),
        memory_limit=int(spec.memory_bytes * _WORKER_SHARE) // spec.tasks_per_node,
        patience_s=patience_s,
        wrap_up_s=min(patience_s - _ENDING_S, _MAX_WRAP_UP_S),
        limit_s=parse_time(spec.time),
        min_grace_s=MIN_GRACE_S,
        first_lease_s=round(MAX_LEASE_S),
        command=_command(spec),
        arguments=shlex.join([spec.motif, spec.store] if spec.experiment is None else [spec.experiment]),
    )


def _command(spec: SbatchSpec) -> str:
    """Return command and flags of papilio, without the cluster and the number of workers.

    A value is in one word with its flag, so that it may begin with a dash.
    """
    if spec.experiment is not None:
        return shlex.join(["scale", "run", *([] if spec.figures else ["--no-figures"])])
    words = [spec.command, *spec.motif_flags, f"--per={spec.per}"]
    words.append(f"--engine={'gpu' if spec.gpus_per_node is not None else spec.engine}")
    if spec.as_json:
        words.append("--json")
    if spec.counts is not None:
        words.append(f"--output={spec.counts}")
    if spec.job is not None:
        words.append(f"--job={spec.job}")
    return shlex.join(words)
