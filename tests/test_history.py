"""Old observations are cut; the task, the latest page and what the policy said stay."""

from __future__ import annotations

import asyncio
from typing import Any

from agentgym import make
from agentgym.history import shorten_observations
from agentgym.messages import Message, assistant, system, text_of, tool_result, user, with_pictures
from agentgym.messages import ToolCall as Call
from agentgym.policy import FunctionPolicy
from agentgym.seat import Seat

PAGE = "x" * 1_000


def conversation(turns: int) -> list[Message]:
    said: list[Message] = [system("rules " * 100), user(f"Buy a hose.\n\n{PAGE}")]
    for turn in range(turns):
        said += [assistant("y" * 500), tool_result(Call("click", {}, str(turn)), f"{turn} {PAGE}")]
    return said


def test_only_the_latest_observation_stays_whole():
    messages = conversation(3)
    short = shorten_observations(messages, keep=1, max_chars=20)
    assert [text_of(m) for m in short if m.get("role") in ("system", "assistant")] == [
        text_of(m) for m in messages if m.get("role") in ("system", "assistant")
    ]
    assert short[-1] == messages[-1]
    assert text_of(short[1]).startswith("Buy a hose.\n\nxxx")
    assert [len(text_of(m)) < 80 for m in short if m.get("role") in ("user", "tool")] == [True, True, True, False]
    assert [m.get("tool_call_id") for m in short] == [m.get("tool_call_id") for m in messages]


def test_the_number_kept_is_as_asked():
    messages = conversation(4)
    for keep in range(6):
        short = shorten_observations(messages, keep=keep, max_chars=20)
        whole = [a == b for a, b in zip(short, messages, strict=True) if b.get("role") in ("user", "tool")]
        assert whole == [False] * (5 - min(keep, 5)) + [True] * min(keep, 5)
    assert messages == conversation(4)


def test_what_is_cut_says_how_much_and_what_just_fits_is_not_cut():
    messages = [user("Buy a hose."), assistant("a"), user("p" * 30), assistant("b"), user("now")]
    assert text_of(shorten_observations(messages, max_chars=10)[2]) == "p" * 10 + "… [20 characters left out]"
    assert shorten_observations(messages, max_chars=30) == messages


def test_without_settings_one_observation_and_200_characters_stay():
    messages = [user("task"), assistant("a"), user("o" * 300), assistant("b"), user("n" * 300)]
    short = shorten_observations(messages)
    assert [text_of(m).count("o") for m in short[2:3]] == [200 + "characters left out".count("o")]
    assert short[4] == messages[4]


def test_only_the_first_observation_states_the_task():
    """An empty line in a later one is a part of the page, and what stands before it is cut too."""
    task, page = user("Buy a hose.\n\n" + "x" * 50), user("y" * 50 + "\n\n" + "z" * 50)
    short = shorten_observations([task, assistant("a"), page, assistant("b"), user("c")], max_chars=10)
    assert text_of(short[0]) == "Buy a hose.\n\n" + "x" * 10 + "… [40 characters left out]"
    assert text_of(short[2]) == "y" * 10 + "… [92 characters left out]"


def test_the_task_stays_whole_before_the_policy_has_spoken():
    [short] = shorten_observations([user("Buy a hose.\n\n" + "x" * 50)], keep=0, max_chars=10)
    assert text_of(short) == "Buy a hose.\n\n" + "x" * 10 + "… [40 characters left out]"


def test_only_observations_are_cut():
    """Whatever else there is between two messages of the policy, such as instructions in the middle, stays."""
    told: Any = {"role": "developer", "content": "t" * 500}
    messages = [
        system("s" * 500),
        user("task"),
        assistant("a" * 500),
        told,
        system("m" * 500),
        assistant("b"),
        user("c"),
    ]
    assert shorten_observations(messages, max_chars=10) == messages


def test_pictures_of_old_observations_are_dropped():
    seen = with_pictures(user("page"), (b"png",))
    messages = [user("task"), assistant("a"), seen, assistant("b"), user("c")]
    assert shorten_observations(messages)[2] == user("page")
    assert shorten_observations(messages, max_chars=4)[2] == user("page"), "what just fits is not cut"


def test_a_policy_is_given_the_shortened_conversation():
    given: list[int] = []
    policy = FunctionPolicy("counts", lambda messages: given.append(len(messages)) or "hm", lambda all: all[-1:])
    env = make("guess")
    observation, _ = env.reset(seed=0)
    player = policy.player(Seat.at(env, 0))
    asyncio.run(player.act(observation))
    asyncio.run(player.act(env.step("hm").observation))
    assert given == [1, 1]
