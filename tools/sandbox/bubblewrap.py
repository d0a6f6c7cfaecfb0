"""Sandboxes in bubblewrap, for programs of the host that need its whole /usr, where unprivileged namespaces work."""

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
from agentgym.tools.sandbox.backend import PROBE_TIMEOUT_S, START_TIMEOUT_S, Launched, Probe, SandboxStartFailed
from agentgym.tools.sandbox.bubblewrap_command import LINKS, User, command, version
from agentgym.tools.sandbox.channel import ChannelBroken, greet
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
from agentgym.tools.sandbox.spec import SandboxSpec, Tier
from agentgym.tools.sandbox.view import View, view

_PROTECTIONS: Mapping[Threat, Protection] = {
    Threat.FILES: held("a root of its own: /usr and the interpreter read-only, a few files of /etc, nothing else"),
    Threat.NETWORK: held("a network namespace with nothing in it, and no sockets"),
    Threat.PROCESSES: held("a process namespace of its own"),
    Threat.ENVIRONMENT: held("bubblewrap and the runs start with a clean environment"),
    Threat.PRIVILEGE: held("an ordinary user without capabilities, also if the driver is root; no new privileges"),
    Threat.KERNEL: held("no capabilities, and a filter of system calls"),
    Threat.MEMORY: held("limit on address space"),
    Threat.TOTAL_MEMORY: partly("looked at ten times a second"),
    Threat.CPU: held("limits on processor and wall time, ended by SIGKILL"),
    Threat.FORKS: held("limit on processes, counted in this sandbox alone"),
    Threat.DISK: held("workspace and temporary folder are in memory, with a size"),
    Threat.INODES: partly("looked at ten times a second"),
    Threat.DAEMONS: held("all processes but those of live sessions are killed after each run"),
    Threat.NEIGHBOURS: held("namespaces of its own"),
    Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
    Threat.IDLE_CPU: held(IDLE_CPU_HELD),
    Threat.KERNEL_QUOTAS: held(
        "a user id of its own; few signals can be queued; seccomp refuses what else is counted by user"
    ),
    Threat.FILE_LOCKS: not_held("locks on files of the host that may be read are seen by whoever uses them too"),
    Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
}
_ENTRY = "\nfrom agentgym.tools.sandbox.agent.contained import main\nmain({fd}, {fd})\n"
_END_S = 5.0
_RUN_STDIN = ("-s", "-c", "import sys; sys.path.remove(''); exec(sys.stdin.buffer.read())")
"""Not with `-I`, which would ignore the seed of hashes; its environment has nothing else."""


class BubblewrapBackend:
    """Starts one `bwrap` per sandbox."""

    tier = Tier.BUBBLEWRAP
    protections = _PROTECTIONS

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[_Running] = set()
        # The kernel ends a sandbox together with the *thread* that started it, so one thread starts them all.
        self._starter = ThreadPoolExecutor(1, "agentgym-bubblewrap")

    def probe(self) -> Probe:
        """Start a sandbox and wait for its agent."""
        try:
            launched = self.start(SandboxSpec())
        except (InfrastructureError, UsageError) as error:
            return Probe(self.tier, False, str(error))
        try:
            greet(launched.endpoint, launched.settings, PROBE_TIMEOUT_S)
        except ChannelBroken as error:
            return Probe(self.tier, False, f"bubblewrap is here, but no agent starts in it: {error}")
        finally:
            launched.endpoint.close()
            launched.kill()
        return Probe(self.tier, True, f"bubblewrap {version()} started an agent", self.protections)

    def start(self, spec: SandboxSpec) -> Launched:
        """Start an agent in namespaces made by bubblewrap."""
        if spec.image is not None:
            raise UsageError("only the Docker backend has images")
        python = interpreter.for_everybody() if os.geteuid() == 0 else interpreter.executable()
        seen = view(spec.preload, spec.readable, python)
        settings = {
            "op": "settings",
            "workdir": spec.workdir,
            "environment": interpreter.environment(home="/tmp", tmp="/tmp", links=LINKS),
            "import_paths": seen.import_paths,
            "limits": spec.limits.to_dict(),
            "preload": list(spec.preload),
            # The folders in memory have a size, but no bound on the number of files.
            "watched": [spec.workdir, "/tmp"],
            "process_limit": True,
        }
        template = [] if spec.template is None else [trees.packed(spec.template)]
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                running = self._starter.submit(_Running, spec, seen, python, theirs).result(START_TIMEOUT_S)
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
            raise SandboxStartFailed(f"the agent in bubblewrap ended at once: {running.complaint()}") from error
        return Launched(ours, lambda: self._end(running), spec.workdir)

    def close(self) -> None:
        """End every sandbox."""
        with self._lock:
            running = list(self._running)
        for each in running:
            self._end(each)

    def _end(self, running: _Running) -> None:
        running.kill()
        with self._lock:
            self._running.discard(running)


class _Running:
    """One bubblewrap; when it dies, the kernel ends all that is in it."""

    def __init__(self, spec: SandboxSpec, seen: View, python: str, control: socket.socket) -> None:
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
                # Bubblewrap itself stays as the first process of the sandbox: its environment can be read there.
                env={},
                start_new_session=True,
                **user.popen_options(),
            )
        assert self._process.stdin is not None
        try:
            with self._process.stdin as stdin:
                stdin.write(program.encode())
        except OSError:
            # It ended at once; what it complains of is asked for by whoever misses the agent.
            pass

    def complaint(self) -> str:
        """Return what bubblewrap said, after its end."""
        self._process.kill()
        assert self._process.stderr is not None
        return self._process.stderr.read(2000).decode("utf-8", "replace").strip()

    def kill(self) -> None:
        """End it and wait for its end; may be called twice."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._process.kill()
            self._process.wait(_END_S)
            if self._process.stderr is not None:
                self._process.stderr.close()
