"""Environments for tests of MCP servers, which make them by name."""

from __future__ import annotations

from agentgym.core.messages import Pictured
from agentgym.core.toolset import tool
from tests.counter_env import Counter
from tests.interop.notes_server import PNG


class Shown(Counter):
    """A counter that shows a picture, and responds to text."""

    @tool
    def look(self) -> Pictured:
        """Look at the count."""
        return Pictured("A dot:", (PNG,))

    def respond(self, text: str) -> str:
        return f"You said: {text}"


class Unstartable(Counter):
    """An environment whose episodes do not begin."""

    def start(self, task: object) -> None:
        raise OSError("no room")
