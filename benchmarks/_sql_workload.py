"""The work of `sql_steps_vs_skyrl`: a table of 100 rows, episodes of four queries and an answer, and our side of it."""

from __future__ import annotations

import datetime
import json
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb

from agentgym.envs.sql import SQLEnv
from agentgym.envs.sql.env import RECALL
from agentgym.messages import ToolCall

DB_ID = "shop"
PLACES = {"sqlite": "spider", "duckdb": "spider_duckdb"}
"""Engine to the folder with its file, in Spider's layout."""
CITIES = ("Oslo", "Rome", "Lima", "Bonn", "Kyiv")
Episode = tuple[list[str], str]
"""The exploratory queries, and the submitted query (which is also the gold)."""


def build(folder: Path) -> None:
    """Write the same table as a SQLite and as a DuckDB file, in the layout of Spider."""
    rng = random.Random(0)
    start = datetime.date(2024, 1, 1)
    rows = [
        (i, f"Customer {i}", rng.choice(CITIES), rng.randint(18, 80), round(rng.uniform(1, 500), 2),
         str(start + datetime.timedelta(rng.randrange(300))))
        for i in range(100)
    ]  # fmt: skip
    create = "CREATE TABLE customers (id INTEGER, name VARCHAR, city VARCHAR, age INTEGER, spent DOUBLE, joined DATE)"
    insert = "INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?)"
    for engine, place in PLACES.items():
        where = folder / place / "database" / DB_ID
        where.mkdir(parents=True)
        connect: Callable[[Path], Any] = sqlite3.connect if engine == "sqlite" else duckdb.connect
        connection = connect(where / f"{DB_ID}.{engine}")
        connection.execute(create)
        connection.executemany(insert, rows)
        connection.commit()
        connection.close()
        questions = [
            {"db_id": DB_ID, "question": f"Question {i}?", "query": gold} for i, (_, gold) in enumerate(episodes(40))
        ]
        (folder / place / "train.json").write_text(json.dumps(questions), encoding="utf-8")


def episodes(count: int) -> list[Episode]:
    """Return episodes that differ in their literals."""
    made: list[Episode] = []
    for i in range(count):
        city, age = CITIES[i % len(CITIES)], 20 + i
        made.append(
            (
                [
                    f"SELECT * FROM customers WHERE age > {age} LIMIT 5",
                    f"SELECT city, COUNT(*) AS n FROM customers WHERE age > {age} GROUP BY city ORDER BY n DESC, city",
                    f"SELECT name, spent FROM customers WHERE city = '{city}' ORDER BY spent DESC, id LIMIT 10",
                    f"SELECT AVG(spent) FROM customers WHERE city = '{city}'",
                ],
                f"SELECT name FROM customers WHERE city = '{city}' AND age > {age}",
            )
        )
    return made


def play_ours(env: SQLEnv, work: Sequence[Episode], group: int) -> float:
    """Play every episode as text in the environment's own dialect; return steps per second, resets included.

    Args:
        env: The environment.
        work: The episodes; none of their results are cached before.
        group: Number of times that each is played, as the members of a GRPO group play one task.
    """
    RECALL.clear()
    tasks = [env.tasks.get("train", i) for i in range(len(work))]
    texts = [
        [env.dialect.render("look", [call], env.tools) for call in _calls(queries, gold)] for queries, gold in work
    ]
    steps = 0
    started = time.perf_counter()
    for task, actions in zip(tasks, texts, strict=True):
        for _ in range(group):
            env.reset(options={"task": task})
            last = [env.step(action) for action in actions][-1]
            if not last.info.get("is_success"):
                raise RuntimeError(f"the gold of {task.id} did not pass")
            steps += len(actions)
    return steps / (time.perf_counter() - started)


def play_plain(connect: Callable[[], Any], work: Sequence[Episode]) -> float:
    """Run the same queries, the submitted one and the gold, on one connection per episode."""
    steps = 0
    started = time.perf_counter()
    for queries, gold in work:
        connection = connect()
        for sql in queries:
            "\n".join("|".join(map(str, row)) for row in connection.execute(sql).fetchall())
        if connection.execute(gold).fetchall() != connection.execute(gold).fetchall():
            raise RuntimeError("a query gave two results")
        connection.close()
        steps += len(queries) + 1
    return steps / (time.perf_counter() - started)


def _calls(queries: list[str], gold: str) -> list[ToolCall]:
    return [*(ToolCall("query", {"sql": sql}) for sql in queries), ToolCall("submit", {"answer": gold})]
