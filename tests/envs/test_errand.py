"""Errand: chats are easy, and only the gate keeps them from paying more than the goal."""

from __future__ import annotations

import pytest

from agentgym.core.messages import ToolCall
from agentgym.core.rewards import lint
from agentgym.envs.errand import PEOPLE, ErrandEnv
from tests.played import call, said
from tests.refusals import not_refused


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


@pytest.mark.parametrize("difficulty", PEOPLE)
def test_the_difficulty_is_the_number_of_people_in_town(difficulty: int):
    task = errand(difficulty=difficulty).task
    names = list(task.data["houses"])
    assert len(names) == PEOPLE[difficulty]
    assert task.prompt.startswith(f"In town: {', '.join(names)}.")
    assert task.gold["house"] == task.data["houses"][task.gold["name"]]


def test_only_the_right_parcel_in_the_right_house_solves_the_task():
    task, wrong = errand().task, other(errand())
    name, house = task.gold["name"], task.gold["house"]
    for parcel, destination, solved in ((name, house, True), (name, wrong[1], False), (wrong[0], house, False)):
        env = errand()
        assert said(call(env, "fetch", name=parcel.lower())) == f"It goes to {task.data['houses'][parcel]} House."
        result = call(env, "deliver", house=destination)
        assert (result.terminated, result.info["is_success"]) == (True, solved)


def test_mistakes_are_explained_and_do_not_end_the_episode():
    env = errand()
    result = call(env, "deliver", house=env.task.gold["house"])
    assert (said(result), result.terminated) == ("Error: You carry no parcel. Fetch one first.", False)
    answer = said(call(env, "fetch", name="Zoe"))
    assert answer == f"Error: There is no parcel for 'Zoe' here. Choose from: {', '.join(env.task.data['houses'])}."


def test_chats_pay_only_in_solved_episodes_unless_the_gate_is_removed():
    gold, chat = errand().task.gold, ("chat", "")
    moves = [("fetch", gold["name"]), ("deliver", gold["house"])]
    assert paid(errand(), *[chat] * 8) == 0.0
    assert paid(errand(), *moves) == pytest.approx(1.2)
    assert paid(errand(), chat, *moves) == pytest.approx(2.0)
    assert paid(errand("d_ra"), *[chat] * 8) == pytest.approx(6.4)
    assert paid(errand("d_ra"), *[chat] * 6, *moves) == pytest.approx(6.0)
    assert "'chatted' is cheap" in " ".join(lint(ErrandEnv.schemes["d_ra"], ErrandEnv.channels, ErrandEnv.max_turns))


def test_fetching_the_right_parcel_is_paid_once():
    env = errand()
    name = env.task.gold["name"]
    assert paid(env, ("fetch", name), ("fetch", other(env)[0]), ("fetch", name)) == pytest.approx(0.2)


def test_the_chatty_solution_chats_first():
    env, tasks = ErrandEnv(solution_style="chatty"), ErrandEnv.default_tasks()
    moves = [list(env.solution(tasks.get("train", index))) for index in range(50)]
    calls = [[move.name for move in episode if isinstance(move, ToolCall)] for episode in moves]
    assert {tuple(names[-2:]) for names in calls} == {("fetch", "deliver")}
    assert {names.count("chat") for names in calls} == set(range(6))
    assert {len(names) for names in calls} == set(range(2, 8))


def test_wrong_arguments_are_refused():
    rows = [
        ({"solution_style": "slow"}, "solution_style"),
        ({"tasks": ErrandEnv.default_tasks(), "difficulty": 1}, "give one or the other"),
        ({"difficulty": 4}, "difficulty"),
    ]
    assert not_refused(lambda arguments: ErrandEnv(**arguments), rows) == []
