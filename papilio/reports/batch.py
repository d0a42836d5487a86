"""Hand the points of an experiment to Slurm: one array, each job of which runs one point."""

from __future__ import annotations

import shutil
import subprocess

from papilio.cluster.sbatch import SbatchSpec, render_count
from papilio.errors import ClusterError, EngineUnavailableError
from papilio.reports.experiment import ExperimentDirectory
from papilio.storage.ledger import write_durably

__all__ = ["submit_points", "unfinished_points"]

_SUBMIT_S = 60.0
"""A controller that does not answer for so long is down."""


def unfinished_points(directory: ExperimentDirectory) -> tuple[int, ...]:
    """Return the numbers of workers whose repetitions are not all finished."""
    experiment = directory.experiment
    done = dict.fromkeys(experiment.workers, 0)
    for record in directory.finished_runs():
        done[record.workers] += 1
    return tuple(workers for workers, number in done.items() if number < experiment.repeat)


def submit_points(directory: ExperimentDirectory, spec: SbatchSpec) -> str:
    """Write ``slurm/points.sbatch`` into the experiment and submit it from there; return the id of the array.

    Parameters
    ----------
    directory : ExperimentDirectory
        On a file system that all nodes see.
    spec : SbatchSpec
        Its array names the points.

    Raises
    ------
    InputError
        When the specification makes no sense.
    EngineUnavailableError
        Without sbatch.
    ClusterError
        When Slurm refuses.
    """
    script = render_count(spec)
    if shutil.which("sbatch") is None:
        raise EngineUnavailableError(
            "submitting to Slurm needs sbatch, which is not on the PATH; run this on a login node"
        )
    folder = directory.root / "slurm"
    folder.mkdir(exist_ok=True)
    write_durably(folder / "points.sbatch", script)
    command = ["sbatch", "--parsable", "points.sbatch"]
    try:
        answer = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=_SUBMIT_S
        )
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"Slurm refuses the jobs of the experiment: {error.stderr.strip()}") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"sbatch did not answer within {_SUBMIT_S:.0f} s; see whether Slurm runs"
        ) from error
    return answer.stdout.strip().split(";")[0]
