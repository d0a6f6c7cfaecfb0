"""The weakest tier: an ordinary process with resource limits. For trusted code."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping

from agentgym.tools.sandbox import bundle, folders, interpreter, users
from agentgym.tools.sandbox.backend import (
    FORGED_RESULTS_HELD,
    IDLE_CPU_HELD,
    SIDE_CHANNELS_OPEN,
    Launched,
    ProbeResult,
    Protection,
    SandboxStartFailed,
    Threat,
    held,
    not_held,
    partly,
)
from agentgym.tools.sandbox.connection import shut
from agentgym.tools.sandbox.folders import LockedFolder
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

_PATIENCE_S = 10.0

_OF_OTHERS: Mapping[Threat, Protection] = {
    Threat.FILES: not_held("runs have the permissions of this process's user"),
    Threat.NETWORK: partly("seccomp blocks sockets where the kernel and the architecture support it"),
    Threat.PROCESSES: not_held("runs can see and signal this user's other processes"),
    Threat.ENVIRONMENT: not_held("runs start with a clean environment, but can read those of this user's processes"),
    Threat.PRIVILEGE: held("no capabilities; no_new_privs"),
    Threat.KERNEL: partly("seccomp blocks risky system calls where the kernel and the architecture support it"),
    Threat.MEMORY: held("limit on address space"),
    Threat.TOTAL_MEMORY: partly("checked ten times a second"),
    Threat.CPU: held("limits on CPU and wall time, enforced by SIGKILL"),
    Threat.FORKS: partly("checked ten times a second"),
    Threat.DISK: partly("limit on file size; the workspace as a whole is checked ten times a second"),
    Threat.INODES: partly("checked ten times a second"),
    Threat.DAEMONS: partly("orphans are reparented to the agent, which kills them after each run"),
    Threat.NEIGHBOURS: not_held("all sandboxes run as the same user"),
    Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
    Threat.IDLE_CPU: held(IDLE_CPU_HELD),
    Threat.KERNEL_QUOTAS: partly(
        "a low limit on queued signals; seccomp, where available, blocks the other resources with per-user quotas"
    ),
    Threat.FILE_LOCKS: not_held("locks on host files are visible to other users of those files"),
    Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
}
_OF_ROOT: Mapping[Threat, Protection] = {
    **_OF_OTHERS,
    Threat.FILES: not_held("runs have the permissions of an ordinary user"),
    Threat.PROCESSES: partly("runs can see the machine's processes, but have a separate uid and cannot signal them"),
    Threat.ENVIRONMENT: partly("runs start with a clean environment and cannot read those of other users' processes"),
    Threat.FORKS: held("limit on processes of the sandbox's user"),
    Threat.DAEMONS: held("all processes of the sandbox's user are killed after each run"),
    Threat.NEIGHBOURS: partly("each sandbox has its own uid; world-readable files are readable"),
}


class RlimitsBackend:
    """Starts one agent process per sandbox."""

    tier = SandboxTier.RLIMITS
    protections = _OF_ROOT if os.geteuid() == 0 else _OF_OTHERS

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, _AgentProcess] = {}
        folders.sweep()

    def probe(self) -> ProbeResult:
        """Report that it works: an ordinary process can always be started."""
        return ProbeResult(self.tier, True, "ordinary processes with resource limits", self.protections)

    def start(self, spec: SandboxSpec) -> Launched:
        """Start an agent in a temporary folder."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                running = _AgentProcess(spec, theirs)
            except OSError as error:
                ours.close()
                raise SandboxStartFailed(f"cannot start an agent: {error}") from error
        with self._lock:
            self._running[id(running)] = running
        settings = {
            "workdir": running.workdir,
            "environment": interpreter.environment(home=running.tmp, tmp=running.tmp, links=running.links),
            "limits": spec.limits.to_dict(),
            "preload": list(spec.preload),
            "watched": [running.workdir, running.tmp],
            "process_limit": running.uid is not None,
            "uid": running.uid,
            "folder": running.folder,
        }
        return Launched(ours, lambda: self._end(running, ours), running.workdir, settings)

    def close(self) -> None:
        """Kill every agent."""
        with self._lock:
            running = list(self._running.values())
        for process in running:
            self._end(process)

    def _end(self, running: _AgentProcess, connection: socket.socket | None = None) -> None:
        running.kill(connection)
        with self._lock:
            self._running.pop(id(running), None)


class _AgentProcess:
    """One agent process and its folders."""

    def __init__(self, spec: SandboxSpec, control: socket.socket):
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._top = LockedFolder()
        self.folder = self._top.path
        self.workdir, self.tmp = os.path.join(self.folder, "work"), os.path.join(self.folder, "tmp")
        self.uid = users.fresh_user() if os.geteuid() == 0 else None
        self._program = interpreter.executable() if self.uid is None else interpreter.for_all_users()
        self.links = interpreter.make_links(os.path.join(self.folder, "bin"), self._program)
        os.mkdir(self.tmp)
        if spec.template is None:
            os.mkdir(self.workdir)
        else:
            shutil.copytree(spec.template, self.workdir, symlinks=True)
        if self.uid is not None:
            self._give_to(self.uid)
        self._process: subprocess.Popen[bytes] | None = self._spawn(control)

    def _give_to(self, uid: int) -> None:
        for folder, names, files in os.walk(self.folder):
            for path in (folder, *(os.path.join(folder, name) for name in (*names, *files))):
                os.chown(path, uid, uid, follow_symlinks=False)

    def _spawn(self, control: socket.socket) -> subprocess.Popen[bytes]:
        """Start the interpreter with its program on stdin, as it is too long for an argument."""
        program = bundle.agent_program(control.fileno(), control.fileno()).encode()
        process = subprocess.Popen(
            [self._program, *interpreter.RUN_STDIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control.fileno(),),
            cwd=self.folder,
            env=interpreter.environment(home=self.tmp, tmp=self.tmp, links=self.links),
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(program)
        return process

    def kill(self, connection: socket.socket | None) -> None:
        """Stop the agent (which kills its processes when its connection closes) and remove the folders."""
        with self._lock:
            process, self._process = self._process, None
        if process is None or os.getpid() != self._owner:
            return
        if connection is not None:
            shut(connection)
        try:
            process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode != 0 and self.uid is not None:
            self._kill_strays(self.uid)
        self._top.close()

    def _kill_strays(self, uid: int) -> None:
        """Kill all processes of the sandbox's user, which the agent did not live to do."""
        program = f"import os; os.setgroups([]); os.setresuid({uid}, {uid}, {uid}); os.kill(-1, 9)"
        subprocess.run([self._program, "-I", "-S", "-c", program], stderr=subprocess.DEVNULL, check=False)
