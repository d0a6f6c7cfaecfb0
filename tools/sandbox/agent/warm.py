"""Practice before forking: what was done often, CPython has specialised, and forks that do it write to fewer pages."""

from __future__ import annotations

import os
import socket

from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.agent.control import Control
from agentgym.tools.sandbox.agent.follow import NoKills
from agentgym.tools.sandbox.agent.main import Agent
from agentgym.tools.sandbox.agent.processes import Processes
from agentgym.tools.sandbox.agent.runs import Place
from agentgym.tools.sandbox.agent.watch import Watch

_ROUNDS = 16
_LIMITS = {
    **{"wall_s": 10.0, "cpu_s": 10.0, "memory_mb": 4096, "total_memory_mb": 4096, "processes": 4096, "open_files": 256},
    **{"file_mb": 64, "disk_mb": 64, "files": 64, "output_bytes": 4096, "reply_bytes": 4096},
}
_REQUEST = {"op": "exec", "kind": "python", "argv": [], "cwd": ".", "env": {}, "limits": _LIMITS}


def practise() -> None:
    """Be an agent for a while, of a program that does nothing. Before anything of a sandbox is in this process."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.encode(_REQUEST, [b"", b""]) * _ROUNDS)
        ours.shutdown(socket.SHUT_WR)
        fd = theirs.fileno()
        watch = Watch(_LIMITS, list)
        place = Place(os.getcwd(), fd, Processes(False), watch, _nothing, False, NoKills())
        Agent(place, Control(fd, fd)).serve()


def _nothing() -> None:
    pass
