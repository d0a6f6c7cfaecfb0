"""Turns the arguments of `SQLEnv` into a task source and limits. Reports wrong arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.base.choices import limits_from
from agentgym.base.errors import UsageError
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.task import TaskSource
from agentgym.core.task_files import Layout, TaskFiles
from agentgym.procedural import Wording
from agentgym.tasks.sql import SQLTasks
from agentgym.tools.database import QueryLimits

FILES = TaskFiles(
    argument="folder",
    loader="agentgym.tasks.sql.files:SpiderTasks",
    options={
        "engine": "duckdb: convert SQLite databases and queries where that keeps their meaning; or sqlite",
        "split_by": "auto, file (names say train, dev, test), hash, or one split for all: train, validation, test",
        "unseen": "share of the databases whose questions form the split test_unseen; default 0",
        "keep_degenerate": "true keeps questions that an empty or constant query answers",
    },
    layouts=(
        Layout("Spider", "train_spider.json, dev.json, ... and database/NAME/NAME.sqlite", "folder=spider_data"),
        Layout("BIRD", "dev.json and dev_databases/NAME/NAME.sqlite", "folder=dev_20240627"),
        Layout("KaggleDBQA", "examples/*.json and databases/NAME/NAME.sqlite", "folder=KaggleDBQA"),
        Layout(
            "your own", "questions.jsonl with question, db_id, query; databases/NAME.sqlite or .duckdb", "folder=DIR"
        ),
    ),
    generated=frozenset({"engine", "difficulty", "families", "domains", "databases_per_domain", "task_seed"}),
)


class SQLArguments(EnvArguments, total=False):
    """The choices of tasks that `SQLEnv` takes, and the arguments of every environment."""

    engine: str | None
    difficulty: int | Sequence[int] | None
    families: Sequence[str] | None
    domains: Sequence[str] | None
    databases_per_domain: int | None
    task_seed: int | None
    folder: str | Path | None
    split_by: str | None
    unseen: float | None
    keep_degenerate: bool | None
    strict: bool


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any], wording: Wording) -> TaskSource:
    """Return `tasks`, the questions of the folder that `choices` name, or generated ones in this wording."""
    if (source := FILES.source(tasks, choices)) is not None:
        return source
    return SQLTasks(**FILES.generator_choices(choices, task_seed="seed"), wording=wording)


def query_limits(limits: QueryLimits | Mapping[str, Any] | None) -> QueryLimits:
    """Return limits from a `QueryLimits`, from its fields by name, or the default ones."""
    return QueryLimits(**limits_from(QueryLimits, limits))


def at_least(name: str, value: int, least: int) -> int:
    """Return `value`. Raises `UsageError` if it is less than `least`."""
    if value < least:
        raise UsageError(f"{name} must be at least {least}, not {value!r}")
    return value
