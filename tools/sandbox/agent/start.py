"""Starts an agent: in a new interpreter (`main`), or in a fork of the zygote, which calls `serve`."""

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
from agentgym.tools.sandbox.agent.follow import DriverGone, NoOomKills, OomKills
from agentgym.tools.sandbox.agent.main import Agent
from agentgym.tools.sandbox.agent.processes import Processes, become_subreaper, descendants
from agentgym.tools.sandbox.agent.remove import remove_at
from agentgym.tools.sandbox.agent.runs import RunContext
from agentgym.tools.sandbox.agent.watch import UsageMonitor

_MAX_FDS = 8192
"""The agent's limit of open descriptors; it needs many only while it measures a deep folder tree."""
_EXPECTED = (
    *("bisect", "collections.abc", "copy", "dataclasses", "datetime", "decimal", "encodings.latin_1"),
    *("enum", "fractions", "functools", "heapq", "itertools", "json", "math", "operator", "pathlib", "random", "re"),
    *("string", "subprocess", "threading", "time", "traceback", "typing"),
)
"""Commonly imported modules, except rare ones that load shared libraries: each library slows down every fork."""
_hello = b""


def main(read_fd: int, write_fd: int) -> None:
    """Run the agent of one sandbox; the first frame contains its settings."""
    control = take_over(read_fd, write_fd)
    try:
        settings, _ = control.receive()
        load(settings.get("preload", ()))
        uid = settings.get("uid")
        set_up(settings["environment"])
        give_up_rights(uid)
        become_subreaper()
        try:
            serve(control, settings, alone=uid is not None, wall=_bind_to_agent, kills=NoOomKills())
        finally:
            _remove(settings.get("folder"))
    except (DriverGone, wire.BadFrame):
        pass  # there is nobody left to answer
    finally:
        os._exit(0)


def _bind_to_agent() -> None:
    """In a run's process: exit with the agent and, unlike it, allow reading /proc/self."""
    from agentgym.tools.sandbox.agent.lockdown import credentials

    if sys.platform == "linux":
        credentials.die_with_parent()
        credentials.traceable()


def _remove(folder: str | None) -> None:
    """Remove the sandbox's folder, in case the driver is gone."""
    if folder is not None:
        parent = os.open(os.path.dirname(folder), os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):
            remove_at(parent, os.path.basename(folder))


def give_up_rights(uid: int | None) -> None:
    """Become the sandbox's user, if root assigned one, and install the seccomp filter where supported."""
    from agentgym.tools.sandbox.agent.lockdown import credentials, seccomp

    if uid is not None:
        credentials.become(uid)
    if sys.platform == "linux":
        credentials.lock_capabilities()
        credentials.drop_capabilities()
        with contextlib.suppress(OSError):  # promised only where the kernel and the architecture support it
            seccomp.apply()


def load(preload: Any) -> None:
    """Import the modules to preload, and add the builtins that `site` normally adds."""
    import site

    site.setquit()
    site.setcopyright()
    site.sethelper()
    for name in (*_EXPECTED, *preload):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(f"cannot preload {name!r}: {error}") from error


def set_up(environment: Mapping[str, str]) -> None:
    """Prepare this process to be an agent, or to fork agents, with this environment for runs.

    Its memory is shared with the forks, and excluded from their garbage collection.
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
    """Return unused memory to the kernel, where libc supports it: every fork would copy it."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def serve(
    control: Control,
    settings: dict[str, Any],
    *,
    alone: bool = False,
    members: Callable[[], list[int]] | None = None,
    wall: Callable[[], None] = lambda: None,
    kills: OomKills,
) -> None:
    """Send the hello and answer requests until the driver is gone. Call `set_up` first.

    Args:
        control: The connection to the driver.
        settings: `workdir`, `limits` (of the whole sandbox), `watched` (folders without a quota), `process_limit`
            (whether the kernel's process limit counts only this sandbox), `notes`.
        alone: Whether `kill(-1)` reaches only this sandbox.
        members: Returns the sandbox's processes; by default the agent's descendants.
        wall: Isolates a run's process.
        kills: Detects whether the kernel killed a process for the sandbox's memory.
    """
    folder = settings["workdir"]
    process_limit = settings.get("process_limit", True)
    watch = UsageMonitor(
        settings["limits"],
        members or (lambda: descendants(os.getpid())),
        settings.get("watched", ()),
        count_processes=not process_limit,
    )
    os.chdir(folder)
    place = RunContext(folder, control.read_fd, Processes(alone), watch, wall, process_limit, kills)
    agent = Agent(place, control)
    gc.freeze()
    notes = settings.get("notes")
    control.write(wire.encode({"hello": platform.python_version(), "notes": notes}) if notes else _hello)
    agent.serve()
