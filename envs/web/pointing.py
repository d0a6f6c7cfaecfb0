"""Turns calls on elements into calls on points, so that the same solution plays an environment without refs."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym.base.errors import ScriptFailed
from agentgym.core.engine.steps import Solution
from agentgym.core.messages import Message, ToolCall
from agentgym.tools.browser import BrowserSession

_AT = {"click": "click_at", "double_click": "double_click_at", "hover": "hover_at"}
_MAX_SCROLLS = 20
_EDGE_PX = 6
"""Distance from the left edge of a field: the first part of dates and times is there, and no arrows are."""


def with_points(moves: Solution, session: BrowserSession) -> Solution:
    """Play `moves` with points in place of refs.

    Args:
        moves: A solution that acts on elements of the session's last view.
        session: The session, which reports where the elements are.

    Raises:
        ScriptFailed: An element has no point that can be clicked.
    """
    call = next(moves, None)
    while call is not None:
        observation: list[Message] = []
        for part in _calls(call, session) if isinstance(call, ToolCall) else [call]:
            observation = yield part
        try:
            call = moves.send(observation)
        except StopIteration:
            return


def _calls(call: ToolCall, session: BrowserSession) -> Iterator[ToolCall]:
    """Return the calls on points that do what a call on an element does."""
    if call.name not in (*_AT, "type"):
        yield call
        return
    ref = call.arguments["ref"]
    for _ in range(_MAX_SCROLLS):
        spot = session.spot(ref)
        if not spot["away"]:
            break
        yield ToolCall("scroll", {"direction": spot["away"], "ref": ref})
    else:
        raise ScriptFailed(f"no scrolling shows the element {ref!r}")
    if spot["problem"]:
        raise ScriptFailed(f"the element {ref!r} is {spot['problem']}, so no point of it can be clicked")
    x, y = int(spot["x"]), int(spot["y"])
    if call.name in _AT:
        yield ToolCall(_AT[call.name], {"x": x, "y": y})
        return
    text = call.arguments["text"]
    parted = spot["type"] in ("date", "time")
    if parted or spot["type"] == "number":
        x = int(spot["left"]) + _EDGE_PX
    yield ToolCall("click_at", {"x": x, "y": y})
    view = session.last_view
    if not parted and (view is None or view.node(ref).value):
        yield ToolCall("press", {"key": "Control+a"})
    if text:
        yield ToolCall("type_text", {"text": _keys(spot["type"], text) if parted else text})
    else:
        yield ToolCall("press", {"key": "Delete"})


def _keys(kind: str, text: str) -> str:
    """Return the keys that fill a date or time field in the order of the browser's locale, `en-US`."""
    if kind == "date":
        year, month, day = text.split("-")
        return f"{month}{day}{year}"
    hour, minute = map(int, text.split(":"))
    return f"{(hour - 1) % 12 + 1:02}{minute:02}{'AM' if hour < 12 else 'PM'}"
