"""Rewards of useless policies in `sql`, by every scheme, compared with an honest failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.task import Task
from agentgym.envs.sql import SQLEnv
from agentgym.tasks.sql import SQLTasks
from tests.played import Moves, Play, calls, failing_honestly, play_episode

LIST = ToolCall("list_tables")
SCHEMES = [name for name, scheme in SQLEnv.schemes.items() if not scheme.allow_unsound]


def query(sql: str) -> ToolCall:
    return ToolCall("query", {"sql": sql})


def submit(answer: str) -> ToolCall:
    return ToolCall("submit", {"answer": answer})


SPOILED = submit("spoiled")


def tables(env: Env) -> dict[str, list[str]]:
    """Return the columns of each table, quoted."""
    assert isinstance(env, SQLEnv)
    database = env.database
    return {f'"{t}"': [f'"{c.name}"' for c in database.describe(t, 0).columns] for t in database.tables()}


def submitting(write: Callable[[dict[str, list[str]]], str]) -> Play:
    """Return the policy that submits at once a text made from the schema."""

    def play(env: Env) -> Moves:
        yield submit(write(tables(env)))

    return play


def every(schema: dict[str, list[str]]) -> list[str]:
    return list(dict.fromkeys(column for columns in schema.values() for column in columns))


USELESS: dict[str, Play] = {
    "nothing": calls(),
    "junk at once": calls(SPOILED),
    "look, then junk": calls(LIST, SPOILED),
    "a constant over and over": calls(*[query("SELECT 1")] * 20),
    "a constant": calls(submit("SELECT -7")),
    "no row": calls(submit("SELECT 1 WHERE 0 = 1")),
    "aliases of columns": submitting(lambda schema: "SELECT " + ", ".join(f"-7 AS {c}" for c in every(schema))),
    "tables without using them": submitting(lambda schema: f"SELECT -7 FROM {', '.join(schema)} LIMIT 1"),
    "tables without a row": submitting(lambda schema: f"SELECT 1 FROM {', '.join(schema)} WHERE 0 = 1"),
    "comments": submitting(lambda schema: f"SELECT -7 -- {' '.join([*schema, *every(schema)])}"),
    "strings": submitting(lambda schema: "SELECT " + ", ".join(f"'{n}'" for n in [*schema, *every(schema)])),
    "nulls of a table": submitting(lambda schema: f"SELECT NULL FROM {next(iter(schema))}"),
}


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [SQLTasks(engine="sqlite").get("test", index) for index in range(40)]


@pytest.fixture
def env() -> Iterator[SQLEnv]:
    env = SQLEnv(engine="sqlite")
    yield env
    env.close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_useless_episodes_earn_nothing(scheme: str, tasks: list[Task]):
    env = SQLEnv(engine="sqlite", scheme=scheme)
    results = {(name, task.id): play_episode(env, task, play) for name, play in USELESS.items() for task in tasks}
    env.close()
    assert {case: result for case, result in results.items() if result.solved or result.paid != 0.0} == {}


def test_reading_everything_earns_less_than_an_honest_failure(env: SQLEnv, tasks: list[Task]):
    everything = submitting(lambda schema: f"SELECT * FROM {', '.join(schema)} LIMIT 1")
    tables = submitting(lambda schema: f"SELECT COUNT(*) * 0 - 7 FROM {', '.join(list(schema)[:3])}")
    for task in tasks:
        no_row = submit(f"SELECT * FROM ({task.gold['sql']}) WHERE 0 = 1")
        assert play_episode(env, task, failing_honestly(no_row)).paid == pytest.approx(0.1)
        assert max(play_episode(env, task, play).paid for play in (everything, tables)) < 0.1, task


def test_solved_tasks_earn_full_marks_and_partial_results_less(env: SQLEnv, tasks: list[Task]):
    def one_row_short(env: Env) -> Moves:
        yield submit(f"SELECT * FROM ({env.task.gold['sql']}) LIMIT 4")

    partly = 0
    for task in tasks:
        assert play_episode(env, task, lambda env: env.solution(env.task)).paid == pytest.approx(1.4)
        short = play_episode(env, task, one_row_short)
        if not short.solved:
            partly += 1
            assert 0.1 < short.paid < 0.3
    assert partly > 5
