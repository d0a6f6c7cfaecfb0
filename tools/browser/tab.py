"""One page of a session: its clock, an isolated script world, and a way to interrupt endless scripts."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from agentgym.tools.browser.clock import REGARDLESS, UNTIL_NETWORK, PageClock

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Locator, Page

STUCK = "the page's script took too long and was stopped"
WORLD = "agentgym"
ANSWER_S = 2.0
STALLED_S = 0.25
STEP_S = 0.016
PAUSE_S = 0.005
NEXT_FRAME = "new Promise((done) => requestAnimationFrame(done))"
WHOLE_FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""A frame has been drawn when the next one begins."""
MAX_ENDINGS = 3
END_ANIMATIONS = """(() => {
  const moving = document.getAnimations().filter((animation) => animation.playState === "running");
  for (const animation of moving) {
    const end = animation.playbackRate > 0 ? animation.effect?.getComputedTiming().endTime : Infinity;
    if (end < Infinity) animation.finish();
    else animation.pause(), animation.currentTime = 0;
  }
  return moving.length;
})()"""


@cache
def script(name: str) -> str:
    """Return the text of one of this package's scripts."""
    return files("agentgym.tools.browser").joinpath("data", name).read_text(encoding="utf-8")


class Unanswered(Exception):
    """A page does not respond even after its script was stopped."""


class Tab:
    """A page and the debugging session that controls its time."""

    def __init__(self, page: Page, cdp: CDPSession, clock: PageClock, deadline: float) -> None:
        self.page, self.cdp, self.clock, self.deadline = page, cdp, clock, deadline
        self.documents = 0
        self.crashed = False
        self.expected_windows = 0
        self.unreachable = ""
        self._stalled = False
        self._world: int | None = None
        self._expired = asyncio.Event()

    async def prepare(self, stop: bool = True) -> None:
        """Subscribe to the page's events, and stop its clock unless it shares its opener's."""
        self.cdp.on("Emulation.virtualTimeBudgetExpired", lambda _: self._expired.set())
        self.cdp.on("Page.frameNavigated", self._navigated)
        self.cdp.on("Page.windowOpen", self._window_opening)
        self.page.on("crash", self._died)
        await self.cdp.send("Page.enable")
        if stop:
            await self.clock.stop(self.cdp)

    def locator(self, handle: str) -> Locator:
        """Return Playwright's locator of a node of the last snapshot."""
        return self.page.locator(handle if handle.startswith("xpath=") else f"aria-ref={handle}")

    async def live(self, seconds: float) -> str:
        """Advance page time; return a message about what went wrong, or an empty string."""
        problem = ""
        policies = ((UNTIL_NETWORK, STALLED_S if self._stalled else self.deadline * 0.5), (REGARDLESS, self.deadline))
        for policy, patience in policies:
            try:
                async with asyncio.timeout(patience):
                    await self.clock.move(self.cdp, self._expired, seconds, policy)
                break
            except TimeoutError:
                problem = "the page is still waiting for the network" if not self._stalled else ""
                self._stalled = True
        else:
            return STUCK
        await self._finish_animations()
        return problem

    async def _finish_animations(self) -> None:
        """Finish transitions and animations, which run in real time; pause endless ones."""
        from playwright.async_api import Error

        with suppress(Error, TimeoutError):
            for _ in range(MAX_ENDINGS):
                if not await self.ask(END_ANIMATIONS, self.deadline):
                    return
                await self.draw()

    async def live_through(self, work: Awaitable[Any]) -> None:
        """Await work that needs page time to advance meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await self.clock.move(self.cdp, self._expired, STEP_S, REGARDLESS)
                await asyncio.wait({task}, timeout=PAUSE_S)
            await task
        finally:
            task.cancel()

    async def move_mouse(self, x: float, y: float) -> None:
        """Move the mouse; Chromium answers with the next frame, which may not come while page time stands still."""
        await asyncio.gather(self.page.mouse.move(x, y), self.draw(NEXT_FRAME))

    async def draw(self, until: str = WHOLE_FRAME) -> None:
        """Make the page render, so that it notices what is visible now; a page that is too large never does."""
        with suppress(TimeoutError):
            await self.ask(until)

    async def picture(self) -> bytes:
        """Return the viewport as PNG."""
        answer = await self.cdp.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
        return b64decode(answer["data"])

    async def stop_loading(self) -> None:
        """Cancel loading."""
        from playwright.async_api import Error

        with suppress(TimeoutError, Error):
            async with asyncio.timeout(ANSWER_S):
                await self.cdp.send("Page.stopLoading")

    async def interrupt(self) -> None:
        """Stop the script that keeps the page busy; raises `Unanswered` if that does not help."""
        for _ in range(3):
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    await self.cdp.send("Runtime.terminateExecution")
                    await self.cdp.send("Emulation.setVirtualTimePolicy", {"policy": "pause"})
                    await self.cdp.send("Runtime.evaluate", {"expression": "0"})
                    return
        raise Unanswered

    async def ask(self, expression: str, seconds: float = ANSWER_S) -> Any:
        """Evaluate an expression in an isolated world, which the page's scripts neither see nor change."""
        async with asyncio.timeout(seconds):
            for last in (False, True):
                try:
                    if self._world is None:
                        self._world = await self._new_world()
                    return await self._evaluate(expression, {"contextId": self._world})
                except Exception as problem:
                    if last or "context" not in str(problem):
                        raise
                    self._world = None
        raise AssertionError

    async def ask_page(self, expression: str, seconds: float) -> Any:
        """Evaluate an expression in the page's main world, whose scripts can forge the answer."""
        async with asyncio.timeout(seconds):
            return await self._evaluate(expression, {})

    async def call(self, name: str, *arguments: Any, seconds: float = ANSWER_S) -> Any:
        """Call one of this package's scripts (a function) in the isolated world."""
        return await self.ask(f"({script(name)})({', '.join(map(json.dumps, arguments))})", seconds)

    async def _evaluate(self, expression: str, where: dict[str, Any]) -> Any:
        answer = await self.cdp.send(
            "Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True, **where}
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise ValueError(details.get("exception", {}).get("description") or details.get("text"))
        return answer["result"].get("value")

    async def _new_world(self) -> int:
        tree = await self.cdp.send("Page.getFrameTree")
        world = await self.cdp.send(
            "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"], "worldName": WORLD}
        )
        return world["executionContextId"]

    def _navigated(self, event: dict[str, Any]) -> None:
        if "parentId" not in event["frame"]:
            self.documents += 1
            self._stalled, self._world = False, None
            self.unreachable = event["frame"].get("unreachableUrl", "")
            if self.unreachable:
                # Error pages live in a separate process, which the time being advanced does not reach.
                self._expired.set()

    def _window_opening(self, _: dict[str, Any]) -> None:
        self.expected_windows += 1

    def _died(self, _: object) -> None:
        self.crashed = True
