"""`FolderTasks`: the tasks of one task folder or of a tree of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from agentgym.base.choices import one_of
from agentgym.base.errors import TaskError
from agentgym.core.task import Task, TaskList
from agentgym.core.task_files import LeftOut, Quarantine, Unusable, Why
from agentgym.tasks.folders import harbor
from agentgym.tasks.folders.spec import (
    TESTS_PLACE,
    AgentSpec,
    MachineNeeds,
    TaskFolder,
    VerifierSpec,
    as_texts,
    read_text,
    refuse_links_out,
)
from agentgym.tasks.read_tasks import Splitter, read_tasks
from agentgym.tasks.records import existing
from agentgym.tools.terminal.building import content_hash

CONFIG = "task.yaml"
_COMPOSE = "docker-compose.yaml"
_LEVELS = {"easy": 1, "medium": 2, "hard": 3}
_APART = frozenset({CONFIG, _COMPOSE, "tests", "run-tests.sh", "solution.sh", "solution.yaml"})
_READ = (CONFIG, _COMPOSE, "Dockerfile", "run-tests.sh", "tests", "solution.sh")
_TEST_DIR = "TEST_DIR"
_SIMPLE = {"build", "image", "container_name", "command", "environment", "volumes", "working_dir"}
"""Supported keys of the container; all others need Docker Compose."""


def read_terminal_bench(folder: Path, user_variables: Mapping[str, str]) -> TaskFolder:
    """Return a task of the first Terminal-Bench. Its tests pass if `run-tests.sh` exits with 0.

    Raises:
        Unusable: A part is missing, invalid or unsupported.
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
            environment={**_variables(service, user_variables), **variables},
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
        tags=as_texts(config.get("tags"), "tags"),
        apart=_apart(context),
    )


def _apart(context: Path) -> frozenset[str]:
    """Return the names to exclude from the image: tests and solution, unless the Dockerfile copies them by name."""
    dockerfile = (context / "Dockerfile").read_text(encoding="utf-8", errors="replace")
    copies = [line.split() for line in dockerfile.splitlines() if line.startswith(("COPY", "ADD"))]
    return _APART - {word.removeprefix("./").split("/")[0] for line in copies for word in line}


