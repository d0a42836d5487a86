"""Signals that end the command line: noticed at once, handled within seconds, whatever the process does.

    0 s           The signal. :class:`Stopped` is raised in the main thread, which cleans up. Only a job that keeps its
                  leases (:func:`finishing`) is not interrupted yet: its leases are cut, and their counts registered.
    wrap_up_s()   A job that is still running is interrupted, too; a second Ctrl-C does so at once. A second TERM does
                  not: batch systems send it to all processes of a job, and a script may pass it on to this one.
    + LIMIT_S     A process that is still alive, in a call that cannot be interrupted or on a file system that hangs,
                  exits at once: its worker processes are killed, its temporary files removed.

A thread receives signals through a pipe that the C handler of Python writes to, so that none waits for the main thread.
Only the command line listens: a program that uses Papilio as a library keeps its own handlers, and the functions here
then see no signal. Nothing heavy is imported, so that listening begins early.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from papilio.settings import WRAP_UP_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

WRAP_UP_S = 1.5
"""Time for leases to end and their counts to be registered, unless the environment sets another."""

LIMIT_S = 0.8
"""Time from then until the process exits at once."""

REMOVAL_S = 0.4
"""Time for removing temporary files in that case."""

_REMINDER_S = 0.2
"""Interval at which the main thread is interrupted again, since libraries swallow exceptions."""

_END = b"\0"
"""Written to the pipe of signals when no more are listened for."""

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def wrap_up_s() -> float:
    """Return the seconds for leases to end; a batch system that gives more time sets more."""
    try:
        return float(WRAP_UP_SECONDS.value or WRAP_UP_S)
    except ValueError:
        return WRAP_UP_S


class Stopped(SystemExit):
    """A signal ends the process; raised in the main thread, with the exit code of the signal and no traceback."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum

    def __str__(self) -> str:
        return signal.Signals(self.signum).name


class _Listener:
    """The signals of this process while its command line runs; one that was never installed sees none."""

    def __init__(self) -> None:
        self.signum = self.heard = 0  # the first signal, and the number of signals that insist
        self.n_uninterrupted = self.n_finishing = 0  # blocks of uninterrupted() and finishing() around the main thread
        self.raised = self._late = False  # the main thread was interrupted; WRAP_UP_S is over
        self.advice, self.pipe = "", -1
        self.wakers: list[Callable[[], None]] = []
        self.removals: list[str] = []
        self._once = threading.Lock()

    def on_signal(self, signum: int, frame: object) -> None:
        """Take a signal, or a reminder of one, in the main thread."""
        if not self.signum:
            self.signum = signum
            with suppress(OSError):
                os.write(self.pipe, bytes([signum]))
        self.heard += signum == signal.SIGINT or not self.heard
        self.answer()

    def answer(self) -> None:
        """Interrupt the main thread, which calls this, unless it must end on its own."""
        insisted = self._late or self.heard > 1
        if self.signum and not self.raised and not self.n_uninterrupted and (not self.n_finishing or insisted):
            self.raised = True
            _keep_quiet(self)
            raise Stopped(self.signum)

    def watch(self, pipe: int) -> None:
        """Wait for the first signal, in a thread, and then for the end of the process; ends when nobody listens."""
        for heard in iter(lambda: os.read(pipe, 1).strip(_END), b""):
            if heard[0] in _WORDS:
                self.signum = self.signum or heard[0]
                self._end()
        os.close(pipe)

    def _end(self) -> None:
        began = monotonic()
        for wake in tuple(self.wakers):
            wake()
        wrap_up = wrap_up_s()
        while (passed := monotonic() - began) < wrap_up + LIMIT_S:
            sleep(_REMINDER_S)
            self._late = passed >= wrap_up
            if not self.raised and not self.n_uninterrupted and (self._late or not self.n_finishing):
                signal.pthread_kill(threading.main_thread().ident or 0, self.signum)
        last = threading.Timer(REMOVAL_S, os._exit, [128 + self.signum])
        last.daemon = True
        last.start()
        self.say()
        _kill_children()
        for path in tuple(self.removals):
            with suppress(OSError, KeyError):  # without shutil no directory was made
                if os.path.isdir(path):
                    sys.modules["shutil"].rmtree(path, ignore_errors=True)
                else:
                    os.unlink(path)
        os._exit(128 + self.signum)

    def say(self) -> None:
        """Print the one line on how the process ends, once, if a signal ends it."""
        if self.signum and self._once.acquire(blocking=False):
            text = "; ".join(filter(None, (_WORDS[signal.Signals(self.signum)], self.advice)))
            with suppress(OSError):
                os.write(2, f"papilio: {text}\n".encode())


_listener = _Listener()


