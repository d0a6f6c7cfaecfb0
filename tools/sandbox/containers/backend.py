"""Docker sandboxes: one container per sandbox, with the agent as its only program.

The user names the image, which is never pulled.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from agentgym.base.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.tools.sandbox import folders as trees
from agentgym.tools.sandbox import interpreter
from agentgym.tools.sandbox.agent import wire
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
from agentgym.tools.sandbox.bundle import agent_source
from agentgym.tools.sandbox.containers.daemon import Attached, Daemon, attach, docker_errors, environment_of, has_image
from agentgym.tools.sandbox.containers.hardening import Hardening, host_config
from agentgym.tools.sandbox.containers.removal import Remover, labels, reap, try_to_remove
from agentgym.tools.sandbox.containers.without_agent import WithoutAgent
from agentgym.tools.sandbox.interpreter import HASH_SEED
from agentgym.tools.sandbox.pump import Pump, hello
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

_READY = b"agentgym"
_READY_S = 30.0
# Restarts Python without the variables that `-I` ignores; `-I` itself would ignore the hash seed too.
_FIRST = """
import os, sys
if sys.version_info < (3, 9):
    sys.exit("python3 is older than 3.9")
variables = {{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}}
os.execve(sys.executable, [sys.executable, "-s", "-c", {second!r}], {{**variables, **{seed!r}}})
"""
# The program is too long for an argument, so the argument only reads it from stdin.
_SECOND = """
import sys
sys.path.remove("")
import os
os.write(1, {ready!r})
program = b""
while len(program) < {size}:
    piece = os.read(0, {size} - len(program))
    if not piece:
        os._exit(0)
    program += piece
exec(compile(program, "<agent>", "exec"))
"""
_ENTRY = "from agentgym.tools.sandbox.agent.contained import main\nmain(0, 1)\n"


def reading(size: int) -> list[str]:
    """Return Python's arguments to report that it is ready and run the program of that size from stdin."""
    second = _SECOND.format(ready=_READY, size=size)
    return ["-I", "-c", _FIRST.format(second=second, seed=HASH_SEED)]


@dataclass
class ContainerSpec:
    """The configuration of a container."""

    daemon: Daemon
    image: str
    spec: SandboxSpec
    hardening: Hardening
    """Includes the user."""
    user: str
    """The environment of its programs."""


class Container:
    """A running container. When this process exits, the container's stdin closes, which ends the container."""

    def __init__(self, container: str, endpoint: Attached) -> None:
        self.id = container
        self.endpoint = endpoint

    @classmethod
    def with_python(cls, container_spec: ContainerSpec, settings: bytes) -> Self | None:
        """Start an agent and send it its settings; returns `None` if the image has no suitable python."""
        program = f"{agent_source()}\n{_ENTRY}".encode()
        container = cls._make(container_spec, ["python3", *reading(len(program))], container_spec.user)
        try:
            if container._starts_with(_READY):
                container.endpoint.settimeout(_READY_S)
                container.endpoint.sendall(program + settings)
                return container
        except OSError as error:
            container._give_up(container_spec.daemon)
            raise InfrastructureError(f"the agent did not start: {error}; {container.endpoint.stderr}") from error
        container._give_up(container_spec.daemon)
        return None

    @classmethod
    def without_python(cls, container_spec: ContainerSpec) -> Self:
        """Start a program that only waits, as a separate user whose processes the sandbox cannot kill."""
        user, _, group = container_spec.user.partition(":")
        container = cls._make(container_spec, ["cat"], f"{int(user) + 1}:{int(group) + 1}")
        try:
            container.endpoint.sendall(_READY)
            if container._starts_with(_READY):
                return container
        except OSError:
            pass  # it has exited; its error output is reported below
        container._give_up(container_spec.daemon)
        stderr = container.endpoint.stderr.strip()
        raise InfrastructureError(f"the image has neither python3 nor cat, or does not run on this machine: {stderr}")

    def _give_up(self, daemon: Daemon) -> None:
        self.endpoint.close()
        try_to_remove(daemon, self.id)

    @classmethod
    def _make(cls, container_spec: ContainerSpec, command: Sequence[str], user: str) -> Self:
        daemon, spec = container_spec.daemon, container_spec.spec
        config = host_config(container_spec.hardening, spec)
        with daemon.creating:
            with docker_errors("cannot create a container"):
                maker = daemon.maker
                container = maker.create_container(
                    container_spec.image,
                    list(command),
                    entrypoint=[],
                    user=user,
                    stdin_open=True,
                    working_dir=spec.workdir,
                    hostname="sandbox",
                    labels=labels(),
                    host_config=maker.create_host_config(**config),
                )["Id"]
            try:
                endpoint = attach(daemon, container)
                with docker_errors("cannot start a container"):
                    maker.start(container)
            except BaseException:
                try_to_remove(daemon, container)
                raise
        return cls(container, endpoint)

    def _starts_with(self, sign: bytes) -> bool:
        """Return whether the output starts with `sign`; false if the container exits instead."""
        got = b""
        deadline = time.monotonic() + _READY_S
        while len(got) < len(sign):
            self.endpoint.settimeout(max(0.01, deadline - time.monotonic()))
            piece = self.endpoint.recv(len(sign) - len(got))
            if not piece:
                return False
            got += piece
        self.endpoint.settimeout(None)
        return got == sign


