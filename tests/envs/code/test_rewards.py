"""Rewards of whole episodes of the code environment: honest failures never earn less than junk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentgym.envs.code import CodeEnv
from agentgym.messages import ToolCall, assistant
from agentgym.task import Task, TaskList
from tests.envs.code.checks import cases_of, function_task

pytestmark = pytest.mark.real

SOUND = [scheme for scheme in CodeEnv.schemes.values() if not scheme.allow_unsound]


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


def turns(env: CodeEnv, task: Task, calls: list[ToolCall]) -> list[dict[str, float]]:
    """Play an episode; return the channels of every turn."""
    env.reset(options={"task": task})
    channels = []
    for call in calls:
        step = env.step(assistant("", [call]))
        channels.append(step.info["rewards"])
        if step.terminated or step.truncated:
            break
    return channels


def total(env: CodeEnv, task: Task, *calls: ToolCall) -> float:
    return env.scheme.total(turns(env, task, list(calls)))


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
    worked, rivals = turns(env, task, honest(task)), [turns(env, task, calls) for calls in junk(task)]
    for scheme in SOUND:
        assert max(map(scheme.total, rivals)) <= scheme.total(worked)
    for source in (pasted(task), "def f(x):\n    return True\n", "def f(x):\n    return 7\n"):
        assert total(env, task, submit(source)) == 0.0
    partly = task.gold["code"] + "right = f\ndef f(x):\n    return right(x) if x != 9 else 'wrong'\n"
    paid = [
        0.0,
        total(env, task, *honest(task)),
        total(env, task, *honest(task)[:2], submit(partly)),
        total(env, task, *honest(task)[:2], submit(task.gold["code"])),
    ]
    assert paid == sorted(set(paid))
    assert paid[2] < 1.0 <= paid[3]
    env.close()
