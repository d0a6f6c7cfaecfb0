"""Namespaces that one sandbox after the other uses, as the kernel takes long to make them and to take them away.

Of networks without interfaces: nothing of a sandbox can stay in one, as its programs can neither make sockets nor
change anything in it. Of mounts: a sandbox works with a copy, so that only the file systems are used again, which
cannot be written to; what its processes held of their files, such as locks, ended with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from agentgym.tools.sandbox.agent.lockdown import system

NETWORK, MOUNTS = (0x40000000, "net"), (0x20000, "mnt")
_MAX_FREE = 64


class Spares:
    """The namespaces of one kind of a zygote's sandboxes, by descriptors of them.

    Args:
        kind: `NETWORK` or `MOUNTS`.
        proc: Where this process is described, in each of them.
        furnish: Called in each new one.
    """

    def __init__(self, kind: tuple[int, str], proc: str, furnish: Callable[[], None] = lambda: None) -> None:
        self._flag, self._name = kind
        self._path = f"{proc}/self/ns/{self._name}"
        self._furnish = furnish
        self._own = self._opened()
        self._free: list[int] = []

    def take(self) -> int:
        """Return one that nothing is in."""
        if self._free:
            return self._free.pop()
        system.unshare(self._flag, f"unshare {self._name}")
        try:
            self._furnish()
            return self._opened()
        finally:
            system.set_namespace(self._own, self._flag, f"return to the zygote's {self._name}")

    def give_back(self, namespace: int) -> None:
        """Take note that the processes of a sandbox have ended."""
        if len(self._free) < _MAX_FREE:
            self._free.append(namespace)
        else:
            os.close(namespace)

    def enter(self, namespace: int) -> None:
        """Have this process be in it."""
        system.set_namespace(namespace, self._flag, f"enter {self._name}")

    def _opened(self) -> int:
        return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
