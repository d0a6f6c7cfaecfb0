"""Network namespaces without interfaces, used by one sandbox after the other: the kernel takes a millisecond for one.

Nothing of a sandbox can stay in one, as its programs can neither make sockets nor change anything in it.
"""

from __future__ import annotations

import os

from agentgym.tools.sandbox.agent.lockdown import system

_NEWNET = 0x40000000
_MAX_FREE = 64


class Networks:
    """The network namespaces of one zygote's sandboxes, by descriptors of them."""

    def __init__(self) -> None:
        self._own = _opened()
        self._free: list[int] = []

    def take(self) -> int:
        """Return one that nothing is in."""
        if self._free:
            return self._free.pop()
        system.unshare(_NEWNET, "unshare network")
        try:
            return _opened()
        finally:
            system.set_namespace(self._own, _NEWNET, "return to the zygote's network")

    def give_back(self, network: int) -> None:
        """Take note that the processes of a sandbox have ended."""
        if len(self._free) < _MAX_FREE:
            self._free.append(network)
        else:
            os.close(network)


def enter(network: int) -> None:
    """Have this process be in it."""
    system.set_namespace(network, _NEWNET, "enter network")


def _opened() -> int:
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
