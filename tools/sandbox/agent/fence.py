"""The Landlock tier: no namespaces, but rules for files, signals and system calls, and a separate user per sandbox.

Works without privileges, and in containers. As root, every sandbox gets a separate uid; otherwise all share ours and
rely on Landlock for separation.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from agentgym.tools.sandbox.agent import control, start
from agentgym.tools.sandbox.agent.follow import NoOomKills
from agentgym.tools.sandbox.agent.lockdown import credentials, groups, landlock, mounts, seccomp
from agentgym.tools.sandbox.agent.processes import Processes, become_subreaper, children, is_ending
from agentgym.tools.sandbox.agent.remove import remove_at

_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/nsswitch.conf")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", *_ETC)
FOLDERS = ("work", "tmp")
_KILLS = 3


class _Resources(NamedTuple):
    """The resources of one sandbox."""

    folder: str
    uid: int | None
    group: groups.ControlGroup | None


class Fence:
    """Creates sandboxes from Landlock rules.

    Args:
        settings: `base` (parent of the sandboxes' folders), `shown`, `hidden`, `late` (parts of the host that can be
            read).
    """

    def __init__(self, settings: dict[str, Any]):
        self._settings = settings
        self._base: str = settings["base"]
        self._root = os.geteuid() == 0
        self._driver = os.getppid()
        self._version = 0
        self._shared = -1
        self._readable: list[bytes] = []
        self._groups: groups.ControlGroups | None = None
        self.holds_memory = self.own_files = False

    def prepare(self) -> None:
        """Create the rules that all sandboxes share, and drop the rights that none of them may have."""
        self._version = landlock.abi()
        if not self._version:
            raise OSError("the kernel has no Landlock (it requires Linux 5.13 and can be disabled)")
        become_subreaper()
        hidden = frozenset(self._settings["hidden"])
        read = [part for path in (*_SYSTEM, *self._settings["shown"]) for part in _without(path, hidden)]
        self._shared = landlock.ruleset(
            [
                *((path, landlock.READ) for path in (*read, *self._settings["late"])),
                *((f"/dev/{name}", landlock.USE) for name in mounts.DEVICES),
                (self._base, landlock.CHANGE),
            ],
            self._version,
        )
        readable = _topmost([*_SYSTEM, *self._settings["shown"], *self._settings["late"]])
        rules = [
            *((path, landlock.READ) for path in (*readable, f"{self._base}/bin")),
            ("/dev", landlock.READ | landlock.USE),
        ]
        self._readable = landlock.open_rules(rules, self._version)
        self._groups = groups.open_groups("/", self._settings["driver"])
        self.holds_memory = self._groups is not None
        credentials.lock_capabilities()
        credentials.no_new_privileges()
        seccomp.apply()

    def fork(self, request: dict[str, Any]) -> tuple[int, _Resources]:
        """Fork a sandbox's process."""
        group = None
        if self._groups is not None:
            limits = request["limits"]
            group = self._groups.take(limits["total_memory_mb"] + limits["disk_mb"])
        resources = _Resources(os.path.join(self._base, request["folder"]), request["uid"], group)
        try:
            return os.fork(), resources
        except OSError:
            self.forget(resources)
            raise

    def serve(self, connection: int, request: dict[str, Any], resources: _Resources) -> None:
        """Build the walls, then run the agent; file rules apply to each run when it starts."""
        os.setsid()
        if resources.group is not None:
            resources.group.enter()
        self._make_folders(resources, request["template"])
        own = self._own_rules(resources.folder)
        passed_fds = [self._shared, own] if resources.group is None else [self._shared, own, resources.group.kills]
        connection, shared, own, *passed_fds = control.inherit(connection, *passed_fds)
        if resources.uid is not None:
            credentials.become(resources.uid)
        credentials.drop_capabilities()
        credentials.die_with_parent()
        become_subreaper()
        alone = self._root or self._scoped()
        work, tmp = f"{resources.folder}/work", f"{resources.folder}/tmp"
        os.environ["HOME"] = os.environ["TMPDIR"] = tmp
        start.serve(
            control.Control(connection, connection),
            {"workdir": work, "limits": request["limits"], "watched": (work, tmp), "process_limit": self._root},
            alone=alone,
            wall=lambda: _enter(shared, own),
            kills=groups.GroupOomKills(*passed_fds) if passed_fds else NoOomKills(),
        )

    def kill_orphans(self, live: Iterable[int]) -> None:
        """Kill orphans of dead agents, if all sandboxes have the same user; reap those that exited."""
        if not self._root:
            Processes(alone=False).kill_others(frozenset(live), stop=False)
            return
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def is_clean(self, resources: _Resources, live: Collection[int]) -> bool:
        """Remove a sandbox's folders if they are empty and nothing runs; `live` are the known processes."""
        if any(pid not in live for pid in children(os.getpid())):
            return False
        try:
            for name in FOLDERS:
                os.rmdir(f"{resources.folder}/{name}")
        except OSError:
            return False
        return True

    def clean_up(self, resources: _Resources) -> None:
        """Kill the processes of the sandbox's user and remove its files, as that user, in a separate process."""
        if resources.uid is not None:
            credentials.become(resources.uid)
            for _ in range(_KILLS):  # kill never reports that no process is left
                with suppress(OSError):
                    os.kill(-1, signal.SIGKILL)
        fd = os.open(resources.folder, os.O_RDONLY | os.O_DIRECTORY)
        for name in FOLDERS:
            with suppress(FileNotFoundError):
                remove_at(fd, name)

    def forget(self, resources: _Resources) -> None:
        """Remove the remaining empty folder, and release the cgroup for reuse."""
        if self._groups is not None and resources.group is not None:
            self._groups.give_back(resources.group)
        with suppress(OSError):
            os.rmdir(resources.folder)

    def close(self) -> None:
        """Remove the common cgroup, and the folder of all sandboxes if the driver is gone."""
        if self._groups is not None:
            self._groups.close()
        # A dying process closes its files, which is how we know, before its children are reparented.
        if os.getppid() != self._driver or is_ending(self._driver):
            with suppress(OSError):
                parent = os.open(os.path.dirname(self._base), os.O_RDONLY | os.O_DIRECTORY)
                remove_at(parent, os.path.basename(self._base))

    def _make_folders(self, resources: _Resources, template: str | None) -> None:
        os.mkdir(resources.folder, 0o700)
        work, tmp = f"{resources.folder}/work", f"{resources.folder}/tmp"
        os.mkdir(tmp)
        if template is None:
            os.mkdir(work)
        else:
            mounts.copy_tree(template, work, resources.uid)
        if resources.uid is not None:
            for path in (work, tmp, resources.folder):
                os.chown(path, resources.uid, resources.uid)

    def _own_rules(self, folder: str) -> int:
        """Return rules that allow only one of the sandboxes' folders; the shared rules cover the host."""
        rules = [(f"{folder}/{name}", landlock.CHANGE) for name in FOLDERS]
        return landlock.ruleset(rules, self._version, self._readable)

    def _scoped(self) -> bool:
        """Restrict this process's signals to its descendants, and check that it works."""
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


def _enter(*rules: int) -> None:
    """In a run's process: apply these rules."""
    credentials.die_with_parent()
    credentials.traceable()
    for fd in rules:
        landlock.restrict(fd)


def _topmost(paths: Iterable[str]) -> list[str]:
    """Return the paths that are not below others."""
    real = sorted({os.path.realpath(path) for path in paths})
    return [path for path in real if not any(path.startswith(other + "/") for other in real)]


def _without(path: str, hidden: frozenset[str]) -> list[str]:
    """Return paths that together cover `path` except for the hidden folders below it."""
    if path in hidden:
        return []
    if not any(other.startswith(path + "/") for other in hidden) or os.path.islink(path):
        return [path]
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return [path]
    return [part for name in names for part in _without(os.path.join(path, name), hidden)]
