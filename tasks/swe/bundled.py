"""`BundledSWETasks`: tasks that ship with agentgym, built from small packages that ship with it too.

The instances (`data/bundled.jsonl`) were made and validated by `build_bundled`; their test files are read
from the repositories instead of being stored again. No function has bugs in two splits. The repositories are one
archive, which is read into memory (`data/repositories.md` lists them and says how to change them).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from agentgym.base.errors import TaskError, UsageError
from agentgym.core.task import TEST, TRAIN, VALIDATION, Task, TaskList
from agentgym.tasks.swe.instance import Instance, file_of, from_task, read_instances, to_task, write_instances
from agentgym.tasks.swe.package import Package, package_of, read_tree
from agentgym.tools.patches import apply_patch

REPOSITORIES = Path(__file__).parent / "data" / "repositories.tar.gz"
"""A folder for each repository."""
BUNDLED = Path(__file__).parent / "data" / "bundled.jsonl"
SHARES = {TRAIN: 0.6, VALIDATION: 0.15, TEST: 0.25}
"""Shares of the functions whose bugs are in each split."""


def repository_names() -> tuple[str, ...]:
    """Return the names of the bundled repositories."""
    return tuple(_repositories())


def repository_files(name: str) -> Mapping[str, bytes]:
    """Return the files of a bundled repository, without any bug. Raises `UsageError` naming the available ones."""
    if name not in _repositories():
        raise UsageError(f"no bundled repository {name!r}; there are: {', '.join(repository_names())}")
    return _repositories()[name]


def repository_package(name: str) -> Package:
    """Return a bundled repository as a package, without any bug. Raises `UsageError` naming the available ones."""
    return package_of(repository_files(name), Path(name))


@cache
def _repositories() -> Mapping[str, Mapping[str, bytes]]:
    """Return the files of all bundled repositories by name, sorted."""
    repositories: dict[str, dict[str, bytes]] = {}
    for path, content in read_tree(REPOSITORIES).items():
        name, _, path_inside = path.partition("/")
        repositories.setdefault(name, {})[path_inside] = content
    return repositories


def bundled_instances(path: Path = BUNDLED) -> tuple[Instance, ...]:
    """Return the bundled instances, complete with their test files."""
    return tuple(_with_test_files(instance) for instance in read_instances(path))


def write_bundled(path: Path, instances: tuple[Instance, ...]) -> None:
    """Write instances of bundled repositories without the data that the repositories hold anyway."""
    write_instances(path, (replace(instance, test_files={}, archive=None) for instance in instances))


class BundledSWETasks(TaskList):
    """The bundled tasks: one or several bugs in a small package, with hidden tests.

    Args:
        path: Another file that `write_bundled` wrote.
    """

    def __init__(self, path: str | Path = BUNDLED):
        self.path = Path(path)
        instances = bundled_instances(self.path)
        order = {split: number for number, split in enumerate(SHARES)}
        ordered = sorted(instances, key=lambda item: (order[item.meta["split"]], item.difficulty, item.id))
        super().__init__(to_task(instance, instance.meta["split"]) for instance in ordered)

    def tree(self, task: Task) -> Mapping[str, bytes]:
        """Return the files that the agent receives."""
        instance = from_task(task)
        try:
            return apply_patch(repository_files(instance.repo), instance.meta["bug_patch"])
        except (UsageError, KeyError, ValueError) as error:
            raise TaskError(f"task {task.id!r} does not belong to a bundled repository: {error}") from error


def _with_test_files(instance: Instance) -> Instance:
    files = repository_files(instance.repo)
    paths = sorted({file_of(test) for test in instance.fail_to_pass})
    return replace(instance, test_files={path: files[path].decode("utf-8") for path in paths})


def bundled_report() -> Mapping[str, Any]:
    """Return the report of the build of the bundled tasks."""
    return json.loads(BUNDLED.with_name("bundled_report.json").read_text(encoding="utf-8"))
