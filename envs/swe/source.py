"""Finds the repository of a task: its files come from the task source, from an archive, or from an image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from agentgym.base.choices import one_of
from agentgym.base.errors import BrokenTask, UsageError
from agentgym.core.task import TRAIN, Task, TaskList, TaskSource
from agentgym.core.task_files import LeftOut, Quarantine, Unusable
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes, read_tree
from agentgym.tasks.read_tasks import SPLITS, ReadTask, named_split, refuse_empty, without_repeats
from agentgym.tasks.records import Record, existing, files_in, read_records
from agentgym.tasks.swe.formats import detect, read_row
from agentgym.tasks.swe.instance import Instance, from_task, to_task, without_environment
from agentgym.tasks.swe.local import (
    Origin,
    find_archive,
    find_environment,
    find_repository,
    with_environment,
    with_own_files,
)
from agentgym.tools.patches import PatchError, apply_patch, parse_patch

BUG_PATCH = "bug_patch"
"""Key in `meta` of the patch that turns the archive, which holds the sound repository, into the buggy one."""
_REPOSITORIES: BoundedCache[Repository] = BoundedCache(16)


@runtime_checkable
class HasTrees(Protocol):
    """A task source that knows the files of its tasks."""

    def tree(self, task: Task) -> Mapping[str, bytes]:
        """Return the files that the agent receives."""
        ...


class InstanceTasks(TaskList):
    """Tasks from files of instances in any known format (`agentgym.tasks.swe.formats`).

    Args:
        path: The file, or a folder of such files; archive paths in instances are relative to its folder.
        format: Name of the format; detected from the fields of the first row if not given.
        repositories: A folder of archives or checkouts to take the files from, instead of images
            (`agentgym.tasks.swe.local`).
        environments: A folder of Python environments to run the tests in, or one environment for all.
        split_by: `"auto"`: the split that an instance names itself (`meta`), else that of the file's name, else
            `train`. Or the one split that all tasks belong to.
        strict: Raise `UsageError` for the first broken instance instead of leaving it out.
    """

    left_out: tuple[LeftOut, ...]
    """Rows without a usable task, each with the reason."""

    def __init__(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        repositories: str | Path | None = None,
        environments: str | Path | None = None,
        split_by: str = "auto",
        strict: bool = False,
    ):
        self.path = existing(path)
        self._split_by = one_of("split_by", split_by, ("auto", *SPLITS))
        self._repositories = None if repositories is None else existing(repositories)
        self._environments = None if environments is None else existing(environments)
        self._origins: dict[str, Origin] = {}
        quarantine = Quarantine(str(path), strict)
        read_tasks: list[ReadTask] = []
        for record in _records(self.path, quarantine):
            with quarantine.guard(record.where):
                format = format or _format_of(record)
                read_tasks.append(self._read(record, format))
        unique_tasks = without_repeats(read_tasks, quarantine)
        self.left_out = quarantine.entries
        quarantine.close(len(unique_tasks))
        super().__init__(read.task for read in unique_tasks)

    def tree(self, task: Task) -> Mapping[str, bytes]:
        """Return the files that the agent receives, of an instance whose files are on this machine."""
        if task.id not in self._origins:
            raise BrokenTask(f"instance {task.id!r} names neither an archive nor an image to take its files from")
        return _with_bug(from_task(task), self._origins[task.id].tree())

    def _read(self, record: Record, format: str) -> ReadTask:
        try:
            instance = read_row(record.fields, format, where=record.where)
        except UsageError as error:
            raise Unusable(str(error).removeprefix(f"{record.where}: ")) from error
        _check(instance)
        instance = self._with_local_files(without_environment(instance), record.file.parent)
        split = self._split_by if self._split_by != "auto" else instance.meta.get("split")
        task = to_task(instance, str(split or named_split(record.file) or TRAIN))
        assert task.hash  # text that cannot be hashed makes no task
        return ReadTask(record.where, task, record.file)

    def _with_local_files(self, instance: Instance, folder: Path) -> Instance:
        """Return an instance with its files and environment on this machine. Raises `Unusable` if either is missing."""
        origin = None
        if self._repositories is not None:
            origin = find_repository(self._repositories, instance)
        elif instance.archive is not None:
            origin = find_archive(folder, instance)
        if origin is not None:
            self._origins[instance.id] = origin
        if self._environments is not None:
            if origin is None:
                raise Unusable("its files are in an image; environments=... needs repositories=... too, or archives")
            return with_environment(instance, find_environment(self._environments, instance))
        return with_own_files(instance) if self._repositories is not None or instance.image is None else instance


def _records(path: Path, quarantine: Quarantine) -> list[Record]:
    files = files_in(path) if path.is_dir() else [path]
    all_records: list[Record] = []
    counts: dict[Path, int] = {}
    for file in files:
        before = len(quarantine.entries)
        records = list(read_records(file, quarantine))
        counts[file] = len(records) + len(quarantine.entries) - before
        all_records += records
    refuse_empty(counts)
    return all_records


def _format_of(record: Record) -> str:
    try:
        return detect(record.fields)
    except UsageError as error:
        raise Unusable(str(error)) from error


def _check(instance: Instance) -> None:
    """Raise `Unusable` for an instance that cannot be graded."""
    if not instance.fail_to_pass:
        raise Unusable("no test says whether it is solved: the list of tests that fail before the patch is empty")
    for name, patch in (("gold patch", instance.gold_patch), ("test patch", instance.test_patch)):
        try:
            parsed = parse_patch(patch)
        except PatchError as error:
            raise Unusable(f"its {name} cannot be read: {error}") from error
        if not parsed and name == "gold patch":
            raise Unusable("its gold patch changes nothing")


def repository_of(source: TaskSource, task: Task, sandboxes: Sandboxes) -> Repository:
    """Return the repository of a task.

    Raises:
        UsageError: The location of its files is unknown.
    """
    key = type(source).__name__, str(getattr(source, "path", "")), task.hash
    return _REPOSITORIES.get(key, lambda: _read(source, task, sandboxes))


def _read(source: TaskSource, task: Task, sandboxes: Sandboxes) -> Repository:
    instance = from_task(task)
    if instance.python is not None and isinstance(source, HasTrees):
        _check_environment(source, task, instance)
        return Repository(instance, source.tree(task), in_image={})
    if instance.image is not None and instance.archive is None:
        with sandboxes.open(instance) as sandbox:
            there = read_tree(sandbox)
        return Repository(instance, _with_bug(instance, there), there)
    if isinstance(source, HasTrees):
        return Repository(instance, source.tree(task))
    raise UsageError(
        f"the location of the files of task {task.id!r} is unknown; pass file=... (instances with archives or images) "
        "or a task source with a method tree(task)"
    )


def _check_environment(source: TaskSource, task: Task, instance: Instance) -> None:
    """Raise `UsageError` unless the source itself names the Python environment, which the sandbox will show.

    A task may come from a manifest that anybody could write.
    """
    if from_task(source.find(task.id)).python != instance.python:
        raise UsageError(
            f"task {task.id!r} names the Python environment {instance.python!r}, which is not that of the task source; "
            "name it with environments=..."
        )


def _with_bug(instance: Instance, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    patch = str(instance.meta.get(BUG_PATCH, ""))
    try:
        return apply_patch(files, patch) if patch else files
    except PatchError as error:
        raise BrokenTask(f"the bug of instance {instance.id!r} does not apply to its files: {error}") from error
