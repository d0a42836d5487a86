"""Hand the points of an experiment to Slurm: one array, each job of which runs one point."""

from __future__ import annotations

import shutil

from papilio.cluster.sbatch import SbatchSpec, call_slurm, render_count
from papilio.errors import EngineUnavailableError
from papilio.reports.experiment import ExperimentDirectory
from papilio.storage.ledger import write_durably


def submit_points(directory: ExperimentDirectory, spec: SbatchSpec) -> str:
    """Write ``slurm/points.sbatch`` into the experiment and submit it from there; return the id of the array.

    The directory is on a file system that all nodes see; the array of ``spec`` names the points. InputError when the
    specification makes no sense. EngineUnavailableError without sbatch. ClusterError when Slurm refuses.
    """
    script = render_count(spec)
    if shutil.which("sbatch") is None:
        raise EngineUnavailableError(
            "submitting to Slurm needs sbatch, which is not on the PATH; run this on a login node"
        )
    folder = directory.root / "slurm"
    folder.mkdir(exist_ok=True)
    write_durably(folder / "points.sbatch", script)
    answer = call_slurm(
        ["sbatch", "--parsable", "points.sbatch"],
        "Slurm refuses the jobs of the experiment",
        "change the options",
        folder=folder,
    )
    return answer.strip().split(";")[0]
