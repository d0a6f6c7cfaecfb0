"""The machines of a task: the agent's, and that of a verifier with its own container."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.base.errors import InfrastructureError
from agentgym.tasks.folders import Health, MachineNeeds, TaskFolder
from agentgym.tasks.folders.spec import LOG_FOLDERS, TESTS_PLACE
from agentgym.tools.sandbox.containers.daemon import Daemon
from agentgym.tools.terminal import Machine, MachineSpec, build_image, image_workdir

_CPUS, _MEMORY_MB = 1.0, 2048
_SETUP_S = 60.0
_FOLDERS = f"mkdir -p {' '.join(LOG_FOLDERS)} && chmod 777 {' '.join(LOG_FOLDERS)} && [ -e {TESTS_PLACE} ]"


@dataclass
class TaskMachine:
    """A machine that is ready for a task."""

    machine: Machine
    workdir: str
    has_tests: bool
    """Whether the image has something where the tests will be put."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def close(self) -> None:
        """Remove the machine."""
        self.machine.close()


def agents_machine(folder: TaskFolder, docker: Daemon) -> TaskMachine:
    """Start the machine that the agent works on."""
    return _start(docker, folder.machine, folder.context, folder.apart)


def verifiers_machine(folder: TaskFolder, docker: Daemon) -> TaskMachine:
    """Start the verifier's own machine, or one like the agent's if the verifier has none."""
    verifier = folder.verifier
    if verifier.machine is None:
        return agents_machine(folder, docker)
    if verifier.owns_tests:
        return _start(docker, verifier.machine, folder.tests, frozenset())
    return _start(docker, verifier.machine, folder.context, folder.apart)


def _start(docker: Daemon, needs: MachineNeeds, context: Path, skip: frozenset[str]) -> TaskMachine:
    image = needs.image or build_image(docker, context, timeout_s=needs.build_timeout_s, skip=skip)
    spec = MachineSpec(
        image,
        cpus=needs.cpus or _CPUS,
        memory_mb=needs.memory_mb or _MEMORY_MB,
        network=needs.network,
        environment=needs.environment,
    )
    machine = Machine.start(docker, spec)
    try:
        prepared = machine.run(["sh", "-c", _FOLDERS], wall_s=_SETUP_S, user="0", cwd="/")
        if needs.health is not None:
            _wait_until_healthy(machine, needs.health, image)
    except BaseException:
        machine.close()
        raise
    return TaskMachine(machine, needs.workdir or image_workdir(docker, image), prepared.exit_code == 0)


def _wait_until_healthy(machine: Machine, health: Health, image: str) -> None:
    """Run the check until it succeeds. Failures in the start period do not count."""
    began, failures = time.monotonic(), 0
    while True:
        result = machine.run(["sh", "-c", health.command], wall_s=health.timeout_s)
        if result.exit_code == 0:
            return
        failures += time.monotonic() - began > health.start_period_s
        if failures >= health.retries:
            output = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-300:]
            raise InfrastructureError(f"a container of {image!r} does not become healthy: {health.command}: {output}")
        time.sleep(health.interval_s)
