"""An agent with a container or bubblewrap around it. Its runs get those of the walls that need no rights."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from agentgym.tools.sandbox.agent import archive, files, start, wire
from agentgym.tools.sandbox.agent.beneath import Workspace
from agentgym.tools.sandbox.agent.control import take_over
from agentgym.tools.sandbox.agent.follow import DriverGone
from agentgym.tools.sandbox.agent.lockdown import credentials, landlock, seccomp, system
from agentgym.tools.sandbox.agent.processes import become_subreaper

_KILLS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Where the kernel counts what it killed for the container's memory, in both versions of control groups."""


def main(read_fd: int, write_fd: int) -> None:
    """Be the agent of a container: the first frame holds the settings, and the files to begin with as an archive."""
    control = take_over(read_fd, write_fd)
    try:
        settings, template = control.receive()
        try:
            begin(settings, template)
            wall = walls()
        except Exception as error:
            control.send({"error": "internal", "message": f"{type(error).__name__}: {error}"})
            return
        start.serve(control, settings, alone=True, wall=wall, kills=Kills())
    except (DriverGone, wire.BadFrame):
        pass
    finally:
        os._exit(0)


def begin(settings: dict[str, Any], template: list[bytes]) -> None:
    """Prepare the workspace and this process, which nothing that runs here may trace or read."""
    os.makedirs(settings["workdir"], exist_ok=True)
    if template:
        files.unpack(Workspace(settings["workdir"]), ".", archive.split(template[0]))
    sys.path.extend(settings.get("import_paths", ()))
    start.load(settings.get("preload", ()))
    start.settle(settings["environment"])
    become_subreaper()
    credentials.renounce_gains()
    credentials.renounce()


def walls() -> Callable[[], None]:
    """Return what a run's process does before it becomes the model's.

    Landlock keeps its signals from the agent; the filter of system calls takes away what the container leaves open.
    What this kernel or machine does not have is left out: the container is there all the same.
    """
    version = landlock.abi() if _works(lambda: landlock.scope(landlock.abi())) else 0
    filtered = _works(lambda: seccomp.program(system.MACHINE))

    def wall() -> None:
        credentials.traceable()
        # Made anew each time: a process of a run keeps none of the agent's descriptors.
        scope = landlock.scope(version)
        if scope is not None:
            landlock.restrict(scope)
            os.close(scope)
        if filtered:
            seccomp.apply()

    return wall


class Kills:
    """Sees whether the kernel has killed something of this container for its memory."""

    def __init__(self) -> None:
        self._before = 0

    def watch(self) -> None:
        """Begin to count anew."""
        self._before = self._count()

    def happened(self) -> bool:
        """Return whether it has."""
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
