"""Errors of the operating system in words: the report, and the remedy about that cause and no other."""

from __future__ import annotations

import errno

_REMEDIES: dict[str, tuple[int, ...]] = {
    "free space there": (errno.ENOSPC,),
    "free space there, or have the quota raised": (errno.EDQUOT,),
    "raise the limit on the size of files (ulimit -f)": (errno.EFBIG,),
    "check its permissions": (errno.EACCES, errno.EPERM),
    "it can only be read: have it mounted for writing": (errno.EROFS,),
    "the file or its directory is gone: check that it exists and is mounted on this machine": (
        errno.ENOENT, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ENOTCONN,
    ),
    "check its path": (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTEMPTY),
    "check the disk or the file server": (errno.EIO, errno.EREMOTEIO, errno.ENOLCK),
    "nothing answered in time: check the server and the network, then try again": (errno.ETIMEDOUT,),
    "check the server and the network": (
        errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.EHOSTDOWN, errno.EHOSTUNREACH,
        errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET,
    ),
    "raise the limit on open files (ulimit -n)": (errno.EMFILE, errno.ENFILE),
    "raise the limit on processes (ulimit -u)": (errno.EAGAIN,),
    "free memory": (errno.ENOMEM,),
    "another program uses it: wait for that program, or end it": (errno.EBUSY, errno.ETXTBSY),
    "its file system cannot do this: use another one": (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS),
}  # fmt: skip

_REMEDY_OF = {code: remedy for remedy, codes in _REMEDIES.items() for code in codes}

_CODES: tuple[tuple[type[OSError], int], ...] = (
    (TimeoutError, errno.ETIMEDOUT),
    (FileNotFoundError, errno.ENOENT),
    (PermissionError, errno.EACCES),
    (NotADirectoryError, errno.ENOTDIR),
    (IsADirectoryError, errno.EISDIR),
    (FileExistsError, errno.EEXIST),
    (ConnectionRefusedError, errno.ECONNREFUSED),
    (ConnectionError, errno.ECONNRESET),
)
"""Classes that libraries also raise without a code."""


def code_of(error: BaseException) -> int | None:
    """Return the code of an error of the system, by its class if it carries none; None for any other error."""
    code = getattr(error, "errno", None)
    return code if code in errno.errorcode else next((each for kind, each in _CODES if isinstance(error, kind)), None)


def reason_of(error: BaseException) -> str:
    """Return what the system reports, without the path."""
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    return text or ("timed out" if code_of(error) == errno.ETIMEDOUT else type(error).__name__)


def place_of(error: BaseException) -> str:
    """Return `` at PATH`` for an error that names a path, else nothing."""
    path = getattr(error, "filename", None)
    return "" if path is None else f" at {path}"


def explain(error: BaseException, after: str = "") -> str:
    """Return ``(REASON); REMEDY, AFTER``, to stand behind what failed.

    ``FILE: cannot be written (No space left on device); free space there, then resume``. The remedy is for the cause
    that the system reports; an unknown cause has none.
    """
    advice = ", ".join(filter(None, (_REMEDY_OF.get(code_of(error) or 0), after)))
    return f"({reason_of(error)})" + (advice and f"; {advice}")
