"""Old observations and reasoning are cut; the task, the latest page and the policy's own messages stay."""

from __future__ import annotations

from typing import Any

from agentgym.core.history import drop_reasoning, shorten_observations
from agentgym.core.messages import Message, ToolCall, assistant, system, text_of, tool_result, user, with_pictures

PAGE = "x" * 1_000
OBSERVATIONS = ("user", "tool")


def conversation(turns: int) -> list[Message]:
    messages: list[Message] = [system("rules " * 100), user(f"Buy a hose.\n\n{PAGE}")]
    for turn in range(turns):
        messages += [assistant("y" * 500), tool_result(ToolCall("click", {}, str(turn)), f"{turn} {PAGE}")]
    return messages


def test_the_latest_observations_stay_whole():
    messages = conversation(4)
    for keep in range(6):
        short = shorten_observations(messages, keep=keep, max_chars=20)
        pairs = [(a, b) for a, b in zip(short, messages, strict=True) if b.get("role") in OBSERVATIONS]
        assert [a == b for a, b in pairs] == [False] * (5 - min(keep, 5)) + [True] * min(keep, 5)
        assert all(len(text_of(a)) < 80 and a.get("tool_call_id") == b.get("tool_call_id") for a, b in pairs if a != b)
        assert text_of(short[1]).startswith("Buy a hose.\n\nxxx")
    assert messages == conversation(4)


def test_a_cut_observation_states_its_lost_length_and_the_task_stays():
    page = user("y" * 50 + "\n\n" + "z" * 50)  # an empty line is a part of it, as it is not the first
    task = user("Buy a hose.\n\n" + "x" * 50)
    short = shorten_observations([task, assistant("a"), page, assistant("b"), user("c")], max_chars=10)
    assert text_of(short[0]) == "Buy a hose.\n\n" + "x" * 10 + "… [40 characters left out]"
    assert text_of(short[2]) == "y" * 10 + "… [92 characters left out]"
    assert shorten_observations([task], keep=0, max_chars=10) == short[:1]
    fitting = [user("Buy a hose."), assistant("a"), user("p" * 30), assistant("b"), user("now")]
    assert shorten_observations(fitting, max_chars=30) == fitting
    [_, _, cut, _, latest] = shorten_observations(
        [task, assistant("a"), user("o" * 300), assistant("b"), user("n" * 300)]
    )
    assert (text_of(cut), text_of(latest)) == ("o" * 200 + "… [100 characters left out]", "n" * 300)


def test_only_observations_are_cut_and_lose_their_pictures():
    note: Any = {"role": "developer", "content": "t" * 500}
    messages = [system("s" * 500), user("task"), assistant("a" * 500), note, system("m" * 500), user("c")]
    assert shorten_observations(messages, max_chars=10) == messages
    messages = [user("task"), assistant("a"), with_pictures(user("page"), (b"png",)), assistant("b"), user("c")]
    assert shorten_observations(messages)[2] == user("page")


def test_earlier_reasoning_can_be_dropped():
    call = {"function": {"name": "stop", "arguments": {"why": "a"}}}
    messages: Any = [
        {"role": "user", "content": "<think>Mine.</think> Go."},
        {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nSo."},
        {"role": "assistant", "content": "Opened before.\n</think>\nSo.", "reasoning_content": "Hm."},
        {"role": "assistant", "content": "<think>Only.</think>", "tool_calls": [call]},
        {"role": "assistant", "content": "<think>Only.</think>"},
        {"role": "assistant", "content": "<think>Never closed"},
    ]
    short = drop_reasoning(messages)
    texts = [messages[0]["content"], "So.", "So.", "", "<think>Only.</think>", "<think>Never closed"]
    assert [message.get("content") for message in short] == texts
    assert not any("reasoning_content" in message for message in short)
    assert short[3].get("tool_calls") == [call]
    assert "reasoning_content" in messages[2]
