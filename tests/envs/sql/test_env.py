"""The SQL environment: the output of its tools, the rewards of a submission, and its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.engine.steps import StepResult
from agentgym.core.messages import text_of
from agentgym.core.registry import make
from agentgym.core.rewards import lint
from agentgym.core.task import Task, TaskList
from agentgym.envs.sql import SQLEnv
from agentgym.envs.sql.env import is_query
from agentgym.tasks.sql.domains import domain_names, load_domain
from tests.played import call, said
from tests.refusals import not_refused

TASK = Task(
    id="t",
    split="train",
    prompt="How many customers are there?",
    data={"domain": "shop", "database_seed": 0, "dialect": "sqlite"},
    gold={"sql": "SELECT COUNT(*) FROM customers", "ordered": False, "tables": ["customers"], "columns": []},
)
NAMES = Task(
    id="names",
    split="train",
    prompt="List the names of the customers, in alphabetical order.",
    data=TASK.data,
    gold={"sql": "SELECT name FROM customers ORDER BY name, customer_id", "ordered": True, "tables": ["customers"]},
)


@pytest.fixture
def env() -> Iterator[SQLEnv]:
    env = SQLEnv(tasks=TaskList([TASK, NAMES]))
    env.reset(options={"task": "t"})
    yield env
    env.close()


def submitted(env: SQLEnv, answer: object, task: str = "t") -> StepResult:
    env.reset(options={"task": task})
    return call(env, "submit", answer=answer)


def test_tables_are_listed_and_described(env: SQLEnv):
    assert "customers" in said(call(env, "list_tables")).split(", ")
    lines = said(call(env, "describe_table", table="customers")).splitlines()
    assert lines[0] == "customer_id INTEGER key"
    assert [line for line in lines if line.endswith(" rows, the first 3:")]
    assert len(lines[-1].split("|")) == len([line for line in lines if "|" not in line]) - 1


def test_a_query_shows_types_rows_and_their_number(env: SQLEnv):
    output = said(call(env, "query", sql="SELECT 1 AS one, 'a|b' AS text, NULL AS none, 2.0 / 3 AS part"))
    assert output == "one INTEGER|text TEXT|none NULL|part REAL\n1|a\\|b|NULL|0.6667\n1 row, <1 s"
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n"
    lines = said(call(env, "query", sql=many.format(57))).splitlines()
    assert (len(lines), lines[-1]) == (12, "first 10 of 57 rows, <1 s")
    assert said(call(env, "query", sql=many.format(100_000))).splitlines()[-1].startswith("first 10 of 1000+ rows")
    assert len(said(call(env, "query", sql="SELECT hex(zeroblob(500))"))) < 200


def test_mistakes_are_explained_and_may_be_corrected(env: SQLEnv):
    for name, arguments, words in (
        ("query", {"sql": "SELECT nme FROM customers"}, "nme"),
        ("query", {"sql": "DELETE FROM customers"}, "Error"),
        ("describe_table", {"table": "custmers"}, "customers"),
        ("submit", {"answer": "  "}, "empty"),
        ("submit", {"answer": "SELECT COUNT(*) FROM custmers"}, "failed"),
    ):
        step = call(env, name, **arguments)
        assert words in said(step)
        assert env.reason is None
        assert step.info["rewards"]["executed"] == 0.0
    assert call(env, "submit", answer="SELECT COUNT(customer_id) FROM customers").info["is_success"]


def test_the_reply_does_not_reveal_whether_an_answer_is_right(env: SQLEnv):
    right = submitted(env, TASK.gold["sql"])
    assert "why_wrong" not in right.info
    for answer, reason in {"SELECT 0": "other values", "-7": "another value"}.items():
        wrong = submitted(env, answer)
        assert (said(wrong), wrong.info["why_wrong"]) == (said(right), reason)
        assert (wrong.terminated, wrong.info["ending"], wrong.info["is_success"]) == (True, "answered", False)
        assert wrong.info["rewards"]["submitted"] == 1.0


def test_a_value_may_be_submitted(env: SQLEnv):
    count = said(call(env, "query", sql=TASK.gold["sql"])).splitlines()[1]
    step = call(env, "submit", answer=int(count))
    assert (step.info["is_success"], step.info["rewards"]["linking"]) == (True, 1.0)


def test_order_counts_where_the_question_asks_for_it(env: SQLEnv):
    backwards = submitted(env, "SELECT name FROM customers ORDER BY name DESC", "names")
    assert not backwards.info["is_success"]
    assert 0.0 < backwards.info["rewards"]["partial"] < 0.5
    assert submitted(env, NAMES.gold["sql"], "names").info["is_success"]


def test_queries_are_recognised_by_their_first_word():
    for query in ("select 1", " (\n(SELECT 1))", "/* x */ VALUES (1)"):
        assert is_query(query, "sqlite"), query
    for query in ("-- so\nWITH a AS (SELECT 1) FROM a", "FROM t"):
        assert is_query(query, "duckdb"), query
    for value in ("42", "'Select'", "Selected works", "(1, 2)"):
        assert not is_query(value, "duckdb"), value
    assert not is_query("From Here to Eternity", "sqlite")


def test_only_submissions_are_paid_and_wrong_ones_earn_little(env: SQLEnv):
    assert [call(env, "query", sql=TASK.gold["sql"]).reward for _ in range(env.max_turns)] == [0.0] * env.max_turns
    assert env.reason == "max_turns"
    assert lint(env.scheme, env.channels, env.max_turns) == []
    env.reset(options={"task": "t"})
    wrong = [call(env, "query", sql=TASK.gold["sql"]), call(env, "submit", answer="SELECT COUNT(*) + 1 FROM customers")]
    assert 0.0 < sum(step.reward for step in wrong) < 0.5


def test_the_opening_names_the_engine_and_may_hold_the_schema():
    env = SQLEnv(tasks=TaskList([TASK]), show_schema="prompt")
    opening = text_of(env.reset(seed=0)[0][-1])
    assert opening.startswith("How many customers are there?\n\nThe database runs on SQLite. Its tables are:\n")
    assert "customers(customer_id INTEGER key, name TEXT" in opening
    assert "order_id INTEGER -> orders.order_id" in opening
    env.close()
    for wording in ("natural", "plain"):
        for engine, name in (("duckdb", "DuckDB"), ("sqlite", "SQLite")):
            env = make("sql", engine=engine, wording=wording)
            opening = text_of(env.reset(seed=1)[0][-1])
            assert opening.startswith(env.task.prompt)
            assert name in opening


def test_the_example_call_uses_a_table_of_no_domain():
    assert SQLEnv.example_call is not None
    example = SQLEnv.example_call.arguments["sql"].split()[-1]
    assert example not in {table.name for name in domain_names() for table in load_domain(name).tables}


def test_wrong_arguments_are_refused_with_the_right_ones():
    rows: list[tuple[dict[str, Any], str]] = [
        ({"engine": "oracle"}, "oracle"),
        ({"difficulty": 9}, "9"),
        ({"show_schema": "always"}, "tools, prompt"),
        ({"solution_style": "long"}, "full, short, direct"),
        ({"wording": "poetic"}, "natural, plain"),
        ({"limits": {"time": 1}}, "timeout_s"),
        ({"preview_rows": 0}, "at least 1"),
        ({"tasks": TaskList([TASK]), "engine": "sqlite"}, "one or the other"),
        ({"folder": ".", "difficulty": 1}, "difficulty"),
        ({"keep_degenerate": True}, "folder="),
    ]
    assert not_refused(lambda arguments: SQLEnv(**arguments), rows, UsageError) == []
