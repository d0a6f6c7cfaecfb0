"""`Machine`: a container that runs one program after another, and whose files can be copied in and out."""

from __future__ import annotations

import io
import secrets
import tarfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.containers.calls import Call, ContainerCallOutcome, Exchange, exit_code_of, start_call
from agentgym.tools.sandbox.containers.daemon import Attached, Daemon, attach, docker_errors, has_image
from agentgym.tools.sandbox.containers.hardening import Hardening, host_config
from agentgym.tools.sandbox.containers.removal import labels, try_to_remove
from agentgym.tools.sandbox.spec import SandboxLimits, SandboxSpec

MARK = "AGENTGYM_CALL"
"""Environment variable with the id of a process's call, so that a call that takes too long can be killed."""
ROOT_CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
)
"""Capabilities that root needs to install software, change owners and start services; Docker's others are dropped."""
_KILL = """
for process in /proc/[0-9]*; do
    tr '\\0' '\\n' <"$process/environ" 2>/dev/null | grep -qsx "$1" && kill -9 "${process#/proc/}"
done
true
"""
_LIST = 'echo $$; for process in /proc/[0-9]*; do echo "${process#/proc/}"; done'
_READY = b"ready\n"
_START_S = 60.0
_KILLS = 8
"""Rounds of killing leftover programs, which may start others; bounded, as a replaced shell may list any number."""
_LOOKS, _BETWEEN_LOOKS_S = 4, 0.1
_NOT_RUN = b"cannot exec in a stopped state"
"""Docker's output for a program that it could not start because the container was just ending."""
_GRACE_S = 5.0


class MachineLost(Exception):
    """Something inside the machine ended it, such as a command that killed everything; Docker itself works."""


@dataclass(frozen=True)
class MachineSpec:
    """How to create a machine."""

    image: str
    cpus: float = 1.0
    memory_mb: int = 2048
    processes: int = 512
    network: str = "none"
    """A network of the daemon, such as `bridge`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of all its programs, besides those of the image."""


