"""The schemes, figures and arguments of the code environment. Needs no sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.core.rewards import lint
from agentgym.core.task import Task, TaskList
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.envs.code import CodeEnv
from tests.refusals import not_refused

SOUND = [name for name, scheme in CodeEnv.schemes.items() if not scheme.allow_unsound]
TASKS = TaskList([Task("value", "train", "?", data={"kind": "value", "needs_code": True}, gold={"answer": "1"})])
PAID: list[tuple[list[dict[str, float]], float]] = [
    ([{"outcome": 1.0}], 1.0),
    ([{"outcome": 1.0, "format": 1.0, "ran": 1.0}, {"format": 1.0}], 1.0 + 0.05 + 0.025),
    ([{"refused": 1.0}, {"refused": 1.0}, {"refused": 1.0}, {"outcome": 1.0}], 0.9),
    ([{"worked": 1.0, "visible": 1.0, "progress": 0.5, "submitted": 1.0}], 0.25),
    ([{"worked": 1.0, "visible": 1.0, "progress": 0.0, "submitted": 1.0}], 0.05),
    ([{"worked": 1.0, "visible": 1.0, "progress": 0.5, "format": 1.0, "ran": 1.0}, {"refused": 1.0}], 0.0),
    ([{"format": 1.0, "ran": 1.0, "refused": 1.0, "submitted": 1.0, "used_code": 1.0, "tool_cost": 1.0}], 0.0),
]


def test_the_default_scheme_pays_what_it_states():
    assert [CodeEnv.scheme.total(turns) for turns, _ in PAID] == [pytest.approx(paid) for _, paid in PAID]


def test_every_scheme_is_sound_for_episodes_of_any_length():
    for name in SOUND:
        for max_turns in (1, 2, 8, 100):
            assert lint(CodeEnv.schemes[name], CodeEnv.channels, max_turns) == []
    assert CodeEnv.schemes["outcome"].weights == {"outcome": 1.0}
    control = CodeEnv.schemes["d_ra"]
    assert (control.weights, control.gates, control.allow_unsound) == (CodeEnv.scheme.weights, (), True)


def test_tool_calls_cost_only_solved_episodes():
    env = CodeEnv(tasks=TASKS, tool_cost=0.02)
    assert lint(env.scheme, env.channels, env.max_turns) == []
    assert env.scheme.total([{"tool_cost": 1.0}, {"outcome": 1.0}]) == pytest.approx(1.0 - 0.02)
    assert env.scheme.total([{"tool_cost": 1.0}, {"outcome": 0.0}]) == 0.0


def test_use_of_code_is_measured_by_whether_the_task_needs_it():
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


def test_wrong_arguments_are_refused_with_the_right_ones():
    rows: list[tuple[dict[str, Any], str]] = [
        ({"tools": "pyton"}, "python, bash, files, test"),
        ({"limits": {"wall": 1}}, "wall_s"),
        ({"call_s": 0}, "call_s"),
        ({"solution_style": "long"}, "full, short, direct"),
        ({"tool_cost": -1.0}, "at least 0"),
        ({"tool_cost": 0.5}, "unsound"),
        ({"tasks": TASKS, "difficulty": 2}, "difficulty"),
        ({"file": "x", "kinds": ["fix"]}, "kinds"),
    ]
    assert not_refused(lambda arguments: CodeEnv(**arguments), rows) == []
