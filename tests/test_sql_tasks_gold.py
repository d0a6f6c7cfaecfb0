from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb
import pytest

from agentgym.task import Task, iterate
from agentgym.tasks.sql import SQLTasks, database_for
from agentgym.tasks.sql.domains import domain_names
from agentgym.tasks.sql.questions import FAMILIES, MAX_ROWS, to_sqlite
from agentgym.tasks.sql.world import open_world
from agentgym.tools.database import open_database

SPLITS = ("train", "validation", "test", "test_unseen")


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


def same(left: Any, right: Any) -> bool:
    return math.isclose(left, right, rel_tol=1e-7) if isinstance(left, float) else left == right


@pytest.mark.parametrize("split", SPLITS)
def test_gold_gives_the_same_result_in_both_engines(split: str):
    for task in iterate(SQLTasks(), split, 400):
        left, right = both_engines(task)
        assert len(left) == len(right)
        assert all(same(a, b) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True)), task.id


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_gold_and_steps_run_in_the_tasks_engine(engine: str):
    for index in (*range(5), 64, 69):
        task = SQLTasks(engine=engine, domains=["shop"], databases_per_domain=1).get("train", index)
        database = open_database(database_for(task.data), task.data["dialect"])
        try:
            assert all(database.query(sql).rows for sql in (*task.gold.get("steps", ()), task.gold["sql"]))
        finally:
            database.close()


def test_results_are_never_empty_null_or_zero():
    for task in iterate(SQLTasks(seed=2), "train", 800):
        rows, _ = both_engines(task)
        assert rows
        assert None not in [cell for row in rows for cell in row]
        assert rows != [(0,)]
        assert len(rows) <= max(MAX_ROWS, 80)


def test_a_wording_on_a_domain_always_means_the_same_query():
    meaning: dict[tuple[str, str], str] = {}
    for seed in (0, 1):
        for task in iterate(SQLTasks(seed=seed), "train", 5000):
            key = (task.data["domain"], task.prompt)
            assert meaning.setdefault(key, task.gold["sql"]) == task.gold["sql"]


def test_distinct_queries_are_asked_for_in_so_many_words():
    asks = re.compile(r"\b(different|distinct|once|without duplicates|have in common)\b")
    for task in iterate(SQLTasks(), "train", 1500):
        if re.search(r"^SELECT DISTINCT | UNION SELECT | INTERSECT | EXCEPT ", task.gold["sql"]):
            assert asks.search(task.prompt), task.prompt


def test_order_counts_exactly_where_the_wording_orders():
    for task in iterate(SQLTasks(), "train", 2000):
        asked = re.search(r"\b[Ss]ort(ed)?\b|\bfirst\.( |$)", task.prompt) is not None
        assert task.gold["ordered"] is asked, task.prompt
        assert not asked or " ORDER BY " in task.gold["sql"]


def test_the_best_row_is_never_a_tie():
    source = SQLTasks(families=["top_one", "top_k", "top_category", "nth_best", "top_parent"])
    for task in iterate(source, "train", 400):
        direction = "DESC" if " DESC " in task.gold["sql"] else "ASC"
        wider = re.sub(r"LIMIT (\d+)(?: OFFSET (\d+))?$", "", task.gold["sql"])
        by = wider.split(" ORDER BY ")[1].removesuffix(f" {direction} ")
        limit = sum(map(int, re.findall(r"\d+", task.gold["sql"].rsplit(" LIMIT ")[1])))
        values = open_world(task.data["domain"], task.data["database_seed"]).query(
            re.sub(r"^SELECT [\w.]+ ", f"SELECT {by} ", wider)
        )
        assert values[limit - 1] not in values[limit:], task.prompt
        assert len(set(values[:limit])) == limit


def test_steps_lead_to_the_gold_result():
    source = SQLTasks(families=["list_of_top_category", "children_of_best_parent", "total_of_top_year"])
    for task in iterate(source, "train", 60):
        connection = in_duckdb(task.data["domain"], task.data["database_seed"])
        last, gold = (connection.execute(sql).fetchall() for sql in (task.gold["steps"][-1], task.gold["sql"]))
        assert sorted(last) == sorted(gold)


def test_gold_names_the_tables_and_columns_it_uses():
    for task in iterate(SQLTasks(), "train", 1000):
        spec = database_for(task.data)
        words = set(re.findall(r"\w+", re.sub(r"'(?:[^']|'')*'", "", task.gold["sql"])))
        assert {table.name for table in spec.tables} & words <= set(task.gold["tables"])
        tables = [spec.table(name) for name in task.gold["tables"]]
        columns = {column.name for table in tables for column in table.columns}
        assert columns & words - set(task.gold["tables"]) <= set(task.gold["columns"]) <= columns


def test_only_the_functions_that_differ_are_translated():
    assert to_sqlite("SELECT YEAR(a.d) FROM a") == "SELECT CAST(STRFTIME('%Y', a.d) AS INTEGER) FROM a"
    assert to_sqlite("SELECT DATE_DIFF('day', MIN(d), MAX(d)) FROM t") == (
        "SELECT CAST(JULIANDAY(MAX(d)) - JULIANDAY(MIN(d)) AS INTEGER) FROM t"
    )
    assert to_sqlite("SELECT MAX(d) FROM t WHERE d > '2020-01-01'") == "SELECT MAX(d) FROM t WHERE d > '2020-01-01'"


def test_easy_tasks_are_short():
    for task in iterate(SQLTasks(difficulty=1), "train", 1000):
        assert len(task.prompt) <= 110
        assert len(task.gold["sql"]) <= 95


def test_every_family_can_be_asked_about_most_kinds_of_domain():
    for name, family in FAMILIES.items():
        source = SQLTasks(families=[name], databases_per_domain=2)
        asked = {task.data["domain"] for task in iterate(source, "train", 60)}
        assert len(asked) >= 4, (family, asked)
    assert len(domain_names()) >= 18
