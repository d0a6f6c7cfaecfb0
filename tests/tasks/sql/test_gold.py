"""Gold queries of generated questions: equal in both engines, never trivial, and consistent with the question."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb
import pytest

from agentgym.core.task import Task, iterate
from agentgym.tasks.sql import SQLTasks, database_for
from agentgym.tasks.sql.questions import MAX_ROWS, to_sqlite
from agentgym.tasks.sql.scene import open_world
from tests.refusals import sampled


@cache
def in_duckdb(domain: str, seed: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for table in database_for({"domain": domain, "database_seed": seed}).tables:
        columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
        connection.execute(f"CREATE TABLE {table.name} ({columns})")
        marks = f"({', '.join('?' * len(table.columns))})"
        cells = [cell for row in table.rows for cell in row]
        connection.execute(f"INSERT INTO {table.name} VALUES {', '.join([marks] * len(table.rows))}", cells)
    return connection


@pytest.fixture(scope="module", autouse=True)
def _close_databases() -> Iterator[None]:
    yield
    in_duckdb.cache_clear()


def both_engines(task: Task) -> tuple[list[Any], list[Any]]:
    place = (task.data["domain"], task.data["database_seed"])
    sql = task.gold["sql"]
    results = in_duckdb(*place).execute(sql).fetchall(), open_world(*place).query(to_sqlite(sql))
    rows = [[tuple(plain(cell) for cell in row) for row in result] for result in results]
    return (rows[0], rows[1]) if task.gold["ordered"] else (sorted(rows[0]), sorted(rows[1]))


def plain(cell: Any) -> Any:
    return cell.isoformat() if isinstance(cell, datetime.date) else round(cell, 6) if isinstance(cell, float) else cell


@sampled(20, 400)
def test_gold_gives_the_same_nontrivial_result_in_both_engines(count: int):
    source = SQLTasks()
    for task in (task for split in source.splits for task in iterate(source, split, count)):
        rows, others = both_engines(task)
        assert len(rows) == len(others)
        assert all(row == pytest.approx(other, rel=1e-7) for row, other in zip(rows, others, strict=True)), task.id
        assert rows not in ([], [(0,)]), task
        assert None not in [cell for row in rows for cell in row], task
        assert len(rows) <= max(MAX_ROWS, 80)


@sampled(60, 1500)
def test_questions_state_the_order_and_distinctness_of_their_gold(count: int):
    distinct = re.compile(r"\b(different|distinct|once|without duplicates|have in common)\b")
    for task in iterate(SQLTasks(), "train", count):
        if re.search(r"^SELECT DISTINCT | UNION SELECT | INTERSECT | EXCEPT ", task.gold["sql"]):
            assert distinct.search(task.prompt), task.prompt
        ordered = re.search(r"\b[Ss]ort(ed)?\b|\bfirst\.( |$)", task.prompt) is not None
        assert task.gold["ordered"] is ordered, task.prompt
        assert not ordered or " ORDER BY " in task.gold["sql"]


@sampled(200, 5000)
def test_a_wording_on_a_domain_always_means_the_same_query(count: int):
    meaning: dict[tuple[str, str], str] = {}
    for task in (task for seed in (0, 1) for task in iterate(SQLTasks(seed=seed), "train", count)):
        key = (task.data["domain"], task.prompt)
        assert meaning.setdefault(key, task.gold["sql"]) == task.gold["sql"]


@sampled(20, 400)
def test_the_best_row_is_never_a_tie(count: int):
    source = SQLTasks(families=["top_one", "top_k", "top_category", "nth_best", "top_parent"])
    for task in iterate(source, "train", count):
        direction = "DESC" if " DESC " in task.gold["sql"] else "ASC"
        wider = re.sub(r"LIMIT (\d+)(?: OFFSET (\d+))?$", "", task.gold["sql"])
        by = wider.split(" ORDER BY ")[1].removesuffix(f" {direction} ")
        limit = sum(map(int, re.findall(r"\d+", task.gold["sql"].rsplit(" LIMIT ")[1])))
        values = open_world(task.data["domain"], task.data["database_seed"]).query(
            re.sub(r"^SELECT [\w.]+ ", f"SELECT {by} ", wider)
        )
        assert values[limit - 1] not in values[limit:], task.prompt
        assert len(set(values[:limit])) == limit


@sampled(60, 1000)
def test_gold_lists_the_tables_and_columns_that_it_uses(count: int):
    for task in iterate(SQLTasks(), "train", count):
        spec = database_for(task.data)
        words = set(re.findall(r"\w+", re.sub(r"'(?:[^']|'')*'", "", task.gold["sql"])))
        assert {table.name for table in spec.tables} & words <= set(task.gold["tables"])
        tables = [spec.table(name) for name in task.gold["tables"]]
        columns = {column.name for table in tables for column in table.columns}
        assert columns & words - set(task.gold["tables"]) <= set(task.gold["columns"]) <= columns
        assert set(task.data) == {"domain", "database_seed", "dialect"}, "the policy sees no gold"
        assert "SELECT" not in task.prompt
