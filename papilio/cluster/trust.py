"""Who else could change a file that names a cluster or an output."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from papilio.cluster.executor import OWN_CLUSTERS
from papilio.errors import InputError
from papilio.system_errors import reason_of


def find_stranger(path: Path) -> str | None:
    """Return another user, except root, who can change or replace this file, or None.

    Group write permission counts unless the group is this user's alone. In a directory with the sticky bit, others can
    create files but cannot replace this one.
    """
    for place in (path, path.parent):
        try:
            found = place.stat()
        except OSError as error:
            return f"{place} cannot be examined ({reason_of(error)})"
        if found.st_uid not in (os.geteuid(), 0):
            return f"{place} belongs to {_name_of(found.st_uid)}"
        if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
            continue
        by_group = found.st_mode & stat.S_IWGRP and not _is_private_group(found.st_gid)
        if by_group or found.st_mode & stat.S_IWOTH:
            return f"{place} is writable by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return None


def require_trusted(cluster: str | None, named_in: Path) -> None:
    """Raise for a cluster named in a file that others can write, unless it is one that this process starts.

    The InputError names the file ``named_in`` and who can write it.
    """
    if cluster is None or cluster in OWN_CLUSTERS:
        return
    files = [named_in, Path(cluster)] if os.path.isfile(cluster) else [named_in]
    for file in files:
        stranger = find_stranger(file)
        if stranger is not None:
            raise InputError(
                f"{named_in} names the cluster {cluster!r}, and {stranger}, who could run code as you; name the "
                f"cluster yourself (--cluster), or trust them (--trust)"
            )


def require_trusted_output(output: str | None, named_in: Path) -> None:
    """Raise before replacing a file or directory that is named in a file which others can write.

    The InputError names the file ``named_in`` and who can write it.
    """
    if output is None or not os.path.lexists(output):
        return
    stranger = find_stranger(named_in)
    if stranger is not None:
        raise InputError(
            f"{named_in} names the existing output {output}, and {stranger}: move it away, or trust them (--trust)"
        )


def _name_of(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _is_private_group(gid: int) -> bool:
    """Whether a group is this user's alone: by convention it has the same name and no other members."""
    try:
        group, me = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return gid == me.pw_gid and group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}
