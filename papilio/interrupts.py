"""Signals that end the command line: heard at once, answered within seconds, whatever the process is at.

    0 s           The signal. :class:`Stopped` is raised in the main thread, and everything is taken down. A job whose
                  finished leases are kept (:func:`finishing`) is not interrupted yet: its leases are cut, and what they
                  counted is registered.
    WRAP_UP_S     A job that is still at it is interrupted too; a second signal does so at once.
    LIMIT_S       A process that is still there, in a call that cannot be interrupted or on a file system that hangs,
                  ends the hard way: its worker processes are killed, its temporary files removed.

A thread hears signals through a pipe that the C handler of Python writes to, so that none waits for the main thread.
Only the command line listens: a program that uses Papilio as a library keeps its own handling of signals, and all that
is asked here then says that nothing has happened. Nothing heavy is imported, so that listening begins early.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType
    from typing import Any

WRAP_UP_S = 1.5
"""How long leases may take to end, and their answers to be registered."""

LIMIT_S = 2.3
"""How long all that follows a signal may take, before the process ends the hard way."""

REMOVAL_S = 0.4
"""How long removing temporary files may take then."""

_REMINDER_S = 0.2
"""How often the main thread is reminded of an exception that a library has swallowed."""

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Stopped(SystemExit):
    """A signal ends the process; raised in the main thread.

    Being a SystemExit, it ends the process with the right code and no traceback wherever it surfaces.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum

    def __str__(self) -> str:
        return signal.Signals(self.signum).name


class _Listener:
    """The signals of this process while its command line runs."""

    def __init__(self) -> None:
        self.signum = 0  # the first signal that was heard
        self.heard = 0  # how many were
        self.n_held = self.n_finishing = 0  # blocks of held() and finishing() that the main thread is in
        self.raised = False  # whether the main thread was interrupted
        self.advice = ""  # how to go on afterwards
        self._late = self._said = False
        self.wakers: list[Callable[[], None]] = []
        self.removals: list[str] = []
        self._lock = threading.Lock()
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1
        self._pipe = -1, -1

    def install(self) -> None:
        """Hear signals from now on."""
        self._pipe = os.pipe()
        for descriptor in self._pipe:
            os.set_inheritable(descriptor, False)
        os.set_blocking(self._pipe[1], False)
        self._before = {signum: signal.signal(signum, self._on_signal) for signum in _WORDS}
        self._wakeup_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        atexit.register(self.say)
        threading.Thread(target=self._watch, name="papilio-signals", daemon=True).start()

    def remove(self) -> None:
        """Hear no more, and leave the handling of signals as it was."""
        atexit.unregister(self.say)
        signal.set_wakeup_fd(self._wakeup_before)
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        os.close(self._pipe[1])

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        """Take a signal, or a reminder of one, in the main thread."""
        if not self.signum:
            self.signum = signum
            with suppress(OSError):
                os.write(self._pipe[1], bytes([signum]))
        self.heard += 1
        self.answer()

    def answer(self) -> None:
        """Interrupt the main thread, which this is called in, unless it is to come to an end by itself."""
        insisted = self._late or self.heard > 1
        if self.signum and not self.raised and not self.n_held and (not self.n_finishing or insisted):
            self.raised = True
            _keep_quiet(self)
            raise Stopped(self.signum)

    def _watch(self) -> None:
        """Wait for the first signal; then for the end of the process, which comes in time."""
        heard = b""
        while not any(number in _WORDS for number in heard):
            heard = os.read(self._pipe[0], 64)
            if not heard:
                os.close(self._pipe[0])
                return
        began = monotonic()
        self.signum = self.signum or next(number for number in heard if number in _WORDS)
        for wake in tuple(self.wakers):
            wake()
        while (passed := monotonic() - began) < LIMIT_S:
            threading.Event().wait(_REMINDER_S)
            self._late = passed >= WRAP_UP_S
            if not self.raised and not self.n_held and (self._late or not self.n_finishing):
                signal.pthread_kill(threading.main_thread().ident or 0, self.signum)
        self._end_hard()

    def _end_hard(self) -> None:
        """End this process and its workers."""
        last = threading.Timer(REMOVAL_S, os._exit, [128 + self.signum])
        last.daemon = True
        last.start()
        self.say()
        _kill_children()
        for path in tuple(self.removals):
            _remove(path)
        os._exit(128 + self.signum)

    def say(self) -> None:
        """Write the one line on how the process ends, once, where a signal ends it."""
        with self._lock:
            if self._said or not self.signum:
                return
            self._said = True
        more = f"; {self.advice}" if self.advice else ""
        with suppress(OSError):
            os.write(2, f"papilio: {_WORDS[signal.Signals(self.signum)]}{more}\n".encode())


