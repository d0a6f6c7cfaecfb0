"""The namespaces tier: every sandbox has separate PID, mount, network, IPC, UTS and user namespaces.

The zygote is the first process of its own PID namespace, with the sandboxes' namespaces below it: when it
exits, for whatever reason, the kernel kills every process in all of them, and their mounts and files disappear.
"""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from typing import Any, NamedTuple

from agentgym.tools.sandbox.agent import child, control, start
from agentgym.tools.sandbox.agent.follow import NoOomKills
from agentgym.tools.sandbox.agent.lockdown import (
    credentials,
    groups,
    landlock,
    mounts,
    seccomp,
    spares,
    system,
)

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWPID, _NEWNET = (
    *(0x20000, 0x2000000, 0x4000000, 0x8000000),
    *(0x20000000, 0x40000000),
)
_MCL_CURRENT = 1
INSIDE_UID = 1000
"""The uid inside every sandbox."""


class _Resources(NamedTuple):
    """The resources of one sandbox, which the zygote reuses afterwards."""

    uid: int
    mapping: int | None
    network: int
    mounts: int
    group: groups.ControlGroup | None


class Jail:
    """Creates sandboxes from namespaces, as root or as a user that may create user namespaces.

    Args:
        settings: `uid` (the host uid of the first sandbox if we are root; others get lower ones), `workdir`, `shown`,
            `hidden`, `late`, `sealed` (see `mounts.build_root`).
    """

    def __init__(self, settings: dict[str, Any]):
        self._settings = settings
        self._root = os.geteuid() == 0
        self._uids: list[int] = []
        self._next_uid: int = settings["uid"]
        self._workdir: str = settings["workdir"]
        self._mappings: dict[tuple[int, int, int], int] = {}
        self._own = -1
        self._landlock = 0
        self._groups: groups.ControlGroups | None = None
        self.holds_memory = self.own_files = False

    def prepare(self) -> None:
        """Become the first process of a new PID namespace, with a root that shows little of the host."""
        if not self._root:
            credentials.own_user_namespace(os.geteuid(), os.getegid(), os.geteuid())
        system.unshare(_NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS, "unshare mounts, processes, network, ipc, names")
        pid = os.fork()
        if pid:
            _follow(pid)
        credentials.die_with_parent()
        socket.sethostname("sandbox")
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY)
        settings = self._settings
        root = self._layers = mounts.build_root(
            settings["shown"],
            settings["hidden"],
            settings["late"],
            self._workdir,
            INSIDE_UID,
            settings["program"],
            sealed=settings["sealed"],
        )
        self.own_files = root.own_files
        proc = f"{mounts.HOST}/proc"
        self._networks = spares.Spares(spares.NETWORK, proc)
        self._mounts = spares.Spares(spares.MOUNTS, proc, lambda: mounts.own_root(root), reused=not settings["sealed"])
        self._landlock = landlock.abi()
        self._groups = self._open_groups()
        self.holds_memory = self._groups is not None
        if settings["sealed"]:
            # Forks map the same files of the host as this process; their pages must not come and go.
            with suppress(OSError):
                system.check(system.libc.mlockall(_MCL_CURRENT), "lock memory")
        credentials.no_new_privileges()
        seccomp.apply(seccomp.FilterPart.BEFORE)
        seccomp.prepared(seccomp.FilterPart.AFTER)

    def fork(self, request: dict[str, Any]) -> tuple[int, _Resources]:
        """Fork the first process of a new PID namespace."""
        uid = self._take_uid()
        resources = _Resources(uid, self._map_owner(request["template"], uid), *self._take(request["limits"]))
        try:
            system.unshare(_NEWPID, "unshare processes")
            try:
                pid = os.fork()
            except OSError:
                system.set_namespace(self._own, _NEWPID, "return to the zygote's processes")
                raise
        except OSError:
            self.forget(resources)
            raise
        if pid:
            system.set_namespace(self._own, _NEWPID, "return to the zygote's processes")
        return pid, resources

    def serve(self, connection: int, request: dict[str, Any], resources: _Resources) -> None:
        """Isolate this process, then run the agent in it."""
        if resources.group is not None:
            resources.group.enter()
        self._networks.enter(resources.network)
        self._mounts.enter(resources.mounts)
        system.unshare(_NEWNS | _NEWIPC | _NEWUTS | _NEWCGROUP, "unshare mounts, ipc, names")
        limits = request["limits"]
        note = mounts.build_workspace(
            self._layers,
            limits,
            request["template"],
            self._workdir,
            resources.uid,
            resources.mapping,
            sealed=self._settings["sealed"],
        )
        passed_fds = [] if resources.group is None else [resources.group.kills]
        connection, *passed_fds = control.inherit(connection, *passed_fds)
        if self._root:
            credentials.become(resources.uid)
        credentials.own_user_namespace(resources.uid, os.getegid(), INSIDE_UID)
        credentials.lock_capabilities()
        credentials.drop_capabilities()
        credentials.die_with_parent()
        self._confine()
        seccomp.apply(seccomp.FilterPart.AFTER)
        start.serve(
            control.Control(connection, connection),
            {"workdir": self._workdir, "limits": limits, "notes": note},
            alone=True,
            members=_others,
            wall=credentials.traceable,
            kills=groups.GroupOomKills(*passed_fds) if passed_fds else NoOomKills(),
        )

    def forget(self, resources: _Resources) -> None:
        """Release the resources for reuse; everything else ended with the sandbox's first process."""
        self._uids.append(resources.uid)
        self._networks.give_back(resources.network)
        self._mounts.give_back(resources.mounts)
        if self._groups is not None and resources.group is not None:
            self._groups.give_back(resources.group)

    def close(self) -> None:
        """Remove the cgroups."""
        if self._groups is not None:
            self._groups.close()

    def _take_uid(self) -> int:
        """Return a uid that no other live sandbox has, because many kernel quotas are per user."""
        if not self._root:
            return os.geteuid()
        if self._uids:
            return self._uids.pop()
        self._next_uid -= 1
        return self._next_uid + 1

    def _take(self, limits: dict[str, Any]) -> tuple[int, int, groups.ControlGroup | None]:
        group = None
        if self._groups is not None:
            group = self._groups.take(limits["total_memory_mb"] + limits["disk_mb"])
        return self._networks.take(), self._mounts.take(), group

    def _open_groups(self) -> groups.ControlGroups | None:
        for path in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
            with suppress(OSError):
                mounts.allow_writing(mounts.HOST + path)
        return groups.open_groups(f"{mounts.HOST}/", self._settings["driver"])

    def _confine(self) -> None:
        """Add Landlock as a second wall behind mounts and namespaces, if the kernel supports it."""
        if self._landlock:
            rules = [("/", landlock.READ), ("/dev", landlock.USE)]
            rules += [(path, landlock.CHANGE) for path in (self._workdir, "/tmp", "/dev/shm")]
            fd = landlock.ruleset(rules, self._landlock)
            landlock.restrict(fd)
            os.close(fd)

    def _map_owner(self, template: str | None, uid: int) -> int | None:
        """Return a user namespace that maps the template's owner to the sandbox's user; `None` if not needed."""
        if template is None or not self._root:
            return None
        state = os.stat(mounts.HOST + template)
        if state.st_uid == uid:
            return None
        key = (state.st_uid, state.st_gid, uid)
        if key not in self._mappings:
            self._mappings[key] = _mapping_namespace((state.st_uid, state.st_gid), uid)
        return self._mappings[key]


def _others() -> list[int]:
    """Return the process ids in the namespace, except the agent's, which is 1."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def _mapping_namespace(owner: tuple[int, int], uid: int) -> int:
    """Return a descriptor of a user namespace that maps one owner of files to the user `uid`."""
    ready, started = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            system.unshare(0x10000000, "unshare user")
            os.write(started, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(started)
    try:
        if not os.read(ready, 1):
            raise OSError("no user namespace for the template's owner")
        for name, number in (("uid_map", owner[0]), ("gid_map", owner[1])):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"{number} {uid} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _follow(pid: int) -> None:
    """Wait for the zygote and exit with it: this process only bridges two PID namespaces."""
    child.close_others((), 1 << 16)
    _, status = os.waitpid(pid, 0)
    os._exit(0 if status == 0 else 1)
