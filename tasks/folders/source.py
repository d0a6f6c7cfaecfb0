"""`FolderTasks`: the tasks of a folder of task folders, or of one such folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from agentgym.choices import one_of
from agentgym.errors import TaskError
from agentgym.task import Task, TaskList
from agentgym.task_files.left_out import LeftOut, Quarantine, Unusable, Why
from agentgym.tasks.folders import harbor, terminal_bench
from agentgym.tasks.folders.spec import MachineNeeds, TaskFolder
from agentgym.tasks.read_tasks import read_tasks
from agentgym.tasks.records import existing
from agentgym.tasks.splitting import Splitter
from agentgym.tools.terminal.building import content_hash

Network = Literal["none", "task"]
_READERS = {harbor.CONFIG: harbor.read_harbor, terminal_bench.CONFIG: terminal_bench.read_terminal_bench}
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
