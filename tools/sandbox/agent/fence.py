"""The Landlock tier: no namespaces, but rules about files, signals and system calls, and a user for each sandbox.

Works without any privilege, in containers too. As root every sandbox gets a user id of its own; else all have ours, and
rest on Landlock to be kept apart.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from agentgym.tools.sandbox.agent import control, start
from agentgym.tools.sandbox.agent.follow import NoKills
from agentgym.tools.sandbox.agent.lockdown import credentials, groups, landlock, mounts, seccomp
from agentgym.tools.sandbox.agent.processes import Processes, become_subreaper, children, is_ending
from agentgym.tools.sandbox.agent.remove import remove_at

_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/nsswitch.conf")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", *_ETC)
FOLDERS = ("work", "tmp")
_KILLS = 3


class _Plot(NamedTuple):
    """What a sandbox has for itself."""

    folder: str
    uid: int | None
    group: groups.Group | None


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
        self._readable: list[bytes] = []
        self._groups: groups.Groups | None = None
        self.holds_memory = self.own_files = False

    def prepare(self) -> None:
        """Make the rules that all sandboxes share, and give up what none of them may have."""
        self._version = landlock.abi()
        if not self._version:
            raise OSError("the kernel has no Landlock (it came with Linux 5.13 and can be switched off)")
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
        shown = _topmost([*_SYSTEM, *self._settings["shown"], *self._settings["late"]])
        rules = [
            *((path, landlock.READ) for path in (*shown, f"{self._base}/bin")),
            ("/dev", landlock.READ | landlock.USE),
        ]
        self._readable = landlock.open_rules(rules, self._version)
        self._groups = groups.open_groups("/", self._settings["driver"])
        self.holds_memory = self._groups is not None
        credentials.renounce_gains()
        credentials.no_new_privileges()
        seccomp.apply()

    def fork(self, request: dict[str, Any]) -> tuple[int, _Plot]:
        """Fork a sandbox's process."""
        group = None
        if self._groups is not None:
            limits = request["limits"]
            group = self._groups.take(limits["total_memory_mb"] + limits["disk_mb"])
        plot = _Plot(os.path.join(self._base, request["folder"]), request["uid"], group)
        try:
            return os.fork(), plot
        except OSError:
            self.forget(plot)
            raise

    def serve(self, connection: int, request: dict[str, Any], plot: _Plot) -> None:
        """Build the walls, then be the agent; the rules about files are put on each run when it starts."""
        os.setsid()
        if plot.group is not None:
            plot.group.enter()
        self._make_folders(plot, request["template"])
        own = self._own_rules(plot.folder)
        kept = [self._shared, own] if plot.group is None else [self._shared, own, plot.group.kills]
        connection, shared, own, *kept = control.inherit(connection, *kept)
        if plot.uid is not None:
            credentials.become(plot.uid)
        credentials.renounce()
        credentials.die_with_parent()
        become_subreaper()
        alone = self._root or self._scoped()
        work, tmp = f"{plot.folder}/work", f"{plot.folder}/tmp"
        os.environ["HOME"] = os.environ["TMPDIR"] = tmp
        start.serve(
            control.Control(connection, connection),
            {"workdir": work, "limits": request["limits"], "watched": (work, tmp), "process_limit": self._root},
            alone=alone,
            wall=lambda: _enter(shared, own),
            kills=groups.Kills(*kept) if kept else NoKills(),
        )

    def left_over(self, live: Iterable[int]) -> None:
        """End orphans of agents that have ended, where all sandboxes have the same user; collect those that ended."""
        if not self._root:
            Processes(alone=False).end_others(frozenset(live), stop=False)
            return
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def is_clean(self, plot: _Plot, live: Collection[int]) -> bool:
        """Remove the files of a sandbox in which nothing was made and nothing runs; `live` are the known processes."""
        if any(pid not in live for pid in children(os.getpid())):
            return False
        try:
            for name in FOLDERS:
                os.rmdir(f"{plot.folder}/{name}")
        except OSError:
            return False
        return True

    def clean_up(self, plot: _Plot) -> None:
        """End what runs as the sandbox's user and remove its files, as that user: in a process of its own."""
        if plot.uid is not None:
            credentials.become(plot.uid)
            for _ in range(_KILLS):  # it never says that nobody was left, as it does not count those it may not kill
                with suppress(OSError):
                    os.kill(-1, signal.SIGKILL)
        fd = os.open(plot.folder, os.O_RDONLY | os.O_DIRECTORY)
        for name in FOLDERS:
            with suppress(FileNotFoundError):
                remove_at(fd, name)

    def forget(self, plot: _Plot) -> None:
        """Remove the empty folder that is left, and have the control group used again."""
        if self._groups is not None and plot.group is not None:
            self._groups.give_back(plot.group)
        with suppress(OSError):
            os.rmdir(plot.folder)

    def close(self) -> None:
        """Remove the control group of all, and their folder if the driver is not there any more to do that."""
        if self._groups is not None:
            self._groups.close()
        # Its files are closed, which is how we know, before it gives its children away.
        if os.getppid() != self._driver or is_ending(self._driver):
            with suppress(OSError):
                parent = os.open(os.path.dirname(self._base), os.O_RDONLY | os.O_DIRECTORY)
                remove_at(parent, os.path.basename(self._base))

    def _make_folders(self, plot: _Plot, template: str | None) -> None:
        os.mkdir(plot.folder, 0o700)
        work, tmp = f"{plot.folder}/work", f"{plot.folder}/tmp"
        os.mkdir(tmp)
        if template is None:
            os.mkdir(work)
        else:
            mounts.copy_tree(template, work, plot.uid)
        if plot.uid is not None:
            for path in (work, tmp, plot.folder):
                os.chown(path, plot.uid, plot.uid)

    def _own_rules(self, folder: str) -> int:
        """Return rules that, of all sandboxes' folders, allow only one; the shared ones say what of the host."""
        rules = [(f"{folder}/{name}", landlock.CHANGE) for name in FOLDERS]
        return landlock.ruleset(rules, self._version, self._readable)

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


def _enter(*rules: int) -> None:
    """In a run's process: put it under these rules."""
    credentials.die_with_parent()
    credentials.traceable()
    for fd in rules:
        landlock.restrict(fd)


def _topmost(paths: Iterable[str]) -> list[str]:
    """Return the paths without those that lie below others."""
    real = sorted({os.path.realpath(path) for path in paths})
    return [path for path in real if not any(path.startswith(other + "/") for other in real)]


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
