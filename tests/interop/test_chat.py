"""Observations as chat endpoints take them: pictures stand where endpoints allow them, and nothing else changes."""

from __future__ import annotations

import base64

from agentgym.core.messages import Message, ToolCall, system, tool_result, user, with_pictures
from agentgym.interop.chat import sendable
from tests.interop.probe_env import PNG

SEEN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}


def test_text_stays_as_it_is():
    messages = [system("Rules."), user("Go."), tool_result(ToolCall("look", {}, "call_1"), "There.")]
    sent = sendable(messages)
    assert sent[:2] == messages[:2]
    assert sent[2] == {"role": "tool", "tool_call_id": "call_1", "content": "There."}


def test_pictures_of_tools_follow_all_results_of_a_turn_in_one_message():
    results: list[Message] = [
        with_pictures(tool_result(ToolCall("look", {}, f"call_{number}"), "There."), [PNG]) for number in range(2)
    ]
    sent = sendable(results)
    assert [message["role"] for message in sent] == ["tool", "tool", "user"]
    assert sent[-1]["content"] == [SEEN, SEEN]


def test_a_picture_of_the_opening_stands_beside_its_text():
    assert sendable([with_pictures(user("Look."), [PNG])])[0]["content"] == [{"type": "text", "text": "Look."}, SEEN]
