"""Build hook of hatchling: ``pip install .`` compiles the CPU kernels for this machine, so that first calls need not.

The code is for the best level of x86-64 that the machine has, or for its very processor elsewhere; other machines do
not find it by its name, and compile. Nothing is compiled for an editable installation, nor where ``make wheel`` has
left code for all levels. Without Numba, or after the limit of time, the wheel has less code, or none.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement

VARIABLE, LIMIT_S = "PAPILIO_COMPILE_SECONDS", 60.0
"""Environment variable that sets the limit of time, in seconds; 0 compiles nothing."""

FOLDER = "papilio/kernels/machine_code"
"""Of the code in a wheel, and in a checkout after ``make wheel``."""

IMPORTED = ("click", "duckdb", "numba", "numpy", "psutil", "pyarrow", "xxhash")
"""Dependencies of the package that its commands import when they count."""


def read_limit() -> float:
    """Return the limit of time in seconds; ValueError if the variable is not a number."""
    given = os.environ.get(VARIABLE, "").strip()
    try:
        return float(given) if given else LIMIT_S
    except ValueError:
        raise ValueError(
            f"{VARIABLE} is {given!r}; set it to a number of seconds, or to 0 to compile nothing ahead"
        ) from None


class MachineCode(BuildHookInterface):  # type: ignore[misc]
    """Adds machine code to the wheel."""

    _scratch: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Return the requirements of the commands that are run to compile; none where nothing will be compiled."""
        # Hatchling does not say which build it asks for.
        is_editable = any(frame.function == "get_requires_for_build_editable" for frame in inspect.stack(0))
        if is_editable or not self._is_wanted():
            return []
        return [each for each in self.metadata.core.dependencies if Requirement(each).name in IMPORTED]

    def _is_wanted(self) -> bool:
        return read_limit() > 0 and not any(Path(self.root, FOLDER).glob("*"))

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a temporary folder, and have its files included."""
        if version == "editable" or not self._is_wanted():
            return
        sys.path.insert(0, self.root)
        try:
            from tools.build_machine_code import BuildError, build
        finally:
            sys.path.remove(self.root)
        self._scratch = tempfile.TemporaryDirectory()
        began, limit_s = monotonic(), read_limit()
        try:
            files, finished = build(Path(self._scratch.name, "code"), here=True, seconds=limit_s)
        except (BuildError, OSError) as error:
            self._scratch.cleanup()
            self.app.display_warning(f"papilio: no kernels are compiled ahead ({error}); first calls compile them")
            return
        build_data["force_include"].update({str(path): f"{FOLDER}/{path.name}" for path in files})
        rest = "" if finished else f"; the limit of {limit_s:g} s was reached, and first calls compile the rest"
        self.app.display_info(f"papilio: {len(files)} kernels compiled in {monotonic() - began:.0f} s{rest}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if self._scratch is not None:
            self._scratch.cleanup()
