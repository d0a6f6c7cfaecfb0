"""Docker sandboxes: one container per sandbox, with the agent as its only program.

The user names the image, which is never pulled.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping

from agentgym.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.tools.sandbox import interpreter, trees
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.backend import Launched, ProbeResult, SandboxStartFailed
from agentgym.tools.sandbox.containers.container import Container, ContainerSpec
from agentgym.tools.sandbox.containers.daemon import Daemon, docker_errors
from agentgym.tools.sandbox.containers.hardening import Hardening
from agentgym.tools.sandbox.containers.images import environment_of, has_image
from agentgym.tools.sandbox.containers.owner import reap
from agentgym.tools.sandbox.containers.protections import protections_of
from agentgym.tools.sandbox.containers.removal import Remover
from agentgym.tools.sandbox.containers.without_agent import WithoutAgent
from agentgym.tools.sandbox.protection import Protection, Threat
from agentgym.tools.sandbox.pump import Pump, hello
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

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
