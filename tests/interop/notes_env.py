"""An environment whose tools are those of an MCP server, which is started for each episode."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool
from agentgym.interop.envs.mcp import McpEnv, McpServer

SERVER = Path(__file__).parent / "notes_server.py"
ONLY = ("titles", "read", "write")


def _task(split: str, index: int) -> Task:
    first, second = 3 + 7 * index % 50, 5 + 11 * index % 60 + (100 if split == "test" else 0)
    return Task(
        id=f"notes/{split}/{index}",
        split=split,
        prompt="Two notes hold numbers. Write their sum into the note 'sum', then call done.",
        data={"notes": {"apples": str(first), "pears": str(second)}},
        gold={"sum": str(first + second)},
    )


class NotesEnv(McpEnv):
    """Add the numbers in two notes, which an MCP server keeps: a program for each episode, or the one at a URL."""

    max_turns = 8

    def __init__(
        self,
        *,
        url: str | None = None,
        call_s: float = 60.0,
        only: Sequence[str] | None = ONLY,
        mark: str = "",
        **kwargs: Any,
    ):
        self._url, self._call_s, self._only, self._mark = url, call_s, only, mark
        super().__init__(**kwargs)

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("notes", _task, {"train": 4, "test": 2})

    def mcp_servers(self, task: Task) -> Sequence[McpServer]:
        notes, limits = json.dumps(task.data["notes"]), {"call_s": self._call_s, "only": self._only}
        if self._url is not None:
            return [McpServer(url=f"{self._url}?notes={quote(notes)}", **limits)]
        return [McpServer([sys.executable, str(SERVER), self._mark], env={"NOTES": notes}, **limits)]

    @tool
    def done(self) -> str:
        """Say that the sum is written. This ends the episode."""
        self.finish(Reason.ANSWERED)
        return "The episode has ended."

    def grade(self) -> dict[str, float]:
        try:
            return {OUTCOME: float(self.call_server("read", title="sum") == self.task.gold["sum"])}
        except ToolError:
            return {OUTCOME: 0.0}

    def solution(self, task: Task) -> Solution:
        yield ToolCall("titles", {})
        numbers = []
        for title in task.data["notes"]:
            numbers.append(int(text_of((yield ToolCall("read", {"title": title}))[-1])))
        yield ToolCall("write", {"title": "sum", "text": str(sum(numbers))})
        yield ToolCall("done", {})
