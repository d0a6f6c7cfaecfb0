"""Browsers shared by a process's sessions: started on demand, recycled, replaced when they die."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from agentgym.errors import InfrastructureError
from agentgym.tools.browser.bridge import bridged, browsers
from agentgym.tools.browser.driver import Driver, start_driver
from agentgym.tools.browser.launching import launch
from agentgym.tools.browser.options import BrowserOptions, SessionOptions
from agentgym.tools.browser.recording import check_can_record
from agentgym.tools.browser.session import BrowserSession
from agentgym.tools.browser.tab import script

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, CDPSession, Page

OPEN_S = 60.0
CLOSE_S = 5.0
ATTEMPTS = 3


@dataclass(frozen=True)
class _Spare:
    """A context with a page, opened in advance."""

    context: BrowserContext
    page: Page
    cdp: CDPSession


@dataclass(eq=False)
class _RunningBrowser:
    """One Chromium."""

    browser: Browser
    driver: Driver
    opened: int = 0
    dead: bool = False
    sessions: set[BrowserSession] = field(default_factory=set)
    spares: list[_Spare] = field(default_factory=list)
    filling: asyncio.Task[None] | None = None

    def alive(self) -> bool:
        """Whether the context can still be used."""
        return not self.dead and self.driver.alive and self.browser.is_connected()


class _PoolState:
    """A pool's state in one process, used on the browsers' loop."""

    def __init__(self, options: BrowserOptions) -> None:
        self.pid = os.getpid()
        self.driver: Driver | None = None
        self.running: list[_RunningBrowser] = []
        self.lock = asyncio.Lock()
        self.room = asyncio.Semaphore(options.max_sessions)


class BrowserPool:
    """Opens sessions in Chromium processes started with `options`.

    A browser serves `recycle_after` sessions and is then replaced; one that dies is replaced with the next `open`, and
    its sessions raise `InfrastructureError`. Nothing keeps running after `close` or after the process exits.
    """

    def __init__(self, options: BrowserOptions | None = None) -> None:
        self.options = options or BrowserOptions()
        self._state: _PoolState | None = None
        _pools.add(self)

    @bridged
    async def open(self, options: SessionOptions) -> BrowserSession:
        """Open a session with a separate context: it shares no cookies, storage or cache."""
        state = self._here()
        try:
            async with asyncio.timeout(OPEN_S):
                await state.room.acquire()
        except TimeoutError:
            raise InfrastructureError(
                f"all {self.options.max_sessions} browser sessions are in use; close some or raise max_sessions"
            ) from None
        try:
            return await self._opened(state, options)
        except BaseException:
            state.room.release()
            raise

    @bridged
    async def close(self) -> None:
        """Close every session and stop every process. The pool can be used again."""
        state, self._state = self._here(), None
        async with state.lock:
            for running in list(state.running):
                for session in list(running.sessions):
                    session._lost("the browser pool was closed")
                await self._end(state, running)
            if state.driver is not None:
                await state.driver.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def sessions(self) -> int:
        """The number of open sessions."""
        return 0 if self._state is None else sum(len(running.sessions) for running in self._state.running)

    def _here(self) -> _PoolState:
        """Return this process's state: a forked child must not touch its parent's."""
        if self._state is None or self._state.pid != os.getpid():
            self._state = _PoolState(self.options)
        return self._state

    async def _opened(self, state: _PoolState, options: SessionOptions) -> BrowserSession:
        problem: Exception | None = None
        for _ in range(ATTEMPTS):
            async with state.lock:
                running = await self._browser(state)
                running.opened += 1
            check_can_record(options.record)
            try:
                async with asyncio.timeout(OPEN_S):
                    spare = running.spares.pop() if running.spares else await self._spare(running)
                    session = await self._begin(state, running, spare, options)
                self._refill(running)
                return session
            except InfrastructureError:
                raise
            except Exception as error:
                problem = error
                running.dead = True
        raise InfrastructureError(f"no browser session could be opened: {problem}") from problem

    async def _begin(
        self, state: _PoolState, running: _RunningBrowser, spare: _Spare, options: SessionOptions
    ) -> BrowserSession:
        async def released() -> None:
            if session in running.sessions:
                running.sessions.discard(session)
                state.room.release()
            if self._spent(running) and not running.sessions and running in state.running:
                async with state.lock:
                    await self._end(state, running)

        context = spare.context
        session = BrowserSession(context, options, running.alive, released)
        allowed = options.pattern.pattern.removeprefix("^")
        sockets = re.sub(r"\bhttp(s?)://", r"ws\1://", allowed)
        await asyncio.gather(
            context.add_init_script(script("page.js").replace("SEED", str(options.seed & 0xFFFFFFFF))),
            context.set_extra_http_headers(dict(options.headers)),
            context.route(re.compile(f"^(?!{allowed})"), _refuse),
            context.route_web_socket(re.compile(f"^(?!{sockets})"), _close),
            spare.page.set_viewport_size({"width": options.viewport[0], "height": options.viewport[1]}),
            session._start(spare.page, spare.cdp),
        )
        running.sessions.add(session)
        return session

    async def _browser(self, state: _PoolState) -> _RunningBrowser:
        """Return the browser for the next session; start one if none is running or the current one is spent."""
        for running in list(state.running):
            if not running.alive() or (self._spent(running) and not running.sessions):
                await self._end(state, running)
        usable = [running for running in state.running if not self._spent(running)]
        if usable:
            return usable[-1]
        if state.driver is not None and not state.driver.alive:
            state.driver = None
        state.driver = state.driver or await start_driver()
        running = _RunningBrowser(await launch(state.driver, self.options), state.driver)
        running.browser.on("disconnected", lambda _: self._died(running))
        state.running.append(running)
        return running

    async def _spare(self, running: _RunningBrowser) -> _Spare:
        options: dict[str, Any] = {
            "accept_downloads": False,
            "service_workers": "block",
            "permissions": [],
            "reduced_motion": "reduce",
            "locale": self.options.locale,
            "timezone_id": self.options.timezone,
        }
        context = await running.browser.new_context(**options)
        page = await context.new_page()
        return _Spare(context, page, await context.new_cdp_session(page))

    def _refill(self, running: _RunningBrowser) -> None:
        """Open spare contexts in the background."""

        async def fill() -> None:
            with suppress(Exception):  # the next session opens its own context, and reports what is wrong
                while len(running.spares) < self.options.spare and not running.dead and not self._spent(running):
                    running.spares.append(await self._spare(running))

        if running.filling is None or running.filling.done():
            running.filling = asyncio.ensure_future(fill())

    def _spent(self, running: _RunningBrowser) -> bool:
        return running.opened >= self.options.recycle_after

    def _died(self, running: _RunningBrowser) -> None:
        running.dead = True
        for session in running.sessions:
            session._lost("the browser of this session died")

    async def _end(self, state: _PoolState, running: _RunningBrowser) -> None:
        if running in state.running:
            state.running.remove(running)
        running.dead = True
        if running.filling is not None:
            running.filling.cancel()
        with suppress(Exception):  # a dead browser needs no closing
            async with asyncio.timeout(CLOSE_S):
                await running.browser.close()


async def _refuse(route: Any) -> None:
    with suppress(Exception):  # the page may be gone, and its request with it
        await route.abort("blockedbyclient")


async def _close(socket: Any) -> None:
    with suppress(Exception):  # the page may be gone, and its socket with it
        await socket.close()


_pools: weakref.WeakSet[BrowserPool] = weakref.WeakSet()
_shared: dict[tuple[int, BrowserOptions], BrowserPool] = {}


def default_pool(options: BrowserOptions | None = None) -> BrowserPool:
    """Return this process's pool for these options."""
    options = options or BrowserOptions()
    return _shared.setdefault((os.getpid(), options), BrowserPool(options))


@atexit.register
def close_pools() -> None:
    """Close every pool of this process."""
    for pool in list(_pools):
        if pool._state is not None and pool._state.pid == os.getpid():
            with suppress(Exception):  # the browsers end with their driver
                browsers.wait(pool.close.here())
