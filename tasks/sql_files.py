"""`SpiderTasks`: questions with gold SQL over database files, from a folder like those of Spider, BIRD and KaggleDBQA.

Question files are JSON lists, JSON lines or Parquet with `question`, `db_id` and the gold under `query`, `SQL` or
`gold_sql`, in the folder or in `examples/`; BIRD's `evidence` and `difficulty`, and `order_matters` and
`degenerate_result`, are used where present. Database files (SQLite or DuckDB) lie under `database/`, `databases/` or
the like, flat or in a folder each. Questions that teach nothing are left out: see `agentgym.tasks.sql_golds`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.choices import one_of
from agentgym.errors import TaskError, UsageError
from agentgym.left_out import LeftOut, Quarantine, Unusable, Why, counted
from agentgym.task import TEST, TRAIN, VALIDATION, Task, TaskList, split_of
from agentgym.tasks.records import NoEntries, Record, existing, files_in, read_records
from agentgym.tasks.splitting import Draft, Splitter, first_of_each, named_split, refuse_empty
from agentgym.tasks.sql_convert import Carried, carry_over
from agentgym.tasks.sql_golds import DEGENERATE as DEGENERATE_GOLD
from agentgym.tasks.sql_golds import Gold, faults

TEST_UNSEEN = "test_unseen"
DEGENERATE = "degenerate"
"""Tag of a question whose gold result an empty or constant query returns as well."""
_ORDER = (TRAIN, VALIDATION, TEST, TEST_UNSEEN)
_DATABASES = ("database", "databases", "dev_databases", "train_databases", "test_database", "")
_QUESTIONS = ("examples",)
"""Folders in which question files may lie besides the folder itself."""
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
        folder: Where the question files and databases are.
        split_by: `"file"`: files named like train, dev and test are the splits (others count as train). `"hash"`:
            a question's database and gold SQL decide. `"auto"`: by file if a name says dev or test. Or the one split
            that all questions are in.
        engine: `"duckdb"` or `"sqlite"` to have all databases in that engine: SQLite files and queries are carried over
            to DuckDB where that can be done (`agentgym.tasks.sql_convert`), what cannot is left out. By default each
            database stays in its own.
        unseen: Share of the databases whose questions form the split `test_unseen` and no other.
        keep_degenerate: Keep questions that an empty or constant query answers, tagged `degenerate`. By default they
            are left out.
        strict: Raise `UsageError` for the first broken question instead of leaving it out.
    """

    left_out: tuple[LeftOut, ...]
    """Questions that make no task, each with its reason."""

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
        drafts: list[Draft] = []
        for record in records:
            with quarantine.guard(record.where):
                drafts.append(Draft(record.where, self._task(record, splitter, unseen), record.file))
        once = first_of_each(drafts, quarantine, lambda task: (task.data["file"], task.prompt, task.gold["sql"]))
        kept = self._with_good_gold(self._carried_over(once, quarantine), quarantine, keep_degenerate)
        self.left_out = quarantine.entries
        if not kept and all(entry.why is Why.DEGENERATE for entry in self.left_out):
            raise UsageError(
                f"an empty or constant query answers all {len(once)} questions of {str(folder)!r}; "
                "keep them with keep_degenerate=true"
            )
        quarantine.close(len(kept))
        super().__init__(sorted(kept, key=lambda task: _ORDER.index(task.split)))

    @property
    def description(self) -> str:
        """What these tasks are, in one line."""
        tasks = sum(self.size(split) for split in self.splits)
        told = f"; {counted(self.left_out, tasks)}" if self.left_out else ""
        return f"{tasks} questions of {str(self.folder)!r}{told}"

    def database_file(self, task: Task) -> Path:
        """Return the database file of a task. Raises `TaskError` if this folder has none such."""
        path = self.folder / str(task.data.get("file", ""))
        if path not in self._databases.values() or not path.is_file():
            raise TaskError(f"task {task.id!r} asks about a database that {str(self.folder)!r} does not have")
        if task.data["dialect"] == _ENDINGS[path.suffix.lower()]:
            return path
        if str(task.data["file"]) not in self._copies:
            raise TaskError(f"task {task.id!r} was carried over to another engine; pass engine={task.data['dialect']}")
        return self._copies[str(task.data["file"])]

    def _carried_over(self, drafts: Sequence[Draft], quarantine: Quarantine) -> list[Draft]:
        """Return the drafts with their databases in the engine that is wanted; those that cannot be are left out."""
        foreign: dict[str, list[str]] = defaultdict(list)
        for draft in drafts:
            if self._engine is not None and draft.task.data["dialect"] != self._engine:
                foreign[draft.task.data["file"]].append(draft.task.gold["sql"])
        if not foreign:
            return list(drafts)
        found = {file: self._copied(file, queries) for file, queries in foreign.items()}
        kept: list[Draft] = []
        for draft in drafts:
            task = draft.task
            if task.data["file"] not in found:
                kept.append(draft)
                continue
            carried = found[task.data["file"]][task.gold["sql"]]
            if carried.sql is None:
                quarantine.add(draft.where, f"its gold query does not carry over: {carried.problem}", Why.UNSUPPORTED)
                continue
            data, gold = {**task.data, "dialect": self._engine}, {**task.gold, "sql": carried.sql}
            kept.append(replace(draft, task=replace(task, data=data, gold=gold)))
        return kept

    def _copied(self, file: str, queries: Sequence[str]) -> Mapping[str, Carried]:
        if self._engine == "sqlite":
            return dict.fromkeys(queries, Carried(None, "its database is DuckDB's, and engine=sqlite was asked for"))
        try:
            self._copies[file], carried = carry_over(self.folder / file, queries)
        except UsageError as error:
            return dict.fromkeys(queries, Carried(None, str(error)))
        return carried

    def _with_good_gold(self, drafts: Sequence[Draft], quarantine: Quarantine, keep_degenerate: bool) -> list[Task]:
        """Return the tasks whose gold is of use; those that can be guessed are tagged, or left out."""
        tasks = [draft.task for draft in drafts]
        golds = [Gold(self.database_file(task), task.data["dialect"], task.gold["sql"]) for task in tasks]
        kept: list[Task] = []
        for draft, found in zip(drafts, faults(golds), strict=True):
            fault = DEGENERATE_GOLD if found is None and DEGENERATE in draft.task.tags else found
            if fault is None:
                kept.append(draft.task)
            elif fault.why is Why.DEGENERATE and keep_degenerate:
                tags = tuple(dict.fromkeys((*draft.task.tags, DEGENERATE)))
                kept.append(replace(draft.task, tags=tags))
            else:
                quarantine.add(draft.where, fault.reason, fault.why)
        return kept

    def _task(self, record: Record, splitter: Splitter, unseen: float) -> Task:
        database, sql = record.text("db_id").strip(), record.text(*_GOLD).strip().rstrip("; \n")
        file = self._database(database)
        prompt = record.text("question").strip()
        if isinstance(evidence := record.fields.get("evidence"), str) and evidence.strip():
            prompt = f"{prompt}\nHint: {evidence.strip()}"
        ordered = record.fields.get("order_matters")
        task = Task(
            id=f"{record.file.stem}/{record.label('id', 'question_id') or record.number}",
            split=_split(record, database, sql, splitter, unseen),
            prompt=prompt,
            difficulty=_difficulty(record.fields, sql),
            data={"file": file.relative_to(self.folder).as_posix(), "dialect": _ENDINGS[file.suffix.lower()]},
            gold={"sql": sql, "ordered": bool(_OUTER_ORDER.search(sql) if ordered is None else ordered)},
            tags=(database, DEGENERATE) if record.fields.get("degenerate_result") is True else (database,),
        )
        assert task.hash  # text that cannot be hashed makes no task
        return task

    def _database(self, name: str) -> Path:
        if name not in self._databases:
            raise Unusable(f"there is no database file for db_id {name!r} in the folder")
        file = self._databases[name]
        if not file.stat().st_size:
            raise Unusable(f"the database file {str(file)!r} is empty (0 bytes)")
        return file


