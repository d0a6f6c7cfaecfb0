"""Sandboxes in Docker containers, one for each, with the agent inside as the container's only program.

What the containers are made of is the image's affair: it is named by the user and never fetched.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping

from agentgym.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.tools.sandbox import interpreter, trees
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.backend import Launched, Probe, SandboxStartFailed
from agentgym.tools.sandbox.containers.container import Container, Wanted
from agentgym.tools.sandbox.containers.daemon import Daemon, told
from agentgym.tools.sandbox.containers.hardening import Hardening
from agentgym.tools.sandbox.containers.images import environment_of, has_image
from agentgym.tools.sandbox.containers.owner import reap
from agentgym.tools.sandbox.containers.protections import protections_of
from agentgym.tools.sandbox.containers.removal import Remover
from agentgym.tools.sandbox.containers.without_agent import WithoutAgent
from agentgym.tools.sandbox.protection import Protection, Threat
from agentgym.tools.sandbox.pump import Pump, hello
from agentgym.tools.sandbox.spec import SandboxSpec, Tier

_IMAGE = "AGENTGYM_DOCKER_IMAGE"
_SLOW = "the image has no python3 (3.9 or newer): every call is a docker exec, and there are no sessions"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CLOSE_S = 60.0
_ANSWER_S = 5.0


class DockerBackend:
    """Starts containers of one Docker daemon."""

    tier = Tier.DOCKER

    def __init__(
        self,
        host: str | None = None,
        *,
        image: str | None = None,
        hardening: Hardening | None = None,
        creating: int = 4,
        create_s: float = 120.0,
    ) -> None:
        """Remember what to use; nothing is connected yet.

        Args:
            host: Where the daemon listens; by default what `DOCKER_HOST` or Docker itself says.
            image: Used for specs that name none; by default what `AGENTGYM_DOCKER_IMAGE` says.
            hardening: How containers are walled in.
            creating: Containers made at the same time.
            create_s: Deadline of making one.
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
        """What the containers hold."""
        return protections_of(self._hardening)

    @property
    def containers(self) -> frozenset[str]:
        """The ids of the containers that live."""
        with self._lock:
            return frozenset(self._live)

    def probe(self) -> Probe:
        """Ask the daemon, and start a container if it is known of which image."""
        try:
            version, system = _asked(self.daemon.host)
            if system != "linux":
                return Probe(self.tier, False, f"the Docker daemon runs {system} containers, not Linux ones")
            if self._image is None:
                return Probe(self.tier, True, f"Docker {version} answers; the spec says which image", self.protections)
            launched = self.start(SandboxSpec())
            launched.endpoint.close()
            launched.kill()
        except AgentGymError as error:
            return Probe(self.tier, False, str(error))
        return Probe(self.tier, True, f"Docker {version} started {self._image!r}", self.protections)

    def start(self, spec: SandboxSpec) -> Launched:
        """Start a container with an agent in it."""
        image = spec.image or self._image
        if image is None:
            raise UsageError(f"the Docker backend needs an image: SandboxSpec(image=...), or {_IMAGE}")
        if not has_image(self.daemon, image):
            raise UsageError(f"Docker has no image {image!r} here; run: docker pull {image}, or use image_from_rootfs")
        self._reap()
        wanted = Wanted(self.daemon, image, spec, *self._hardening.for_one())
        try:
            launched = None if image in self._without_python else self._with_agent(wanted)
            if launched is None:
                launched = self._without_agent(wanted)
                self._without_python.add(image)
            return launched
        except InfrastructureError as error:
            raise SandboxStartFailed(f"no container of {image!r} could be started: {error}") from error

    def close(self) -> None:
        """Remove all containers it started."""
        if os.getpid() != self._process:
            return
        for container in self.containers:
            self._end(container)
        self._remover.wait(_CLOSE_S)
        self.daemon.close()

    def _reap(self) -> None:
        """Before the first start, remove what processes that died have left."""
        with self._lock:
            reaped, self._reaped = self._reaped, True
        if not reaped:
            with contextlib.suppress(InfrastructureError):
                reap(self.daemon)

    def _with_agent(self, wanted: Wanted) -> Launched | None:
        """Return an agent in a new container, or nothing if the image has no python that it could run on."""
        spec = wanted.spec
        settings = {
            "op": "settings",
            "workdir": spec.workdir,
            "environment": self._environment(wanted),
            "limits": spec.limits.to_dict(),
            "preload": list(spec.preload),
            "watched": [spec.workdir, "/tmp"] if self._hardening.writable_root else [],
            # The kernel counts the processes of a user on the whole host; the container's own limit holds here.
            "process_limit": False,
        }
        template = [] if spec.template is None else [trees.packed(spec.template)]
        container = Container.with_python(wanted, wire.encode(settings, template))
        if container is None:
            return None
        return Launched(container.endpoint, self._holding(container), spec.workdir)

    def _without_agent(self, wanted: Wanted) -> Launched:
        spec = wanted.spec
        container = Container.without_python(wanted)
        remove = self._holding(container)
        stand_in = WithoutAgent(
            self.daemon,
            container.id,
            user=wanted.user,
            workdir=spec.workdir,
            environment=self._environment(wanted),
        )
        if spec.template is not None:
            answer, _ = stand_in.answer({"op": "unpack", "path": "."}, [trees.packed(spec.template)])
            if "error" in answer:
                remove()
                raise SandboxStartFailed(f"the template could not be unpacked: {answer['message']}")
        pump = Pump(stand_in.answer_frame, f"docker-{container.id[:12]}", first=hello())

        def kill() -> None:
            pump.close()
            # Its end of the connection is what the container lives by.
            container.endpoint.close()
            remove()

        return Launched(pump.endpoint, kill, spec.workdir, None, _SLOW)

    def _environment(self, wanted: Wanted) -> dict[str, str]:
        base = interpreter.environment(home="/tmp", tmp="/tmp", links="")
        # An image need not have the locale, and bash complains about this one at every start.
        base.pop("LC_ALL")
        return {**base, "PATH": _PATH, **environment_of(self.daemon, wanted.image)}

    def _holding(self, container: Container) -> Callable[[], None]:
        """Keep a container in mind until the function that is returned has it removed."""
        with self._lock:
            self._live.add(container.id)
        return lambda: self._end(container.id)

    def _end(self, container: str) -> None:
        # A forked child has copies of its parent's sandboxes, which are not its own to end.
        if os.getpid() != self._process:
            return
        with self._lock:
            if container not in self._live:
                return
            self._live.remove(container)
        self._remover.remove(container)


def _asked(host: str | None) -> tuple[str, str]:
    """Return the version of the daemon and the system its containers run on."""
    daemon = Daemon(host, call_s=_ANSWER_S)
    try:
        with told("the Docker daemon does not answer"):
            return daemon.api.version()["Version"], daemon.api.info().get("OSType", "")
    finally:
        daemon.close()
