"""Hosts on one machine whose links fail as told: each is a network namespace, all are joined by a switch in Python.

A host has an interface of its own (a TUN device), a host name and its own mounts. The switch reads the packets of all
interfaces, and delivers, delays or drops each. Unlike a bridge with ``tc netem`` it needs no module of the kernel but
``tun``, and a link can fail in one direction only. When this process ends, in whatever way, nothing is left: the
namespaces live as long as the processes in them.

It needs root, ``/dev/net/tun`` and the commands ``ip``, ``unshare`` and ``nsenter``; :func:`missing_for_network` tries.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import selectors
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import IO, Any, Self

SUBNET = "10.87.0"
"""Of all networks: each is in namespaces that no other one sees."""

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_PACKET_BYTES = 1 << 16
_QUEUED_PACKETS = 1000


@dataclass
class Link:
    """What happens to the packets of a host; change it at any time.

    Attributes
    ----------
    sends, receives : bool
        Whether packets leave the host, and reach it.
    loss : float
        Share of the packets, in each direction, that is lost.
    delay_s : float
        Time that packets take longer, in each direction.
    """

    sends: bool = True
    receives: bool = True
    loss: float = 0.0
    delay_s: float = 0.0

    def cut(self) -> None:
        """Let nothing through."""
        self.sends = self.receives = False

    def mend(self) -> None:
        """Let all through."""
        self.sends = self.receives = True


@dataclass(frozen=True)
class Host:
    """A host of a network: its name and address, the process that holds its namespaces, its end of the switch."""

    name: str
    address: str
    holder: subprocess.Popen[str]
    tun: int
    link: Link = field(default_factory=Link)

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs ``command`` on this host, as the same process."""
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--mount", "--uts", *command]

    def start(self, *command: str, environment: Mapping[str, str] | None = None, **options: Any) -> Any:
        """Start a process on this host, with more or other environment variables; options as of ``Popen``."""
        return subprocess.Popen(self.command(*command), env=os.environ | (environment or {}), **options)

    def call(self, *command: str) -> None:
        """Run a short command on this host."""
        subprocess.run(self.command(*command), check=True, capture_output=True, text=True)

    def cover(self, path: Path, other: Path) -> None:
        """Let processes of this host find ``other`` at ``path``."""
        self.call("mount", "--bind", str(other), str(path))

    def mount_small(self, path: Path, n_bytes: int) -> None:
        """Mount an empty file system of ``n_bytes`` in memory at ``path``, on this host only."""
        self.call("mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(path))

    def resize(self, path: Path, n_bytes: int) -> None:
        """Change the size of a file system in memory."""
        self.call("mount", "-o", f"remount,size={n_bytes}", str(path))

    def view(self, path: Path) -> Path:
        """Return where this process finds the file that processes of this host find at ``path``."""
        return Path(f"/proc/{self.holder.pid}/root", *path.absolute().parts[1:])


class Network:
    """Some hosts and the switch between them, from entering to leaving; processes on the hosts are killed at the end.

    ``seed`` determines which packets are lost.
    """

    def __init__(self, names: Sequence[str], seed: int = 1) -> None:
        self._names, self._chance = names, random.Random(seed)
        self._stack = ExitStack()
        self.hosts: dict[str, Host] = {}

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for number, name in enumerate(self._names, 1):
                self.hosts[name] = _make_host(stack, name, f"{SUBNET}.{number}")
            ended, end = os.pipe()
            stack.callback(os.close, ended)
            switch = Thread(target=self._forward, args=(ended,), name="switch", daemon=True)
            switch.start()
            stack.callback(switch.join)
            stack.callback(os.close, end)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _forward(self, ended: int) -> None:
        """Deliver packets until the other end of the pipe ``ended`` is closed."""
        by_address = {bytes(map(int, host.address.split("."))): host for host in self.hosts.values()}
        on_the_way: list[tuple[float, int, bytes, Host]] = []
        with selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ)
            for host in self.hosts.values():
                selector.register(host.tun, selectors.EVENT_READ, host)
            number = 0
            while True:
                wait_s = max(0.0, on_the_way[0][0] - monotonic()) if on_the_way else None
                for key, _ in selector.select(wait_s):
                    if key.data is None:
                        return
                    for packet in _read_packets(key.fd):
                        target = by_address.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                        delay_s = None if target is None else self._delay(key.data.link, target.link)
                        if target is not None and delay_s is not None:
                            number += 1
                            heapq.heappush(on_the_way, (monotonic() + delay_s, number, packet, target))
                while on_the_way and on_the_way[0][0] <= monotonic():
                    _, _, packet, target = heapq.heappop(on_the_way)
                    with suppress(OSError):  # its queue is full: the packet is lost
                        os.write(target.tun, packet)

    def _delay(self, source: Link, target: Link) -> float | None:
        """Return how long a packet is on its way; None if it is lost."""
        if not (source.sends and target.receives) or self._chance.random() < source.loss + target.loss:
            return None
        return source.delay_s + target.delay_s


def _make_host(stack: ExitStack, name: str, address: str) -> Host:
    script = f"hostname {name} && ip link set lo up && echo ready && exec cat"
    holder = stack.enter_context(
        subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(_close, holder.stdin)  # which ends it
    assert holder.stdout is not None
    if holder.stdout.readline() != "ready\n":
        raise OSError("namespaces cannot be made")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    stack.callback(os.close, tun)
    request = struct.pack("16sH22x", b"lab%d", _IFF_TUN | _IFF_NO_PI)
    interface = fcntl.ioctl(tun, _TUNSETIFF, request)[:16].rstrip(b"\0").decode()
    host = Host(name, address, holder, tun)
    subprocess.run(["ip", "link", "set", interface, "netns", str(holder.pid)], check=True, capture_output=True)
    host.call("ip", "address", "add", f"{address}/24", "dev", interface)
    host.call("ip", "link", "set", interface, "up", "txqueuelen", str(_QUEUED_PACKETS))
    return host


def _close(file: IO[str] | None) -> None:
    if file is not None:
        file.close()


def _read_packets(tun: int) -> list[bytes]:
    packets: list[bytes] = []
    with suppress(OSError):  # none is left
        while len(packets) < _QUEUED_PACKETS:
            packets.append(os.read(tun, _PACKET_BYTES))
    return packets


@cache
def missing_for_network() -> str | None:
    """Return why there can be no network of namespaces here, or None; by trying."""
    lacking = [each for each in ("ip", "unshare", "nsenter", "mount", "hostname") if shutil.which(each) is None]
    if os.geteuid():
        return "only root makes network namespaces"
    if lacking:
        return f"commands are missing: {', '.join(lacking)}"
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun does not exist"
    try:
        with Network(["first", "second"]) as network:
            network["first"].call("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    except (OSError, subprocess.CalledProcessError) as error:
        return f"namespaces, mounts or interfaces cannot be made ({error})"
    return None