def _split(record: Record, database: str, sql: str, splitter: Splitter, unseen: float) -> str:
    if unseen and split_of(f"database {database}", {TEST_UNSEEN: unseen, TRAIN: 1 - unseen}) == TEST_UNSEEN:
        return TEST_UNSEEN
    return splitter.split(record.file, f"{database}|{' '.join(sql.lower().split())}")


def _difficulty(fields: Mapping[str, Any], sql: str) -> int:
    """Return the level a file states, or one counted from the words of the gold SQL."""
    stated = fields.get("difficulty", fields.get("hardness"))
    if isinstance(stated, int) and not isinstance(stated, bool):
        return max(1, stated)
    if isinstance(stated, str):
        return _LEVELS.get(stated.lower().split()[0] if stated.strip() else "", 2)
    return min(4, 1 + (len(_PARTS.findall(sql)) + 1) // 2)


def _database_files(folder: Path) -> dict[str, Path]:
    """Return the database files by name; a file in the first of the usual places wins."""
    found: dict[str, Path] = {}
    for place in _DATABASES:
        inside = folder / place
        for path in sorted([*inside.glob("*"), *inside.glob("*/*")]) if inside.is_dir() else ():
            named = path.parent == inside or path.parent.name == path.stem
            if path.suffix.lower() in _ENDINGS and named and path.is_file():
                found.setdefault(path.stem, path)
    return found


def _is_question(record: Record) -> bool:
    return {"question", "db_id"} <= record.fields.keys()


def _questions(folder: Path, quarantine: Quarantine) -> list[Record]:
    """Return the entries of the question files of a folder, in order of their names.

    Raises:
        UsageError: There is no question file, or one whose name says a split holds no question.
    """
    found: list[Record] = []
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
            quarantine.add(str(file), "no question file: no entry has 'question' and 'db_id'", Why.UNSUPPORTED)
            counts.pop(file, None)
            continue
        found += records
    refuse_empty(counts)
    if not counts:
        raise UsageError(
            f"{str(folder)!r} has no question file (.json, .jsonl or .parquet with 'question' and 'db_id')"
        )
    return found
