"""`RefactorTasks`: the bundled refactoring tasks, read from `data/*.yaml`, one file each.

A file has the instruction, the gold change as edits of the repository's text, the edits that adapt its tests, and the
checks. Which tests fail before and pass after the change was measured once (`data/tests.json`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from agentgym.base.errors import UsageError
from agentgym.core.task import TEST, TRAIN, VALIDATION, Task, TaskList
from agentgym.tasks.swe.bundled import repository_files, repository_package
from agentgym.tasks.swe.instance import TEST_COMMAND, TEST_TARGETS, Instance, from_task, to_task
from agentgym.tasks.swe.refactor.checks import CHECKS
from agentgym.tools.patches import diff_trees

SOURCE = "agentgym-refactor"
DATA = Path(__file__).parent / "data"
TESTS = DATA / "tests.json"
_CLOSING = "What the package does must not change otherwise. Tests that need other names are replaced by adapted ones."


@dataclass(frozen=True)
class Refactoring:
    """One task as written in its file."""

    name: str
    repository: str
    split: str
    difficulty: int
    instruction: str
    edits: Sequence[Mapping[str, Any]]
    test_edits: Sequence[Mapping[str, Any]]
    checks: Sequence[Mapping[str, Any]]

    def gold(self) -> dict[str, bytes]:
        """Return the repository's files after the change, with its tests unchanged."""
        return apply_edits(repository_files(self.repository), self.edits)

    def tests(self) -> dict[str, bytes]:
        """Return the adapted test files."""
        before = repository_files(self.repository)
        after = apply_edits(before, self.test_edits)
        return {path: data for path, data in after.items() if before.get(path) != data}


@cache
def refactorings() -> tuple[Refactoring, ...]:
    """Return all tasks, by name."""
    tasks = []
    for path in sorted(DATA.glob("*.yaml")):
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        tasks.append(Refactoring(name=path.stem, **values))
    return tuple(tasks)


def apply_edits(tree: Mapping[str, bytes], edits: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Return the tree after edits, in order. Raises `UsageError` for an edit that changes nothing.

    An edit has `path` (may hold `*`) and one of `content` (a new file), `find` with `replace`, or `word` with `to`.
    """
    changed = dict(tree)
    for edit in edits:
        if "content" in edit:
            changed[edit["path"]] = edit["content"].encode()
            continue
        touched = 0
        for path in [name for name in changed if fnmatch(name, edit["path"])]:
            text = changed[path].decode("utf-8")
            new = _edited(text, edit)
            touched += new != text
            changed[path] = new.encode()
        if not touched:
            raise UsageError(f"edit {dict(edit)} changes nothing")
    return changed


def _edited(text: str, edit: Mapping[str, Any]) -> str:
    if "word" in edit:
        return re.sub(rf"(?<![\w]){re.escape(edit['word'])}(?!\w)", edit["to"], text)
    return text.replace(edit["find"], edit["replace"])


def refactor_instances() -> tuple[Instance, ...]:
    """Return the tasks as instances; `meta["checks"]` is for `evaluate`."""
    measured = json.loads(TESTS.read_text(encoding="utf-8"))
    return tuple(make_instance(item, **measured[item.name]) for item in refactorings())


def make_instance(item: Refactoring, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]) -> Instance:
    """Return the instance of a task with its measured tests."""
    package = repository_package(item.repository)
    tests = item.tests()
    return Instance(
        id=f"{item.repository}-{package.version}__{item.name}",
        source=SOURCE,
        repo=item.repository,
        base_ref=package.version,
        prompt=f"{item.instruction}\n{_CLOSING}\n",
        gold_patch=diff_trees(repository_files(item.repository), item.gold()),
        fail_to_pass=tuple(fail_to_pass),
        pass_to_pass=tuple(pass_to_pass),
        test_files={path: data.decode("utf-8") for path, data in sorted(tests.items())},
        test_command=TEST_COMMAND,
        python_path=package.python_path,
        difficulty=item.difficulty,
        tags=("refactor",),
        meta={
            CHECKS: [dict(check) for check in item.checks],
            TEST_TARGETS: list(package.test_files),
            "split": item.split,
        },
    )


class RefactorTasks(TaskList):
    """The bundled refactoring tasks."""

    def __init__(self) -> None:
        instances = refactor_instances()
        order = {TRAIN: 0, VALIDATION: 1, TEST: 2}
        ordered = sorted(instances, key=lambda item: (order[item.meta["split"]], item.difficulty, item.id))
        super().__init__(to_task(instance, instance.meta["split"]) for instance in ordered)

    def tree(self, task: Task) -> Mapping[str, bytes]:
        """Return the files that the agent receives: the repository as it is."""
        return repository_files(from_task(task).repo)
