"""From a task to its repository: its files come from the task source, from an archive, or from an image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from agentgym.envs.swe.remembered import Remembered
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes, read_tree
from agentgym.errors import BrokenTask, UsageError
from agentgym.task import Task, TaskList, TaskSource
from agentgym.tasks.swe.build_source import read_tree as read_archive
from agentgym.tasks.swe.formats import read_any
from agentgym.tasks.swe.instance import Instance, from_task, to_task
from agentgym.tools.patches import PatchError, apply_patch

BUG_PATCH = "bug_patch"
"""Key in `meta`: turns the archive, which holds the sound repository, into what the agent finds."""
_REPOSITORIES: Remembered[Repository] = Remembered(16)


@runtime_checkable
class HasTrees(Protocol):
    """A task source that knows the files of its tasks."""

    def tree(self, task: Task) -> Mapping[str, bytes]:
        """Return the files that the agent finds."""
        ...


class InstanceTasks(TaskList):
    """Tasks from a file of instances in any known format (`agentgym.tasks.swe.formats`).

    Args:
        path: The file; archives that its instances name lie relative to its folder.
        split: The split that they are in, unless their `meta` names one under `split`.
    """

    def __init__(self, path: str | Path, split: str = "train"):
        self.path = Path(path)
        instances = read_any(path).instances
        super().__init__(to_task(instance, str(instance.meta.get("split", split))) for instance in instances)

    def tree(self, task: Task) -> Mapping[str, bytes]:
        """Return the files that the agent finds, of an instance with an archive."""
        return _archived(from_task(task), self.path.parent)


def repository_of(source: TaskSource, task: Task, sandboxes: Sandboxes) -> Repository:
    """Return the repository of a task.

    Raises:
        UsageError: Nothing says where its files are.
    """
    key = type(source).__name__, str(getattr(source, "path", "")), task.hash
    return _REPOSITORIES.get(key, lambda: _read(source, task, sandboxes))


def _read(source: TaskSource, task: Task, sandboxes: Sandboxes) -> Repository:
    instance = from_task(task)
    if instance.image is not None and instance.archive is None:
        with sandboxes.open(instance) as sandbox:
            there = read_tree(sandbox)
        return Repository(instance, _with_bug(instance, there), there)
    if isinstance(source, HasTrees):
        return Repository(instance, source.tree(task))
    raise UsageError(
        f"nothing says where the files of task {task.id!r} are; pass file=... (instances with archives or images) or a "
        "task source with a method tree(task)"
    )


def _archived(instance: Instance, folder: Path) -> Mapping[str, bytes]:
    if instance.archive is None:
        raise BrokenTask(f"instance {instance.id!r} names neither an archive nor an image to take its files from")
    return _with_bug(instance, read_archive(folder / instance.archive))


def _with_bug(instance: Instance, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    patch = str(instance.meta.get(BUG_PATCH, ""))
    try:
        return apply_patch(files, patch) if patch else files
    except PatchError as error:
        raise BrokenTask(f"the bug of instance {instance.id!r} does not apply to its files: {error}") from error