def protections_of(hardening: Hardening) -> Mapping[Threat, Protection]:
    """Return the protection table of a backend's containers."""
    return {
        Threat.FILES: held("a separate file system from the image")
        if hardening.writable_root
        else held("a separate, read-only file system from the image"),
        Threat.NETWORK: held("an empty network namespace")
        if hardening.network == "none"
        else not_held(f"the container is on the network {hardening.network!r}"),
        Threat.PROCESSES: held("a separate PID namespace"),
        Threat.ENVIRONMENT: held("only the variables of the image and the spec; the driver runs outside"),
        Threat.PRIVILEGE: held(f"{_user(hardening)}, {_capabilities(hardening)}, no_new_privs")
        if not (hardening.user or "").startswith("0:")
        else partly(f"root in the container, {_capabilities(hardening)}, with no_new_privs"),
        Threat.KERNEL: held("Docker's seccomp filter and, if the image has python3, a stricter one of the agent"),
        Threat.MEMORY: held("a limit per process, and the container's limit"),
        Threat.TOTAL_MEMORY: held("the container's limit, without swap; workspace files count too"),
        Threat.CPU: held(f"limits on CPU time per process and wall time, {hardening.cpus:g} CPUs"),
        Threat.FORKS: held("the container's limit on processes"),
        Threat.DISK: partly("the image's files are writable; disk usage is checked periodically")
        if hardening.writable_root
        else held("the workspace and the temporary folder are size-limited tmpfs"),
        Threat.INODES: partly("the image's files are writable; disk usage is checked periodically")
        if hardening.writable_root
        else held("the workspace and the temporary folder have a limited number of files"),
        Threat.DAEMONS: held("all processes except those of live sessions are killed after each run"),
        Threat.NEIGHBOURS: held("every sandbox has a separate container"),
        Threat.FORGED_RESULTS: held(FORGED_RESULTS_HELD),
        Threat.IDLE_CPU: held(IDLE_CPU_HELD),
        Threat.KERNEL_QUOTAS: held(
            "a separate uid; a low limit on queued signals; the agent's filter blocks the other per-user quotas"
        )
        if hardening.user is None
        else partly(f"a low limit on queued signals, but all containers share the user {hardening.user}"),
        Threat.FILE_LOCKS: held("containers share no files except for the spec's readable folders"),
        Threat.SIDE_CHANNELS: not_held(SIDE_CHANNELS_OPEN),
    }


def _capabilities(hardening: Hardening) -> str:
    names = ", ".join(hardening.capabilities)
    return f"with the capabilities {names}" if names else "without capabilities"


def _user(hardening: Hardening) -> str:
    return "a separate user" if hardening.user is None else f"user {hardening.user}"


_log = logging.getLogger(__name__)
_IMAGE = "AGENTGYM_DOCKER_IMAGE"
_SLOW = "the image has no python3 (3.9 or newer): every call is a docker exec, and sessions are not available"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CLOSE_S = 60.0
_ANSWER_S = 5.0


