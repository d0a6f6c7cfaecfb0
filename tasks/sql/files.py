"""`SpiderTasks`: questions with gold SQL over database files, from a folder like those of Spider, BIRD and KaggleDBQA.

Question files are JSON lists, JSON lines or Parquet with `question`, `db_id` and the gold under `query`, `SQL` or
`gold_sql`, in the folder or in `examples/`; BIRD's `evidence` and `difficulty`, and `order_matters` and
`degenerate_result`, are used if present. Database files (SQLite or DuckDB) are under `database/`, `databases/` or
the like, flat or in a folder each. Questions without usable gold are left out: see `agentgym.tasks.sql.golds`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.base.choices import one_of
from agentgym.base.errors import TaskError, UsageError
from agentgym.core.task import TEST, TEST_UNSEEN, TRAIN, VALIDATION, Task, TaskList, split_of
from agentgym.core.task_files import LeftOut, Quarantine, Unusable, Why, counted
from agentgym.tasks.read_tasks import ReadTask, Splitter, named_split, read_tasks, refuse_empty
from agentgym.tasks.records import NoEntries, Record, existing, files_in, read_records
from agentgym.tasks.sql.database import ENGINE_KEY
from agentgym.tasks.sql.golds import DEGENERATE as DEGENERATE_GOLD
from agentgym.tasks.sql.golds import Gold, faults

if TYPE_CHECKING:
    from agentgym.tasks.sql.convert import Converted

DEGENERATE = "degenerate"
"""Tag of a question whose gold result an empty or constant query also returns."""
_ORDER = (TRAIN, VALIDATION, TEST, TEST_UNSEEN)
_DATABASES = ("database", "databases", "dev_databases", "train_databases", "test_database", "")
_QUESTIONS = ("examples",)
"""Folders that may hold question files, besides the folder itself."""
_ENDINGS = {".sqlite": "sqlite", ".db": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb"}
_GOLD = ("gold_sql", "query", "SQL", "sql")
_LEVELS = {"easy": 1, "simple": 1, "medium": 2, "moderate": 2, "hard": 3, "challenging": 3, "extra": 4}
_NOT_QUESTIONS = ("tables", "_tables", "_gold")
_PARTS = re.compile(
    r"\b(?:join|group by|having|intersect|except|union|order by|limit|in\s*\(\s*select)\b", re.IGNORECASE
)
_OUTER_ORDER = re.compile(r"\border\s+by\b(?![^()]*\))", re.IGNORECASE)


class SpiderTasks(TaskList):
    """Questions of a folder.

    Args:
        folder: The folder with the question files and databases.
        split_by: `"file"`: files named like train, dev and test are the splits (others count as train). `"hash"`:
            a question's database and gold SQL decide. `"auto"`: by file if a name says dev or test. Or the one split
            that all questions belong to.
        engine: `"duckdb"` or `"sqlite"` to use that engine for all databases: SQLite files and queries are converted to
            DuckDB where possible (`agentgym.tasks.sql.convert`), and the others are left out. By default each
            database keeps its own engine.
        unseen: Share of the databases whose questions form the split `test_unseen` and no other.
        keep_degenerate: Keep questions that an empty or constant query answers, tagged `degenerate`. By default they
            are left out.
        strict: Raise `UsageError` for the first broken question instead of leaving it out.
    """

    left_out: tuple[LeftOut, ...]
    """Questions without a usable task, each with the reason."""

    def __init__(
        self,
        folder: str | Path,
        *,
        split_by: str = "auto",
        engine: str | None = None,
        unseen: float = 0.0,
        keep_degenerate: bool = False,
        strict: bool = False,
    ):
        if not isinstance(unseen, int | float) or not 0.0 <= unseen < 1.0:
            raise UsageError(f"unseen must be a share from 0 to below 1, not {unseen!r}")
        self._engine = None if engine is None else one_of("engine", engine, ("duckdb", "sqlite"))
        self._copies: dict[str, Path] = {}
        self.folder = existing(folder)
        if not self.folder.is_dir():
            raise UsageError(f"{str(folder)!r} is a file; name the folder that holds the questions and databases")
        self._databases = _database_files(self.folder)
        quarantine = Quarantine(str(folder), strict)
        records = _questions(self.folder, quarantine)
        splitter = Splitter.of(split_by, {record.file for record in records})
        once = read_tasks(records, lambda record: self._task(record, splitter, unseen), quarantine, _problem)
        sound = self._with_good_gold(self._converted(once, quarantine), quarantine, keep_degenerate)
        self.left_out = quarantine.entries
        if not sound and all(entry.why is Why.DEGENERATE for entry in self.left_out):
            raise UsageError(
                f"an empty or constant query answers all {len(once)} questions of {str(folder)!r}; "
                "keep them with keep_degenerate=true"
            )
        quarantine.close(len(sound))
        super().__init__(sorted(sound, key=lambda task: _ORDER.index(task.split)))

    @property
    def description(self) -> str:
        """A one-line description of these tasks."""
        tasks = sum(self.size(split) for split in self.splits)
        left_out = f"; {counted(self.left_out, tasks)}" if self.left_out else ""
        return f"{tasks} questions of {str(self.folder)!r}{left_out}"

    def database_file(self, task: Task) -> Path:
        """Return the database file of a task. Raises `TaskError` if this folder lacks it."""
        path = self.folder / str(task.data.get("file", ""))
        if path not in self._databases.values() or not path.is_file():
            raise TaskError(f"task {task.id!r} asks about a database that {str(self.folder)!r} does not have")
        if task.data[ENGINE_KEY] == _ENDINGS[path.suffix.lower()]:
            return path
        if str(task.data["file"]) not in self._copies:
            raise TaskError(f"task {task.id!r} was converted to another engine; pass engine={task.data[ENGINE_KEY]}")
        return self._copies[str(task.data["file"])]

    def _converted(self, entries: Sequence[ReadTask], quarantine: Quarantine) -> list[ReadTask]:
        """Return the tasks with their databases in the requested engine, without those that cannot be converted."""
        foreign: dict[str, list[str]] = defaultdict(list)
        for read in entries:
            if self._engine is not None and read.task.data[ENGINE_KEY] != self._engine:
                foreign[read.task.data["file"]].append(read.task.gold["sql"])
        if not foreign:
            return list(entries)
        copied = {file: self._copied(file, queries) for file, queries in foreign.items()}
        convertible: list[ReadTask] = []
        for read in entries:
            task = read.task
            if task.data["file"] not in copied:
                convertible.append(read)
                continue
            converted = copied[task.data["file"]][task.gold["sql"]]
            if converted.sql is None:
                quarantine.add(read.where, f"its gold query cannot be converted: {converted.problem}", Why.UNSUPPORTED)
                continue
            data, gold = {**task.data, ENGINE_KEY: self._engine}, {**task.gold, "sql": converted.sql}
            convertible.append(replace(read, task=replace(task, data=data, gold=gold)))
        return convertible

    def _copied(self, file: str, queries: Sequence[str]) -> Mapping[str, Converted]:
        from agentgym.tasks.sql.convert import Converted, convert  # loads DuckDB, otherwise only its workers do

        if self._engine == "sqlite":
            return dict.fromkeys(
                queries, Converted(None, "its database is for DuckDB, but engine=sqlite was requested")
            )
        try:
            self._copies[file], converted = convert(self.folder / file, queries)
        except UsageError as error:
            return dict.fromkeys(queries, Converted(None, str(error)))
        return converted

    def _with_good_gold(self, entries: Sequence[ReadTask], quarantine: Quarantine, keep_degenerate: bool) -> list[Task]:
        """Return the tasks with usable gold; those that an empty or constant query answers are tagged or left out."""
        tasks = [read.task for read in entries]
        golds = [Gold(self.database_file(task), task.data[ENGINE_KEY], task.gold["sql"]) for task in tasks]
        sound: list[Task] = []
        for read, gold_fault in zip(entries, faults(golds), strict=True):
            fault = DEGENERATE_GOLD if gold_fault is None and DEGENERATE in read.task.tags else gold_fault
            if fault is None:
                sound.append(read.task)
            elif fault.why is Why.DEGENERATE and keep_degenerate:
                tags = tuple(dict.fromkeys((*read.task.tags, DEGENERATE)))
                sound.append(replace(read.task, tags=tags))
            else:
                quarantine.add(read.where, fault.reason, fault.why)
        return sound

    def _task(self, record: Record, splitter: Splitter, unseen: float) -> Task:
        database, sql = record.text("db_id").strip(), record.text(*_GOLD).strip().rstrip("; \n")
        file = self._database(database)
        prompt = record.text("question").strip()
        if isinstance(evidence := record.fields.get("evidence"), str) and evidence.strip():
            prompt = f"{prompt}\nHint: {evidence.strip()}"
        ordered = record.fields.get("order_matters")
        return Task(
            id=f"{record.file.stem}/{record.label('id', 'question_id') or record.number}",
            split=_split(record, database, sql, splitter, unseen),
            prompt=prompt,
            difficulty=_difficulty(record.fields, sql),
            data={"file": file.relative_to(self.folder).as_posix(), ENGINE_KEY: _ENDINGS[file.suffix.lower()]},
            gold={"sql": sql, "ordered": bool(_OUTER_ORDER.search(sql) if ordered is None else ordered)},
            tags=(database, DEGENERATE) if record.fields.get("degenerate_result") is True else (database,),
        )

    def _database(self, name: str) -> Path:
        if name not in self._databases:
            raise Unusable(f"the folder has no database file for db_id {name!r}")
        file = self._databases[name]
        if not file.stat().st_size:
            raise Unusable(f"the database file {str(file)!r} is empty (0 bytes)")
        return file


def _problem(task: Task) -> tuple[str, str, str]:
    return task.data["file"], task.prompt, task.gold["sql"]


def _split(record: Record, database: str, sql: str, splitter: Splitter, unseen: float) -> str:
    if unseen and split_of(f"database {database}", {TEST_UNSEEN: unseen, TRAIN: 1 - unseen}) == TEST_UNSEEN:
        return TEST_UNSEEN
    return splitter.split(record.file, f"{database}|{' '.join(sql.lower().split())}")


def _difficulty(fields: Mapping[str, Any], sql: str) -> int:
    """Return the level that a file states, or one derived from the keywords of the gold SQL."""
    stated = fields.get("difficulty", fields.get("hardness"))
    if isinstance(stated, int) and not isinstance(stated, bool):
        return max(1, stated)
    if isinstance(stated, str):
        return _LEVELS.get(stated.lower().split()[0] if stated.strip() else "", 2)
    return min(4, 1 + (len(_PARTS.findall(sql)) + 1) // 2)


def _database_files(folder: Path) -> dict[str, Path]:
    """Return the database files by name; the first of the usual locations wins."""
    paths: dict[str, Path] = {}
    for place in _DATABASES:
        inside = folder / place
        for path in sorted([*inside.glob("*"), *inside.glob("*/*")]) if inside.is_dir() else ():
            named = path.parent == inside or path.parent.name == path.stem
            if path.suffix.lower() in _ENDINGS and named and path.is_file():
                paths.setdefault(path.stem, path)
    return paths


def _is_question(record: Record) -> bool:
    return {"question", "db_id"} <= record.fields.keys()


def _questions(folder: Path, quarantine: Quarantine) -> list[Record]:
    """Return the entries of the question files of a folder, in order of their names.

    Raises:
        UsageError: No file has questions, or a file named like a split has none.
    """
    questions: list[Record] = []
    counts: dict[Path, int] = {}
    for file in files_in(folder, *_QUESTIONS):
        if file.stem.endswith(_NOT_QUESTIONS):
            continue
        before = len(quarantine.entries)
        try:
            records = list(read_records(file, quarantine))
            counts[file] = len(records) + len(quarantine.entries) - before
        except NoEntries:
            if named_split(file) is not None:
                raise
            records = []
        if named_split(file) is None and not any(map(_is_question, records)):
            quarantine.add(str(file), "not a question file: no entry has 'question' and 'db_id'", Why.UNSUPPORTED)
            counts.pop(file, None)
            continue
        questions += records
    refuse_empty(counts)
    if not counts:
        raise UsageError(
            f"{str(folder)!r} has no question file (.json, .jsonl or .parquet with 'question' and 'db_id')"
        )
    return questions
