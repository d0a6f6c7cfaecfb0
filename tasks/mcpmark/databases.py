"""The Postgres tasks of MCPMark, each with the backup or the script that makes the database that it begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentgym.task import Task
from agentgym.task_files.left_out import Unusable
from agentgym.tasks.mcpmark.folders import ServiceTasks, text_of_file
from agentgym.tasks.records import existing

PREPARE, SOLUTION = "prepare_environment.py", "ground_truth.sql"
_BACKUPS = (".backup", ".sql")


class MCPMarkPostgresTasks(ServiceTasks):
    """Postgres tasks of MCPMark.

    A task begins with the database of its category, from a backup, or with what its own `prepare_environment.py` makes.

    Args:
        path: A folder of tasks, such as `tasks/postgres` of its repository, or one task.
        backups: The folder of the databases: `CATEGORY.backup`, as MCPMark downloads them, or `CATEGORY.sql`.
        split_by: `"auto"`, `"hash"`, or the one split of all tasks.
        strict: Raise `UsageError` for the first broken task instead of leaving it out.
    """

    service = "postgres"
    more_files = (SOLUTION, PREPARE)

    def __init__(
        self, path: str | Path, *, backups: str | Path | None = None, split_by: str = "auto", strict: bool = False
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
        gold = {"solution": text_of_file(folder / SOLUTION)} if (folder / SOLUTION).is_file() else {}
        if self._backup(category) is not None:
            return gold
        if (folder / PREPARE).is_file():
            return {**gold, "prepare": text_of_file(folder / PREPARE)}
        raise Unusable(
            f"its initial database is not there: no {category}.backup or {category}.sql in backups="
            f"{str(self._backups) if self._backups else None!r}, and no {PREPARE}"
        )

    def _backup(self, category: str) -> Path | None:
        files = [self._backups / f"{category}{ending}" for ending in _BACKUPS] if self._backups else []
        return next((file for file in files if file.is_file()), None)
