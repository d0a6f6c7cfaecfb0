"""Actions by coordinates (CSS pixels from the top left), for policies that look at screenshots."""

from __future__ import annotations

from agentgym.tools.browser.acting import Acting
from agentgym.tools.browser.bridge import bridged
from agentgym.tools.browser.elements import MAX_TYPED, Button
from agentgym.tools.browser.errors import PageError
from agentgym.tools.browser.tab import Tab

STEPS = 8


class PixelActions(Acting):
    """Actions with only the mouse and the keyboard."""

    @bridged
    async def click_at(self, x: float, y: float, button: Button = "left", double: bool = False) -> None:
        """Click at a position."""
        self._inside(x, y)
        await self._act(lambda tab: tab.page.mouse.click(x, y, button=button, click_count=2 if double else 1))

    @bridged
    async def move_to(self, x: float, y: float) -> None:
        """Move the mouse to a position."""
        self._inside(x, y)
        await self._act(lambda tab: tab.move_mouse(x, y))

    @bridged
    async def drag(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Press the mouse at one position, move to another and release."""
        self._inside(x1, y1)
        self._inside(x2, y2)

        async def work(tab: Tab) -> None:
            mouse = tab.page.mouse
            await tab.move_mouse(x1, y1)
            await mouse.down()
            # Playwright uses one of the page's timers to detect whether this drags something.
            await tab.live_through(mouse.move(x2, y2, steps=STEPS))
            await mouse.up()

        await self._act(work)

    @bridged
    async def type_text(self, text: str) -> None:
        """Type into the focused element."""
        if len(text) > MAX_TYPED:
            raise PageError(f"the text has {len(text)} characters; at most {MAX_TYPED} can be typed at once")
        await self._act(lambda tab: tab.page.keyboard.type(text))

    def _inside(self, x: float, y: float) -> None:
        width, height = self.options.viewport
        if not (0 <= x < width and 0 <= y < height):
            raise PageError(f"({x!r}, {y!r}) is outside the window, which has {width} x {height} pixels")
