"""A preload of Dask's scheduler and nannies: TERM ends neither them nor the workers that they start.

Slurm sends TERM to all processes of a job at once. The client then ends its leases early and records them, for which it
needs the scheduler and the workers. Afterwards the batch script ends the scheduler by INT; the workers leave with it.
"""

from __future__ import annotations

import signal


def dask_setup(server: object) -> None:
    """Ignore TERM in this process and in its children, which inherit the setting."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
