"""`SpiderTasks`: questions with gold SQL over database files, from a Spider- or BIRD-style folder that the user names.

Question files are JSON (a list) or JSON lines with `question`, `db_id` and the gold under `query`, `SQL` or
`gold_sql`; BIRD's `evidence` and `difficulty`, and `order_matters` and `degenerate_result`, are used where present.
Database files (SQLite or DuckDB) lie under `database/`, `databases/` or the like, flat or in a folder each.
Questions whose gold result an empty or constant query returns as well are kept out (`agentgym.tasks.sql_degenerate`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.errors import TaskError, UsageError
from agentgym.task import TEST, TRAIN, VALIDATION, Task, TaskList, split_of
from agentgym.tasks.sql_degenerate import Gold, degenerate

TEST_UNSEEN = "test_unseen"
DEGENERATE = "degenerate"
"""Tag of a question whose gold result an empty or constant query returns as well."""
SHARES = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}
"""Shares of the splits when they are made by hash."""
_SPLITS = (TRAIN, VALIDATION, TEST, TEST_UNSEEN)
_FOLDERS = ("database", "databases", "dev_databases", "train_databases", "test_database", "")
_ENDINGS = {".sqlite": "sqlite", ".db": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb"}
_GOLD = ("gold_sql", "query", "SQL", "sql")
_LEVELS = {"easy": 1, "simple": 1, "medium": 2, "moderate": 2, "hard": 3, "challenging": 3, "extra": 4}
_FILE_SPLITS = {"train": TRAIN, "dev": VALIDATION, "validation": VALIDATION, "val": VALIDATION, "test": TEST}
_NOT_QUESTIONS = ("tables", "_tables", "_gold")
_PARTS = re.compile(
    r"\b(?:join|group by|having|intersect|except|union|order by|limit|in\s*\(\s*select)\b", re.IGNORECASE
)
_OUTER_ORDER = re.compile(r"\border\s+by\b(?![^()]*\))", re.IGNORECASE)


@dataclass(frozen=True)
class _Entry:
    """One question of a file."""

    where: str
    """File and line (or number in the list), for messages."""
    file: Path
    number: int
    fields: Mapping[str, Any]

    def text(self, *names: str) -> str:
        """Return the first of the named fields. Raises `UsageError` if there is none, or none that is text."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
        raise UsageError(f"{self.where}: no text under {' or '.join(map(repr, names))}; it has {sorted(self.fields)}")


class SpiderTasks(TaskList):
    """Questions of a folder.

    Args:
        folder: Where the question files and databases are.
        split_by: `"file"`: files named like train, dev and test are the splits (others count as train). `"hash"`:
            a question's database and gold SQL decide. `"auto"`: by file if a name says dev or test.
        unseen: Share of the databases whose questions form the split `test_unseen` and no other.
        keep_degenerate: Keep questions that an empty or constant query answers, tagged `degenerate`. By default they
            are left out, and `left_out` says how many.
    """

    left_out: int
    """Questions that are not among the tasks because an empty or constant query answers them."""

    def __init__(
        self, folder: str | Path, *, split_by: str = "auto", unseen: float = 0.0, keep_degenerate: bool = False
    ):
        if split_by not in ("auto", "file", "hash"):
            raise UsageError(f"split_by must be auto, file or hash, not {split_by!r}")
        if not 0.0 <= unseen < 1.0:
            raise UsageError(f"unseen must be a share from 0 to below 1, not {unseen!r}")
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise UsageError(f"there is no folder {str(folder)!r}")
        self._databases = _database_files(self.folder)
        entries = list(_entries(self.folder))
        if not entries:
            raise UsageError(f"{str(folder)!r} has no question file (.json or .jsonl with 'question' and 'db_id')")
        files = dict.fromkeys(entry.file for entry in entries)
        by_file = split_by == "file" or (split_by == "auto" and any(_split_of_file(file) != TRAIN for file in files))
        drafts = self._marked([self._task(entry, by_file, unseen) for entry in entries])
        kept = [task for task in drafts if keep_degenerate or DEGENERATE not in task.tags]
        self.left_out = len(drafts) - len(kept)
        if not kept:
            raise UsageError(
                f"an empty or constant query answers all {len(drafts)} questions of {str(folder)!r}; "
                "keep them with keep_degenerate=True"
            )
        super().__init__(_first_of_each(sorted(kept, key=lambda task: _SPLITS.index(task.split))))

    @property
    def description(self) -> str:
        """What these tasks are, in one line."""
        tasks = sum(self.size(split) for split in self.splits)
        left_out = f"; {self.left_out} left out, as an empty or constant query answers them" if self.left_out else ""
        return f"{tasks} questions of {str(self.folder)!r}{left_out}"

    def database_file(self, task: Task) -> Path:
        """Return the database file of a task. Raises `TaskError` if this folder has none such."""
        path = (self.folder / str(task.data.get("file", ""))).resolve()
        if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
            raise TaskError(f"task {task.id!r} asks about a database that {str(self.folder)!r} does not have")
        return path

    def _marked(self, tasks: list[Task]) -> list[Task]:
        """Tag the tasks whose gold result is degenerate."""
        golds = [Gold(self.folder / task.data["file"], task.data["dialect"], task.gold["sql"]) for task in tasks]
        return [
            replace(task, tags=tuple(dict.fromkeys((*task.tags, DEGENERATE)))) if found else task
            for task, found in zip(tasks, degenerate(golds), strict=True)
        ]

    def _task(self, entry: _Entry, by_file: bool, unseen: float) -> Task:
        database, sql = entry.text("db_id"), entry.text(*_GOLD).rstrip("; \n")
        if database not in self._databases:
            raise UsageError(f"{entry.where}: there is no database file for db_id {database!r} in the folder")
        file = self._databases[database]
        prompt = entry.text("question")
        if isinstance(evidence := entry.fields.get("evidence"), str) and evidence.strip():
            prompt = f"{prompt}\nHint: {evidence.strip()}"
        ordered = bool(entry.fields.get("order_matters", _OUTER_ORDER.search(sql) is not None))
        return Task(
            id=f"{entry.file.stem}/{entry.fields.get('id', entry.fields.get('question_id', entry.number))}",
            split=_split(entry, database, sql, by_file, unseen),
            prompt=prompt,
            difficulty=_difficulty(entry.fields, sql),
            data={"file": file.relative_to(self.folder).as_posix(), "dialect": _ENDINGS[file.suffix]},
            gold={"sql": sql, "ordered": ordered},
            tags=(database, DEGENERATE) if entry.fields.get("degenerate_result") is True else (database,),
        )


