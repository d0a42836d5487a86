"""The one error of the emulator."""

from __future__ import annotations

__all__ = ["EmulatorError"]


class EmulatorError(RuntimeError):
    """A kernel, a launch or a source that the emulator refuses; the message names thread, block, file and line."""
