"""`Instance`: the common row format of all software-engineering data sets, and its conversions.

An instance is plain JSON data: a repository at a commit, the problem, the patch that fixes it and the tests that
decide. It stages nothing and grades nothing; `formats` makes instances from other projects' rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError
from agentgym.core.task import Task

PREFIX_IDS = "prefix_ids"
"""Key in `meta`: test ids that the data set cut at a blank; each stands for the reported tests that continue it."""
TEST_TARGETS = "test_targets"
"""Key in `meta`: the test files to append to `test_command`, so that only the needed tests run."""


PYTHON = "python_environment"
"""Key in `meta`: folder of the Python environment of this machine that its tests run in, instead of an image's."""
TEST_COMMAND = ("python", "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--import-mode=importlib")
"""Command that runs the tests of bundled and built instances."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One repository-level task."""

    id: str
    source: str
    """Name of the data set or generator it comes from."""
    repo: str
    """`owner/name`, or the name of the package."""
    base_ref: str
    """Commit or release that the policy starts from."""
    prompt: str
    gold_patch: str
    """Unified diff that fixes the repository at `base_ref`."""
    fail_to_pass: tuple[str, ...]
    """Exact ids of the tests that fail before the gold patch and pass after it (for pytest: node ids)."""
    pass_to_pass: tuple[str, ...]
    """Exact ids of the tests that pass before and after."""
    test_files: Mapping[str, str] = field(default_factory=dict)
    """Path to full text of the hidden test files for grading; may be empty if `test_patch` is used."""
    test_patch: str = ""
    """Unified diff that adds the hidden tests, if their full text is not known."""
    test_command: tuple[str, ...]
    parser: str = "pytest"
    """Name of the log parser for the output of `test_command` (`agentgym.tasks.swe.logs`)."""
    archive: str | None = None
    """Tar file (`.tar`, `.tar.gz`, `.tar.zst`) of the repository at `base_ref`, relative to the folder of the JSONL."""
    image: str | None = None
    """Container image that has the repository at `base_ref` in `workdir`."""
    workdir: str = "/work"
    python_path: tuple[str, ...] = ()
    """Entries for PYTHONPATH, relative to the root of the repository."""
    difficulty: int = 1
    tags: tuple[str, ...] = ()
    hints: str = ""
    """Text that may reveal the answer; shown to the policy only if an environment says so."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Further data of the source, as JSON; only graders may read it."""

    @property
    def python(self) -> str | None:
        """Folder of the Python environment of this machine that its tests run in; `None` for an image's or ours."""
        return self.meta.get(PYTHON)

    def to_dict(self) -> dict[str, Any]:
        """Return the instance as JSON data."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: _plain(value) for name, value in values.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Instance:
        """Rebuild an instance from `to_dict`. Raises `UsageError` for an unknown, missing or mistyped field."""
        for key in data:
            if key not in _FIELDS:
                hint = nearest(key, _FIELDS)
                raise UsageError(f"an instance has no field {key!r}{hint} There are: {', '.join(_FIELDS)}")
        missing = [name for name in _REQUIRED if name not in data]
        if missing:
            raise UsageError(f"an instance needs {', '.join(map(repr, missing))}; it has {sorted(data)}")
        return cls(**{name: _checked(name, value) for name, value in data.items()})


_FIELDS = tuple(item.name for item in fields(Instance))
_REQUIRED = ("id", "source", "repo", "base_ref", "prompt", "gold_patch", "fail_to_pass", "pass_to_pass", "test_command")
_LISTS = ("fail_to_pass", "pass_to_pass", "test_command", "python_path", "tags")
_OPTIONAL = ("archive", "image")
_GOLD = ("gold_patch", "fail_to_pass", "pass_to_pass", "test_files", "test_patch", "hints", "meta")
_DATA = tuple(name for name in _FIELDS if name not in (*_GOLD, "id", "prompt", "difficulty", "tags"))


def write_instances(path: str | Path, instances: Iterable[Instance]) -> None:
    """Write instances as JSON lines."""
    lines = (json.dumps(instance.to_dict(), ensure_ascii=False) + "\n" for instance in instances)
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)


def read_instances(path: str | Path) -> tuple[Instance, ...]:
    """Read JSON lines of instances. Raises `UsageError` naming the line that is not an instance or repeats an id."""
    by_id: dict[str, Instance] = {}
    try:
        # Universal newlines would change nothing inside JSON strings, and "\r\n" files should be readable too.
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    instance = _read_line(f"{path}:{number}", line)
                    if instance.id in by_id:
                        raise UsageError(f"{path}:{number}: id {instance.id!r} appears twice")
                    by_id[instance.id] = instance
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read instances from {str(path)!r}: {error}") from error
    return tuple(by_id.values())


def without_environment(instance: Instance) -> Instance:
    """Return an instance as read from a file: only the user chooses its Python environment."""
    if instance.python is None:
        return instance
    return replace(instance, meta={key: value for key, value in instance.meta.items() if key != PYTHON})


def to_task(instance: Instance, split: str) -> Task:
    """Return the instance as a task: staging in `data`; gold patch, tests, hints and meta in `gold`."""
    values = instance.to_dict()
    return Task(
        id=instance.id,
        split=split,
        prompt=instance.prompt,
        difficulty=instance.difficulty,
        data={name: values[name] for name in _DATA},
        gold={name: values[name] for name in _GOLD},
        tags=instance.tags,
    )


def from_task(task: Task) -> Instance:
    """Return the instance of a task from `to_task`. Raises `UsageError` if the task does not come from one."""
    own = {"id": task.id, "prompt": task.prompt, "difficulty": task.difficulty, "tags": task.tags}
    try:
        return Instance.from_dict({**task.data, **task.gold, **own})
    except UsageError as error:
        raise UsageError(f"task {task.id!r} does not come from an instance: {error}") from error


def _read_line(where: str, line: str) -> Instance:
    try:
        data = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{where}: an instance is a JSON object, not {type(data).__name__}")
    try:
        return Instance.from_dict(data)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _checked(name: str, value: Any) -> Any:
    """Return the value of a field as the type it has in `Instance`."""
    if name in _LISTS:
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"{name!r} must be a list of strings, not {_shown(value)}")
        return tuple(value)
    if name in ("test_files", "meta"):
        texts = name == "meta" or (isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values()))
        if not isinstance(value, Mapping) or not texts:
            raise UsageError(f"{name!r} must be an object{' of texts' if name != 'meta' else ''}, not {_shown(value)}")
        return dict(value)
    if name == "difficulty":
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"'difficulty' must be a whole number from 1, not {_shown(value)}")
        return value
    if not isinstance(value, str) and not (value is None and name in _OPTIONAL):
        raise UsageError(f"{name!r} must be a string, not {_shown(value)}")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def file_of(test: str) -> str:
    """Return the path in a pytest node id."""
    return test.partition("::")[0]
