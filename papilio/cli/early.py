"""Waits that need no processor, begun before a command is loaded: the start of the GPU driver and of a context.

On an H200 they take 0.14 and 0.13 s, as long as importing the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from threading import Thread

_COUNTING = ("count", "enumerate", "decompose", "census", "measure")
"""Commands that run in this process by default."""

_ELSEWHERE = ("--cluster", "--engine=cpu", "--help")
"""Beginnings of words that tell them so, or that there is nothing to run."""


def begin_driver(words: Sequence[str]) -> None:
    """Start the driver in a thread where this command line, without the program, runs on a GPU of this process.

    It is a guess: a command that takes no GPU after all loses nothing but the memory of a context while it lasts. Where
    there are several GPUs workers may have them, and none gets a context.
    """
    if not words or words[0] not in _COUNTING or any(word.startswith(_ELSEWHERE) for word in words):
        return
    if "cpu" in words or find_spec("cupy") is None:
        return
    # Imported here, by the main thread: a thread that imports beside it may find its modules half imported.
    from papilio.kernels.device.discovery import begin_context

    # The interpreter waits for it at its end: a driver that is left while it starts may crash.
    Thread(target=begin_context, name="papilio-driver").start()
