"""The code environment in a sandbox: the output of its tools, and the rewards of a submission."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from agentgym.core.endings import Reason
from agentgym.core.messages import text_of
from agentgym.core.task import Task, TaskList
from agentgym.envs.code import CodeEnv
from tests.envs.code.checks import GOLD, cases_of, function_task
from tests.played import call, said
from tests.rows import each_row

pytestmark = pytest.mark.real

VALUE = Task("value", "train", "?", data={"kind": "value", "needs_code": True}, gold={"answer": "56211"})
SOLVED = {"code": GOLD, "cases": cases_of(("(5,)", "10"), ("([0],)", "[0, 0]"))}
EXAMPLES = cases_of(("(1,)", "2"), ("('a',)", "'aa'"))
FUNCTION = function_task(SOLVED, name="function", examples=EXAMPLES)
BROKEN = "def double(x):\n    return x + x if x else 1\n"
FIX = function_task(SOLVED, name="fix", examples=EXAMPLES, kind="fix", code=BROKEN)
TASKS = TaskList([VALUE, FUNCTION, FIX])
RIGHT = "def double(x):\n    return x + x\n"


@pytest.fixture(scope="module")
def env() -> Iterator[CodeEnv]:
    with closing(CodeEnv(tasks=TASKS, tools="python+bash+test", limits={"wall_s": 1.0, "memory_mb": 256})) as env:
        yield env


@pytest.fixture(scope="module")
def files() -> Iterator[CodeEnv]:
    with closing(CodeEnv(tasks=TASKS, tools="files+python+test")) as env:
        yield env


def begin(env: CodeEnv, task: str) -> str:
    return text_of(env.reset(options={"task": task})[0][-1])


def reply(env: CodeEnv, name: str, **arguments: Any) -> str:
    return said(call(env, name, **arguments))


def test_a_run_shows_its_output_and_last_value_and_keeps_its_names(env: CodeEnv):
    begin(env, "value")
    assert reply(env, "python", code="x = 123 * 457\nprint('so')\nx") == "so\n56211"
    assert reply(env, "python", code="y = 1\nopen('kept.txt', 'w').write('kept') and None") == "(no output)"
    assert reply(env, "python", code="print(y, open('kept.txt').read())") == "1 kept"
    assert reply(env, "bash", command="A=5; echo $((A * 2))") == "10"
    begin(env, "value")
    assert "NameError" in reply(env, "python", code="x")
    assert "FileNotFoundError" in reply(env, "python", code="open('kept.txt')")


ENDED = [
    ("while True: pass", "exceeded the time limit"),
    ("x = bytearray(10**12)", "Memory"),
    ("import os; os._exit(3)", "exit code 3"),
]


@each_row("code, words", ENDED)
def test_the_end_of_a_run_is_explained_and_does_not_end_the_episode(env: CodeEnv, code: str, words: str):
    begin(env, "value")
    step = call(env, "python", code=code)
    assert words in said(step)
    assert step.info["rewards"]["ran"] == 0.0
    assert reply(env, "python", code="1 + 1").splitlines()[0] == "2"


def test_a_function_to_fix_is_in_a_file(files: CodeEnv):
    assert "solution.py" in begin(files, "fix")
    assert reply(files, "view", path="solution.py") == "1\tdef double(x):\n2\t    return x + x if x else 1"
    assert reply(files, "test").startswith("2 of 2")
    assert "still as it was given" in reply(files, "submit", answer="double")
    assert "4 times" in reply(files, "edit", path="solution.py", old="x", new="y")
    assert "other.py" in reply(files, "submit", answer="other.py")
    assert reply(files, "edit", path="solution.py", old=" if x else 1", new="") == "Changed solution.py at line 2."
    assert reply(files, "python", code="from solution import double\ndouble([3])") == "[3, 3]"
    assert call(files, "submit", answer="solution.py").info["is_success"]


def test_the_examples_run_on_the_last_version(env: CodeEnv):
    begin(env, "function")
    assert "no 'double' yet" in reply(env, "test")
    reply(env, "python", code="def double(x):\n    return x * x\n\nprint(double(3))")
    assert reply(env, "test") == (
        "0 of 2 examples pass.\n"
        "double(1) returned 1; expected 2\n"
        "double('a') raised TypeError: can't multiply sequence by non-int of type 'str' (line 2); expected 'aa'"
    )
    assert reply(env, "test", code=RIGHT) == "2 of 2 examples pass."


def test_the_name_of_a_function_submits_its_latest_version(env: CodeEnv):
    for tool, code, solved in (("python", "def double(x):\n    return x * x", False), ("test", RIGHT, True)):
        begin(env, "function")
        reply(env, "python", code="def double(x):\n    return x")
        reply(env, tool, code=code)
        assert call(env, "submit", answer=" double\n").info["is_success"] == solved
        assert env.reason is (Reason.SOLVED if solved else Reason.ANSWERED)
    begin(env, "function")
    assert "no 'double' yet" in reply(env, "submit", answer="double")
    assert env.reason is None


def test_right_and_wrong_answers_get_the_same_reply(env: CodeEnv):
    replies = set()
    for answer, reason in (("56211", Reason.SOLVED), ("1", Reason.ANSWERED), (56211.0, Reason.SOLVED)):
        begin(env, "value")
        step = call(env, "submit", answer=answer)
        replies.add(said(step))
        assert step.info["ending"] == reason
        assert step.info["rewards"]["used_code"] == 0.0
    assert len(replies) == 1


def test_text_that_is_no_value_may_be_corrected_twice(env: CodeEnv):
    for answers, solved in (
        (["It is 56211, I think", "$56,211"], False),
        (["ca. 56211", "56211 or so", "56,211"], True),
    ):
        begin(env, "value")
        for answer in answers[:-1]:
            assert "cannot be read as a value" in reply(env, "submit", answer=answer)
            assert env.reason is None
        assert call(env, "submit", answer=answers[-1]).info["is_success"] is solved
    begin(env, "value")
    steps = [call(env, "submit", answer="It is 56211") for _ in range(3)]
    assert [step.info["rewards"]["refused"] for step in steps] == [1.0, 1.0, 0.0]
    assert (env.reason, steps[-1].info["decision"]) == (Reason.ANSWERED, "not readable as an answer")


def test_partial_rewards_need_an_answer_and_use_of_code_counts_once(env: CodeEnv):
    begin(env, "function")
    results = [call(env, "python", code="1") for _ in range(env.max_turns)]
    assert (env.reason, sum(step.reward for step in results)) == (Reason.MAX_TURNS, 0.0)
    assert [step.info["rewards"]["used_code"] for step in results[:3]] == [1.0, 0.0, 0.0]
