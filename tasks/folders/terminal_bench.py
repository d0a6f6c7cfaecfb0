"""Reads Terminal-Bench task folders of the first version: `task.yaml`, `Dockerfile`, `run-tests.sh`, `tests`."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import yaml

from agentgym.task_files.left_out import Unusable, Why
from agentgym.tasks.folder_files import refuse_links_out, text_in, texts_of
from agentgym.tasks.folders.spec import TESTS_PLACE, AgentSpec, MachineNeeds, TaskFolder, VerifierSpec

CONFIG = "task.yaml"
_COMPOSE = "docker-compose.yaml"
_LEVELS = {"easy": 1, "medium": 2, "hard": 3}
_APART = frozenset({CONFIG, _COMPOSE, "tests", "run-tests.sh", "solution.sh", "solution.yaml"})
_READ = (CONFIG, _COMPOSE, "Dockerfile", "run-tests.sh", "tests", "solution.sh")
_TEST_DIR = "TEST_DIR"
_SIMPLE = {"build", "image", "container_name", "command", "environment", "volumes", "working_dir"}
"""What the one container of a task may say; the rest needs Docker Compose."""


def read_terminal_bench(folder: Path, given: Mapping[str, str]) -> TaskFolder:
    """Return a task of the first Terminal-Bench. Its tests pass if `run-tests.sh` ends with exit code 0.

    Raises:
        Unusable: Something is missing, wrong, or not supported here.
    """
    refuse_links_out(folder, [*(folder / name for name in _READ), *sorted((folder / "tests").rglob("*"))])
    config = _yaml(folder / CONFIG)
    service = _only_service(folder / _COMPOSE)
    context = folder / _context(service)
    refuse_links_out(folder, [context, context / "Dockerfile"])
    instruction = config.get("instruction")
    if not isinstance(instruction, str) or not instruction.strip():
        raise Unusable("its instruction is empty")
    for path in (context / "Dockerfile", folder / "run-tests.sh"):
        if not path.is_file():
            raise Unusable(f"{path.relative_to(folder)} is missing")
    tests = folder / "tests"
    variables = {_TEST_DIR: TESTS_PLACE}
    return TaskFolder(
        name=folder.name,
        instruction=instruction.strip(),
        machine=MachineNeeds(
            environment={**_variables(service, given), **variables},
            workdir=_workdir(service),
            network="bridge",
        ),
        agent=AgentSpec(timeout_s=_seconds(config, "max_agent_timeout_sec", 360.0)),
        verifier=VerifierSpec(
            script="run-tests.sh",
            timeout_s=_seconds(config, "max_test_timeout_sec", 60.0),
            environment=variables,
            verdict="exit_code",
        ),
        context=context,
        tests=tests,
        tests_extra=(folder / "run-tests.sh",),
        solution=folder if (folder / "solution.sh").is_file() else None,
        solution_script="solution.sh",
        difficulty=_LEVELS.get(str(config.get("difficulty", "")).lower(), 1),
        tags=texts_of(config.get("tags"), "tags"),
        apart=_apart(context),
    )


def _apart(context: Path) -> frozenset[str]:
    """Return what is no part of the image, unless the Dockerfile copies it by name."""
    dockerfile = (context / "Dockerfile").read_text(encoding="utf-8", errors="replace")
    copies = [line.split() for line in dockerfile.splitlines() if line.startswith(("COPY", "ADD"))]
    return _APART - {word.removeprefix("./").split("/")[0] for line in copies for word in line}


def _yaml(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text_in(path))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise Unusable(f"{path.name} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise Unusable(f"{path.name} must hold an object, not {found!r:.60}")
    return found


def _only_service(path: Path) -> dict[str, Any]:
    """Return the one container of the task; without a file, it is that of the Dockerfile."""
    if not path.is_file():
        return {}
    services = _yaml(path).get("services") or {}
    if not isinstance(services, dict) or len(services) > 1:
        raise Unusable("it needs several containers, which is not supported", Why.UNSUPPORTED)
    service = next(iter(services.values()), None) or {}
    if not isinstance(service, dict):
        raise Unusable(f"its container in {_COMPOSE} must be an object, not {service!r:.60}")
    if more := sorted(set(map(str, service)) - _SIMPLE):
        raise Unusable(f"its container needs {', '.join(more)} of Docker Compose: not supported", Why.UNSUPPORTED)
    listed = service.get("volumes") or []
    volumes = [volume for volume in texts_of(listed, "volumes") if "${T_BENCH_" not in volume]
    if volumes:
        raise Unusable(f"its container mounts {volumes[0]!r}, which is not supported", Why.UNSUPPORTED)
    return service


def _context(service: Mapping[str, Any]) -> str:
    build = service.get("build") or "."
    context = str(build.get("context", ".") if isinstance(build, dict) else build)
    if context.startswith("/") or ".." in context.split("/") or "$" in context:
        raise Unusable(f"its image is built from {context!r}, outside of its folder")
    return context


def _workdir(service: Mapping[str, Any]) -> str | None:
    found = service.get("working_dir")
    if found is not None and not isinstance(found, str):
        raise Unusable(f"working_dir in {_COMPOSE} must be a path, not {found!r:.60}")
    return found


def _variables(service: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    listed = service.get("environment") or {}
    if isinstance(listed, list):
        listed = dict(str(entry).split("=", 1) for entry in listed if "=" in str(entry))
    if not isinstance(listed, dict):
        raise Unusable(f"environment in {_COMPOSE} must be a list or an object, not {listed!r:.60}")
    return {str(name): str(value) for name, value in listed.items() if "${" not in str(value)} | {
        name: value for name, value in given.items() if name in listed
    }


def _seconds(config: Mapping[str, Any], name: str, default: float) -> float:
    value = config.get(name, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < inf:
        raise Unusable(f"{name} must be a number above 0, not {value!r:.60}")
    return float(value)
