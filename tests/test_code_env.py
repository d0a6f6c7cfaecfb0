"""The code environment: what its tools say, what a submission earns, and what stays apart."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.endings import Reason
from agentgym.engine.steps import StepResult
from agentgym.envs.code import CodeEnv
from agentgym.errors import UsageError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.rewards import lint
from agentgym.script import steps
from agentgym.task import Task, TaskList
from agentgym.tools.sandbox import Sandbox
from agentgym.trajectory import Trajectory, Turn

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


def call(env: CodeEnv, name: str, **arguments: Any) -> StepResult:
    return env.step(assistant("", [ToolCall(name, arguments)]))


def said(env: CodeEnv, name: str, **arguments: Any) -> str:
    return text_of(call(env, name, **arguments).observation[-1])


def test_use_of_code_is_told_apart_by_whether_the_task_needs_it():
    def episode(used: bool, needed: bool | None) -> Trajectory:
        details = {} if needed is None else {"needs_code": needed}
        turns = [Turn("", [], {"used_code": float(used)}, 0.0), Turn("", [], {"used_code": 0.0}, 0.0)]
        return Trajectory("x", "e", "t", "h", 0, "p", [], turns=turns, details=details)

    needing = [episode(True, True)] * 3 + [episode(False, True)]
    others = [episode(True, False), episode(False, False)]
    assert CodeEnv.figures([*needing, *others, episode(True, None)]) == pytest.approx(
        {"code used where needed": 0.75, "code used where not needed": 0.5, "code use F1": 0.75}
    )
    assert CodeEnv.figures(needing) == {"code used where needed": 0.75}
    assert CodeEnv.figures(others) == {"code used where not needed": 0.5}
    assert CodeEnv.figures([episode(True, None)]) == {}


def test_an_episode_records_whether_its_task_needs_code(env: CodeEnv):
    for task, needs in ((VALUE, True), (FUNCTION, None)):
        assert env.reset(options={"task": task})[1].get("needs_code") is needs


def play_solution(env: CodeEnv) -> list[StepResult]:
    return list(steps(env, env.solution(env.task)))


@pytest.mark.parametrize("kind", ["value", "function", "fix", "predict"])
@pytest.mark.parametrize("tools", ["python+test", "files+test", ""])
def test_the_solution_earns_full_marks_on_every_kind_of_task(kind: str, tools: str):
    env = CodeEnv(kinds=[kind], tools=tools)
    for seed in range(4):
        env.reset(seed=seed)
        last = play_solution(env)[-1]
        assert last.info["is_success"], env.task
        assert last.info["rewards"]["visible"] == last.info["rewards"]["hidden"] == 1.0
    env.close()


@pytest.mark.parametrize(
    ("style", "names"), [("full", "python test submit"), ("short", "python submit"), ("direct", "submit")]
)
def test_the_solution_comes_in_three_lengths(style: Any, names: str):
    env = CodeEnv(tasks=TaskList([FUNCTION]), solution_style=style)
    env.reset(seed=0)
    assert [move.name for move in env.solution(env.task) if isinstance(move, ToolCall)] == names.split()
    assert play_solution(env)[-1].reward > 0
    env.close()


def test_which_tools_there_are_is_chosen():
    for wanted, names in (
        ("python", ("python", "submit")),
        ("files+bash", ("bash", "view", "edit", "write", "submit")),
        (["test"], ("test", "submit")),
        ("", ("submit",)),
    ):
        env = CodeEnv(tasks=TASKS, tools=wanted)
        _, info = env.reset(seed=0)
        assert tuple(entry["function"]["name"] for entry in info["tools"]) == env.tools.names == names
    assert "python" in CodeEnv.tools


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"tools": "pyton"}, "python, bash, files, test"),
        ({"limits": {"wall": 1}}, "wall_s"),
        ({"call_s": 0}, "call_s"),
        ({"solution_style": "long"}, "full, short, direct"),
        ({"tool_cost": -1.0}, "at least 0"),
        ({"tool_cost": 0.5}, "unsound"),
        ({"tasks": TASKS, "difficulty": 2}, "difficulty"),
        ({"file": "x", "kinds": ["fix"]}, "kinds"),
    ],
)
def test_arguments_that_cannot_be_are_reported(arguments: dict[str, Any], told: str):
    with pytest.raises(UsageError, match=told):
        CodeEnv(**arguments)


# Running code.


def test_a_run_shows_what_was_printed_and_the_last_value(env: CodeEnv):
    env.reset(options={"task": "value"})
    assert said(env, "python", code="x = 123 * 457\nprint('so')\nx") == "so\n56211"
    assert said(env, "python", code="y = 1") == "(no output)"


def test_names_stay_for_the_next_call_but_not_for_the_next_episode(env: CodeEnv):
    env.reset(options={"task": "value"})
    said(env, "python", code="x = 5\nopen('kept.txt', 'w').write('kept')")
    assert said(env, "python", code="print(x, open('kept.txt').read())") == "5 kept"
    env.reset(options={"task": "value"})
    assert "NameError" in said(env, "python", code="x")
    assert "FileNotFoundError" in said(env, "python", code="open('kept.txt')")


def test_without_state_every_call_begins_anew():
    env = CodeEnv(tasks=TASKS, stateful=False)
    env.reset(options={"task": "value"})
    said(env, "python", code="x = 5")
    assert "NameError" in said(env, "python", code="print(x)")
    env.close()


def test_an_error_shows_the_lines_of_the_users_own_code(env: CodeEnv):
    env.reset(options={"task": "value"})
    told = said(
        env, "python", code="import json\ndef f(text):\n    return json.loads(text)\nprint('before')\nf('{')"
    ).splitlines()
    assert told[0] == "before"
    assert told[-1].startswith("json.decoder.JSONDecodeError")
    assert "  return json.loads(text)" in told
    assert not [line for line in told if "decoder.py" in line or "Traceback" in line]


def test_endless_recursion_is_told_in_few_lines(env: CodeEnv):
    env.reset(options={"task": "value"})
    told = said(env, "python", code="def f():\n    return f()\nf()")
    assert "RecursionError" in told
    assert len(told.splitlines()) < 15


def test_long_output_is_shown_without_its_middle_and_says_how_much(env: CodeEnv):
    env.reset(options={"task": "value"})
    for count in (500, 1_000_000):
        told = said(env, "python", code=f"print('a' + 'b' * {count - 2} + 'c')")
        assert told.startswith("ab")
        assert told.endswith("bc")
        assert f"[... {count - 400} bytes left out ...]" in told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("while True: pass", "exceeded the time limit"),
        ("import time; time.sleep(60)", "exceeded the time limit"),
        ("x = bytearray(10**12)", "Memory"),
        ("import os; os._exit(3)", "exit code 3"),
        ("input()", "EOFError"),
    ],
)
def test_what_ended_a_run_is_told_and_the_episode_goes_on(env: CodeEnv, code: str, told: str):
    env.reset(options={"task": "value"})
    step = call(env, "python", code=code)
    assert told in text_of(step.observation[-1])
    assert step.info["rewards"]["ran"] == 0.0
    assert said(env, "python", code="1 + 1").splitlines()[0] == "2"


def test_bash_keeps_its_variables(env: CodeEnv):
    env.reset(options={"task": "value"})
    assert said(env, "bash", command="A=5; echo $((A * 2))") == "10"
    assert said(env, "bash", command="echo $A") == "5"
    failed = call(env, "bash", command="ls /no/such/place")
    assert "No such file" in text_of(failed.observation[-1])
    assert failed.info["rewards"]["ran"] == 0.0


# Files.


def test_a_function_to_mend_lies_in_a_file(files: CodeEnv):
    opening, _ = files.reset(options={"task": "fix"})
    assert "solution.py" in text_of(opening[-1])
    assert said(files, "view", path="solution.py") == "1: def double(x):\n2:     return x + x if x else 1"
    assert said(files, "test").startswith("2 of 2")
    assert said(files, "edit", path="solution.py", old=" if x else 1", new="") == "Edited solution.py at line 2."
    assert said(files, "python", code="from solution import double\ndouble([3])") == "[3, 3]"
    assert call(files, "submit", answer="solution.py").info["is_success"]


def test_a_file_is_shown_in_parts(files: CodeEnv):
    files.reset(options={"task": "function"})
    said(files, "write", path="long.txt", content="\n".join(f"line {n}" for n in range(1, 501)))
    assert said(files, "view", path="long.txt", start=7, end=8) == "7: line 7\n8: line 8\n[500 lines in all]"
    assert len(said(files, "view", path="long.txt").splitlines()) == 201


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("view", {"path": "no.py"}, "no.py"),
        ("view", {"path": "solution.py", "start": 9}, "lines 1 to 2"),
        ("edit", {"path": "solution.py", "old": "y", "new": "x"}, "0 times"),
        ("edit", {"path": "solution.py", "old": "x", "new": "y"}, "4 times"),
        ("edit", {"path": "solution.py", "old": "", "new": "y"}, "0 times"),
        ("submit", {"answer": "other.py"}, "other.py"),
    ],
)
def test_mistakes_with_files_are_reported(files: CodeEnv, name: str, arguments: dict[str, Any], told: str):
    files.reset(options={"task": "fix"})
    step = call(files, name, **arguments)
    assert told in text_of(step.observation[-1])
    assert step.info["rewards"]["ran"] == 0.0
    assert files.reason is None


def test_files_of_the_host_are_out_of_reach(files: CodeEnv, tmp_path: Path):
    # Only ever aimed at a file of this test: a backend that holds nothing in must not do harm here.
    mine = tmp_path / "mine.txt"
    mine.write_text("untouched")
    files.reset(options={"task": "fix"})
    for path in (str(mine), f"../../../../../..{mine}"):
        assert "untouched" not in said(files, "view", path=path)
        said(files, "edit", path=path, old="untouched", new="changed")
        said(files, "write", path=path, content="changed")
        assert mine.read_text() == "untouched"


# Examples.


def test_the_examples_are_run_on_the_last_version(env: CodeEnv):
    env.reset(options={"task": "function"})
    assert "no 'double' yet" in said(env, "test")
    said(env, "python", code="def double(x):\n    return x * x\n\nprint(double(3))")
    assert said(env, "test") == (
        "0 of 2 examples pass.\n"
        "double(1) returned 1; expected 2\n"
        "double('a') raised TypeError: can't multiply sequence by non-int of type 'str' (line 2); expected 'aa'"
    )
    assert said(env, "test", code=RIGHT) == "2 of 2 examples pass."


def test_code_to_mend_can_be_tested_at_once(env: CodeEnv):
    env.reset(options={"task": "fix"})
    assert said(env, "test") == "2 of 2 examples pass."


def test_the_name_of_a_function_submits_its_latest_version(env: CodeEnv):
    for submitted, solved in ((("python", "def double(x):\n    return x * x"), False), (("test", RIGHT), True)):
        env.reset(options={"task": "function"})
        said(env, "python", code="def double(x):\n    return x")
        said(env, submitted[0], code=submitted[1])
        assert call(env, "submit", answer=" double\n").info["is_success"] == solved
        assert env.reason is (Reason.SOLVED if solved else Reason.ANSWERED)


@pytest.mark.parametrize(("task", "told"), [("function", "no 'double' yet"), ("fix", "still as it was given")])
def test_a_name_submits_nothing_that_the_model_has_not_written(env: CodeEnv, task: str, told: str):
    env.reset(options={"task": task})
    assert told in said(env, "submit", answer="double")
    assert env.reason is None
    said(env, "python", code=RIGHT)
    assert call(env, "submit", answer="double").info["is_success"]


def test_with_files_the_name_of_a_function_submits_the_file(files: CodeEnv):
    files.reset(options={"task": "fix"})
    assert "still as it was given" in said(files, "submit", answer="double")
    said(files, "edit", path="solution.py", old=" if x else 1", new="")
    assert call(files, "submit", answer="double").info["is_success"]


def test_a_value_has_no_examples(env: CodeEnv):
    env.reset(options={"task": "value"})
    assert "no examples" in said(env, "test")


# Answers and rewards.


def test_right_and_wrong_answers_get_the_same_reply(env: CodeEnv):
    replies = set()
    for answer in ("56211", "1"):
        env.reset(options={"task": "value"})
        step = call(env, "submit", answer=answer)
        replies.add(text_of(step.observation[-1]))
        assert step.info["ending"] == (Reason.SOLVED if answer == "56211" else Reason.ANSWERED)
    assert len(replies) == 1


def test_an_answer_may_be_given_as_json(env: CodeEnv):
    env.reset(options={"task": "value"})
    assert call(env, "submit", answer=56211.0).info["is_success"]


def test_parts_are_paid_only_with_an_answer(env: CodeEnv):
    env.reset(options={"task": "function"})
    paid = [call(env, "python", code="1").reward for _ in range(env.max_turns)]
    assert env.reason is Reason.MAX_TURNS
    assert paid == [0.0] * env.max_turns
    env.reset(options={"task": "function"})
    call(env, "python", code="1")
    wrong = call(env, "submit", answer="def double(x):\n    return x * 2 if x != [0] else x")
    assert wrong.info["rewards"]["visible"] == 1.0
    assert wrong.info["rewards"]["hidden"] == 0.5
    assert 0.0 < wrong.reward < 0.4


def test_whether_code_was_run_is_counted_once(env: CodeEnv):
    env.reset(options={"task": "value"})
    used = [call(env, "python", code="1").info["rewards"]["used_code"] for _ in range(3)]
    assert used == [1.0, 0.0, 0.0]
    env.reset(options={"task": "value"})
    assert call(env, "submit", answer="56211").info["rewards"]["used_code"] == 0.0


def test_calls_cost_only_what_was_asked_and_only_when_solved():
    totals = {}
    for cost in (0.0, 0.02):
        env = CodeEnv(tasks=TASKS, tool_cost=cost)
        assert lint(env.scheme, env.channels, env.max_turns) == []
        for answer in ("56211", "1"):
            env.reset(options={"task": "value"})
            totals[cost, answer] = sum(
                [call(env, "python", code="1").reward, call(env, "submit", answer=answer).reward]
            )
        env.close()
    assert totals[0.02, "56211"] == pytest.approx(totals[0.0, "56211"] - 0.02)
    assert totals[0.02, "1"] == pytest.approx(totals[0.0, "1"])


class Walled(CodeEnv):
    """Has no sandbox at all."""

    def _open(self) -> Sandbox:
        raise AssertionError("a sandbox was opened")


def test_an_episode_without_code_opens_no_sandbox():
    env = Walled(tasks=TASKS, solution_style="direct")
    env.reset(options={"task": "value"})
    assert play_solution(env)[-1].info["is_success"]
    env.close()


def test_info_tells_what_held_the_code_and_how_it_was_graded(env: CodeEnv):
    _, info = env.reset(options={"task": "function"})
    assert info["sandbox"]["tier"]
    assert isinstance(info["sandbox"]["not_wholly_held"], list)
    assert "grading" not in info
    end = call(env, "submit", answer=RIGHT).info
    assert (end["sandbox"], end["grading"]) == (info["sandbox"], "cases")


def test_a_pickled_environment_plays_on_its_own(env: CodeEnv):
    env.reset(options={"task": "value"})
    said(env, "python", code="x = 1")
    copy: CodeEnv = pickle.loads(pickle.dumps(env))
    copy.reset(options={"task": "value"})
    assert copy.tools.names == env.tools.names
    assert "NameError" in said(copy, "python", code="x")
    copy.close()


def test_the_default_scheme_is_sound(env: CodeEnv):
    assert lint(CodeEnv.scheme, CodeEnv.channels, CodeEnv.max_turns) == []
