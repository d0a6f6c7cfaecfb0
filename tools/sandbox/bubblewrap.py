"""Bubblewrap sandboxes, for host programs that need all of /usr, where unprivileged namespaces work."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox import bundle, interpreter, trees
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.backend import PROBE_TIMEOUT_S, START_TIMEOUT_S, Launched, ProbeResult, SandboxStartFailed
from agentgym.tools.sandbox.bubblewrap_command import LINKS, User, command, version
from agentgym.tools.sandbox.connection import ConnectionBroken, greet
from agentgym.tools.sandbox.protection import (
    FORGED_RESULTS_HELD,
    IDLE_CPU_HELD,
    SIDE_CHANNELS_OPEN,
    Protection,
    Threat,
    held,
    not_held,
    partly,
)
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier
from agentgym.tools.sandbox.view import HostView, view

_PROTECTIONS: Mapping[Threat, Protection] = {
    Threat.FILES: held("a separate root: /usr and the interpreter read-only, a few files of /etc, nothing else"),
    Threat.NETWORK: held("an empty network namespace, and no sockets"),
    Threat.PROCESSES: held("a separate PID namespace"),
    Threat.ENVIRONMENT: held("bubblewrap and the runs start with a clean environment"),
    Threat.PRIVILEGE: held("an ordinary user without capabilities, even if the driver is root; no_new_privs"),
    Threat.KERNEL: held("no capabilities, and a seccomp filter"),
    Threat.MEMORY: held("limit on address space"),
    Threat.TOTAL_MEMORY: partly("checked ten times a second"),
    Threat.CPU: held("limits on CPU and wall time, enforced by SIGKILL"),
    Threat.FORKS: held("limit on processes, counted per sandbox"),
    Threat.DISK: held("the workspace and the temporary folder are size-limited tmpfs"),
    Threat.INODES: partly("checked ten times a second"),
    Threat.DAEMONS: held("all processes except those of live sessions are killed after each run"),
    Threat.NEIGHBOURS: held("separate namespaces for each sandbox"),
    Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
    Threat.IDLE_CPU: held(IDLE_CPU_HELD),
    Threat.KERNEL_QUOTAS: held(
        "a separate uid; a low limit on queued signals; seccomp blocks the other resources with per-user quotas"
    ),
    Threat.FILE_LOCKS: not_held("locks on readable host files are visible to other users of those files"),
    Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
}
_ENTRY = "\nfrom agentgym.tools.sandbox.agent.contained import main\nmain({fd}, {fd})\n"
_END_S = 5.0
_RUN_STDIN = ("-s", "-c", "import sys; sys.path.remove(''); exec(sys.stdin.buffer.read())")
"""Without `-I`, which would ignore the hash seed; the environment contains nothing else."""


class BubblewrapBackend:
    """Starts one `bwrap` per sandbox."""

    tier = SandboxTier.BUBBLEWRAP
    protections = _PROTECTIONS

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[_BubblewrapProcess] = set()
        # The kernel ends a sandbox together with the *thread* that started it, so one thread starts them all.
        self._starter = ThreadPoolExecutor(1, "agentgym-bubblewrap")

    def probe(self) -> ProbeResult:
        """Start a sandbox and wait for its agent."""
        try:
            launched = self.start(SandboxSpec())
        except (InfrastructureError, UsageError) as error:
            return ProbeResult(self.tier, False, str(error))
        try:
            greet(launched.endpoint, launched.settings, PROBE_TIMEOUT_S)
        except ConnectionBroken as error:
            return ProbeResult(self.tier, False, f"bubblewrap is installed, but no agent starts in it: {error}")
        finally:
            launched.endpoint.close()
            launched.kill()
        return ProbeResult(self.tier, True, f"bubblewrap {version()} started an agent", self.protections)

    def start(self, spec: SandboxSpec) -> Launched:
        """Start an agent in bubblewrap's namespaces."""
        if spec.image is not None:
            raise UsageError("only the Docker backend supports images")
        python = interpreter.for_all_users() if os.geteuid() == 0 else interpreter.executable()
        seen = view(spec.preload, spec.readable, python)
        settings = {
            "op": "settings",
            "workdir": spec.workdir,
            "environment": interpreter.environment(home="/tmp", tmp="/tmp", links=LINKS),
            "import_paths": seen.import_paths,
            "limits": spec.limits.to_dict(),
            "preload": list(spec.preload),
            # A tmpfs made by bubblewrap limits bytes, but not the number of files.
            "watched": [spec.workdir, "/tmp"],
            "process_limit": True,
        }
        template = [] if spec.template is None else [trees.packed(spec.template)]
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                running = self._starter.submit(_BubblewrapProcess, spec, seen, python, theirs).result(START_TIMEOUT_S)
        except (OSError, RuntimeError) as error:
            ours.close()
            raise SandboxStartFailed(f"bubblewrap could not be started: {error}") from error
        with self._lock:
            self._running.add(running)
        try:
            ours.settimeout(START_TIMEOUT_S)
            ours.sendall(wire.encode(settings, template))
        except OSError as error:
            ours.close()
            self._end(running)
            raise SandboxStartFailed(f"the agent in bubblewrap exited immediately: {running.error_output()}") from error
        return Launched(ours, lambda: self._end(running), spec.workdir)

    def close(self) -> None:
        """End every sandbox."""
        with self._lock:
            running = list(self._running)
        for each in running:
            self._end(each)

    def _end(self, running: _BubblewrapProcess) -> None:
        running.kill()
        with self._lock:
            self._running.discard(running)


class _BubblewrapProcess:
    """One bubblewrap process; when it dies, the kernel kills everything in it."""

    def __init__(self, spec: SandboxSpec, seen: HostView, python: str, control: socket.socket) -> None:
        user = User.of_sandboxes()
        program = bundle.agent_source() + _ENTRY.format(fd=control.fileno())
        self._owner = os.getpid()
        self._lock = threading.Lock()
        with user.description() as described:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(  # pyright: ignore[reportAttributeAccessIssue]
                [*command(spec, seen, python, described.fileno()), python, *_RUN_STDIN],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(control.fileno(), described.fileno()),
                cwd="/",
                # Bubblewrap stays as the sandbox's first process, where its environment can be read.
                env={},
                start_new_session=True,
                **user.popen_options(),
            )
        assert self._process.stdin is not None
        try:
            with self._process.stdin as stdin:
                stdin.write(program.encode())
        except OSError:
            # It exited immediately; the caller finds no agent and asks for `error_output`.
            pass

    def error_output(self) -> str:
        """Return bubblewrap's error output, after it has exited."""
        self._process.kill()
        assert self._process.stderr is not None
        return self._process.stderr.read(2000).decode("utf-8", "replace").strip()

    def kill(self) -> None:
        """Kill it and wait until it has exited. Safe to call twice."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._process.kill()
            self._process.wait(_END_S)
            if self._process.stderr is not None:
                self._process.stderr.close()
