"""The web environment for a model that says nothing sensible: whatever it says scrolls the page and shows it again."""

from __future__ import annotations

from typing import Any

from agentgym.envs.web import WebEnv


class GazingEnv(WebEnv):
    """Shows a fresh screenshot in every turn."""

    def respond(self, text: str) -> Any:
        return self.scroll("down")


SETTINGS: dict[str, Any] = {
    "sites": ["shop"],
    "screenshots": "plain",
    "offer": ["scroll", "finish"],
    "view_chars": 200,
    "viewport": (320, 240),
    "max_turns": 3,
}
"""Short pages: the tiny model has a token for each byte."""
