"""`FolderTasks`: the tasks of a folder of task folders, or of one such folder."""

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
from agentgym.tasks.folder_files import refuse_links_out, text_in, texts_of
from agentgym.tasks.folders import harbor
from agentgym.tasks.folders.spec import TESTS_PLACE, AgentSpec, MachineNeeds, TaskFolder, VerifierSpec
from agentgym.tasks.read_tasks import read_tasks
from agentgym.tasks.records import existing
from agentgym.tasks.splitting import Splitter
from agentgym.tools.terminal.building import content_hash

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


Network = Literal["none", "task"]
_READERS = {harbor.CONFIG: harbor.read_harbor, CONFIG: read_terminal_bench}
_DEPTH = 3
"""Levels of folders in which tasks are looked for."""
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
        """The folder above, whose name may be that of a split; names of tasks often hold the word test."""
        return self.folder.parent


class FolderTasks(TaskList):
    """Tasks from folders in the format of Harbor (`task.toml`) or of the first Terminal-Bench (`task.yaml`).

    Args:
        path: A task folder, or a folder of them.
        network: `"none"`: containers reach nothing, and tasks whose tests download something are left out. `"task"`:
            containers reach what their task says, which is the internet unless it says otherwise.
        variables: Values for the environment variables that tasks ask for.
        split_by: `"auto"`, `"file"` (the folder that the tasks are in), `"hash"`, or the one split of all tasks.
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
        kept = read_tasks(places, lambda place: self._task(place, splitter), quarantine)
        self.left_out = quarantine.entries
        quarantine.close(len(kept))
        super().__init__(read.task for read in kept)

    def folder(self, task: Task) -> TaskFolder:
        """Return the folder of a task. Raises `TaskError` if it is not one of this source's, or has changed since."""
        found = self._folders.get(task.id)
        if found is None or self.find(task.id).hash != task.hash:
            raise TaskError(f"the folder of task {task.id!r} is not in {str(self.path)!r}, or is not the same any more")
        return found

    def _task(self, place: _Place, splitter: Splitter) -> Task:
        folder = self._connected(_READERS[place.config](place.folder, self._variables))
        if not folder.name.isprintable() or len(folder.name) > _NAME_CHARS:
            raise Unusable(
                f"its name {folder.name[:_NAME_CHARS]!r} must be printable, with {_NAME_CHARS} characters at most"
            )
        context = content_hash(folder.context, folder.apart) if folder.context.is_dir() else ""
        tests = [content_hash(folder.tests) if folder.tests.is_dir() else ""]
        tests += [path.read_text(encoding="utf-8", errors="replace") for path in folder.tests_extra]
        made = Task(
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
        return made

    def _connected(self, folder: TaskFolder) -> TaskFolder:
        """Return a task whose containers reach what the user allows."""
        if self._network == "task":
            return folder
        own = folder.verifier.machine
        script = next((path for path in _scripts(folder) if path.is_file()), None)
        if not folder.verifier.owns_tests and script is not None and _downloads(script):
            raise Unusable(
                f"its {script.name} downloads something; allow that with network='task', or install it in the image",
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
    """Yield the task folders at and below a folder, in order."""
    config = next((name for name in _READERS if (path / name).is_file()), None)
    if config is not None:
        yield _Place(str(path), path, config)
    elif depth < _DEPTH and path.is_dir():
        for below in sorted(path.iterdir()):
            if below.is_dir() and not below.name.startswith("."):
                yield from _places(below, depth + 1)
