"""What the tasks of MCPMark for all services share: folders with `meta.json`, `description.md` and `verify.py`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from agentgym.errors import TaskError
from agentgym.task import Task, TaskList
from agentgym.task_files.left_out import LeftOut, Quarantine, Unusable, Why
from agentgym.tasks.folder_files import refuse_links_out, text_in, texts_of
from agentgym.tasks.read_tasks import read_tasks
from agentgym.tasks.records import existing
from agentgym.tasks.splitting import Splitter

META, DESCRIPTION, VERIFY = "meta.json", "description.md", "verify.py"
_LEVELS = {"L1": 1, "L2": 2, "L3": 3}


@dataclass(frozen=True)
class _Place:
    where: str
    folder: Path

    @property
    def file(self) -> Path:
        """The folder of the category, whose name is that of no split."""
        return self.folder.parent


class ServiceTasks(TaskList, ABC):
    """Tasks of MCPMark for one service."""

    service: ClassVar[str]
    """Its name in `meta.json`."""
    more_files: ClassVar[tuple[str, ...]] = ()
    """Files that the folder of a task may have besides those of all tasks."""
    left_out: tuple[LeftOut, ...]
    """Folders without a usable task, each with the reason."""

    def __init__(self, path: str | Path, split_by: str, strict: bool):
        self.path = existing(path).absolute()
        places = [_Place(str(found.parent), found.parent) for found in _metas(self.path)]
        splitter = Splitter.of(split_by, ())
        quarantine = Quarantine(str(path), strict)
        self._folders: dict[str, Path] = {}
        kept = read_tasks(places, lambda place: self._task(place, splitter), quarantine)
        self.left_out = quarantine.entries
        quarantine.close(len(kept))
        super().__init__(read.task for read in kept)

    @abstractmethod
    def check_state(self, folder: Path, category: str) -> Mapping[str, str]:
        """Return more that the grader needs. Raises `Unusable` if what a task begins with is not there."""

    def folder(self, task: Task) -> Path:
        """Return the folder of a task. Raises `TaskError` if the task is not from here."""
        if self.find(task.id).hash != task.hash:
            raise TaskError(f"task {task.id!r} is not the one in {str(self.path)!r}")
        return self._folders[task.id]

    def _task(self, place: _Place, splitter: Splitter) -> Task:
        files = (META, DESCRIPTION, VERIFY, *self.more_files)
        refuse_links_out(place.folder, (place.folder / name for name in files))
        meta = _meta(place.folder / META)
        category = str(meta.get("category_id") or place.folder.parent.name)
        if self.service not in texts_of(meta.get("mcp"), "mcp"):
            raise Unusable(f"it needs {meta.get('mcp')}, and only {self.service} is supported here", Why.UNSUPPORTED)
        if Path(category).name != category or category == "..":
            raise Unusable(f"its category {category!r} is no name of a folder")
        gold = self.check_state(place.folder, category)
        prompt = text_of_file(place.folder / DESCRIPTION)
        task = Task(
            id=f"mcpmark/{place.folder.parents[1].name}/{category}/{meta.get('task_id') or place.folder.name}",
            split=splitter.split(place.file, f"{category}\n{prompt}"),
            prompt=prompt.strip(),
            difficulty=_LEVELS.get(str(meta.get("difficulty")), 1),
            data={"category": category},
            gold={"verify": text_of_file(place.folder / VERIFY), **gold},
            tags=texts_of(meta.get("tags"), "tags"),
        )
        self._folders[task.id] = place.folder.resolve()
        return task


def _metas(path: Path) -> Iterator[Path]:
    yield from sorted(path.rglob(META))


def _meta(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(text_in(path))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{META} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise Unusable(f"{META} must hold an object")
    return found


def text_of_file(path: Path) -> str:
    """Return the text of a file of a task. Raises `Unusable` if it is missing, empty or no text."""
    text = text_in(path)
    if not text.strip():
        raise Unusable(f"{path.name} is empty")
    return text
