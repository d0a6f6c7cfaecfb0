"""Warms up before forking: CPython specialises code that ran often, and forks that run it write to fewer pages."""

from __future__ import annotations

import os
import socket

from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.agent.control import Control
from agentgym.tools.sandbox.agent.follow import NoOomKills
from agentgym.tools.sandbox.agent.main import Agent
from agentgym.tools.sandbox.agent.processes import Processes
from agentgym.tools.sandbox.agent.runs import RunContext
from agentgym.tools.sandbox.agent.watch import UsageMonitor

_ROUNDS = 16
_LIMITS = {
    **{"wall_s": 10.0, "cpu_s": 10.0, "memory_mb": 4096, "total_memory_mb": 4096, "processes": 4096, "open_files": 256},
    **{"file_mb": 64, "disk_mb": 64, "files": 64, "output_bytes": 4096, "reply_bytes": 4096},
}
_REQUEST = {"op": "exec", "kind": "python", "argv": [], "cwd": ".", "env": {}, "limits": _LIMITS}


def warm_up() -> None:
    """Act as the agent of a program that does nothing, before this process contains anything of a sandbox."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.encode(_REQUEST, [b"", b""]) * _ROUNDS)
        ours.shutdown(socket.SHUT_WR)
        fd = theirs.fileno()
        watch = UsageMonitor(_LIMITS, list)
        place = RunContext(os.getcwd(), fd, Processes(False), watch, _nothing, False, NoOomKills())
        Agent(place, Control(fd, fd)).serve()


def _nothing() -> None:
    pass
