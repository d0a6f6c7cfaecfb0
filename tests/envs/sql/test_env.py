"""The SQL environment: the output of its tools, the rewards of a submission, and its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.answers.decisions import DecisionRule
from agentgym.core.engine.steps import StepResult
from agentgym.core.rewards import lint
from agentgym.core.task import Task, TaskList
from agentgym.envs.sql import SQLEnv
from agentgym.envs.sql.verdict import query_in
from tests.played import call, said
from tests.refusals import not_refused

TASK = Task(
    id="t",
    split="train",
    prompt="How many customers are there?",
    data={"domain": "shop", "database_seed": 0, "dialect": "sqlite"},
    gold={"sql": "SELECT COUNT(*) FROM customers", "ordered": False, "tables": ["customers"], "columns": []},
)


@pytest.fixture
def env() -> Iterator[SQLEnv]:
    env = SQLEnv(tasks=TaskList([TASK]))
    env.reset(options={"task": "t"})
    yield env
    env.close()


def submitted(env: SQLEnv, answer: object) -> StepResult:
    env.reset(options={"task": "t"})
    return call(env, "submit", answer=answer)


def test_a_query_shows_types_rows_and_their_number(env: SQLEnv):
    output = said(call(env, "query", sql="SELECT 1 AS one, 'a|b' AS text, NULL AS none, 2.0 / 3 AS part"))
    assert output == "one INTEGER|text TEXT|none NULL|part REAL\n1|a\\|b|NULL|0.6667\n1 row, <1 s"
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 57) SELECT i FROM n"
    lines = said(call(env, "query", sql=many)).splitlines()
    assert (len(lines), lines[-1]) == (12, "first 10 of 57 rows, <1 s")


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


def test_queries_are_recognised_by_their_first_word_in_every_wrapping():
    queries = (" (\n(SELECT 1))", "/* x */ VALUES (1)", "-- so\nWITH a AS (SELECT 1) FROM a", "FROM t")
    assert [query_in(query, "duckdb") for query in queries] == [query.strip() for query in queries]
    forms = (
        *("```sql\n{}\n```", "```\n{}```", "`{}`", "sql: {}", "SQL query:\n{}", "Answer: `{}`"),
        *("Here it is:\n```sql\n{}\n```\nDone.", "sql:\n```sql\n{}\n```", "```\nsql: {}\n```"),
    )
    wrapped = [form.format("SELECT 1") for form in forms]
    assert [text for text in wrapped if query_in(text, "sqlite") != "SELECT 1"] == []
    two = "```\nSELECT 1\n```\n```\nSELECT 2\n```"
    values = ("42", "'Select'", "Selected works", "(1, 2)", "`42`", "sql: 42", two)
    assert [value for value in values if query_in(value, "duckdb") is not None] == []
    assert not query_in("From Here to Eternity", "sqlite")


def test_an_answer_of_no_readable_form_is_not_final(env: SQLEnv):
    count = said(call(env, "query", sql=TASK.gold["sql"])).splitlines()[1]
    for answer in ("several", "Use SELECT COUNT(*) FROM customers, I think", "12,34", "or select " * 50_000):
        step = call(env, "submit", answer=answer)
        assert (env.reason, step.info["rewards"]["submitted"]) == (None, 0.0), answer
        assert "Submit" in said(step)
    step = call(env, "submit", answer=f"```\n{count} customers\n```")
    assert (step.info["is_success"], step.info["decision"]) == (True, DecisionRule.UNIT.value)


def test_the_rule_that_decided_is_recorded(env: SQLEnv):
    for answer, rule in {
        TASK.gold["sql"]: DecisionRule.SAME,
        "SELECT 0": DecisionRule.OTHER,
        "-7": DecisionRule.OTHER_NUMBER,
    }.items():
        assert submitted(env, answer).info["decision"] == rule.value


def test_only_submissions_are_paid_and_wrong_ones_earn_little(env: SQLEnv):
    assert [call(env, "query", sql=TASK.gold["sql"]).reward for _ in range(env.max_turns)] == [0.0] * env.max_turns
    assert env.reason == "max_turns"
    assert lint(env.scheme, env.channels, env.max_turns) == []
    env.reset(options={"task": "t"})
    wrong = [call(env, "query", sql=TASK.gold["sql"]), call(env, "submit", answer="SELECT COUNT(*) + 1 FROM customers")]
    assert 0.0 < sum(step.reward for step in wrong) < 0.5


def test_wrong_arguments_are_refused_with_the_right_ones():
    rows: list[tuple[dict[str, Any], str]] = [
        ({"engine": "oracle"}, "oracle"),
        ({"limits": {"time": 1}}, "timeout_s"),
        ({"tasks": TaskList([TASK]), "engine": "sqlite"}, "one or the other"),
        ({"folder": ".", "difficulty": 1}, "difficulty"),
        ({"keep_degenerate": True}, "folder="),
    ]
    assert not_refused(lambda arguments: SQLEnv(**arguments), rows, UsageError) == []
