"""The filesystem tasks of MCPMark: folders with `meta.json`, `description.md` and `verify.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.errors import TaskError
from agentgym.task import Task, TaskList
from agentgym.task_files.left_out import LeftOut, Quarantine, Unusable, Why
from agentgym.tasks.folder_files import refuse_links_out, text_in, texts_of
from agentgym.tasks.read_tasks import read_tasks
from agentgym.tasks.records import existing
from agentgym.tasks.splitting import Splitter

META, DESCRIPTION, VERIFY = "meta.json", "description.md", "verify.py"
_SERVICE = "filesystem"
_LEVELS = {"L1": 1, "L2": 2, "L3": 3}


@dataclass(frozen=True)
class _Place:
    where: str
    folder: Path

    @property
    def file(self) -> Path:
        """The folder of the category, whose name is that of no split."""
        return self.folder.parent


class MCPMarkTasks(TaskList):
    """Filesystem tasks of MCPMark.

    Args:
        path: A folder of tasks, such as `tasks/filesystem` of its repository, or one task.
        environments: The folder of the initial files: one folder for each category, as MCPMark downloads them.
        split_by: `"auto"`, `"hash"`, or the one split of all tasks.
        strict: Raise `UsageError` for the first broken task instead of leaving it out.
    """

    left_out: tuple[LeftOut, ...]
    """Folders without a usable task, each with the reason."""

    def __init__(
        self,
        path: str | Path,
        *,
        environments: str | Path,
        split_by: str = "auto",
        strict: bool = False,
    ):
        self.path, self._environments = existing(path).absolute(), existing(environments)
        places = [_Place(str(found.parent), found.parent) for found in _metas(self.path)]
        splitter = Splitter.of(split_by, ())
        quarantine = Quarantine(str(path), strict)
        kept = read_tasks(places, lambda place: self._task(place, splitter), quarantine)
        self.left_out = quarantine.entries
        quarantine.close(len(kept))
        super().__init__(read.task for read in kept)

    def initial(self, task: Task) -> Path:
        """Return the folder with the files that a task begins with. Raises `TaskError` if the task is not from here."""
        if self.find(task.id).hash != task.hash:
            raise TaskError(f"task {task.id!r} is not the one in {str(self.path)!r}")
        return self._environments / str(task.data["category"])

    def _task(self, place: _Place, splitter: Splitter) -> Task:
        refuse_links_out(place.folder, (place.folder / name for name in (META, DESCRIPTION, VERIFY)))
        meta = _meta(place.folder / META)
        category = str(meta.get("category_id") or place.folder.parent.name)
        if _SERVICE not in texts_of(meta.get("mcp"), "mcp"):
            raise Unusable(f"it needs {meta.get('mcp')}, and only {_SERVICE} is supported", Why.UNSUPPORTED)
        if Path(category).name != category or category == ".." or not (self._environments / category).is_dir():
            raise Unusable(f"its initial files are not there: no folder {str(self._environments / category)!r}")
        prompt = _text(place.folder / DESCRIPTION)
        verify = _text(place.folder / VERIFY)
        return Task(
            id=f"mcpmark/{place.folder.parents[1].name}/{category}/{meta.get('task_id') or place.folder.name}",
            split=splitter.split(place.file, f"{category}\n{prompt}"),
            prompt=prompt.strip(),
            difficulty=_LEVELS.get(str(meta.get("difficulty")), 1),
            data={"category": category},
            gold={"verify": verify},
            tags=texts_of(meta.get("tags"), "tags"),
        )


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
