"""A session's tabs, and the events around its pages: dialogs, new windows, downloads, file choosers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from agentgym.tools.browser.clock import PageClock
from agentgym.tools.browser.options import PageError, SessionOptions
from agentgym.tools.browser.tab import Tab

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, FileChooser, Page

MAX_DIALOGS = 8
MAX_NOTICES = 12
ARRIVAL_S = 2.0
CHOOSER_S = 2.0
CHOOSER = "the page asked for a file; use the upload action on this element instead of clicking it"


class Windows:
    """Keeps the tabs in order and collects notices for the next view."""

    def __init__(self, context: BrowserContext, options: SessionOptions, clock: PageClock) -> None:
        self.context, self.options, self.clock = context, options, clock
        self.tabs: list[Tab] = []
        self.current = 0
        self._chooser: FileChooser | None = None
        self._chooser_opened = asyncio.Event()
        self.answer: tuple[bool, str | None] | None = None
        self._notices: list[str] = []
        self._dialogs = 0
        self._arriving: dict[Page, asyncio.Task[None]] = {}
        self._door = asyncio.Lock()
        self._arrived = self._coming = self._before = 0

    @property
    def tab(self) -> Tab:
        """The current tab."""
        return self.tabs[self.current]

    def notice(self, text: str) -> None:
        """Add a notice to the next view."""
        if len(self._notices) < MAX_NOTICES and text not in self._notices:
            self._notices.append(text)

    def take_notices(self) -> tuple[str, ...]:
        """Return and clear the notices since the last call."""
        notices, self._notices = tuple(self._notices), []
        return notices

    def begin(self) -> None:
        """Start an action, and reset the counters of events allowed during it."""
        self._dialogs = 0
        self._before = len(self.tabs)
        self._chooser = None
        self._chooser_opened.clear()

    async def adopt(self, page: Page, cdp: CDPSession, stop: bool = True) -> Tab:
        """Add a page as a tab, with its clock stopped unless it shares another tab's."""
        tab = Tab(page, cdp, self.clock, self.options.deadline)
        page.on("dialog", lambda dialog: self._dialog(tab, dialog))
        page.on("download", self._download)
        page.on("filechooser", self._choosing)
        page.on("close", lambda _: self._closed(tab))
        await tab.prepare(stop)
        self.tabs.append(tab)
        return tab

    async def start(self, page: Page, cdp: CDPSession) -> None:
        """Adopt the first page, and every window that pages open from now on."""
        await self.adopt(page, cdp)
        self.context.on("page", self._opened)

    async def new(self) -> Tab:
        """Open an empty tab and switch to it."""
        self.check_room()
        tab = await self._fresh()
        self.current = self.tabs.index(tab)
        return tab

    async def _fresh(self) -> Tab:
        self.context.remove_listener("page", self._opened)
        try:
            page = await self.context.new_page()
        finally:
            self.context.on("page", self._opened)
        return await self.adopt(page, await self.context.new_cdp_session(page))

    async def close(self, index: int) -> None:
        """Close a tab that is not the only one."""
        tab = self.tabs[index]
        await tab.page.close()
        self._closed(tab)

    async def choosing(self) -> FileChooser | None:
        """Return the file chooser that this action opened, if any."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CHOOSER_S):
                await self._chooser_opened.wait()
            self._notices = [notice for notice in self._notices if notice != CHOOSER]
        return self._chooser

    async def replace(self) -> None:
        """Replace the current tab with an empty one."""
        old, place = self.tab, self.current
        tab = await self._fresh()
        self.tabs.remove(tab)
        self.tabs[place] = tab
        self.current = place
        with suppress(Exception):  # it has stopped responding, or is gone already
            async with asyncio.timeout(ARRIVAL_S):
                await old.page.close()

    def check_room(self) -> None:
        """Refuse another tab when too many are open."""
        if len(self.tabs) >= self.options.max_tabs:
            raise PageError(f"there are {len(self.tabs)} tabs open, which is the maximum; close one first")

    async def arrive(self) -> bool:
        """Wait for the windows that pages opened; return whether there are new tabs."""
        expected = sum(tab.expected_windows for tab in self.tabs)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.options.look_s):
                while self._arrived < expected or self._arriving:
                    await (asyncio.wait(self._arriving.values()) if self._arriving else asyncio.sleep(0.005))
        self._arrived = 0
        for tab in self.tabs:
            tab.expected_windows = 0
        if self.tab.page.is_closed():
            await self.replace()
            self.notice("the page closed the last window; an empty tab replaced it")
        return len(self.tabs) > self._before

    def _opened(self, page: Page) -> None:
        self._arrived += 1
        self._coming += 1
        room = len(self.tabs) + self._coming <= self.options.max_tabs
        self._arriving[page] = asyncio.ensure_future(self._arrive(page, room))
        self._arriving[page].add_done_callback(lambda _: self._has_arrived(page))

    async def _arrive(self, page: Page, room: bool) -> None:
        from playwright.async_api import Error

        # One at a time, so that tabs stay in the order of their opening.
        async with self._door:
            with suppress(Error):
                await self._take(page, room)

    async def _take(self, page: Page, room: bool) -> None:
        if not room:
            self.notice("the page tried to open another window, which was blocked: too many tabs are open")
            await page.close()
            return
        tab = await self.adopt(page, await self.context.new_cdp_session(page), stop=False)
        self.current = self.tabs.index(tab)
        self.notice(f"the page opened a new tab, number {self.current}, which is now the current tab")

    def _has_arrived(self, page: Page) -> None:
        self._arriving.pop(page, None)
        self._coming -= 1

    def _closed(self, tab: Tab) -> None:
        if tab not in self.tabs or len(self.tabs) == 1:
            return
        index = self.tabs.index(tab)
        self.tabs.remove(tab)
        if index == self.current:
            self.notice(f"tab {index} was closed")
        if index <= self.current:
            self.current = max(self.current - 1, 0)

    async def _dialog(self, tab: Tab, dialog: Dialog) -> None:
        from playwright.async_api import Error

        self._dialogs += 1
        accepted, reply = True, None
        if dialog.type in ("confirm", "prompt"):
            accepted, reply = self.answer or (False, None)
            self.answer = None
        with suppress(Error, TimeoutError):
            if self._dialogs > MAX_DIALOGS:
                self.notice("the page kept opening dialogs; its script was stopped")
                await asyncio.wait_for(tab.cdp.send("Runtime.terminateExecution"), ARRIVAL_S)
            else:
                self._report(dialog, accepted)
            await (dialog.accept(reply) if accepted and reply is not None else _answer(dialog, accepted))

    def _report(self, dialog: Dialog, accepted: bool) -> None:
        what = f"{dialog.type} dialog {dialog.message[:300]!r}"
        if dialog.type == "beforeunload":
            self.notice("the page asked for confirmation before leaving; it was confirmed")
        elif dialog.type == "alert":
            self.notice(f"the page showed an {what}; it was closed")
        elif accepted:
            self.notice(f"the page showed a {what}; it was accepted as requested")
        else:
            self.notice(
                f"the page showed a {what}; it was dismissed. To accept it, use the dialog action first, then try again"
            )

    def _download(self, download: Download) -> None:
        self.notice(f"a download of {download.suggested_filename[:100]!r} was blocked")

    def _choosing(self, chooser: FileChooser) -> None:
        self._chooser = chooser
        self._chooser_opened.set()
        self.notice(CHOOSER)


async def _answer(dialog: Dialog, accepted: bool) -> None:
    await (dialog.accept() if accepted else dialog.dismiss())