def listen_during(run: Callable[[], Any]) -> None:
    """Call ``run`` and handle SIGINT and SIGTERM meanwhile; after one, until the process has ended.

    Stopped is raised then, after a line on standard error. This is no context manager: a signal between entering it and
    entering its block would be handled silently.
    """
    global _listener
    listener = _listener = _Listener()
    reads, listener.pipe = os.pipe()
    os.set_blocking(listener.pipe, False)
    before: dict[int, Any] = {}
    wakeup = -1
    watcher = threading.Thread(target=listener.watch, args=[reads], name="papilio-signals", daemon=True)
    try:
        before |= {signum: signal.signal(signum, listener.on_signal) for signum in _WORDS}
        wakeup = signal.set_wakeup_fd(listener.pipe, warn_on_full_buffer=False)
        atexit.register(listener.say)
        watcher.start()
        run()
    except Stopped:
        listener.say()
        raise
    finally:
        if not listener.signum:
            atexit.unregister(listener.say)
            signal.set_wakeup_fd(wakeup)
            for signum, handler in before.items():
                signal.signal(signum, handler)
            os.write(listener.pipe, _END)
            os.close(listener.pipe)
            if watcher.ident is not None:
                watcher.join()  # a thread that still runs while Python shuts down can abort the process
            _listener = _Listener()


def requested() -> bool:
    """Return whether a signal asked this process to end; from any thread."""
    return _listener.signum != 0


def check() -> None:
    """Raise Stopped after a signal, even if it was raised before: before work that must not begin then."""
    if _listener.signum:
        _listener.raised = True
        raise Stopped(_listener.signum)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Interrupt the main thread after the block, not in it."""
    listener = _listener_of_thread()
    listener.n_uninterrupted += 1
    try:
        yield
    finally:
        listener.n_uninterrupted -= 1
        listener.answer()


_TRACKER_QUIET = "ignore::UserWarning:multiprocessing.resource_tracker"


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Start worker processes that neither Ctrl-C nor TERM reaches; this process takes one in the block afterwards.

    A terminal sends the interrupt to all processes of the group, and so do batch systems and ``timeout`` with TERM.
    Threads and processes inherit the signal mask of the thread that starts them, so workers that a nanny restarts later
    have it too. Only this process then handles a signal: it ends the leases of the workers. The resource tracker of
    multiprocessing clears the mask of the thread that starts it, so it is started first; it cleans up after killed
    processes silently.
    """
    from multiprocessing import resource_tracker

    sys.warnoptions.append(_TRACKER_QUIET)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(_TRACKER_QUIET)
    with uninterrupted():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WORDS.keys())
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def finishing() -> Iterator[None]:
    """Let the block, which checks :func:`requested`, finish within :func:`wrap_up_s` after a signal; then raise."""
    listener = _listener_of_thread()
    listener.n_finishing += 1
    try:
        yield
    finally:
        listener.n_finishing -= 1
    if listener is _listener:
        check()


def _listener_of_thread() -> _Listener:
    return _listener if threading.current_thread() is threading.main_thread() else _Listener()


@contextmanager
def _listed(items: list[Any], item: Any) -> Iterator[None]:
    items.append(item)
    try:
        yield
    finally:
        items.remove(item)


def waking(wake: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``wake`` from another thread at the first signal during the block."""
    return _listed(_listener.wakers, wake)


def removed_at_end(path: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Remove a file or directory also if the process exits at once; otherwise the block removes it."""
    return _listed(_listener.removals, os.fspath(path))


def keep_until_end(path: str | os.PathLike[str]) -> None:
    """Remove a file or directory if the process exits at once; otherwise its owner does, when the process ends."""
    _listener.removals.append(os.fspath(path))


def set_advice(text: str) -> None:
    """Print ``text`` with the line on how the process ends, if a signal comes; the empty text for nothing."""
    _listener.advice = text


def _keep_quiet(listener: _Listener) -> None:
    """Silence threads, callbacks and loggers, which would report the end as an error."""
    with suppress(AttributeError, KeyError):  # of a module that is not imported, or not wholly
        sys.modules["logging"].disable()
    threading.excepthook = lambda failed: None

    def on_unraisable(failed: Any) -> None:
        if isinstance(failed.exc_value, Stopped):
            listener.raised = False  # the exception got lost, and is raised again

    sys.unraisablehook = on_unraisable


def _kill_children() -> None:
    """Kill all child processes but the tracker that removes their shared files.

    Nothing is imported, as the main thread may hang in an import: code that starts processes has imported psutil.
    """
    psutil, trackers = (sys.modules.get(name) for name in ("psutil", "multiprocessing.resource_tracker"))
    tracker = getattr(getattr(trackers, "_resource_tracker", None), "_pid", None)
    with suppress(Exception):
        for child in psutil.Process().children(recursive=True) if psutil else ():
            if child.pid != tracker:
                with suppress(Exception):
                    child.kill()