class Machine:
    """A running container. It ends when it is closed, or when this process ends."""

    def __init__(self, daemon: Daemon, container: str, endpoint: Attached, spec: MachineSpec):
        self.daemon, self.id, self.spec = daemon, container, spec
        self._endpoint = endpoint
        self._ended = weakref.finalize(self, _end, daemon, container, endpoint)
        self._first: frozenset[int] = frozenset()
        self._first = frozenset(self.left_running())

    @classmethod
    def start(cls, daemon: Daemon, spec: MachineSpec) -> Self:
        """Start a machine.

        Raises:
            UsageError: Docker does not have the image.
            InfrastructureError: It cannot be started.
        """
        if not has_image(daemon, spec.image):
            raise UsageError(f"Docker has no image {spec.image!r} here; run: docker pull {spec.image}")
        with daemon.creating:
            container = _create(daemon, spec)
            try:
                endpoint = attach(daemon, container)
                with docker_errors(f"cannot start a container of {spec.image!r}"):
                    daemon.maker.start(container)
                _wait_until_ready(endpoint, spec.image)
            except BaseException:
                try_to_remove(daemon, container)
                raise
        return cls(daemon, container, endpoint, spec)

    def run(
        self,
        argv: Sequence[str],
        *,
        wall_s: float,
        stdin: bytes = b"",
        user: str = "",
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        output_bytes: int = 64_000,
    ) -> ContainerCallOutcome:
        """Run a program until it ends or its time is up. Its background processes keep running.

        Args:
            argv: Program and arguments.
            wall_s: Seconds after which it and everything that it started are killed.
            stdin: Its standard input.
            user: Name or number; that of the image if empty.
            cwd: Its folder; that of the image if empty.
            env: More variables.
            output_bytes: Bytes to keep of each of stdout and stderr.

        Raises:
            MachineLost: The machine is gone.
        """
        mark = secrets.token_hex(8)
        variables = {**self.spec.environment, **(env or {}), MARK: mark}
        call = Call(argv, user, cwd, wall_s, stdin=stdin, env=variables, output_bytes=output_bytes)
        started_at = time.monotonic()
        try:
            exec_id, connection = start_call(self.daemon, self.id, call)
            with connection:
                end = Exchange(self.daemon, exec_id, connection, call).run()
                stopped = end.timed_out or end.flooded
                if stopped:
                    self.kill(mark)
                    end.drain()
                else:
                    end.catch_up()
                exit_code = 137 if stopped else exit_code_of(self.daemon, exec_id)
        except InfrastructureError as error:
            self.check_alive(error)
            raise
        out, err = end.outputs
        if exit_code == 126 and _NOT_RUN in out.bytes():
            raise MachineLost("the container has ended")
        return ContainerCallOutcome(
            stdout=out.bytes(),
            stderr=err.bytes(),
            cut=(out.cut, err.cut),
            exit_code=exit_code,
            duration_s=time.monotonic() - started_at,
            timed_out=end.timed_out,
            flooded=end.flooded,
        )

    def kill(self, mark: str) -> None:
        """Kill all processes of a call."""
        command = Call(["sh", "-c", _KILL, "sh", f"{MARK}={mark}"], "0", "/", _GRACE_S)
        exec_id, connection = start_call(self.daemon, self.id, command)
        with connection:
            Exchange(self.daemon, exec_id, connection, command).run()

    def left_running(self) -> list[int]:
        """Return the process ids of all programs except those that the machine was started with.

        Returns none if the machine's shell was removed or replaced.
        """
        listed = self.run(["sh", "-c", _LIST], wall_s=_GRACE_S, user="0", cwd="/")
        try:
            own, *others = map(int, listed.stdout.split())
        except ValueError:
            return []
        return sorted(set(others) - self._first - {own})

    def kill_left(self) -> None:
        """Kill every program except those that the machine was started with."""
        for _ in range(_KILLS):
            if not (pids := self.left_running()):
                return
            self.run(["sh", "-c", 'kill -9 "$@"', "sh", *map(str, pids)], wall_s=_GRACE_S, user="0", cwd="/")

    def put(self, archive: bytes, path: str = "/") -> None:
        """Unpack a tar file into a folder, as root."""
        with docker_errors(f"cannot copy files to {path}"):
            self.daemon.maker.put_archive(self.id, path, archive)

    def take(self, path: str) -> bytes | None:
        """Return a file or folder as a tar file whose names start with its last part; `None` if it does not exist."""
        from docker.errors import NotFound

        with docker_errors(f"cannot copy {path} out"):
            try:
                pieces, _ = self.daemon.maker.get_archive(self.id, path)
            except NotFound:
                self.check_alive(None)
                return None
            return b"".join(pieces)

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """Return a regular file; `None` if it does not exist.

        Raises:
            UsageError: It is not a regular file, or larger than `max_bytes`.
        """
        archive = self.take(path)
        if archive is None:
            return None
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            entry = tar.next()
            content = None if entry is None or not entry.isreg() else tar.extractfile(entry)
            if entry is None or content is None or entry.size > max_bytes:
                raise UsageError(f"{path} is not a regular file of at most {max_bytes} bytes")
            return content.read()

    def close(self) -> None:
        """Kill everything in the machine and remove it. Safe to call twice."""
        self._ended()

    def check_alive(self, error: BaseException | None) -> None:
        """Raise `MachineLost` if the machine is not running, which Docker reports with a short delay."""
        for _ in range(_LOOKS):
            if not self._runs():
                raise MachineLost("the container has ended") from error
            time.sleep(_BETWEEN_LOOKS_S)

    def _runs(self) -> bool:
        from docker.errors import NotFound

        with docker_errors("cannot inspect a container"):
            try:
                return bool(self.daemon.api.inspect_container(self.id)["State"]["Running"])
            except NotFound:
                return False


def _create(daemon: Daemon, spec: MachineSpec) -> str:
    hardening = Hardening(
        user="0:0", cpus=spec.cpus, network=spec.network, writable_root=True, capabilities=ROOT_CAPABILITIES
    )
    limits = SandboxLimits(total_memory_mb=spec.memory_mb, processes=spec.processes)
    config = host_config(hardening, SandboxSpec(limits=limits))
    with docker_errors(f"cannot create a container of {spec.image!r}"):
        maker = daemon.maker
        return maker.create_container(
            spec.image,
            ["cat"],  # waits, and ends with this process, which closes its stdin
            stdin_open=True,
            environment=dict(spec.environment),
            hostname="machine",
            labels=labels(),
            host_config=maker.create_host_config(**config),
        )["Id"]


def _wait_until_ready(endpoint: Attached, image: str) -> None:
    """Wait until the container's entrypoint, if any, has started the waiting program."""
    output = b""
    deadline = time.monotonic() + _START_S
    try:
        endpoint.sendall(_READY)
        while _READY not in output:
            endpoint.settimeout(max(0.01, deadline - time.monotonic()))
            piece = endpoint.recv(4096)
            if not piece:
                raise InfrastructureError(f"a container of {image!r} ended at once: {endpoint.stderr.strip()[-300:]}")
            output = output[-len(_READY) :] + piece
        endpoint.settimeout(None)
    except OSError as error:
        raise InfrastructureError(f"a container of {image!r} does not get ready: {error}") from error


def _end(daemon: Daemon, container: str, endpoint: Attached) -> None:
    endpoint.close()
    try_to_remove(daemon, container)
