"""The SQL environment: what its tools say, what a submission earns, and what stays hidden."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.endings import Reason
from agentgym.engine.steps import StepResult
from agentgym.envs.sql import SQLEnv
from agentgym.envs.sql.env import is_query
from agentgym.errors import UsageError
from agentgym.messages import text_of
from agentgym.rewards import lint
from agentgym.script import steps
from agentgym.task import Task, TaskList

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


def call(env: SQLEnv, name: str, **arguments: Any) -> StepResult:
    return env.step({"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]})


def said(step: StepResult) -> str:
    return text_of(step.observation[-1])


def play_solution(env: SQLEnv) -> list[StepResult]:
    return list(steps(env, env.solution(env.task)))


@pytest.mark.parametrize("engine", ["sqlite", "duckdb", "mixed"])
@pytest.mark.parametrize("show_schema", ["tools", "prompt"])
def test_the_solution_earns_full_marks_on_every_kind_of_task(engine: str, show_schema: Any):
    env = SQLEnv(engine=engine, show_schema=show_schema)
    for seed in range(12):
        env.reset(seed=seed)
        last = play_solution(env)[-1]
        assert last.info["is_success"], env.task
        assert last.info["rewards"]["linking"] == last.info["rewards"]["partial"] == 1.0
    env.close()


@pytest.mark.parametrize(("style", "first"), [("full", "list_tables"), ("short", "query"), ("direct", "submit")])
def test_the_solution_comes_in_three_lengths(style: Any, first: str):
    env = SQLEnv(tasks=TaskList([TASK]), solution_style=style)
    env.reset(seed=0)
    opening = next(env.solution(env.task))
    assert not isinstance(opening, str)
    assert opening.name == first
    assert play_solution(env)[-1].reward > 0
    env.close()


def test_tables_are_listed_and_described_in_few_words(env: SQLEnv):
    tables = said(call(env, "list_tables"))
    assert "customers" in tables.split(", ")
    lines = said(call(env, "describe_table", table="customers")).splitlines()
    assert lines[0] == "customer_id INTEGER key"
    assert [line for line in lines if line.endswith(" rows")]
    assert len(lines[-1].split("|")) == len([line for line in lines if "|" not in line]) - 1


def test_a_query_shows_types_rows_and_count(env: SQLEnv):
    shown = said(call(env, "query", sql="SELECT 1 AS one, 'a|b' AS text, NULL AS none, 2.0 / 3 AS part"))
    assert shown == "one INTEGER|text TEXT|none NULL|part REAL\n1|a\\|b|NULL|0.6667\n1 row, <1 s"


def test_a_long_result_is_previewed_and_says_so(env: SQLEnv):
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n"
    shown = said(call(env, "query", sql=many.format(57))).splitlines()
    assert (len(shown), shown[-1]) == (12, "first 10 of 57 rows, <1 s")
    assert said(call(env, "query", sql=many.format(100_000))).splitlines()[-1].startswith("first 10 of 1000+ rows")


def test_one_cell_cannot_fill_the_context(env: SQLEnv):
    assert len(said(call(env, "query", sql="SELECT hex(zeroblob(500))"))) < 200


def test_mistakes_are_told_and_the_episode_goes_on(env: SQLEnv):
    for name, arguments, told in (
        ("query", {"sql": "SELECT nme FROM customers"}, "nme"),
        ("query", {"sql": "DELETE FROM customers"}, "Error"),
        ("describe_table", {"table": "custmers"}, "customers"),
        ("submit", {"answer": "  "}, "empty"),
    ):
        step = call(env, name, **arguments)
        assert told in said(step)
        assert env.reason is None
        assert step.info["rewards"]["executed"] == 0.0


def test_a_submitted_query_that_fails_may_be_corrected(env: SQLEnv):
    failed = call(env, "submit", answer="SELECT COUNT(*) FROM custmers")
    assert "failed" in said(failed)
    assert not failed.terminated
    assert call(env, "submit", answer="SELECT COUNT(customer_id) FROM customers").info["is_success"]


def test_the_first_answer_that_runs_is_final(env: SQLEnv):
    step = call(env, "submit", answer="SELECT 0")
    assert step.terminated
    assert (step.info["ending"], step.info["is_success"]) == ("answered", False)
    assert step.info["rewards"]["submitted"] == 1.0


def test_trajectories_say_why_an_answer_was_wrong(env: SQLEnv):
    assert call(env, "submit", answer="SELECT 0").info["why_wrong"] == "other values"
    env.reset(options={"task": "t"})
    assert call(env, "submit", answer="-7").info["why_wrong"] == "another value"
    env.reset(options={"task": "t"})
    assert "why_wrong" not in call(env, "submit", answer=TASK.gold["sql"]).info


def test_right_and_wrong_answers_get_the_same_reply(env: SQLEnv):
    wrong = said(call(env, "submit", answer="SELECT 0"))
    env.reset(options={"task": "t"})
    assert said(call(env, "submit", answer=TASK.gold["sql"])) == wrong


def test_a_value_may_be_submitted(env: SQLEnv):
    count = said(call(env, "query", sql=TASK.gold["sql"])).splitlines()[1]
    step = call(env, "submit", answer=int(count))
    assert step.info["is_success"]
    assert step.info["rewards"]["linking"] == 1.0


def test_order_counts_where_the_question_asks_for_it(env: SQLEnv):
    env.reset(options={"task": "names"})
    backwards = call(env, "submit", answer="SELECT name FROM customers ORDER BY name DESC")
    assert not backwards.info["is_success"]
    assert 0.0 < backwards.info["rewards"]["partial"] < 0.5
    env.reset(options={"task": "names"})
    assert call(env, "submit", answer=NAMES.gold["sql"]).info["is_success"]


@pytest.mark.parametrize(
    ("answer", "engine", "query"),
    [
        ("select 1", "sqlite", True),
        (" (\n(SELECT 1))", "sqlite", True),
        ("-- so\nWITH a AS (SELECT 1) FROM a", "duckdb", True),
        ("/* x */ VALUES (1)", "sqlite", True),
        ("FROM t", "duckdb", True),
        ("From Here to Eternity", "sqlite", False),
        ("42", "duckdb", False),
        ("'Select'", "duckdb", False),
        ("Selected works", "duckdb", False),
        ("(1, 2)", "duckdb", False),
    ],
)
def test_queries_are_told_from_values_by_how_they_begin(answer: str, engine: str, query: bool):
    assert is_query(answer, engine) is query


def test_without_a_submission_nothing_is_paid(env: SQLEnv):
    rewards = [call(env, "query", sql=TASK.gold["sql"]).reward for _ in range(env.max_turns)]
    assert rewards == [0.0] * env.max_turns
    assert env.reason == "max_turns"


def test_a_wrong_answer_earns_less_than_any_right_one(env: SQLEnv):
    assert lint(env.scheme, env.channels, env.max_turns) == []
    wrong = [call(env, "query", sql=TASK.gold["sql"]), call(env, "submit", answer="SELECT COUNT(*) + 1 FROM customers")]
    assert 0.0 < sum(step.reward for step in wrong) < 0.5


def test_the_schema_may_stand_in_the_prompt():
    env = SQLEnv(tasks=TaskList([TASK]), show_schema="prompt")
    observation, _ = env.reset(seed=0)
    opening = text_of(observation[-1])
    assert opening.startswith("How many customers are there?\n\nThe database runs on SQLite. Its tables are:\n")
    assert "customers(customer_id INTEGER key, name TEXT" in opening
    assert "order_id INTEGER -> orders.order_id" in opening
    env.close()


def test_the_gold_is_in_no_observation():
    env = SQLEnv(difficulty=[2, 3], engine="sqlite")
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        shown = json.dumps([observation, info])
        shown += said(call(env, "list_tables")) + said(call(env, "query", sql="SELECT 'x'"))
        shown += said(call(env, "submit", answer="SELECT 'x'"))
        assert env.task.gold["sql"] not in shown
    env.close()


def test_same_seed_gives_the_same_episode_in_two_environments_side_by_side():
    first, second = SQLEnv(engine="mixed"), SQLEnv(engine="mixed")
    for seed in (3, 4):
        assert first.reset(seed=seed) == second.reset(seed=seed)
        assert play_solution(first) == play_solution(second)
    first.close()
    second.close()


def test_an_environment_survives_pickling_in_the_middle_of_an_episode(env: SQLEnv):
    call(env, "list_tables")
    twin = pickle.loads(pickle.dumps(env))
    answer = TASK.gold["sql"]
    assert call(twin, "submit", answer=answer) == call(env, "submit", answer=answer)
    twin.close()


def test_closing_twice_is_safe_and_a_reset_opens_again(env: SQLEnv):
    env.close()
    env.close()
    env.reset(seed=1)
    assert said(call(env, "list_tables"))


def test_hostile_text_never_breaks_the_episode():
    env = SQLEnv(tasks=TaskList([TASK]), max_turns=300)
    rng = random.Random(0)
    pieces = [
        "SELECT",
        "'",
        '"',
        "(",
        ";",
        "--",
        "\0",
        "\ud800",
        "é",
        "FROM customers",
        "*",
        "0x",
        "/*",
        "WITH",
        "9" * 50,
    ]
    env.reset(seed=0)
    for _ in range(150):
        text = " ".join(rng.choices(pieces, k=rng.randint(1, 12)))
        name, argument = rng.choice([("query", "sql"), ("submit", "answer"), ("describe_table", "table")])
        step = call(env, name, **{argument: text})
        assert said(step)
        assert env.reason is not Reason.INFRASTRUCTURE
        if step.terminated or step.truncated:
            env.reset(seed=0)
    env.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"engine": "oracle"}, "oracle"),
        ({"difficulty": 9}, "9"),
        ({"show_schema": "always"}, "tools, prompt"),
        ({"solution_style": "long"}, "full, short, direct"),
        ({"limits": {"time": 1}}, "timeout_s"),
        ({"preview_rows": 0}, "at least 1"),
        ({"tasks": TaskList([TASK]), "engine": "sqlite"}, "one or the other"),
        ({"folder": ".", "difficulty": 1}, "difficulty"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(arguments: dict[str, Any], told: str):
    with pytest.raises(UsageError, match=told):
        SQLEnv(**arguments)


def test_limits_may_be_given_by_name():
    env = SQLEnv(tasks=TaskList([TASK]), limits={"max_rows": 3}, preview_rows=2)
    env.reset(seed=0)
    assert "first 2 of 3+ rows" in said(call(env, "query", sql="SELECT name FROM customers"))
    env.close()
