"""The code environment in a sandbox: the output of its tools, and the pay of a submission."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.endings import Reason
from agentgym.engine.steps import StepResult
from agentgym.envs.code import CodeEnv
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.registry import make
from agentgym.rewards import lint
from agentgym.script import steps
from agentgym.task import Task, TaskList
from agentgym.tools.sandbox import Sandbox

pytestmark = pytest.mark.real

VALUE = Task(
    id="value",
    split="train",
    prompt="What is the product of 123 and 457?",
    data={"kind": "value", "needs_code": True},
    gold={"answer": "56211", "code": "print(123 * 457)\n"},
)
FUNCTION = Task(
    id="function",
    split="train",
    prompt="Write double(x).",
    data={
        "kind": "function",
        "entry_point": "double",
        "signature": "def double(x):",
        "examples": [{"args": "(1,)", "expect": "2"}, {"args": "('a',)", "expect": "'aa'"}],
    },
    gold={
        "code": "def double(x):\n    return 2 * x\n",
        "cases": [{"args": "(5,)", "expect": "10"}, {"args": "([0],)", "expect": "[0, 0]"}],
    },
)
FIX = Task(
    id="fix",
    split="train",
    prompt="Mend double(x).",
    data={**FUNCTION.data, "kind": "fix", "code": "def double(x):\n    return x + x if x else 1\n"},
    gold=FUNCTION.gold,
)
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
    opening, _ = env.reset(options={"task": task})
    return text_of(opening[-1])


def call(env: CodeEnv, name: str, **arguments: Any) -> StepResult:
    return env.step(assistant("", [ToolCall(name, arguments)]))


def reply(env: CodeEnv, name: str, **arguments: Any) -> str:
    return text_of(call(env, name, **arguments).observation[-1])


@pytest.mark.parametrize("tools", ["python+test", "files+test", ""])
def test_the_solution_earns_full_marks_on_every_kind_of_task(tools: str):
    for kind in ("value", "function", "fix", "predict"):
        env = CodeEnv(kinds=[kind], tools=tools)
        for seed in range(2):
            env.reset(seed=seed)
            *_, last = steps(env, env.solution(env.task))
            assert last.info["is_success"], env.task
            assert last.info["rewards"]["visible"] == last.info["rewards"]["hidden"] == 1.0
        env.close()


def test_info_has_the_sandbox_and_how_the_code_was_graded(env: CodeEnv):
    for task, needs_code in ((VALUE, True), (FUNCTION, None)):
        assert env.reset(options={"task": task})[1].get("needs_code") is needs_code
    _, info = env.reset(options={"task": "function"})
    assert info["sandbox"]["tier"]
    assert isinstance(info["sandbox"]["not_wholly_held"], list)
    assert "grading" not in info
    end = call(env, "submit", answer=RIGHT).info
    assert (end["sandbox"], end["grading"]) == (info["sandbox"], "cases")


def test_the_wording_changes_the_system_message_alone():
    openings = {}
    for wording in ("natural", "plain"):
        env = make("code", wording=wording)
        openings[wording], _ = env.reset(seed=5)
        env.close()
    assert openings["natural"][1:] == openings["plain"][1:]
    assert "hidden tests" in text_of(openings["natural"][0])
    assert len(text_of(openings["plain"][0])) < len(text_of(openings["natural"][0]))


class Walled(CodeEnv):
    """Has no sandbox at all."""

    def _open(self) -> Sandbox:
        raise AssertionError("a sandbox was opened")


def test_an_episode_without_code_opens_no_sandbox():
    env = Walled(tasks=TASKS, solution_style="direct")
    env.reset(options={"task": "value"})
    *_, last = steps(env, env.solution(env.task))
    assert last.info["is_success"]
    env.close()


# Running code.


def test_a_run_shows_its_output_and_last_value_and_leaves_its_names(env: CodeEnv):
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


ENDED = {
    "while True: pass": "exceeded the time limit",
    "import time; time.sleep(60)": "exceeded the time limit",
    "x = bytearray(10**12)": "Memory",
    "import os; os._exit(3)": "exit code 3",
    "input()": "EOFError",
}


def test_the_end_of_a_run_is_explained_and_does_not_end_the_episode(env: CodeEnv):
    begin(env, "value")
    for code, words in ENDED.items():
        env.reset(options={"task": "value"})
        step = call(env, "python", code=code)
        assert words in text_of(step.observation[-1])
        assert step.info["rewards"]["ran"] == 0.0
        assert reply(env, "python", code="1 + 1").splitlines()[0] == "2"


def test_bash_has_variables_and_reports_failures(env: CodeEnv):
    begin(env, "value")
    assert reply(env, "bash", command="A=5; echo $((A * 2))") == "10"
    assert reply(env, "bash", command="echo $A") == "5"
    failed = call(env, "bash", command="ls /no/such/place")
    assert "No such file" in text_of(failed.observation[-1])
    assert failed.info["rewards"]["ran"] == 0.0


# Files.


def test_a_function_to_mend_lies_in_a_file(files: CodeEnv):
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


def test_mistakes_with_files_are_explained(files: CodeEnv):
    for name, arguments, words in FILE_MISTAKES:
        begin(files, "fix")
        step = call(files, name, **arguments)
        assert words in text_of(step.observation[-1])
        assert step.info["rewards"]["ran"] == 0.0
        assert files.reason is None


def test_files_of_the_host_are_out_of_reach(files: CodeEnv, tmp_path: Path):
    # Only ever aimed at a file of this test: a backend that holds nothing in must not do harm here.
    mine = tmp_path / "mine.txt"
    mine.write_text("untouched")
    begin(files, "fix")
    for path in (str(mine), f"../../../../../..{mine}"):
        assert "untouched" not in reply(files, "view", path=path)
        reply(files, "edit", path=path, old="untouched", new="changed")
        reply(files, "write", path=path, content="changed")
        assert mine.read_text() == "untouched"


# Examples and submissions.


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
    assert reply(env, "test") == "2 of 2 examples pass.", "code to mend can be tested at once"
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
        replies.add(text_of(step.observation[-1]))
        assert step.info["ending"] == reason
        assert step.info["rewards"]["used_code"] == 0.0
    assert len(replies) == 1


def test_parts_are_paid_only_with_an_answer_and_use_of_code_counts_once(env: CodeEnv):
    begin(env, "function")
    results = [call(env, "python", code="1") for _ in range(env.max_turns)]
    assert env.reason is Reason.MAX_TURNS
    assert [step.reward for step in results] == [0.0] * env.max_turns
    assert [step.info["rewards"]["used_code"] for step in results[:3]] == [1.0, 0.0, 0.0]
    begin(env, "function")
    call(env, "python", code="1")
    wrong = call(env, "submit", answer="def double(x):\n    return x * 2 if x != [0] else x")
    assert wrong.info["rewards"]["visible"] == 1.0
    assert wrong.info["rewards"]["hidden"] == 0.5
    assert 0.0 < wrong.reward < 0.4


def test_calls_cost_as_configured_and_only_in_solved_episodes():
    totals = {}
    for cost in (0.0, 0.02):
        env = CodeEnv(tasks=TASKS, tool_cost=cost)
        assert lint(env.scheme, env.channels, env.max_turns) == []
        for answer in ("56211", "1"):
            begin(env, "value")
            totals[cost, answer] = call(env, "python", code="1").reward + call(env, "submit", answer=answer).reward
        env.close()
    assert totals[0.02, "56211"] == pytest.approx(totals[0.0, "56211"] - 0.02)
    assert totals[0.02, "1"] == pytest.approx(totals[0.0, "1"])