def _yaml(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(read_text(path))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise Unusable(f"{path.name} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise Unusable(f"{path.name} must hold an object, not {config!r:.60}")
    return config


def _only_service(path: Path) -> dict[str, Any]:
    """Return the settings of the task's single container; empty without a Compose file."""
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
    volumes = [volume for volume in as_texts(listed, "volumes") if "${T_BENCH_" not in volume]
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
    workdir = service.get("working_dir")
    if workdir is not None and not isinstance(workdir, str):
        raise Unusable(f"working_dir in {_COMPOSE} must be a path, not {workdir!r:.60}")
    return workdir


def _variables(service: Mapping[str, Any], user_variables: Mapping[str, str]) -> dict[str, str]:
    listed = service.get("environment") or {}
    if isinstance(listed, list):
        listed = dict(str(entry).split("=", 1) for entry in listed if "=" in str(entry))
    if not isinstance(listed, dict):
        raise Unusable(f"environment in {_COMPOSE} must be a list or an object, not {listed!r:.60}")
    return {str(name): str(value) for name, value in listed.items() if "${" not in str(value)} | {
        name: value for name, value in user_variables.items() if name in listed
    }


def _seconds(config: Mapping[str, Any], name: str, default: float) -> float:
    value = config.get(name, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < inf:
        raise Unusable(f"{name} must be a number above 0, not {value!r:.60}")
    return float(value)


Network = Literal["none", "task"]
_READERS = {harbor.CONFIG: harbor.read_harbor, CONFIG: read_terminal_bench}
_DEPTH = 3
"""Maximum depth of the search for task folders."""
_NAME_CHARS = 200
_DOWNLOADS = re.compile(
    r"^[^#\n]*\b(?:apt(?:-get)?|curl|wget|uvx|uv (?:add|pip|tool)|pip3? install|npm install)\b", re.M
)


@dataclass(frozen=True)
class _Place:
    where: str
    folder: Path
    config: str

    @property
    def file(self) -> Path:
        """The parent folder, which may be named like a split; task names often contain the word test."""
        return self.folder.parent


class FolderTasks(TaskList):
    """Tasks from folders in the format of Harbor (`task.toml`) or of the first Terminal-Bench (`task.yaml`).

    Args:
        path: A task folder, or a folder of them.
        network: `"none"`: containers reach nothing, and tasks whose tests download something are left out. `"task"`:
            containers have the network access that their task specifies, by default the internet.
        variables: Values for the environment variables that tasks need.
        split_by: `"auto"`, `"file"` (by the name of the parent folder), `"hash"`, or the one split of all tasks.
        strict: Raise `UsageError` for the first broken folder instead of leaving it out.
    """

    left_out: tuple[LeftOut, ...]
    """Folders without a usable task, each with the reason."""

    def __init__(
        self,
        path: str | Path,
        *,
        network: Network = "none",
        variables: Mapping[str, str] | None = None,
        split_by: str = "auto",
        strict: bool = False,
    ):
        self.path = existing(path)
        self._network: Network = one_of("network", network, get_args(Network))
        self._variables = dict(variables or {})
        self._folders: dict[str, TaskFolder] = {}
        places = list(_places(self.path))
        splitter = Splitter.of(split_by, {place.file for place in places})
        quarantine = Quarantine(str(path), strict)
        tasks = read_tasks(places, lambda place: self._task(place, splitter), quarantine)
        self.left_out = quarantine.entries
        quarantine.close(len(tasks))
        super().__init__(read.task for read in tasks)

    def folder(self, task: Task) -> TaskFolder:
        """Return the folder of a task. Raises `TaskError` if the task is not from this source or has changed since."""
        folder = self._folders.get(task.id)
        if folder is None or self.find(task.id).hash != task.hash:
            raise TaskError(f"the folder of task {task.id!r} is not in {str(self.path)!r}, or has changed")
        return folder

    def _task(self, place: _Place, splitter: Splitter) -> Task:
        folder = self._with_limited_network(_READERS[place.config](place.folder, self._variables))
        if not folder.name.isprintable() or len(folder.name) > _NAME_CHARS:
            raise Unusable(
                f"its name {folder.name[:_NAME_CHARS]!r} must be printable, with at most {_NAME_CHARS} characters"
            )
        context = content_hash(folder.context, folder.apart) if folder.context.is_dir() else ""
        tests = [content_hash(folder.tests) if folder.tests.is_dir() else ""]
        tests += [path.read_text(encoding="utf-8", errors="replace") for path in folder.tests_extra]
        task = Task(
            id=folder.name,
            split=splitter.split(place.file, f"{folder.instruction}\n{context}"),
            prompt=folder.instruction,
            difficulty=folder.difficulty,
            data={
                "machine": folder.machine.model_dump(mode="json"),
                "agent": folder.agent.model_dump(mode="json"),
                "context": context,
            },
            gold={"verifier": folder.verifier.model_dump(mode="json"), "tests": tests},
            tags=folder.tags,
        )
        self._folders.setdefault(folder.name, folder)
        return task

    def _with_limited_network(self, folder: TaskFolder) -> TaskFolder:
        """Return the task with the network access of its containers limited to what the user allows."""
        if self._network == "task":
            return folder
        own = folder.verifier.machine
        script = next((path for path in _scripts(folder) if path.is_file()), None)
        if not folder.verifier.owns_tests and script is not None and _downloads(script):
            raise Unusable(
                f"its {script.name} downloads something; pass network='task' to allow that, or install it in the image",
                Why.UNSUPPORTED,
            )
        return replace(
            folder,
            machine=_offline(folder.machine),
            verifier=folder.verifier.model_copy(update={"machine": None if own is None else _offline(own)}),
        )


def _scripts(folder: TaskFolder) -> Iterator[Path]:
    yield folder.tests / folder.verifier.script
    yield from folder.tests_extra


def _downloads(script: Path) -> bool:
    return _DOWNLOADS.search(script.read_text(encoding="utf-8", errors="replace")) is not None


def _offline(needs: MachineNeeds) -> MachineNeeds:
    return needs.model_copy(update={"network": "none"})


def _places(path: Path, depth: int = 0) -> Iterator[_Place]:
    """Yield the task folders at and below a path, sorted."""
    config = next((name for name in _READERS if (path / name).is_file()), None)
    if config is not None:
        yield _Place(str(path), path, config)
    elif depth < _DEPTH and path.is_dir():
        for below in sorted(path.iterdir()):
            if below.is_dir() and not below.name.startswith("."):
                yield from _places(below, depth + 1)