class DockerBackend:
    """Starts containers on one Docker daemon."""

    tier = SandboxTier.DOCKER

    def __init__(
        self,
        host: str | None = None,
        *,
        image: str | None = None,
        hardening: Hardening | None = None,
        creating: int = 4,
        create_s: float = 120.0,
    ) -> None:
        """Configure the backend; the first use connects.

        Args:
            host: The daemon's address; by default `DOCKER_HOST` or Docker's default.
            image: The image for specs without one; by default `AGENTGYM_DOCKER_IMAGE`.
            hardening: The isolation of the containers.
            creating: Containers created concurrently.
            create_s: Timeout for creating one.
        """
        self.daemon = Daemon(host, creating=creating, create_s=create_s)
        self._image = image or os.environ.get(_IMAGE) or None
        self._hardening = hardening or Hardening()
        self._remover = Remover(self.daemon)
        self._reaped = False
        self._live: set[str] = set()
        self._without_python: set[str] = set()
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def protections(self) -> Mapping[Threat, Protection]:
        """How well the containers hold each threat."""
        return protections_of(self._hardening)

    @property
    def containers(self) -> frozenset[str]:
        """The ids of the live containers."""
        with self._lock:
            return frozenset(self._live)

    def probe(self) -> ProbeResult:
        """Contact the daemon, and start a container if there is a default image."""
        try:
            version, system = _daemon_info(self.daemon.host)
            if system != "linux":
                return ProbeResult(self.tier, False, f"the Docker daemon runs {system} containers, not Linux ones")
            if self._image is None:
                return ProbeResult(
                    self.tier, True, f"Docker {version} answers; the spec must name an image", self.protections
                )
            launched = self.start(SandboxSpec())
            launched.endpoint.close()
            launched.kill()
        except AgentGymError as error:
            return ProbeResult(self.tier, False, str(error))
        return ProbeResult(self.tier, True, f"Docker {version} started {self._image!r}", self.protections)

    def start(self, spec: SandboxSpec) -> Launched:
        """Start a container with an agent in it."""
        image = spec.image or self._image
        if image is None:
            raise UsageError(f"the Docker backend needs an image: SandboxSpec(image=...), or {_IMAGE}")
        if not has_image(self.daemon, image):
            raise UsageError(f"Docker has no image {image!r} here; run 'docker pull {image}', or use image_from_rootfs")
        self._reap()
        container_spec = ContainerSpec(self.daemon, image, spec, *self._hardening.for_one())
        try:
            launched = None if image in self._without_python else self._with_agent(container_spec)
            if launched is None:
                launched = self._without_agent(container_spec)
                self._without_python.add(image)
            return launched
        except InfrastructureError as error:
            raise SandboxStartFailed(f"cannot start a container of {image!r}: {error}") from error

    def close(self) -> None:
        """Remove all containers that it started."""
        if os.getpid() != self._process:
            return
        for container in self.containers:
            self._end(container)
        self._remover.wait(_CLOSE_S)
        self.daemon.close()

    def _reap(self) -> None:
        """Before the first start, remove the containers of dead processes."""
        with self._lock:
            reaped, self._reaped = self._reaped, True
        if not reaped:
            try:
                reap(self.daemon)
            except InfrastructureError as error:
                _log.warning("containers of dead processes could not be removed: %s", error)

    def _with_agent(self, container_spec: ContainerSpec) -> Launched | None:
        """Return an agent in a new container, or `None` if the image has no suitable python."""
        spec = container_spec.spec
        settings = {
            "op": "settings",
            "workdir": spec.workdir,
            "environment": self._environment(container_spec),
            "limits": spec.limits.to_dict(),
            "preload": list(spec.preload),
            "watched": [spec.workdir, "/tmp"] if self._hardening.writable_root else [],
            # The kernel's limit counts a user's processes on the whole host; the container's limit applies here.
            "process_limit": False,
        }
        template = [] if spec.template is None else [trees.packed(spec.template)]
        container = Container.with_python(container_spec, wire.encode(settings, template))
        if container is None:
            return None
        return Launched(container.endpoint, self._holding(container), spec.workdir)

    def _without_agent(self, container_spec: ContainerSpec) -> Launched:
        spec = container_spec.spec
        container = Container.without_python(container_spec)
        remove = self._holding(container)
        stand_in = WithoutAgent(
            self.daemon,
            container.id,
            user=container_spec.user,
            workdir=spec.workdir,
            environment=self._environment(container_spec),
        )
        if spec.template is not None:
            answer, _ = stand_in.answer({"op": "unpack", "path": "."}, [trees.packed(spec.template)])
            if "error" in answer:
                remove()
                raise SandboxStartFailed(f"cannot unpack the template: {answer['message']}")
        pump = Pump(stand_in.answer_frame, f"docker-{container.id[:12]}", first=hello())

        def kill() -> None:
            pump.close()
            # The container exits when its end of the connection closes.
            container.endpoint.close()
            remove()

        return Launched(pump.endpoint, kill, spec.workdir, None, _SLOW)

    def _environment(self, container_spec: ContainerSpec) -> dict[str, str]:
        base = interpreter.environment(home="/tmp", tmp="/tmp", links="")
        # An image may lack the locale, and bash would complain about it at every start.
        base.pop("LC_ALL")
        return {**base, "PATH": _PATH, **environment_of(self.daemon, container_spec.image)}

    def _holding(self, container: Container) -> Callable[[], None]:
        """Register a container, and return a function that removes it."""
        with self._lock:
            self._live.add(container.id)
        return lambda: self._end(container.id)

    def _end(self, container: str) -> None:
        # A forked child has copies of its parent's sandboxes and must not close them.
        if os.getpid() != self._process:
            return
        with self._lock:
            if container not in self._live:
                return
            self._live.remove(container)
        self._remover.remove(container)


def _daemon_info(host: str | None) -> tuple[str, str]:
    """Return the daemon's version and the operating system of its containers."""
    daemon = Daemon(host, call_s=_ANSWER_S)
    try:
        with docker_errors("the Docker daemon does not respond"):
            return daemon.api.version()["Version"], daemon.api.info().get("OSType", "")
    finally:
        daemon.close()
