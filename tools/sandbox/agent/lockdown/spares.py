"""Namespaces reused by successive sandboxes, because creating and destroying them is slow.

Networks without interfaces: a sandbox leaves nothing behind in one, because its programs cannot create sockets or
change anything in it. Mounts: a sandbox uses a copy of the namespace, so that only the read-only file systems are
reused; locks and the like ended with the processes that held them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from agentgym.tools.sandbox.agent.lockdown import system

NETWORK, MOUNTS = (0x40000000, "net"), (0x20000, "mnt")
_MAX_FREE = 64


class Spares:
    """A zygote's spare namespaces of one kind, as descriptors.

    Args:
        kind: `NETWORK` or `MOUNTS`.
        proc: The path of `/proc` in each of them.
        furnish: Called inside each new one.
        reused: Whether successive sandboxes may have the same one. The names that one sandbox looked up in it are found
            faster by the next.
    """

    def __init__(
        self, kind: tuple[int, str], proc: str, furnish: Callable[[], None] = lambda: None, *, reused: bool = True
    ) -> None:
        self._flag, self._name = kind
        self._path = f"{proc}/self/ns/{self._name}"
        self._furnish = furnish
        self._most_free = _MAX_FREE if reused else 0
        self._own = self._opened()
        self._free: list[int] = []

    def take(self) -> int:
        """Return an unused one."""
        if self._free:
            return self._free.pop()
        system.unshare(self._flag, f"unshare {self._name}")
        try:
            self._furnish()
            return self._opened()
        finally:
            system.set_namespace(self._own, self._flag, f"return to the zygote's {self._name}")

    def give_back(self, namespace: int) -> None:
        """Return one after the sandbox's processes have exited."""
        if len(self._free) < self._most_free:
            self._free.append(namespace)
        else:
            os.close(namespace)

    def enter(self, namespace: int) -> None:
        """Move this process into it."""
        system.set_namespace(namespace, self._flag, f"enter {self._name}")

    def _opened(self) -> int:
        return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
