"""The Landlock tier: no namespaces, but rules about files, signals and system calls, and a user for each sandbox.

Works without any privilege, in containers too. As root every sandbox gets a user id of its own; else all have ours, and
rest on Landlock to be kept apart.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from agentgym.tools.sandbox.agent import control, start
from agentgym.tools.sandbox.agent.lockdown import credentials, groups, landlock, mounts, seccomp, system
from agentgym.tools.sandbox.agent.processes import Processes, become_subreaper
from agentgym.tools.sandbox.agent.remove import remove_at

_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/nsswitch.conf")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", *_ETC)
FOLDERS = ("work", "tmp")
_KILLS = 3


class Fence:
    """Makes sandboxes of rules.

    Args:
        settings: `base` (folder that the sandboxes' folders are in), `shown`, `hidden`, `late` (what of the host may be
            read).
    """

    def __init__(self, settings: dict[str, Any]):
        self._settings = settings
        self._base: str = settings["base"]
        self._root = os.geteuid() == 0
        self._driver = os.getppid()
        self._version = 0
        self._shared = -1
        self._groups: groups.Groups | None = None
        self.holds_memory = False
        self.descriptors: list[int] = []

    def prepare(self) -> None:
        """Make the rules that all sandboxes share."""
        self._version = landlock.abi()
        if not self._version:
            raise OSError("the kernel has no Landlock (it came with Linux 5.13 and can be switched off)")
        become_subreaper()
        read = [
            part
            for path in (*_SYSTEM, *self._settings["shown"])
            for part in _without(path, frozenset(self._settings["hidden"]))
        ]
        self._shared = landlock.ruleset(
            [
                *((path, landlock.READ) for path in (*read, *self._settings["late"])),
                *((f"/dev/{name}", landlock.USE) for name in mounts.DEVICES),
                (self._base, landlock.CHANGE),
            ],
            self._version,
        )
        self.descriptors = [self._shared]
        seccomp.program(system.MACHINE)
        self._groups = groups.open_groups("/", self._settings["driver"])
        self.holds_memory = self._groups is not None

    def fork(self, request: dict[str, Any]) -> int:
        """Fork a sandbox's process."""
        return os.fork()

    def serve(self, connection: control.Control, request: dict[str, Any]) -> None:
        """Build the walls, then be the agent; the rules about files are put on each run when it starts."""
        os.setsid()
        out_of_memory = groups.enter(self._groups, request)
        folder = os.path.join(self._base, request["folder"])
        self._make_folders(folder, request)
        if self._root:
            credentials.become(request["uid"])
        credentials.renounce()
        credentials.die_with_parent()
        become_subreaper()
        own = self._own_rules(folder)
        alone = self._root or self._scoped()
        seccomp.apply()
        settings, _ = connection.receive()
        start.serve(
            connection,
            {**settings, "process_limit": self._root},
            alone=alone,
            wall=lambda: self._enter(own),
            out_of_memory=out_of_memory,
        )

    def left_over(self, live: Iterable[int]) -> None:
        """End orphans of agents that have ended; only needed where all sandboxes have the same user."""
        if not self._root:
            Processes(alone=False).end_others(frozenset(live))

    def clean_up(self, request: dict[str, Any]) -> None:
        """End what runs as the sandbox's user and remove its files, as that user: in a process of its own."""
        folder = os.path.join(self._base, request["folder"])
        if self._root:
            credentials.become(request["uid"])
            for _ in range(_KILLS):  # it never says that nobody was left, as it does not count those it may not kill
                with suppress(OSError):
                    os.kill(-1, signal.SIGKILL)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for name in FOLDERS:
            with suppress(FileNotFoundError):
                remove_at(fd, name)

    def forget(self, request: dict[str, Any]) -> None:
        """Remove the empty folder that is left, and the control group."""
        if self._groups is not None:
            self._groups.leave(str(request["id"]))
        with suppress(OSError):
            os.rmdir(os.path.join(self._base, request["folder"]))

    def close(self) -> None:
        """Remove the control group of all, and their folder if the driver is not there any more to do that."""
        if self._groups is not None:
            self._groups.close()
        if os.getppid() != self._driver:
            with suppress(OSError):
                parent = os.open(os.path.dirname(self._base), os.O_RDONLY | os.O_DIRECTORY)
                remove_at(parent, os.path.basename(self._base))

    def _make_folders(self, folder: str, request: dict[str, Any]) -> None:
        os.mkdir(folder, 0o700)
        work, tmp = (os.path.join(folder, name) for name in FOLDERS)
        owner = request["uid"] if self._root else None
        os.mkdir(tmp)
        if request["template"] is None:
            os.mkdir(work)
        else:
            mounts.copy_tree(request["template"], work, owner)
        for path in (work, tmp, folder):
            if owner is not None:
                os.chown(path, owner, owner)

    def _own_rules(self, folder: str) -> int:
        """Return rules that, of all sandboxes' folders, allow only one; the shared ones say what of the host."""
        read = [*_SYSTEM, *self._settings["shown"], *self._settings["late"], "/dev"]
        rules = [(path, landlock.READ) for path in read]
        rules += [(f"/dev/{name}", landlock.USE) for name in mounts.DEVICES]
        rules += [(os.path.join(folder, name), landlock.CHANGE) for name in FOLDERS]
        rules.append((os.path.join(self._base, "bin"), landlock.READ))
        return landlock.ruleset(rules, self._version)

    def _scoped(self) -> bool:
        """Have signals of this process reach only its own descendants, and see whether that holds."""
        fd = landlock.scope(self._version)
        if fd is None:
            return False
        landlock.restrict(fd)
        os.close(fd)
        try:
            os.kill(os.getppid(), 0)
        except PermissionError:
            return True
        return False

    def _enter(self, own: int) -> None:
        credentials.die_with_parent()
        credentials.traceable()
        landlock.restrict(self._shared)
        landlock.restrict(own)


def _without(path: str, hidden: frozenset[str]) -> list[str]:
    """Return paths that together are `path` without the hidden folders below it."""
    if path in hidden:
        return []
    if not any(each.startswith(path + "/") for each in hidden) or os.path.islink(path):
        return [path]
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return [path]
    return [part for name in names for part in _without(os.path.join(path, name), hidden)]
