"""What the schemes of the code environment pay: honest work that fails never less than junk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentgym.envs.code import CodeEnv
from agentgym.messages import ToolCall, assistant
from agentgym.rewards import lint
from agentgym.task import Task, TaskList

SOUND = [name for name, scheme in CodeEnv.schemes.items() if not scheme.allow_unsound]


def function(expected: dict[int, object], shown: dict[int, object]) -> Task:
    """A task whose function maps numbers as told."""

    def cases(of: dict[int, object]) -> list[dict[str, str]]:
        return [{"args": f"({number},)", "expect": repr(value)} for number, value in of.items()]

    data = {"kind": "function", "entry_point": "f", "signature": "def f(x):", "examples": cases(shown)}
    code = f"def f(x):\n    return {expected | shown!r}[x]\n"
    return Task(id="f", split="train", prompt="Write f(x).", data=data, gold={"code": code, "cases": cases(expected)})


TASKS = {
    "numbers": function({number: 2 * number for number in range(10)}, {20: 40, 21: 42}),
    "truths": function({number: number % 3 == 0 for number in range(10)}, {20: False, 21: True}),
    "mostly one": function({number: max(number, 7) for number in range(10)}, {3: 7, 9: 9}),
    "unchanged": function({number: abs(number - 2) + 2 for number in range(10)}, {20: 20, 0: 4}),
}
JUNK = ["0", "None", "False", "''", "7", "x", "1 / 0"]


def turns(env: CodeEnv, task: Task, calls: list[ToolCall]) -> list[dict[str, float]]:
    """Play an episode; return what every channel was in every turn."""
    env.reset(options={"task": task})
    found = []
    for call in calls:
        step = env.step(assistant("", [call]))
        found.append(step.info["rewards"])
        if step.terminated or step.truncated:
            break
    return found


def total(env: CodeEnv, task: Task, calls: list[ToolCall]) -> float:
    return env.scheme.total(turns(env, task, calls))


def submit(source: str) -> ToolCall:
    return ToolCall("submit", {"answer": source})


def python(code: str) -> ToolCall:
    return ToolCall("python", {"code": code})


def junk(task: Task) -> Iterator[list[ToolCall]]:
    """Episodes without work."""
    yield [python("print(1)")] * 20
    yield [ToolCall("test", {"code": "def f(x):\n    return 0\n"})] * 20
    yield [submit("x =")] * 20
    yield [submit(pasted(task))]
    yield [python("print(1)"), submit(pasted(task))]
    for value in JUNK:
        yield [submit(f"def f(x, *more):\n    return {value}\n")]
    yield [python("print(1)"), submit("def f(x):\n    return 0\n")]


def pasted(task: Task) -> str:
    """A function that knows the examples by heart and nothing else."""
    shown = "{" + ", ".join(f"{case['args']}: {case['expect']}" for case in task.data["examples"]) + "}"
    return f"def f(x):\n    return {shown}.get((x,), 'wrong')\n"


@pytest.mark.parametrize(
    ("channels", "paid"),
    [
        ([{"outcome": 1.0}], 1.0),
        ([{"outcome": 1.0, "format": 1.0, "ran": 1.0}, {"format": 1.0}], 1.0 + 0.05 + 0.025),
        ([{"refused": 1.0}, {"refused": 1.0}, {"refused": 1.0}, {"outcome": 1.0}], 0.9),
        ([{"worked": 1.0, "visible": 1.0, "progress": 0.5, "submitted": 1.0}], 0.25),
        ([{"worked": 1.0, "visible": 1.0, "progress": 0.0, "submitted": 1.0}], 0.05),
        ([{"worked": 1.0, "visible": 1.0, "progress": 0.5, "format": 1.0, "ran": 1.0}, {"refused": 1.0}], 0.0),
        ([{"format": 1.0, "ran": 1.0, "refused": 1.0, "submitted": 1.0, "used_code": 1.0, "tool_cost": 1.0}], 0.0),
    ],
)
def test_the_default_pays_what_it_says(channels: list[dict[str, float]], paid: float):
    assert CodeEnv.scheme.total(channels) == pytest.approx(paid)


def honest(task: Task) -> list[ToolCall]:
    """An attempt that tries its code and passes every example, but no hidden test."""
    return [python(f"{pasted(task)}print(f(20))"), ToolCall("test", {}), submit(pasted(task))]


@pytest.mark.parametrize("kind", TASKS)
def test_junk_never_earns_more_than_an_honest_attempt_that_fails(kind: str):
    task = TASKS[kind]
    env = CodeEnv(tasks=TaskList([task]))
    worked, rivals = turns(env, task, honest(task)), [turns(env, task, calls) for calls in junk(task)]
    env.close()
    for name in SOUND:
        scheme = CodeEnv.schemes[name]
        assert max(map(scheme.total, rivals)) <= scheme.total(worked)


@pytest.mark.parametrize("kind", TASKS)
def test_copied_examples_and_constants_earn_nothing(kind: str):
    task = TASKS[kind]
    env = CodeEnv(tasks=TaskList([task]))
    for source in (pasted(task), "def f(x):\n    return True\n", "def f(x):\n    return 7\n"):
        assert total(env, task, [submit(source)]) == 0.0
    env.close()


@pytest.mark.parametrize("kind", TASKS)
def test_more_right_results_earn_more(kind: str):
    task = TASKS[kind]
    env = CodeEnv(tasks=TaskList([task]))
    partly = task.gold["code"] + "right = f\ndef f(x):\n    return right(x) if x != 9 else 'wrong'\n"
    paid = [
        0.0,
        total(env, task, honest(task)),
        total(env, task, [*honest(task)[:2], submit(partly)]),
        total(env, task, [*honest(task)[:2], submit(task.gold["code"])]),
    ]
    assert paid == sorted(set(paid))
    assert paid[2] < 1.0 <= paid[3]
    env.close()


def test_a_refused_submission_costs_a_solved_episode():
    task = TASKS["numbers"]
    env = CodeEnv(tasks=TaskList([task]))
    clean = total(env, task, [submit(task.gold["code"])])
    once = total(env, task, [submit("x ="), submit(task.gold["code"])])
    twice = total(env, task, [submit("x ="), submit("x ="), submit(task.gold["code"])])
    assert clean > once > twice >= 1.0
    env.close()


@pytest.mark.parametrize("max_turns", [1, 2, 8, 100])
@pytest.mark.parametrize("name", SOUND)
def test_every_scheme_is_sound_for_episodes_of_any_length(name: str, max_turns: int):
    assert lint(CodeEnv.schemes[name], CodeEnv.channels, max_turns) == []


def test_the_schemes_have_an_outcome_alone_and_an_ungated_control():
    assert CodeEnv.schemes["outcome"].weights == {"outcome": 1.0}
    control = CodeEnv.schemes["d_ra"]
    assert (control.weights, control.gates, control.allow_unsound) == (CodeEnv.scheme.weights, (), True)
