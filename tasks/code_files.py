"""Public code benchmarks as task sources, from files that the user names: HumanEval, MBPP, GSM8K and QuixBugs.

The first three are JSON lines; QuixBugs is the folder of its repository, or JSON lines with `id`, `buggy`, `fixed`,
`pytest` and `json_cases` (and the helper files in a `support.json` beside). Nothing that is read is ever run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.task import TEST, TRAIN, VALIDATION, Task, TaskList, split_of
from agentgym.tasks.code.formats import FORMATS, Entry, LeftOut

SHARES = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}
"""Shares of the splits when they are made by hash."""
_SPLITS = (TRAIN, VALIDATION, TEST)
_FILE_SPLITS = {"train": TRAIN, "dev": VALIDATION, "validation": VALIDATION, "val": VALIDATION, "test": TEST}


class CodeFileTasks(TaskList):
    """The tasks of a file or folder.

    Args:
        path: A JSON lines file, a folder of such files, or the folder of the QuixBugs repository.
        format: `humaneval`, `mbpp`, `gsm8k` or `quixbugs`; `auto` tells by the fields of the first entry.
        split: `file`: files named like train, dev and test are the splits (others count as train). `hash`: the
            content decides. `auto`: by file if a name says dev or test. Or the one split that all tasks are in.
    """

    def __init__(self, path: str | Path, *, format: str = "auto", split: str = "auto"):
        if format not in ("auto", *FORMATS):
            raise UsageError(f"unknown format {format!r}; choose from: auto, {', '.join(FORMATS)}")
        if split not in ("auto", "file", "hash", *_SPLITS):
            raise UsageError(f"split must be auto, file, hash, or one of {', '.join(_SPLITS)}, not {split!r}")
        records = list(_records(Path(path)))
        if not records:
            raise UsageError(f"{str(path)!r} has no entries; a file has one JSON object a line")
        self.format = _detect(records[0]) if format == "auto" else format
        self.left_out: dict[str, str] = {}
        """Why an entry makes no task here, by file and line."""
        by_file = split == "file" or (split == "auto" and any(_named_split(item.file) != TRAIN for item in records))
        tasks = [task for record in records if (task := self._task(record, by_file, split)) is not None]
        if not tasks:
            raise UsageError(f"{str(path)!r} has no {self.format} entry that makes a task: {self.left_out}")
        super().__init__(self._first_of_each(sorted(tasks, key=lambda task: _SPLITS.index(task.split))))

    def _task(self, record: _Record, by_file: bool, split: str) -> Task | None:
        try:
            content = FORMATS[self.format].read(record.entry)
        except LeftOut as reason:
            self.left_out[record.entry.where] = str(reason)
            return None
        if split in ("auto", "file", "hash"):
            split = _named_split(record.file) if by_file else split_of(f"{content.prompt}|{content.gold}", SHARES)
        return Task(
            id=f"{self.format}/{content.name or f'{record.file.stem}/{record.number}'}",
            split=split,
            prompt=content.prompt,
            difficulty=content.difficulty,
            data=content.data,
            gold=content.gold,
            tags=(content.data["kind"], self.format, content.area),
        )

    def _first_of_each(self, tasks: list[Task]) -> Iterator[Task]:
        """Leave out a task that was there before, in any split."""
        seen: dict[str, str] = {}
        for task in tasks:
            if task.hash in seen:
                self.left_out[task.id] = f"it is the same problem as {seen[task.hash]}"
            else:
                seen[task.hash] = task.id
                yield task


def read_tasks(format: str | None, path: str | Path | None) -> CodeFileTasks:
    """Return the tasks of a file or folder; without a format, what is in it decides."""
    if path is None:
        raise UsageError(f"format={format!r} needs a file to read; pass file=...")
    return CodeFileTasks(path, format=format or "auto")


@dataclass(frozen=True)
class _Record:
    """An entry, and where it stands."""

    file: Path
    number: int
    entry: Entry


def _records(path: Path) -> Iterator[_Record]:
    if not path.exists():
        raise UsageError(f"there is no file or folder {str(path)!r}")
    if path.is_dir() and (path / "python_programs").is_dir():
        yield from _quixbugs_folder(path)
        return
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        support = _support(file.parent / "support.json")
        # Not splitlines: JSON texts may hold separators that it splits at.
        for number, line in enumerate(_read(file).split("\n"), start=1):
            if line.strip():
                where = f"{file}:{number}"
                yield _Record(file, number, Entry(where, _object(line, where), support))


def _quixbugs_folder(folder: Path) -> Iterator[_Record]:
    """Read the layout of the QuixBugs repository; programs without a repaired version or tests are no entries."""
    helper = folder / "python_testcases" / "node.py"
    support = {"node.py": _read(helper)} if helper.is_file() else {}
    for number, buggy in enumerate(sorted((folder / "python_programs").glob("*.py")), start=1):
        name = buggy.stem
        fixed = folder / "correct_python_programs" / buggy.name
        tests, cases = folder / "python_testcases" / f"test_{name}.py", folder / "json_testcases" / f"{name}.json"
        if fixed.is_file() and tests.is_file():
            fields: dict[str, Any] = {"id": name, "buggy": _read(buggy), "fixed": _read(fixed), "pytest": _read(tests)}
            fields["json_cases"] = _read(cases) if cases.is_file() else None
            # The repository has no splits, whatever its folder is called.
            yield _Record(Path(TRAIN), number, Entry(str(buggy), fields, support))


def _detect(record: _Record) -> str:
    for name, known in FORMATS.items():
        if all(field in record.entry.fields for field in known.fields):
            return name
    raise UsageError(
        f"{record.entry.where}: no known format has the fields {sorted(record.entry.fields)}; "
        f"pass format= one of: {', '.join(FORMATS)}"
    )


def _named_split(file: Path) -> str:
    words = file.stem.lower().replace("-", "_").replace(".", "_").split("_")
    return next((_FILE_SPLITS[word] for word in words if word in _FILE_SPLITS), TRAIN)


def _support(file: Path) -> Mapping[str, str]:
    return _object(_read(file), str(file)) if file.is_file() else {}


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{where}: an entry is an object, not {type(value).__name__}")
    return value


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read as text: {error}") from error
