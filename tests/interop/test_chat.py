"""Observations as chat endpoints take them: pictures stand where endpoints allow them, and nothing else changes."""

from __future__ import annotations

import base64

from agentgym.core.messages import Message, ToolCall, system, tool_result, user, with_pictures
from agentgym.interop.chat import sendable
from tests.interop.probe_env import PNG

SEEN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}


def test_text_stays_as_it_is_and_pictures_of_tools_follow_all_results_of_a_turn():
    messages: list[Message] = [system("Rules."), with_pictures(user("Look."), [PNG])]
    messages += [
        with_pictures(tool_result(ToolCall("look", {}, f"call_{number}"), "There."), [PNG]) for number in range(2)
    ]
    rules, opening, *results, pictures = sendable(messages)
    assert rules == messages[0]
    assert opening["content"] == [{"type": "text", "text": "Look."}, SEEN]
    assert results == [{"role": "tool", "tool_call_id": f"call_{number}", "content": "There."} for number in range(2)]
    assert pictures == {"role": "user", "content": [SEEN, SEEN]}
