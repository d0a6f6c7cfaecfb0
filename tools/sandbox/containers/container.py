"""One container from creation to removal, and the connection to its only program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from agentgym.errors import InfrastructureError
from agentgym.tools.sandbox.bundle import agent_source
from agentgym.tools.sandbox.containers.daemon import Daemon, docker_errors
from agentgym.tools.sandbox.containers.endpoint import Attached, attach
from agentgym.tools.sandbox.containers.hardening import Hardening, host_config
from agentgym.tools.sandbox.containers.owner import labels
from agentgym.tools.sandbox.containers.removal import try_to_remove
from agentgym.tools.sandbox.interpreter import HASH_SEED
from agentgym.tools.sandbox.spec import SandboxSpec

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
