"""Which process runs which tests when several run them (``pytest -n``)."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

__all__ = ["FileSchedule"]

_TOGETHER = ("tests/slurm", "tests/reports")
"""Folders whose tests share what takes long to make, or what a machine can have once."""


class FileSchedule(LoadFileScheduling):
    """Whole files, in the order of collection; some folders stay together."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return next((folder for folder in _TOGETHER if file.startswith(folder)), file)
