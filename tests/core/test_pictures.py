"""Pictures from tools and hooks are content blocks after the text, in every dialect."""

from __future__ import annotations

import base64
import json

import pytest

from agentgym import Env, GeneratedTasks, Reason, Task, tool
from agentgym.core.dialects import DIALECTS
from agentgym.core.messages import Pictured, ToolCall, pictures_in, text_of

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")


class WindowEnv(Env):
    """Look out, then say what is there."""

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("window", lambda split, index: Task(f"window/{split}/{index}", split, "?"), {"train": 1})

    def start(self, task: Task) -> Pictured:
        return Pictured("What is outside?", (PNG,))

    def respond(self, text: str) -> Pictured:
        return Pictured(f"{text}?", (PNG,))

    def aside(self, text: str) -> Pictured:
        return Pictured("Here is more.", (PNG, PNG))

    @tool(max_chars=60)
    def look(self, times: int) -> Pictured:
        """Look out of the window.

        Args:
            times: How often.
        """
        return Pictured("a view " * 100, (PNG,) * times)

    @tool
    def answer(self, text: str) -> str:
        """State what is there.

        Args:
            text: The answer.
        """
        self.finish(Reason.ANSWERED)
        return "done"


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {"template"}))
def test_pictures_of_a_tool_follow_its_bounded_text(dialect: str):
    env = WindowEnv(dialect=dialect)
    opening, _ = env.reset(seed=0)
    assert (text_of(opening[-1]), pictures_in(opening[-1])) == ("What is outside?", 1)
    message = {"role": "assistant", "content": "", "tool_calls": [ToolCall("look", {"times": 2}).to_dict()]}
    [result] = env.step(message).observation
    content = result.get("content")
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["text", "image", "image"]
    assert base64.b64decode(content[1]["base64"]) == PNG
    assert "[cut: 700 characters" in text_of(result)
    assert json.loads(json.dumps(result)) == result


def test_respond_and_aside_may_return_pictures():
    env = WindowEnv()
    env.reset(seed=0)
    [answer] = env.step("Hello").observation
    assert (answer.get("role"), text_of(answer), pictures_in(answer)) == ("user", "Hello?", 1)
    message = {"role": "assistant", "content": "Hm.", "tool_calls": [ToolCall("look", {"times": 0}).to_dict()]}
    answer = env.step(message).observation[-1]
    assert (answer.get("role"), text_of(answer), pictures_in(answer)) == ("user", "Here is more.", 2)