def _split(entry: _Entry, database: str, sql: str, by_file: bool, unseen: float) -> str:
    if unseen and split_of(f"database {database}", {TEST_UNSEEN: unseen, TRAIN: 1 - unseen}) == TEST_UNSEEN:
        return TEST_UNSEEN
    return _split_of_file(entry.file) if by_file else split_of(f"{database}|{' '.join(sql.lower().split())}", SHARES)


def _split_of_file(file: Path) -> str:
    words = re.split(r"[^a-z]+", file.stem.lower())
    return next((_FILE_SPLITS[word] for word in words if word in _FILE_SPLITS), TRAIN)


def _difficulty(fields: Mapping[str, Any], sql: str) -> int:
    """Return the level a file states, or one counted from the words of the gold SQL."""
    stated = fields.get("difficulty", fields.get("hardness"))
    if isinstance(stated, int) and not isinstance(stated, bool):
        return max(1, stated)
    if isinstance(stated, str):
        return _LEVELS.get(stated.lower().split()[0] if stated.strip() else "", 2)
    return min(4, 1 + (len(_PARTS.findall(sql)) + 1) // 2)


def _first_of_each(tasks: list[Task]) -> Iterator[Task]:
    """Leave out a question that was already asked about the same database with the same gold, in any split."""
    seen: set[tuple[str, str, str]] = set()
    for task in tasks:
        key = (str(task.data["file"]), task.prompt, str(task.gold["sql"]))
        if key not in seen:
            seen.add(key)
            yield task


def _database_files(folder: Path) -> dict[str, Path]:
    """Return the database files by name; a file in the first of the usual places wins."""
    found: dict[str, Path] = {}
    for place in _FOLDERS:
        inside = folder / place
        for path in sorted([*inside.glob("*"), *inside.glob("*/*")]) if inside.is_dir() else ():
            named = path.parent == inside or path.parent.name == path.stem
            if path.suffix in _ENDINGS and named and path.is_file():
                found.setdefault(path.stem, path)
    return found


def _entries(folder: Path) -> Iterator[_Entry]:
    """Read the question files of a folder, in order of their names."""
    for file in sorted([*folder.glob("*.json"), *folder.glob("*.jsonl")]):
        if not file.stem.endswith(_NOT_QUESTIONS):
            yield from _lines(file) if file.suffix == ".jsonl" else _items(file)


def _lines(file: Path) -> Iterator[_Entry]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            yield _entry(file, f"{file}:{number}", number, _json(line, f"{file}:{number}"))


def _items(file: Path) -> Iterator[_Entry]:
    items = _json(file.read_text(encoding="utf-8"), str(file))
    if not isinstance(items, list):
        raise UsageError(f"{file}: a question file holds a list, not {type(items).__name__}")
    for number, item in enumerate(items):
        yield _entry(file, f"{file}: item {number}", number, item)


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON: {error}") from error


def _entry(file: Path, where: str, number: int, fields: Any) -> _Entry:
    if not isinstance(fields, dict):
        raise UsageError(f"{where}: a question is an object, not {type(fields).__name__}")
    return _Entry(where, file, number, fields)
