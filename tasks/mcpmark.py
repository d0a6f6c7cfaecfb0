"""The filesystem and Postgres tasks of MCPMark: folders with `meta.json`, `description.md` and `verify.py`."""

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

META, DESCRIPTION, VERIFY, PREPARE = "meta.json", "description.md", "verify.py", "prepare_environment.py"
SOLUTION = "ground_truth.sql"
_BACKUPS = (".backup", ".sql")
_LEVELS = {"L1": 1, "L2": 2, "L3": 3}


@dataclass(frozen=True)
class _Place:
    where: str
    folder: Path

    @property
    def file(self) -> Path:
        """The folder of the category, whose name is that of no split."""
        return self.folder.parent


class _ServiceTasks(TaskList, ABC):
    """Tasks of MCPMark for one service."""

    service: ClassVar[str]
    """Its name in `meta.json`."""
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
        refuse_links_out(place.folder, (place.folder / name for name in (META, DESCRIPTION, VERIFY, SOLUTION, PREPARE)))
        meta = _meta(place.folder / META)
        category = str(meta.get("category_id") or place.folder.parent.name)
        if self.service not in texts_of(meta.get("mcp"), "mcp"):
            raise Unusable(f"it needs {meta.get('mcp')}, and only {self.service} is supported here", Why.UNSUPPORTED)
        if Path(category).name != category or category == "..":
            raise Unusable(f"its category {category!r} is no name of a folder")
        gold = self.check_state(place.folder, category)
        prompt = _text(place.folder / DESCRIPTION)
        task = Task(
            id=f"mcpmark/{place.folder.parents[1].name}/{category}/{meta.get('task_id') or place.folder.name}",
            split=splitter.split(place.file, f"{category}\n{prompt}"),
            prompt=prompt.strip(),
            difficulty=_LEVELS.get(str(meta.get("difficulty")), 1),
            data={"category": category},
            gold={"verify": _text(place.folder / VERIFY), **gold},
            tags=texts_of(meta.get("tags"), "tags"),
        )
        self._folders[task.id] = place.folder.resolve()
        return task


class MCPMarkTasks(_ServiceTasks):
    """Filesystem tasks of MCPMark.

    Args:
        path: A folder of tasks, such as `tasks/filesystem` of its repository, or one task.
        environments: The folder of the initial files: one folder for each category, as MCPMark downloads them.
        split_by: `"auto"`, `"hash"`, or the one split of all tasks.
        strict: Raise `UsageError` for the first broken task instead of leaving it out.
    """

    service = "filesystem"

    def __init__(
        self,
        path: str | Path,
        *,
        environments: str | Path,
        split_by: str = "auto",
        strict: bool = False,
    ):
        self._environments = existing(environments)
        super().__init__(path, split_by, strict)

    def initial(self, task: Task) -> Path:
        """Return the folder with the files that a task begins with. Raises `TaskError` if the task is not from here."""
        self.folder(task)
        return self._environments / str(task.data["category"])

    def check_state(self, folder: Path, category: str) -> Mapping[str, str]:
        """Return nothing more. Raises `Unusable` if there is no folder of initial files."""
        if not (self._environments / category).is_dir():
            raise Unusable(f"its initial files are not there: no folder {str(self._environments / category)!r}")
        return {}


class MCPMarkPostgresTasks(_ServiceTasks):
    """Postgres tasks of MCPMark.

    A task begins with the database of its category, from a backup, or with what its own `prepare_environment.py` makes.

    Args:
        path: A folder of tasks, such as `tasks/postgres` of its repository, or one task.
        backups: The folder of the databases: `CATEGORY.backup`, as MCPMark downloads them, or `CATEGORY.sql`.
        split_by: `"auto"`, `"hash"`, or the one split of all tasks.
        strict: Raise `UsageError` for the first broken task instead of leaving it out.
    """

    service = "postgres"

    def __init__(
        self,
        path: str | Path,
        *,
        backups: str | Path | None = None,
        split_by: str = "auto",
        strict: bool = False,
    ):
        self._backups = None if backups is None else existing(backups)
        super().__init__(path, split_by, strict)

    def backup(self, task: Task) -> Path | None:
        """Return the backup that a task begins with, if it begins with one."""
        self.folder(task)
        return self._backup(str(task.data["category"]))

    def check_state(self, folder: Path, category: str) -> Mapping[str, str]:
        """Return the solution, and the script that prepares the database, if there are.

        Raises:
            Unusable: There is neither such a script nor a backup.
        """
        gold = {"solution": _text(folder / SOLUTION)} if (folder / SOLUTION).is_file() else {}
        if self._backup(category) is not None:
            return gold
        if (folder / PREPARE).is_file():
            return {**gold, "prepare": _text(folder / PREPARE)}
        raise Unusable(
            f"its initial database is not there: no {category}.backup or {category}.sql in backups="
            f"{str(self._backups) if self._backups else None!r}, and no {PREPARE}"
        )

    def _backup(self, category: str) -> Path | None:
        files = [self._backups / f"{category}{ending}" for ending in _BACKUPS] if self._backups else []
        return next((file for file in files if file.is_file()), None)


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


def _text(path: Path) -> str:
    text = text_in(path)
    if not text.strip():
        raise Unusable(f"{path.name} is empty")
    return text
