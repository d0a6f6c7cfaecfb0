"""Starting an agent: in an interpreter of its own (`main`), or in a fork of the zygote, which calls `serve`."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import platform
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Any

from agentgym.tools.sandbox.agent import child, script, wire
from agentgym.tools.sandbox.agent.control import Control, take_over
from agentgym.tools.sandbox.agent.follow import DriverGone, Kills, NoKills
from agentgym.tools.sandbox.agent.main import Agent
from agentgym.tools.sandbox.agent.processes import Processes, become_subreaper, descendants
from agentgym.tools.sandbox.agent.remove import remove_at
from agentgym.tools.sandbox.agent.runs import Place
from agentgym.tools.sandbox.agent.watch import Watch

_MAX_FDS = 8192
"""Descriptors the agent may have at a time; it needs many only while it measures a deep tree of folders."""
_EXPECTED = (
    *("bisect", "collections.abc", "copy", "dataclasses", "datetime", "decimal", "encodings.latin_1"),
    *("enum", "fractions", "functools", "heapq", "itertools", "json", "math", "operator", "pathlib", "random", "re"),
    *("string", "subprocess", "threading", "time", "traceback", "typing"),
)
"""What programs mostly import. Not what needs libraries of its own and is rare: each library makes each fork dearer."""
_hello = b""


def main(read_fd: int, write_fd: int) -> None:
    """Be the agent of one sandbox: the first frame that comes holds the settings."""
    control = take_over(read_fd, write_fd)
    try:
        settings, _ = control.receive()
        load(settings.get("preload", ()))
        uid = settings.get("uid")
        settle(settings["environment"])
        give_up_rights(uid)
        become_subreaper()
        try:
            serve(control, settings, alone=uid is not None, wall=_bind_to_agent, kills=NoKills())
        finally:
            _remove(settings.get("folder"))
    except (DriverGone, wire.BadFrame):
        pass
    finally:
        os._exit(0)


def _bind_to_agent() -> None:
    """In a run's process: end with the agent, and unlike it be open to oneself."""
    from agentgym.tools.sandbox.agent.lockdown import credentials

    if sys.platform == "linux":
        credentials.die_with_parent()
        credentials.traceable()


def _remove(folder: str | None) -> None:
    """Remove the sandbox's own folder, which the driver may not be there to do."""
    if folder is not None:
        parent = os.open(os.path.dirname(folder), os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):
            remove_at(parent, os.path.basename(folder))


def give_up_rights(uid: int | None) -> None:
    """Become the sandbox's user, if root gave it one, and refuse system calls where the kernel and machine can."""
    from agentgym.tools.sandbox.agent.lockdown import credentials, seccomp

    if uid is not None:
        credentials.become(uid)
    if sys.platform == "linux":
        credentials.renounce_gains()
        credentials.renounce()
        with contextlib.suppress(OSError):
            seccomp.apply()


def load(preload: Any) -> None:
    """Import what runs will find loaded, and give this interpreter what `site` gives an ordinary one."""
    import site

    site.setquit()
    site.setcopyright()
    site.sethelper()
    for name in (*_EXPECTED, *preload):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(f"cannot preload {name!r}: {error}") from error


def settle(environment: Mapping[str, str]) -> None:
    """Prepare this process for being an agent, or for forking agents, with this environment of runs.

    What it holds is shared with the forks, and looked at by none.
    """
    global _hello
    child.prepare()
    os.environ.clear()
    os.environ.update(environment, AGENTGYM_REPLY_FD=str(child.REPLY_FD))
    ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_MAX_FDS, ceiling), ceiling))
    _hello = wire.encode({"hello": platform.python_version(), "notes": ""})
    script.prepare()
    gc.collect()
    _trim()
    gc.freeze()
    gc.disable()


def _trim() -> None:
    """Give memory back to the kernel that is not used, where the C library can: it would be copied by every fork."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def serve(
    control: Control,
    settings: dict[str, Any],
    *,
    alone: bool = False,
    members: Callable[[], list[int]] | None = None,
    wall: Callable[[], None] = lambda: None,
    kills: Kills,
) -> None:
    """Say hello and answer requests until the driver goes away. `settle` comes before it.

    Args:
        control: The connection to the driver.
        settings: `workdir`, `limits` (the totals of the sandbox), `watched` (folders without a quota), `process_limit`
            (whether the kernel's limit on processes counts this sandbox alone), `notes`.
        alone: Whether `kill(-1)` reaches this sandbox and nothing else.
        members: Gives the processes of this sandbox; those below the agent if not given.
        wall: Walls in a process of a run.
        kills: Sees whether the kernel killed something for the sandbox's memory.
    """
    folder = settings["workdir"]
    process_limit = settings.get("process_limit", True)
    watch = Watch(
        settings["limits"],
        members or (lambda: descendants(os.getpid())),
        settings.get("watched", ()),
        count_processes=not process_limit,
    )
    os.chdir(folder)
    place = Place(folder, control.read_fd, Processes(alone), watch, wall, process_limit, kills)
    agent = Agent(place, control)
    gc.freeze()
    notes = settings.get("notes")
    control.write(wire.encode({"hello": platform.python_version(), "notes": notes}) if notes else _hello)
    agent.serve()
