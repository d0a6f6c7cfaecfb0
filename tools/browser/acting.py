"""Runs a session's actions: one at a time, with a deadline, each followed by a fixed amount of page time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agentgym.errors import InfrastructureError, ToolError
from agentgym.tools.browser.clock import PageClock
from agentgym.tools.browser.errors import BrowserGone, PageError
from agentgym.tools.browser.looking import look
from agentgym.tools.browser.numbering import Numbering
from agentgym.tools.browser.options import SessionOptions
from agentgym.tools.browser.pointing import CHANGED, Target, locate
from agentgym.tools.browser.recording import Recording
from agentgym.tools.browser.tab import STUCK, Tab, Unanswered
from agentgym.tools.browser.view import View
from agentgym.tools.browser.windows import Windows

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

MAX_TEXT = 20_000
CLOSE_S = 5.0
GONE = re.compile(
    r"has been closed|Target closed|crashed|disconnected|Connection closed|not open for writing|os error", re.IGNORECASE
)


class Acting:
    """The state of a session, and how it performs an action."""

    def __init__(
        self,
        context: BrowserContext,
        options: SessionOptions,
        alive: Callable[[], bool],
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self.options = options
        self._context, self._alive, self._on_close = context, alive, on_close
        self._clock = PageClock(options.start)
        self._windows = Windows(context, options, self._clock)
        self._recording = Recording(context, options.record)
        self._numberings: dict[Tab, Numbering] = {}
        self._view: View | None = None
        self._viewed: Tab | None = None
        self._viewed_document = 0
        self._lock = asyncio.Lock()
        self._closed = False
        self._failure = ""

    @property
    def closed(self) -> bool:
        """Whether the session has been closed."""
        return self._closed

    @property
    def last_view(self) -> View | None:
        """The view that refs belong to."""
        return self._view

    @property
    def _patience(self) -> float:
        """Real seconds for operations that take the browser several steps."""
        return 3 * self.options.look_s

    async def _start(self, page: Page, cdp: CDPSession) -> None:
        await self._recording.start()
        await self._windows.start(page, cdp)

    def _lost(self, why: str) -> None:
        """Mark the browser as gone: every later call raises `BrowserGone`."""
        self._failure = self._failure or why

    def _check(self) -> None:
        if self._closed:
            raise BrowserGone("this browser session is closed")
        if self._failure:
            raise BrowserGone(self._failure)
        if self._windows.tab.crashed:
            self._lost("the page's process crashed")
            raise BrowserGone(self._failure)

    async def _guarded(self, work: Awaitable[Any], seconds: float) -> Any:
        """Await work on the browser with a deadline, and translate its errors into ours."""
        from playwright.async_api import Error

        task = asyncio.ensure_future(work)
        try:
            async with asyncio.timeout(seconds):
                return await task
        except TimeoutError as problem:
            self._check()
            self._fail_if_trusted("the browser took too long")
            await self._interrupted()
            raise PageError("the page took too long and its script was stopped; try something else") from problem
        except (ToolError, InfrastructureError):
            raise
        except Error as problem:
            if "Target page" in problem.message and await self._only_a_tab():
                return None
            raise self._translated(problem.message) from problem
        except Exception as problem:
            # Playwright raises bare exceptions when its driver dies during a call.
            raise self._translated(str(problem)) from problem

    async def _only_a_tab(self) -> bool:
        """Whether only one window was closed, by its own page, and not the session or the browser."""
        with suppress(Exception):  # no answer, whatever the reason, means that the session is lost
            async with asyncio.timeout(CLOSE_S):
                await self._context.cookies("http://the.browser.answers/")
                return not self._failure and not self._closed and self._alive()
        return False

    async def _interrupted(self) -> None:
        from playwright.async_api import Error

        try:
            await self._windows.tab.interrupt()
        except Error as problem:
            raise self._translated(problem.message) from problem
        except Unanswered:
            await self._windows.replace()
            raise PageError("the page stopped responding and was closed; an empty tab replaced it") from None

    def _translated(self, message: str) -> PageError | BrowserGone:
        """Return the error to raise for one of Playwright's."""
        if self._failure or self._windows.tab.crashed or GONE.search(message.split("\n")[0]):
            self._lost(f"the browser is gone ({_first_line(message)})")
            return BrowserGone(self._failure)
        return PageError(_first_line(message))

    async def _act(self, work: Callable[[Tab], Awaitable[Any]], seconds: float | None = None) -> Any:
        """Perform an action in the current tab, then advance page time by `seconds`, or one tick."""
        async with self._lock:
            self._check()
            self._windows.begin()
            tab = self._windows.tab
            try:
                result = await self._guarded(work(tab), self.options.deadline)
            finally:
                if not self._failure and not self._closed:
                    await self._settle(self.options.tick if seconds is None else seconds)
            return result

    async def _settle(self, seconds: float) -> None:
        """Let the page settle: advance its time, and that of every window it opened."""
        await self._live(self._windows.tab, seconds)
        self._clock.now += seconds
        if await self._guarded(self._windows.arrive(), self._patience):
            await self._live(self._windows.tab, self.options.tick)
            self._clock.now += self.options.tick
        self._check()

    async def _live(self, tab: Tab, seconds: float) -> None:
        problem = await self._guarded(tab.live(seconds), 2 * self.options.deadline + self._patience)
        if not problem:
            return
        self._fail_if_trusted(problem)
        if problem == STUCK:
            await self._interrupted()
        self._windows.notice(problem)

    def _fail_if_trusted(self, problem: str) -> None:
        """Raise `InfrastructureError` for trusted pages, whose slowness is our failure."""
        if self.options.trusted:
            self._lost(f"{problem}, although its pages are known to be fast")
            raise InfrastructureError(self._failure)

    async def _on(self, tab: Tab, ref: str, visible: bool = True) -> Target:
        view = self._view
        if view is None or self._viewed is not tab:
            raise PageError("this page has not been viewed yet; look first to get refs")
        view.node(ref)
        if self._viewed_document != tab.documents:
            raise PageError(f"the tab shows a different page now: {CHANGED}")
        return await locate(tab, view, ref, visible)

    async def _look(self, boxes: bool = False) -> View:
        """Take a view and store it."""
        tab = self._windows.tab
        numbering = self._numberings.setdefault(tab, Numbering())
        view = await self._guarded(look(tab, numbering, self.options, boxes), self._patience)
        if view is None:
            raise PageError("the page closed its window; look again")
        self._viewed, self._viewed_document = tab, tab.documents
        tabs = tuple(other.page.url for other in self._windows.tabs)
        self._view = View(
            url=view.url, title=view.title, nodes=view.nodes, tabs=tabs, tab=self._windows.current,
            notices=() if boxes else self._windows.take_notices(), scroll=view.scroll, note=view.note,
        )  # fmt: skip
        return self._view

    async def _shut(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(Exception):  # a dead driver has closed it already, and fails with bare exceptions
            async with asyncio.timeout(CLOSE_S):
                await self._context.close()
        self._recording.discard()
        await self._on_close()


def bounded_text(text: str) -> str:
    """Return the text; raises `PageError` if it is too long to enter."""
    if len(text) > MAX_TEXT:
        raise PageError(f"the text has {len(text)} characters; at most {MAX_TEXT} can be entered at once")
    return text


def _first_line(message: str) -> str:
    line = message.strip().split("\n")[0]
    return re.sub(r"^(Error: )?\w+\.\w+: (Error: )?", "", line)[:300]
