"""The page's time: it stands still while nobody acts and moves a fixed amount with every action (virtual time).

Timers, dates and animations of a page run off this clock, so a second of page time takes milliseconds, waits for the
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


class Clock:
    """The clock of one session; all its tabs show the same time."""

    def __init__(self, start: float) -> None:
        self.now = start

    async def stop(self, cdp: CDPSession) -> None:
        """Make time stand still in a page."""
        await cdp.send("Emulation.setVirtualTimePolicy", {"policy": "pause", "initialVirtualTime": self.now})

    async def move(self, cdp: CDPSession, expired: asyncio.Event, seconds: float, policy: str) -> None:
        """Let a page live through `seconds`. Does not return while it waits for the network or is busy."""
        expired.clear()
        await cdp.send(
            "Emulation.setVirtualTimePolicy",
            {
                "policy": policy,
                "budget": seconds * 1000,
                "maxVirtualTimeTaskStarvationCount": STARVATION,
                # Told every time: a page that moved to another process would begin with the real time.
                "initialVirtualTime": self.now,
            },
        )
        await expired.wait()
