"""Takes a view of a page: its accessibility snapshot, or only the viewport if the page is too large."""

from __future__ import annotations

import asyncio
from typing import Any

from agentgym.tools.browser.aria import INTERACTIVE, first_ref, parse_snapshot
from agentgym.tools.browser.numbering import Numbering, frame_of
from agentgym.tools.browser.options import SessionOptions
from agentgym.tools.browser.tab import Tab
from agentgym.tools.browser.view import View, ViewNode

FACTS = (
    "({title: document.title.slice(0, 300), elements: document.getElementsByTagName('*').length,"
    " top: Math.round(scrollY), height: document.scrollingElement ? document.scrollingElement.scrollHeight : 0,"
    " window: innerHeight})"
)
TOO_LARGE = "the page is very large: only the visible part is shown; scroll to see more"


async def look(tab: Tab, numbering: Numbering, options: SessionOptions, boxes: bool = False) -> View:
    """Return the tab's view (without tabs and notices)."""
    from playwright.async_api import TimeoutError as TooSlow

    if tab.unreachable:
        return View(url=tab.unreachable, title="", nodes=(), note="this URL could not be opened")
    facts = await tab.ask(FACTS, options.look_s)
    nodes, note = None, ""
    if facts["elements"] <= options.max_elements:
        try:
            async with asyncio.timeout(options.look_s + 1):
                snapshot = await tab.page.aria_snapshot(mode="ai", timeout=options.look_s * 1000, boxes=boxes)
            numbering.begin(f"{tab.documents}:{frame_of(first_ref(snapshot))}")
            nodes = parse_snapshot(snapshot, numbering.number, options.all_refs)
        except (TooSlow, TimeoutError):
            if options.trusted:
                raise TimeoutError from None
            await tab.interrupt()
    if nodes is None:
        nodes, note = await _in_sight(tab, numbering, options.look_s), TOO_LARGE
    return View(url=tab.page.url, title=facts["title"], nodes=nodes, scroll=_scroll(facts), note=note)


async def _in_sight(tab: Tab, numbering: Numbering, seconds: float) -> tuple[ViewNode, ...]:
    """Return the viewport's nodes as a flat list; handles are XPaths."""
    numbering.begin(f"{tab.documents}:sight")
    items = await tab.call("sight.js", seconds=seconds)
    return tuple(
        ViewNode(
            role=item["role"],
            name=item["name"],
            value=item["value"],
            url=item["url"],
            ref=numbering.number(item["handle"]) if item["role"] in INTERACTIVE else "",
            handle=item["handle"],
        )
        for item in items
    )


def _scroll(facts: dict[str, Any]) -> str:
    below = facts["height"] - facts["window"] - facts["top"]
    if facts["top"] <= 0 and below <= 0:
        return ""
    return f"Scroll: {facts['top']} px above, {max(below, 0)} px below the visible part"
