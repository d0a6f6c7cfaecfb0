"""Turns plans of tasks into tool calls: a step names an element by role and name, a call by its ref in the view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.envs.web.demonstration import CLICK, END, TYPE, Act
from agentgym.errors import TaskError
from agentgym.messages import ToolCall
from agentgym.tools.browser import PageError, View, ViewNode

Step = Mapping[str, Any]


def call_for(step: Step, view: View) -> ToolCall:
    """Return the call that takes a step of a plan on the page that `view` shows. Raises `TaskError`."""
    do = step["do"]
    if do == "click":
        return ToolCall("click", {"ref": _node(step, view).ref})
    if do == "fill":
        return ToolCall("type", {"ref": _node(step, view).ref, "text": step["text"]})
    if do == "select":
        return ToolCall("select", {"ref": _node(step, view).ref, "option": step["value"]})
    if do == "hover":
        return ToolCall("hover", {"ref": _node(step, view).ref})
    if do == "press":
        return ToolCall("press", {"key": step["key"]})
    if do == "goto":
        return ToolCall("goto", {"address": step["path"]})
    if do == "dialog":
        return ToolCall("dialog", {"accept": step["accept"], "text": step.get("text", "")})
    if do == "answer":
        return ToolCall("answer", {"text": step["text"]})
    raise TaskError(f"a plan has a step of an unknown kind: {do!r}")


def act_of(call: ToolCall, view: View | None) -> Act:
    """Return a call in the form of demonstrations."""
    node = view.node(call.arguments["ref"]) if view is not None and "ref" in call.arguments else None
    name = "" if node is None else node.name
    if call.name == "click":
        return Act(CLICK, name)
    if call.name in ("type", "select"):
        return Act(TYPE, name, str(call.arguments.get("text", call.arguments.get("option", ""))))
    return Act(END if call.name in ("answer", "finish") else call.name)


def act_shown(step: Step) -> Act:
    """Return a step of a plan in the form of demonstrations."""
    name = str(step.get("name", ""))
    if step["do"] == "click":
        return Act(CLICK, name)
    if step["do"] in ("fill", "select"):
        return Act(TYPE, name, str(step.get("text", step.get("value", ""))))
    return Act(END if step["do"] == "answer" else str(step["do"]))


def takes(call: ToolCall, step: Step, view: View) -> bool:
    """Whether a call takes exactly that step, with all its arguments. Answers are graded elsewhere."""
    if step["do"] == "answer":
        return False
    try:
        expected = call_for(step, view)
    except TaskError:
        return False
    return call.name == expected.name and expected.arguments.items() <= call.arguments.items()


def _node(step: Step, view: View) -> ViewNode:
    try:
        return view.find(step["role"], step.get("name"), step.get("nth", 0), step.get("within"))
    except PageError as problem:
        raise TaskError(f"a plan cannot continue: {problem}. The page:\n{view.text[:2000]}") from problem
