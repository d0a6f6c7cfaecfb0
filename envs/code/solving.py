"""The reference policy: runs the gold code, tries a function on its examples, and submits the answer."""

from __future__ import annotations

from agentgym.engine.steps import Solution
from agentgym.envs.code.calls import call_source
from agentgym.messages import ToolCall
from agentgym.task import Task
from agentgym.toolset import Toolset

SOLUTION_FILE = "solution.py"
"""The file of the function, if the environment offers file tools."""


def solve(task: Task, style: str, tools: Toolset) -> Solution:
    """Yield the calls that solve `task` with the available tools."""
    if task.data["kind"] in ("function", "fix"):
        yield from _write_function(task, style, tools)
        return
    if style != "direct" and "python" in tools:
        yield ToolCall("python", {"code": task.gold["code"]})
    yield ToolCall("submit", {"answer": task.gold["answer"]})


def _write_function(task: Task, style: str, tools: Toolset) -> Solution:
    """Yield the calls that write a function, try it and submit it, repeating the source only where necessary."""
    code, examples = task.gold["code"], task.data.get("examples", ())
    answer, tests = code, style == "full" and "test" in tools and bool(examples)
    if style == "full" and "write" in tools:
        if task.data["kind"] == "fix":
            yield ToolCall("view", {"path": SOLUTION_FILE})
        yield ToolCall("write", {"path": SOLUTION_FILE, "content": code})
        answer = SOLUTION_FILE
    elif style != "direct" and "python" in tools:
        trial_call = f"\n\nprint({call_source(task.data['entry_point'], examples[0]['args'])})\n" if examples else "\n"
        yield ToolCall("python", {"code": code if tests else code.rstrip("\n") + trial_call})
        answer = code if "write" in tools else task.data["entry_point"]
    if tests:
        yield ToolCall("test", {"code": code} if answer == code else {})
    yield ToolCall("submit", {"answer": answer})
