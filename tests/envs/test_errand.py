"""Errand: chats are easy, and only the gate keeps them from paying more than the goal."""

from __future__ import annotations

import pytest

from agentgym.core.rewards import lint
from agentgym.envs.errand import ErrandEnv
from tests.played import call, said


def errand(scheme: str = "default", difficulty: int = 1) -> ErrandEnv:
    env = ErrandEnv(scheme=scheme, difficulty=difficulty)
    env.reset(options={"split": "train", "index": 0})
    return env


def paid(env: ErrandEnv, *calls: tuple[str, str]) -> float:
    """Return the total reward of calls, given as a name and its argument, if it has one."""
    arguments = {"fetch": "name", "deliver": "house"}
    return sum(call(env, name, **({arguments[name]: word} if word else {})).reward for name, word in calls)


def other(env: ErrandEnv) -> tuple[str, str]:
    """Return somebody else in town, and their house."""
    return next(pair for pair in env.task.data["houses"].items() if pair[0] != env.task.gold["name"])


def test_only_the_right_parcel_in_the_right_house_solves_the_task():
    task, wrong = errand().task, other(errand())
    name, house = task.gold["name"], task.gold["house"]
    for parcel, destination, solved in ((name, house, True), (name, wrong[1], False), (wrong[0], house, False)):
        env = errand()
        assert said(call(env, "fetch", name=parcel.lower())) == f"It goes to {task.data['houses'][parcel]} House."
        result = call(env, "deliver", house=destination)
        assert (result.terminated, result.info["is_success"]) == (True, solved)


def test_chats_pay_once_in_solved_episodes_unless_the_gate_is_removed():
    gold, chat = errand().task.gold, ("chat", "")
    moves = [("fetch", gold["name"]), ("deliver", gold["house"])]
    assert paid(errand(), *[chat] * 8) == 0.0
    assert paid(errand(), *moves) == pytest.approx(2.0)
    assert paid(errand(), *[chat] * 3, *moves) == pytest.approx(2.0)
    assert paid(errand("d_ra"), *[chat] * 8) == pytest.approx(6.4)
    assert paid(errand("d_ra"), *[chat] * 6, *moves) == pytest.approx(6.0)
    assert "'chatted' is cheap" in " ".join(lint(ErrandEnv.schemes["d_ra"], ErrandEnv.channels, ErrandEnv.max_turns))
