"""Scripted players of MiniWoB++ pages: each reads only the instruction and the current view."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from agentgym.base.errors import TaskError
from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.tools.browser import View, ViewNode

_MODULES = ("choosing", "clicking", "dragging", "forms", "messages", "pointing", "reading")
_PLACE = re.compile(r"(\d+)x(\d+) at (-?\d+),(-?\d+)$")


class Place(NamedTuple):
    """Size and middle of what a view describes, in pixels of the page."""

    width: int
    height: int
    x: int
    y: int


@dataclass(frozen=True)
class Sight:
    """The input of a player: the instruction of the page, and its current view.

    `read` evaluates an expression in the page, for what a person knows and a view does not say, such as synonyms.
    """

    instruction: str
    look: Callable[[], View]
    read: Callable[[str], Any]

    def words(self, pattern: str) -> tuple[str, ...]:
        """Return the groups of a pattern that the instruction must match. Raises `TaskError`."""
        match = re.search(pattern, self.instruction)
        if match is None:
            raise TaskError(f"the instruction {self.instruction!r} does not match {pattern!r}")
        return match.groups()

    def all(self, role: str, name: str | None = None) -> list[ViewNode]:
        """Return the elements with a role that can be acted on; a name must match exactly."""
        return [node for node in self.look().nodes if node.role == role and node.ref and name in (None, node.name)]

    def shapes(self, name: str = "") -> list[ViewNode]:
        """Return what the view describes with a size and a place; the description contains `name`."""
        return [node for node in self.look().nodes if name in node.name and _PLACE.search(node.name)]

    def click(self, role: str, name: str | None = None, nth: int = 0, within: str | None = None) -> ToolCall:
        """Return a click on an element."""
        if within is not None:
            return click(self.look().find(role, name, nth, within))
        elements = self.all(role, name)
        if nth >= len(elements):
            raise TaskError(f"no {role} {name!r} number {nth} on the page:\n{self.look().text}")
        return click(elements[nth])

    def type(self, text: str, nth: int = 0, role: str = "textbox") -> ToolCall:
        """Return a call that types into the `nth` field."""
        return ToolCall("type", {"ref": self.all(role)[nth].ref, "text": text})


Player = Callable[[Sight], Solution]
_PLAYERS: dict[str, Player] = {}


def player(*pages: str) -> Callable[[Player], Player]:
    """Register a function as the player of these pages."""

    def register(play: Player) -> Player:
        _PLAYERS.update(dict.fromkeys(pages, play))
        return play

    return register


@cache
def load_solutions() -> Mapping[str, Player]:
    """Return the players by the name of their page."""
    for name in _MODULES:
        import_module(f"agentgym.envs.web.miniwob.solutions.{name}")
    return dict(sorted(_PLAYERS.items()))


def click(node: ViewNode) -> ToolCall:
    """Return a click on an element."""
    return ToolCall("click", {"ref": node.ref})


def number(ordinal: str) -> int:
    """Return the index, from 0, that a word such as `3rd` names."""
    return int(re.sub(r"\D", "", ordinal)) - 1


def place_of(node: ViewNode) -> Place:
    """Return the size and the middle that the name of a node states. Raises `TaskError` if it states none."""
    match = _PLACE.search(node.name)
    if match is None:
        raise TaskError(f"{node.line()!r} states no place")
    return Place(*map(int, match.groups()))


def click_at(x: float, y: float) -> ToolCall:
    """Return a click on a point."""
    return ToolCall("click_at", {"x": round(x), "y": round(y)})


def drag(x1: float, y1: float, x2: float, y2: float) -> ToolCall:
    """Return a drag from one point to another."""
    return ToolCall("drag", {"x1": round(x1), "y1": round(y1), "x2": round(x2), "y2": round(y2)})


def press(key: str) -> ToolCall:
    """Return the press of a key."""
    return ToolCall("press", {"key": key})
