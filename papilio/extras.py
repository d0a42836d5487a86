"""Optional packages: the extra that installs each of them, and the error for a missing one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from papilio.errors import MissingPackageError

EXTRAS = {
    "aiohttp": "https",
    "bokeh": "dashboard",
    "cupy": "cuda13",
    "dask_cuda": "cuda13",
    "dask_jobqueue": "slurm",
    "igraph": "graphs",
    "matplotlib": "report",
    "networkx": "graphs",
    "pandas": "frames",
    "polars": "frames",
    "scipy": "graphs",
}
"""The extra of ``pyproject.toml`` that installs each optional module."""


def how_to_install(module: str) -> str:
    """Return the command that installs an optional module."""
    older = " (papilio[cuda12] for drivers older than CUDA 13)" if EXTRAS[module] == "cuda13" else ""
    return f"pip install 'papilio[{EXTRAS[module]}]'{older}"


def missing_package(what: str, module: str, instead: str = "") -> MissingPackageError:
    """Return the error for ``what``, such as ``figures need``, with the alternative ``instead``."""
    advice = f", or {instead}" if instead else ""
    return MissingPackageError(f"{what} {module}: {how_to_install(module)}{advice}", name=module)


def import_extra(module: str, what: str, instead: str = "") -> Any:
    """Import an optional module for ``what``, such as ``figures need``; MissingPackageError if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the package is installed but one of its dependencies is missing
        raise missing_package(what, module.split(".")[0], instead) from error
