"""Task folders as the source of `TerminalEnv`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from agentgym.errors import UsageError
from agentgym.task import Task, TaskSource
from agentgym.task_files.declaring import Layout, TaskFiles
from agentgym.tasks.folders import TaskFolder

FILES = TaskFiles(
    argument="folder",
    loader="agentgym.tasks.folders.source:FolderTasks",
    options={
        "network": "none, or task: what each task says, which is the internet unless it says otherwise",
        "variables": "values for the environment variables that tasks ask for, by name",
        "split_by": "auto, file (the folder that the tasks are in), hash, or one split: train, validation, test",
    },
    layouts=(
        Layout("Harbor", "task folders: task.toml, instruction.md, environment, tests, solution", "folder=TASKS"),
        Layout("Terminal-Bench 2", "the same; its tests download what they need", "folder=TASKS --set network=task"),
        Layout("Terminal-Bench 1", "task folders with task.yaml, Dockerfile and run-tests.sh", "folder=TASKS"),
    ),
)


@runtime_checkable
class HasFolders(Protocol):
    """A task source that knows the folders of its tasks."""

    def folder(self, task: Task) -> TaskFolder:
        """Return the folder of a task."""
        ...


def folder_of(source: TaskSource, task: Task) -> TaskFolder:
    """Return the folder of a task. Raises `UsageError` if the source has no folders."""
    if not isinstance(source, HasFolders):
        raise UsageError(f"the folder of task {task.id!r} is unknown; pass folder=..., or a source with folder(task)")
    return source.folder(task)