_listener: _Listener | None = None


def listen_during(run: Callable[[], Any]) -> None:
    """Call ``run`` and answer SIGINT and SIGTERM meanwhile; where one comes, until the process has ended.

    Stopped is raised then, after a line on standard error. It is no context manager: a signal between its beginning and
    that of its block would be answered without a word.
    """
    global _listener
    listener = _listener = _Listener()
    try:
        listener.install()
        run()
    except Stopped:
        listener.say()
        raise
    finally:
        if not listener.signum:
            listener.remove()
            _listener = None


def requested() -> bool:
    """Return whether a signal asked this process to end; from any thread."""
    return _listener is not None and _listener.signum != 0


def check() -> None:
    """Raise Stopped where a signal came, interrupted before or not: before what would take less than all for all."""
    if _listener is not None and _listener.signum:
        _listener.raised = True
        raise Stopped(_listener.signum)


@contextmanager
def held() -> Iterator[None]:
    """Interrupt the main thread after the block, not in it."""
    listener = _listener_of_main_thread()
    if listener is None:
        yield
        return
    listener.n_held += 1
    try:
        yield
    finally:
        listener.n_held -= 1
        listener.answer()


@contextmanager
def finishing() -> Iterator[None]:
    """Let the block, which asks :func:`requested`, end by itself within ``WRAP_UP_S`` after a signal; then raise."""
    listener = _listener_of_main_thread()
    if listener is None:
        yield
        return
    listener.n_finishing += 1
    try:
        yield
    finally:
        listener.n_finishing -= 1
    check()


def _listener_of_main_thread() -> _Listener | None:
    return _listener if threading.current_thread() is threading.main_thread() else None


@contextmanager
def _listed(name: str, wanted: Any) -> Iterator[None]:
    """Keep ``wanted`` in a list of the listener while the block runs."""
    listed: list[Any] = [] if _listener is None else getattr(_listener, name)
    listed.append(wanted)
    try:
        yield
    finally:
        listed.remove(wanted)


def waking(wake: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``wake`` from another thread at the first signal that comes while the block runs."""
    return _listed("wakers", wake)


def removed_at_end(path: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Have a file or directory, which the block removes however it ends, removed also where it cannot end."""
    return _listed("removals", os.fspath(path))


def set_advice(text: str) -> None:
    """Say ``text`` with the line on how the process ends, should a signal come; the empty text for nothing."""
    if _listener is not None:
        _listener.advice = text


def _keep_quiet(listener: _Listener) -> None:
    """Keep what threads, callbacks and loggers have to say of an end that was asked for to themselves."""
    with suppress(AttributeError, KeyError):  # of a module that is not imported, or not wholly
        sys.modules["logging"].disable()
    threading.excepthook = lambda failed: None

    def on_unraisable(failed: Any) -> None:
        if isinstance(failed.exc_value, Stopped):
            listener.raised = False  # what was raised in the main thread got lost: it is interrupted again

    sys.unraisablehook = on_unraisable


def _kill_children() -> None:
    """Kill all processes below this one but the tracker that removes what they shared.

    Nothing is imported: the main thread may hang in an import. Who has started processes has imported psutil.
    """
    psutil, trackers = (sys.modules.get(name) for name in ("psutil", "multiprocessing.resource_tracker"))
    tracker = getattr(getattr(trackers, "_resource_tracker", None), "_pid", None)
    with suppress(Exception):
        for child in psutil.Process().children(recursive=True) if psutil else ():
            if child.pid != tracker:
                with suppress(Exception):
                    child.kill()


def _remove(path: str) -> None:
    """Remove a file or a directory; whoever made it has imported what removes it."""
    with suppress(OSError, KeyError):
        if os.path.isdir(path):
            sys.modules["shutil"].rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
