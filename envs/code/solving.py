"""The reference policy: runs the gold code, tries it on an example, and submits the answer."""

from __future__ import annotations

from agentgym.engine.steps import Solution
from agentgym.envs.code.calls import call_source
from agentgym.messages import ToolCall
from agentgym.task import Task
from agentgym.toolset import Toolset

SOLUTION_FILE = "solution.py"
"""The file of the function, if there are file tools."""


def solve(task: Task, style: str, tools: Toolset) -> Solution:
    """Yield the calls that solve `task` with the available tools."""
    code, examples = task.gold["code"], task.data.get("examples", ())
    function = task.data["kind"] in ("function", "fix")
    in_file = function and "write" in tools and style == "full"
    if in_file:
        if task.data["kind"] == "fix":
            yield ToolCall("view", {"path": SOLUTION_FILE})
        yield ToolCall("write", {"path": SOLUTION_FILE, "content": code})
    elif style != "direct" and "python" in tools:
        tried = f"\n\nprint({call_source(task.data['entry_point'], examples[0]['args'])})\n" if examples else ""
        yield ToolCall("python", {"code": code.rstrip("\n") + tried})
    if style == "full" and function and "test" in tools and examples:
        yield ToolCall("test", {})
    if not function:
        yield ToolCall("submit", {"answer": task.gold["answer"]})
    else:
        yield ToolCall("submit", {"answer": SOLUTION_FILE if in_file else code})
