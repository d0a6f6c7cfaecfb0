"""Virtual page time: it stands still between actions and advances a fixed amount with each action.

A page's timers, dates and animations use this clock, so a second of page time takes milliseconds, waits for the
network where the page does, and is the same in every run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

UNTIL_NETWORK = "pauseIfNetworkFetchesPending"
REGARDLESS = "advance"
STARVATION = 20_000


class PageClock:
    """A session's clock, shared by all its tabs."""

    def __init__(self, start: float) -> None:
        self.now = start

    async def stop(self, cdp: CDPSession) -> None:
        """Stop a page's time."""
        await cdp.send("Emulation.setVirtualTimePolicy", {"policy": "pause", "initialVirtualTime": self.now})

    async def move(self, cdp: CDPSession, expired: asyncio.Event, seconds: float, policy: str) -> None:
        """Advance a page's time by `seconds`. Does not return while the page waits for the network or is busy."""
        expired.clear()
        await cdp.send(
            "Emulation.setVirtualTimePolicy",
            {
                "policy": policy,
                "budget": seconds * 1000,
                "maxVirtualTimeTaskStarvationCount": STARVATION,
                # Sent every time: a page that moved to another process would start with the real time.
                "initialVirtualTime": self.now,
            },
        )
        await expired.wait()
