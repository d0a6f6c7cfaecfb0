"""An agent inside a container. Its runs get the walls that need no privileges."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from agentgym.tools.sandbox.agent import archive, files, start, wire
from agentgym.tools.sandbox.agent.beneath import WorkspaceRoot
from agentgym.tools.sandbox.agent.control import take_over
from agentgym.tools.sandbox.agent.follow import DriverGone
from agentgym.tools.sandbox.agent.lockdown import credentials, landlock, seccomp, system
from agentgym.tools.sandbox.agent.processes import become_subreaper

_KILLS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""The kernel's files with the number of OOM kills, in both versions of cgroups."""


def main(read_fd: int, write_fd: int) -> None:
    """Run the agent of a container; the first frame contains the settings, and the initial files as an archive."""
    control = take_over(read_fd, write_fd)
    try:
        settings, template = control.receive()
        try:
            begin(settings, template)
            wall = walls()
        except Exception as error:
            control.send({"error": "internal", "message": f"{type(error).__name__}: {error}"})
            return
        start.serve(control, settings, alone=True, wall=wall, kills=ContainerOomKills())
    except (DriverGone, wire.BadFrame):
        pass  # there is nobody left to answer
    finally:
        os._exit(0)


def begin(settings: dict[str, Any], template: list[bytes]) -> None:
    """Prepare the workspace and this process, which runs must not trace or read."""
    os.makedirs(settings["workdir"], exist_ok=True)
    if template:
        files.unpack(WorkspaceRoot(settings["workdir"]), ".", archive.split(template[0]))
    start.load(settings.get("preload", ()))
    start.set_up(settings["environment"])
    become_subreaper()
    credentials.lock_capabilities()
    credentials.drop_capabilities()


def walls() -> Callable[[], None]:
    """Return a function that isolates a run's process.

    Landlock blocks signals to the agent; the seccomp filter blocks system calls that the container allows.
    Walls that this kernel or machine does not support are skipped: the container still isolates.
    """
    version = landlock.abi() if _works(lambda: landlock.scope(landlock.abi())) else 0
    filtered = _works(lambda: seccomp.program(system.MACHINE))

    def wall() -> None:
        credentials.traceable()
        # Created each time, because a run's process keeps none of the agent's descriptors.
        scope = landlock.scope(version)
        if scope is not None:
            landlock.restrict(scope)
            os.close(scope)
        if filtered:
            seccomp.apply()

    return wall


class ContainerOomKills:
    """Detects whether the kernel killed a process of this container for its memory."""

    def __init__(self) -> None:
        self._before = 0

    def watch(self) -> None:
        """Reset the count."""
        self._before = self._count()

    def happened(self) -> bool:
        """Return whether it has happened since `watch`."""
        return self._count() > self._before

    @staticmethod
    def _count() -> int:
        for path in _KILLS:
            try:
                with open(path, encoding="ascii") as file:
                    return int(dict(line.split() for line in file).get("oom_kill", 0))
            except (OSError, ValueError):
                continue
        return 0


def _works(step: Callable[[], object]) -> bool:
    try:
        step()
    except OSError:
        return False
    return True
