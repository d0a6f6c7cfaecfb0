"""Errand: the goal takes work, chats are easy, and only the gate keeps chatting from paying more than the goal."""

from __future__ import annotations

import pytest

from agentgym.engine.steps import StepResult
from agentgym.envs.errand import PEOPLE, ErrandEnv
from agentgym.errors import UsageError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.rewards import lint


def begun(scheme: str = "default", difficulty: int = 1) -> ErrandEnv:
    env = ErrandEnv(scheme=scheme, difficulty=difficulty)
    env.reset(options={"split": "train", "index": 0})
    return env


def do(env: ErrandEnv, tool: str, /, **arguments: str) -> StepResult:
    return env.step(assistant("", [ToolCall(tool, arguments)]))


def paid(env: ErrandEnv, *calls: tuple[str, str]) -> float:
    """What an episode of these calls earns: a name and its one argument, or none."""
    arguments = {"fetch": "name", "deliver": "house"}
    return sum(do(env, name, **({arguments[name]: word} if word else {})).reward for name, word in calls)


def others(env: ErrandEnv) -> tuple[str, str]:
    """Somebody else in town, and their house."""
    return next(pair for pair in env.task.data["houses"].items() if pair[0] != env.task.gold["name"])


@pytest.mark.parametrize("difficulty", PEOPLE)
def test_a_level_says_how_many_people_are_in_town(difficulty: int):
    env = begun(difficulty=difficulty)
    names = list(env.task.data["houses"])
    assert len(names) == PEOPLE[difficulty]
    assert env.task.prompt.startswith(f"In town: {', '.join(names)}.")
    assert env.task.gold == {"name": env.task.gold["name"], "house": env.task.data["houses"][env.task.gold["name"]]}


def test_the_right_parcel_in_the_right_house_solves_it():
    env = begun()
    name, house = env.task.gold["name"], env.task.gold["house"]
    assert text_of(do(env, "fetch", name=name.lower()).observation[-1]) == f"It goes to {house} House."
    result = do(env, "deliver", house=house)
    assert (result.terminated, result.info["is_success"]) == (True, True)


def test_a_parcel_in_the_wrong_house_ends_it_unsolved():
    env = begun()
    do(env, "fetch", name=env.task.gold["name"])
    result = do(env, "deliver", house=others(env)[1])
    assert (result.terminated, result.info["is_success"]) == (True, False)


def test_the_parcel_of_another_does_not_count_in_the_right_house():
    env = begun()
    do(env, "fetch", name=others(env)[0])
    assert not do(env, "deliver", house=env.task.gold["house"]).info["is_success"]


def test_nothing_can_be_delivered_with_empty_hands():
    env = begun()
    result = do(env, "deliver", house=env.task.gold["house"])
    assert text_of(result.observation[-1]) == "Error: You carry no parcel. Fetch one first."
    assert not result.terminated


def test_who_is_not_in_town_has_no_parcel():
    env = begun()
    told = text_of(do(env, "fetch", name="Zoe").observation[-1])
    assert told == f"Error: There is no parcel for 'Zoe' here. Choose from: {', '.join(env.task.data['houses'])}."


def test_behind_the_gate_only_the_goal_makes_chats_worth_anything():
    env = begun()
    errand = [("fetch", env.task.gold["name"]), ("deliver", env.task.gold["house"])]
    assert paid(begun(), *[("chat", "")] * 8) == 0.0
    assert paid(begun(), *errand) == pytest.approx(1.2)
    assert paid(begun(), ("chat", ""), *errand) == pytest.approx(2.0)


def test_added_up_directly_chatting_all_day_pays_more_than_any_errand():
    env = begun()
    errand = [("fetch", env.task.gold["name"]), ("deliver", env.task.gold["house"])]
    assert paid(begun("d_ra"), *[("chat", "")] * 8) == pytest.approx(6.4)
    assert paid(begun("d_ra"), *[("chat", "")] * 6, *errand) == pytest.approx(6.0)
    assert "'chatted' is cheap" in " ".join(lint(ErrandEnv.schemes["d_ra"], ErrandEnv.channels, ErrandEnv.max_turns))


def test_fetching_the_right_parcel_is_paid_once():
    env = begun()
    name = env.task.gold["name"]
    assert paid(env, ("fetch", name), ("fetch", others(env)[0]), ("fetch", name)) == pytest.approx(0.2)


def test_the_chatty_solution_chats_first():
    env, tasks = ErrandEnv(solution_style="chatty"), ErrandEnv.default_tasks()
    moves = [list(env.solution(tasks.get("train", index))) for index in range(50)]
    calls = [[move.name for move in episode if isinstance(move, ToolCall)] for episode in moves]
    assert {tuple(names[-2:]) for names in calls} == {("fetch", "deliver")}
    assert {names.count("chat") for names in calls} == set(range(6))
    assert {len(names) for names in calls} == set(range(2, 8))


def test_wrong_arguments_are_refused():
    with pytest.raises(UsageError, match="solution_style"):
        ErrandEnv(solution_style="slow")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give one or the other"):
        ErrandEnv(tasks=ErrandEnv.default_tasks(), difficulty=1)
    with pytest.raises(UsageError, match="difficulty"):
        ErrandEnv(difficulty=4)
