"""The code environment in a sandbox: the output of its tools, and the rewards of a submission."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.core.endings import Reason
from agentgym.core.messages import text_of
from agentgym.core.registry import make
from agentgym.core.task import Task, TaskList
from agentgym.envs.code import CodeEnv
from agentgym.tools.sandbox import Sandbox
from tests.envs.code.checks import GOLD, cases_of, function_task
from tests.played import call, play_solution, said
from tests.rows import each_row

pytestmark = pytest.mark.real

VALUE = Task(
    id="value",
    split="train",
    prompt="What is the product of 123 and 457?",
    data={"kind": "value", "needs_code": True},
    gold={"answer": "56211", "code": "print(123 * 457)\n"},
)
SOLVED = {"code": GOLD, "cases": cases_of(("(5,)", "10"), ("([0],)", "[0, 0]"))}
EXAMPLES = cases_of(("(1,)", "2"), ("('a',)", "'aa'"))
FUNCTION = function_task(SOLVED, name="function", examples=EXAMPLES)
BROKEN = "def double(x):\n    return x + x if x else 1\n"
FIX = function_task(SOLVED, name="fix", examples=EXAMPLES, kind="fix", code=BROKEN)
TASKS = TaskList([VALUE, FUNCTION, FIX])
RIGHT = "def double(x):\n    return x + x\n"


@pytest.fixture(scope="module")
def env() -> Iterator[CodeEnv]:
    env = CodeEnv(tasks=TASKS, tools="python+bash+test", preview_chars=400, limits={"wall_s": 1.0, "memory_mb": 256})
    yield env
    env.close()


@pytest.fixture(scope="module")
def files() -> Iterator[CodeEnv]:
    env = CodeEnv(tasks=TASKS, tools="files+python+test")
    yield env
    env.close()


def begin(env: CodeEnv, task: str) -> str:
    return text_of(env.reset(options={"task": task})[0][-1])


def reply(env: CodeEnv, name: str, **arguments: Any) -> str:
    return said(call(env, name, **arguments))


def test_info_has_the_sandbox_the_need_for_code_and_the_grading_method(env: CodeEnv):
    assert env.reset(options={"task": "value"})[1]["needs_code"] is True
    _, info = env.reset(options={"task": "function"})
    assert info["sandbox"]["tier"]
    assert isinstance(info["sandbox"]["not_wholly_held"], list)
    assert not {"needs_code", "grading"} & info.keys()
    end = call(env, "submit", answer=RIGHT).info
    assert (end["sandbox"], end["grading"]) == (info["sandbox"], "cases")


def test_the_wording_changes_the_system_message_alone():
    natural, plain = (make("code", wording=wording).reset(seed=5)[0] for wording in ("natural", "plain"))
    assert natural[1:] == plain[1:]
    assert "hidden tests" in text_of(natural[0])
    assert len(text_of(plain[0])) < len(text_of(natural[0]))


class CodeEnvWithoutSandbox(CodeEnv):
    def _open(self) -> Sandbox:
        raise AssertionError("a sandbox was opened")


def test_an_episode_without_code_opens_no_sandbox():
    env = CodeEnvWithoutSandbox(tasks=TASKS, solution_style="direct")
    env.reset(options={"task": "value"})
    assert play_solution(env).info["is_success"]


def test_a_run_shows_its_output_and_last_value_and_keeps_its_names(env: CodeEnv):
    begin(env, "value")
    assert reply(env, "python", code="x = 123 * 457\nprint('so')\nx") == "so\n56211"
    assert reply(env, "python", code="y = 1\nopen('kept.txt', 'w').write('kept') and None") == "(no output)"
    assert reply(env, "python", code="print(y, open('kept.txt').read())") == "1 kept"
    begin(env, "value")
    assert "NameError" in reply(env, "python", code="x")
    assert "FileNotFoundError" in reply(env, "python", code="open('kept.txt')")
    stateless = CodeEnv(tasks=TASKS, stateful=False)
    begin(stateless, "value")
    reply(stateless, "python", code="x = 5")
    assert "NameError" in reply(stateless, "python", code="print(x)")
    stateless.close()


def test_an_error_shows_the_lines_of_the_models_own_code(env: CodeEnv):
    begin(env, "value")
    code = "import json\ndef f(text):\n    return json.loads(text)\nprint('before')\nf('{')"
    lines = reply(env, "python", code=code).splitlines()
    assert lines[0] == "before"
    assert lines[-1].startswith("json.decoder.JSONDecodeError")
    assert "  return json.loads(text)" in lines
    assert not [line for line in lines if "decoder.py" in line or "Traceback" in line]
    recursion = reply(env, "python", code="def f():\n    return f()\nf()")
    assert "RecursionError" in recursion
    assert len(recursion.splitlines()) < 15


def test_long_output_is_shown_without_its_middle(env: CodeEnv):
    begin(env, "value")
    for count in (500, 1_000_000):
        output = reply(env, "python", code=f"print('a' + 'b' * {count - 2} + 'c')")
        assert (output[:2], output[-2:]) == ("ab", "bc")
        assert f"[... {count - 400} bytes left out ...]" in output


ENDED = [
    ("while True: pass", "exceeded the time limit"),
    ("import time; time.sleep(60)", "exceeded the time limit"),
    ("x = bytearray(10**12)", "Memory"),
    ("import os; os._exit(3)", "exit code 3"),
    ("input()", "EOFError"),
]


@each_row("code, words", ENDED)
def test_the_end_of_a_run_is_explained_and_does_not_end_the_episode(env: CodeEnv, code: str, words: str):
    begin(env, "value")
    step = call(env, "python", code=code)
    assert words in said(step)
    assert step.info["rewards"]["ran"] == 0.0
    assert reply(env, "python", code="1 + 1").splitlines()[0] == "2"


def test_bash_has_variables_and_reports_failures(env: CodeEnv):
    begin(env, "value")
    assert reply(env, "bash", command="A=5; echo $((A * 2))") == "10"
    assert reply(env, "bash", command="echo $A") == "5"
    failed = call(env, "bash", command="ls /no/such/place")
    assert "No such file" in said(failed)
    assert failed.info["rewards"]["ran"] == 0.0


def test_a_function_to_fix_is_in_a_file(files: CodeEnv):
    assert "solution.py" in begin(files, "fix")
    assert reply(files, "view", path="solution.py") == "1: def double(x):\n2:     return x + x if x else 1"
    assert reply(files, "test").startswith("2 of 2")
    assert "still as it was given" in reply(files, "submit", answer="double")
    assert reply(files, "edit", path="solution.py", old=" if x else 1", new="") == "Edited solution.py at line 2."
    assert reply(files, "python", code="from solution import double\ndouble([3])") == "[3, 3]"
    assert call(files, "submit", answer="solution.py").info["is_success"]
    begin(files, "fix")
    reply(files, "edit", path="solution.py", old=" if x else 1", new="")
    assert call(files, "submit", answer="double").info["is_success"]


def test_a_long_file_is_shown_in_parts(files: CodeEnv):
    begin(files, "function")
    reply(files, "write", path="long.txt", content="\n".join(f"line {n}" for n in range(1, 501)))
    assert reply(files, "view", path="long.txt", start=7, end=8) == "7: line 7\n8: line 8\n[500 lines in all]"
    assert len(reply(files, "view", path="long.txt").splitlines()) == 201


FILE_MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("view", {"path": "no.py"}, "no.py"),
    ("view", {"path": "solution.py", "start": 9}, "lines 1 to 2"),
    ("edit", {"path": "solution.py", "old": "y", "new": "x"}, "0 times"),
    ("edit", {"path": "solution.py", "old": "x", "new": "y"}, "4 times"),
    ("edit", {"path": "solution.py", "old": "", "new": "y"}, "0 times"),
    ("submit", {"answer": "other.py"}, "other.py"),
]


@each_row("name, arguments, words", FILE_MISTAKES)
def test_mistakes_with_files_are_explained(files: CodeEnv, name: str, arguments: dict[str, Any], words: str):
    begin(files, "fix")
    step = call(files, name, **arguments)
    assert words in said(step)
    assert step.info["rewards"]["ran"] == 0.0
    assert files.reason is None


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
    begin(env, "fix")
    assert reply(env, "test") == "2 of 2 examples pass.", "the code to fix can be tested at once"
    begin(env, "value")
    assert "no examples" in reply(env, "test")


def test_the_name_of_a_function_submits_its_latest_version(env: CodeEnv):
    for tool, code, solved in (("python", "def double(x):\n    return x * x", False), ("test", RIGHT, True)):
        begin(env, "function")
        reply(env, "python", code="def double(x):\n    return x")
        reply(env, tool, code=code)
        assert call(env, "submit", answer=" double\n").info["is_success"] == solved
        assert env.reason is (Reason.SOLVED if solved else Reason.ANSWERED)
    for task, words in (("function", "no 'double' yet"), ("fix", "still as it was given")):
        begin(env, task)
        assert words in reply(env, "submit", answer="double")
        assert env.reason is None
        reply(env, "python", code=RIGHT)
        assert call(env, "submit", answer="double").info["is_success"]


def test_right_and_wrong_answers_get_the_same_reply(env: CodeEnv):
    replies = set()
    for answer, reason in (("56211", Reason.SOLVED), ("1", Reason.ANSWERED), (56211.0, Reason.SOLVED)):
        begin(env, "value")
        step = call(env, "submit", answer=answer)
        replies.add(said(step))
        assert step.info["ending"] == reason
        assert step.info["rewards"]["used_code"] == 0.0
    assert len(replies) == 1


def test_partial_rewards_need_an_answer_and_use_of_code_counts_once(env: CodeEnv):
    begin(env, "function")
    results = [call(env, "python", code="1") for _ in range(env.max_turns)]
    assert env.reason is Reason.MAX_TURNS
    assert [step.reward for step in results] == [0.0] * env.max_turns
    assert [step.info["rewards"]["used_code"] for step in results[:3]] == [1.0, 0.0, 0.0]
    assert [step.info["rewards"]["tool_cost"] for step in results[:3]] == [1.0, 1.0, 1.0]
    begin(env, "function")
    call(env, "python", code="1")
    wrong = call(env, "submit", answer="def double(x):\n    return x * 2 if x != [0] else x")
    assert wrong.info["rewards"]["visible"] == 1.0
    assert wrong.info["rewards"]["hidden"] == 0.5
    assert 0.0 < wrong.reward < 0.4
