"""`BrowserSession`: one episode's browser, isolated from all others, with bounded time and size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Self
from urllib.parse import urljoin

from agentgym.base.errors import InfrastructureError, require
from agentgym.tools.browser.acting import Acting
from agentgym.tools.browser.bridge import bridged
from agentgym.tools.browser.elements import MAX_TYPED, Button, ElementActions
from agentgym.tools.browser.options import PageError
from agentgym.tools.browser.tab import Tab
from agentgym.tools.browser.view import View, ViewNode

COLOURS = ("#c62828", "#1565c0", "#2e7d32", "#6a1b9a", "#b35900", "#00695c")
LABEL_HEIGHT = 12
LETTER_WIDTH = 6


def marked(image: bytes, nodes: Sequence[ViewNode]) -> bytes:
    """Return a PNG with a box and the ref on every visible node that has both."""
    require("PIL", "web")
    from PIL import Image, ImageDraw

    picture = Image.open(BytesIO(image)).convert("RGB")
    pen = ImageDraw.Draw(picture)
    for index, node in enumerate(nodes):
        place = _place(nodes, index)
        if not node.ref or place is None or place[0] >= picture.width or place[1] >= picture.height:
            continue
        left, top, right, bottom = place
        if right <= max(left, 0) or bottom <= max(top, 0):
            continue
        colour = COLOURS[index % len(COLOURS)]
        pen.rectangle((left, top, right, bottom), outline=colour)
        x, y = max(left, 0), max(top - LABEL_HEIGHT, 0)
        pen.rectangle((x, y, x + LETTER_WIDTH * len(node.ref) + 3, y + LABEL_HEIGHT), fill=colour)
        pen.text((x + 2, y), node.ref, fill="white")
    output = BytesIO()
    picture.save(output, "PNG", compress_level=1)
    return output.getvalue()


def _place(nodes: Sequence[ViewNode], index: int) -> tuple[int, int, int, int] | None:
    """Return left, top, right and bottom in the window; boxes inside a frame are relative to the frame."""
    box = nodes[index].box
    if box is None:
        return None
    left, top, width, height = box
    above = nodes[index].parent
    while above is not None:
        frame = nodes[above]
        if frame.role == "iframe" and frame.box is not None:
            left, top = left + frame.box[0], top + frame.box[1]
        above = frame.parent
    return left, top, left + width, top + height


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
    async def drag(self, x1: float, y1: float, x2: float, y2: float, through: Sequence[Sequence[float]] = ()) -> None:
        """Press the mouse at one position, move to another, `through` the points between, and release."""
        if any(len(point) != 2 for point in through):
            raise PageError(f"points have two numbers, such as [30, 40], not {list(through)!r}")
        points = [*((x, y) for x, y in through), (x2, y2)]
        for x, y in [(x1, y1), *points]:
            self._inside(x, y)

        async def work(tab: Tab) -> None:
            mouse = tab.page.mouse
            await tab.move_mouse(x1, y1)
            await mouse.down()
            for x, y in points:
                # Playwright uses one of the page's timers to detect whether this drags something.
                await tab.live_through(mouse.move(x, y, steps=max(STEPS // len(points), 1)))
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


MAX_WAIT_S = 60.0
WAIT_STEPS = 10
SHOWS = "(text) => !!document.body && document.body.innerText.includes(text)"
UNANSWERED = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_CLOSED")


class BrowserSession(ElementActions, PixelActions):
    """A browser context for one episode. Get one from `BrowserPool.open`.

    Every method blocks, from any thread; `await session.click.awaited("e3")` does the same from any event loop. Actions
    return nothing: call `view` to see their effect. The model's mistakes raise `PageError`, and a dead browser
    raises `InfrastructureError`.
    """

    @bridged
    async def view(self) -> View:
        """Return the current view of the page. Refs in actions refer to the last view."""
        async with self._lock:
            self._check()
            return await self._look()

    @bridged
    async def renumber(self) -> None:
        """Restart refs at e1 with the next view, for a page that starts over without a reload."""
        self._numberings.clear()

    @bridged
    async def screenshot(self, marks: bool = False) -> bytes:
        """Return the viewport as PNG; with `marks`, take a new view and draw elements' refs in boxes."""
        async with self._lock:
            self._check()
            nodes = (await self._look(boxes=True)).nodes if marks else ()
            image = await self._guarded(self._windows.tab.picture(), self._patience)
            return marked(image, nodes) if marks else image

    @bridged
    async def goto(self, url: str) -> None:
        """Open a URL (absolute, or relative to the current one)."""
        address = self._address(url)
        await self._act(lambda tab: self._navigate(tab, address))

    @bridged
    async def back(self) -> None:
        """Go back to the previous page."""
        await self._act(lambda tab: self._travel(tab, -1))

    @bridged
    async def forward(self) -> None:
        """Go forward again after `back`."""
        await self._act(lambda tab: self._travel(tab, 1))

    @bridged
    async def reload(self) -> None:
        """Reload the page."""
        await self._act(self._again)

    @bridged
    async def wait(self, seconds: float = 1.0, text: str | None = None) -> None:
        """Advance page time (almost no real time), or until `text` is on the page if it is given."""
        if not 0 < seconds <= MAX_WAIT_S:
            raise PageError(f"cannot wait for {seconds!r} seconds; give a number between 0 and {MAX_WAIT_S:g}")
        if text is None:
            await self._act(_nothing, seconds)
            return
        for _ in range(WAIT_STEPS):
            await self._act(_nothing, seconds / WAIT_STEPS)
            async with self._lock:
                if await self._guarded(self._windows.tab.ask(f"({SHOWS})({json.dumps(text)})"), self._patience):
                    return
        raise PageError(f"{text[:80]!r} did not appear within {seconds:g} seconds")

    @bridged
    async def new_tab(self, url: str | None = None) -> None:
        """Open a tab and switch to it."""
        address = None if url is None else self._address(url)
        async with self._lock:
            self._check()
            self._windows.check_room()
            await self._guarded(self._windows.new(), self._patience)
        if address is not None:
            await self._act(lambda tab: self._navigate(tab, address))

    @bridged
    async def switch_tab(self, index: int) -> None:
        """Switch to a tab, by number from 0."""
        async with self._lock:
            self._check()
            self._windows.current = self._tab_number(index)

    @bridged
    async def close_tab(self, index: int | None = None) -> None:
        """Close a tab, the current one unless a number is given."""
        async with self._lock:
            self._check()
            number = self._windows.current if index is None else self._tab_number(index)
            if len(self._windows.tabs) == 1:
                raise PageError("the only tab cannot be closed")
            await self._guarded(self._windows.close(number), self._patience)

    @bridged
    async def dialog(self, accept: bool, text: str | None = None) -> None:
        """Set the answer to the page's next dialog (confirm or prompt)."""
        self._windows.answer = (bool(accept), text)

    @bridged
    async def read(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page. Never expose it to models: rewards live there."""
        async with self._lock:
            self._check()
            return await self._guarded(self._evaluated(self._windows.tab, expression), self.options.deadline)

    @bridged
    async def run(self, script: str) -> Any:
        """Like `read`, for scripts with effects: page time advances afterwards. Never expose it to models."""
        return await self._act(lambda tab: self._evaluated(tab, script))

    @bridged
    async def network_log(self) -> dict[str, Any]:
        """Stop recording; return the requests of the session and the responses to them, as a HAR document.

        Raises:
            UsageError: Nothing is being recorded (`SessionOptions.record`).
        """
        async with self._lock:
            self._check()
            self._recording.check()
            return await self._guarded(self._recording.stop(), 3 * self.options.deadline)

    @bridged
    async def close(self) -> None:
        """Discard the episode's browser context. Safe to call twice."""
        await self._shut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _commit_ms(self) -> float:
        return self.options.deadline * 900

    def _address(self, url: str) -> str:
        current = self._windows.tab.page.url
        address = urljoin(current if current.startswith("http") else self.options.allowed[0], url.strip())
        if self.options.pattern.match(address) is None:
            raise PageError(
                f"{url[:200]!r} cannot be opened; these origins are allowed: {', '.join(self.options.allowed)}"
            )
        return address

    async def _again(self, tab: Tab) -> None:
        await self._clock.stop(tab.cdp)
        await tab.page.reload(wait_until="commit", timeout=self._commit_ms)

    async def _navigate(self, tab: Tab, address: str) -> None:
        from playwright.async_api import Error

        # The page may move to another process, which starts with the last time that it was sent.
        await self._clock.stop(tab.cdp)
        for last in (False, True):
            try:
                await tab.page.goto(address, wait_until="commit", timeout=self._commit_ms)
                return
            except Error as problem:
                message = problem.message
                if "interrupted by another navigation" in message and not last:
                    continue
                if "Download is starting" in message or "ERR_ABORTED" in message:
                    return
                await tab.stop_loading()
                if any(code in message for code in UNANSWERED):
                    raise InfrastructureError(f"the server of {address} does not respond") from problem
                raise

    async def _travel(self, tab: Tab, way: int) -> None:
        history = await tab.cdp.send("Page.getNavigationHistory")
        place = history["currentIndex"] + way
        if not 0 <= place < len(history["entries"]) or history["entries"][place]["url"] == "about:blank":
            raise PageError(f"no page to go {'back' if way < 0 else 'forward'} to")
        await self._clock.stop(tab.cdp)
        go = tab.page.go_back if way < 0 else tab.page.go_forward
        await go(wait_until="commit", timeout=self._commit_ms)

    async def _evaluated(self, tab: Tab, expression: str) -> Any:
        try:
            return await tab.ask_page(expression, self.options.deadline)
        except ValueError as problem:
            raise InfrastructureError(f"{expression[:80]!r} failed in the page: {problem}") from problem

    def _tab_number(self, index: int) -> int:
        if not 0 <= index < len(self._windows.tabs):
            raise PageError(f"no tab {index!r}; {len(self._windows.tabs)} are open, numbered from 0")
        return index


async def _nothing(_: Tab) -> None:
    """Do nothing: waiting is an action that only lets time pass."""
