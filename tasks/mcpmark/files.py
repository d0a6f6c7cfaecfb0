"""The filesystem tasks of MCPMark, each with the folder of files that it begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentgym.task import Task
from agentgym.task_files.left_out import Unusable
from agentgym.tasks.mcpmark.folders import ServiceTasks
from agentgym.tasks.records import existing


class MCPMarkTasks(ServiceTasks):
    """Filesystem tasks of MCPMark.

    Args:
        path: A folder of tasks, such as `tasks/filesystem` of its repository, or one task.
        environments: The folder of the initial files: one folder for each category, as MCPMark downloads them.
        split_by: `"auto"`, `"hash"`, or the one split of all tasks.
        strict: Raise `UsageError` for the first broken task instead of leaving it out.
    """

    service = "filesystem"

    def __init__(self, path: str | Path, *, environments: str | Path, split_by: str = "auto", strict: bool = False):
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
