"""Finds a ref's position on the page, with a clear error when the element cannot be acted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym.tools.browser.errors import PageError
from agentgym.tools.browser.numbering import frame_of
from agentgym.tools.browser.tab import Tab, script
from agentgym.tools.browser.view import View, ViewNode

if TYPE_CHECKING:
    from playwright.async_api import Locator

SLOW_MS = 30_000.0
"""Longer than any deadline: the session's deadline decides whether a page is too slow."""
CHANGED = "the page has changed since the last view; look again"


@dataclass(frozen=True)
class Target:
    """The current state of an element."""

    node: ViewNode
    locator: Locator
    facts: dict[str, Any]
    x: float
    y: float

    @property
    def label(self) -> str:
        """The element's name in messages."""
        return self.node.line()[:120]


async def locate(tab: Tab, view: View, ref: str, visible: bool = True) -> Target:
    """Find a ref's element and scroll it into view; a `PageError` says why it cannot be acted on."""
    node = view.node(ref)
    locator = tab.locator(node.handle)
    # Checked first, as everything else waits for the element to appear.
    if not await locator.count():
        raise PageError(f"{node.line()[:120]} is no longer there: {CHANGED}")
    facts = await locator.evaluate(script("locate.js"), timeout=SLOW_MS)
    problem = facts["problem"]
    if problem == "gone":
        raise PageError(f"{node.line()[:120]} is no longer there: {CHANGED}")
    if problem == "disabled":
        raise PageError(f"{node.line()[:120]} is disabled")
    if problem and visible:
        what = f"covered by {facts['cover']}; act on that first" if problem == "covered" else "not visible"
        raise PageError(f"{node.line()[:120]} is {what}")
    x, y = facts["x"], facts["y"]
    if visible and frame_of(node.handle) != frame_of(next((n.handle for n in view.nodes if n.handle), "")):
        box = await locator.bounding_box(timeout=SLOW_MS)
        if box is None:
            raise PageError(f"{node.line()[:120]} is not visible")
        x, y = box["x"] + x - facts["left"], box["y"] + y - facts["top"]
    return Target(node, locator, facts, x, y)


def choose(target: Target, names: list[str]) -> list[int]:
    """Return the positions of the options with these labels or values."""
    options = target.facts["options"]
    if target.facts["tag"] != "select":
        raise PageError(f"{target.label} is not a list of options; click it instead")
    places = []
    for name in names:
        place = next((i for i, (label, value, _) in enumerate(options) if name in (label, value)), None)
        if place is None:
            labels = ", ".join(repr(label) for label, _, _ in options[:30])
            raise PageError(f"{target.label} has no option {name[:80]!r}; it has {labels}")
        if options[place][2]:
            raise PageError(f"option {name[:80]!r} of {target.label} is disabled")
        places.append(place)
    return places
