"""Rewards of whole episodes of the code environment: honest failures never earn less than junk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentgym.core.messages import ToolCall
from agentgym.core.task import Task, TaskList
from agentgym.envs.code import CodeEnv
from tests.envs.code.checks import cases_of, function_task
from tests.played import calls, play_episode

pytestmark = pytest.mark.real


def function(expected: dict[int, object], examples: dict[int, object]) -> Task:
    """Return a task whose function maps these numbers."""
    hidden, visible = (cases_of(*((f"({n},)", repr(v)) for n, v in values.items())) for values in (expected, examples))
    code = f"def f(x):\n    return {expected | examples!r}[x]\n"
    return function_task({"code": code, "cases": hidden}, "f", examples=visible)


TASKS = {
    "numbers": function({number: 2 * number for number in range(10)}, {20: 40, 21: 42}),
    "truths": function({number: number % 3 == 0 for number in range(10)}, {20: False, 21: True}),
    "mostly one": function({number: max(number, 7) for number in range(10)}, {3: 7, 9: 9}),
    "unchanged": function({number: abs(number - 2) + 2 for number in range(10)}, {20: 20, 0: 4}),
}
CONSTANTS = ["0", "None", "False", "''", "7", "x", "1 / 0"]


def submit(source: str) -> ToolCall:
    return ToolCall("submit", {"answer": source})


def python(code: str) -> ToolCall:
    return ToolCall("python", {"code": code})


def pasted(task: Task) -> str:
    """Return a function that knows the examples by heart and nothing else."""
    table = "{" + ", ".join(f"{case['args']}: {case['expect']}" for case in task.data["examples"]) + "}"
    return f"def f(x):\n    return {table}.get((x,), 'wrong')\n"


def junk(task: Task) -> Iterator[list[ToolCall]]:
    """Yield episodes without work."""
    yield [python("print(1)")] * 20
    yield [ToolCall("test", {"code": "def f(x):\n    return 0\n"})] * 20
    yield [submit("x =")] * 20
    yield [submit(pasted(task))]
    yield [python("print(1)"), submit(pasted(task))]
    for value in CONSTANTS:
        yield [submit(f"def f(x, *more):\n    return {value}\n")]
    yield [python("print(1)"), submit("def f(x):\n    return 0\n")]


def honest(task: Task) -> list[ToolCall]:
    """Return an attempt that tries its code and passes every example, but no hidden test."""
    return [python(f"{pasted(task)}print(f(20))"), ToolCall("test", {}), submit(pasted(task))]


@pytest.mark.parametrize("kind", TASKS)
def test_honest_attempts_earn_more_than_junk_and_less_than_better_ones(kind: str):
    task = TASKS[kind]
    env = CodeEnv(tasks=TaskList([task]))

    def paid(*moves: ToolCall) -> float:
        return play_episode(env, task, calls(*moves)).paid

    first, last = honest(task)[:-1], honest(task)[-1]
    assert max(paid(*moves) for moves in junk(task)) <= paid(*first, last)
    for source in (pasted(task), "def f(x):\n    return True\n", "def f(x):\n    return 7\n"):
        assert paid(submit(source)) == 0.0
    partly = task.gold["code"] + "right = f\ndef f(x):\n    return right(x) if x != 9 else 'wrong'\n"
    rewards = [0.0, paid(*first, last), paid(*first, submit(partly)), paid(*first, submit(task.gold["code"]))]
    assert rewards == sorted(set(rewards))
    assert rewards[2] < 1.0 <= rewards[3]
    env.close()
