"""Browsers shared by a process's sessions: started on demand, recycled, replaced when they die."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import shutil
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.tools.browser.bridge import bridged, browsers
from agentgym.tools.browser.options import BrowserOptions, SessionOptions
from agentgym.tools.browser.recording import check_can_record
from agentgym.tools.browser.session import BrowserSession
from agentgym.tools.browser.tab import script

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, CDPSession, Page, Playwright


LAUNCH_S = 60.0
STOP_S = 5.0
PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Driver:
    """A running driver; `pid` is `None` where processes cannot be inspected."""

    playwright: Playwright
    pid: int | None

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self.pid is None or _parent(self.pid) == os.getpid()

    async def stop(self) -> None:
        """Stop it, and with it every browser it started."""
        with suppress(Exception):  # it may be dead already, and then fails with bare exceptions
            async with asyncio.timeout(STOP_S):
                await self.playwright.stop()


async def start_driver() -> Driver:
    """Start Playwright's driver. It exits with this process, which is the only one to hold its input pipe."""
    require("playwright", "web")
    from playwright.async_api import async_playwright

    before = _drivers()
    async with asyncio.timeout(LAUNCH_S):
        playwright = await async_playwright().start()
    pid = next(iter(_drivers() - before), None)
    if pid is not None:
        _let_go_in_children(pid)
    return Driver(playwright, pid)


def _let_go_in_children(pid: int) -> None:
    """Redirect the driver's pipes in forked children, which would otherwise keep it alive after this process."""
    its = [name for file, name in _files(str(pid)).items() if file in (0, 1)]
    own = {file: name for file, name in _files("self").items() if name in its and file > 2}

    def let_go() -> None:
        # Not closed: the objects that own these descriptors would later close whatever reuses the numbers.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for file, name in _files("self").items():
            if own.get(file) == name:
                os.dup2(nowhere, file, inheritable=False)
        os.close(nowhere)

    os.register_at_fork(after_in_child=let_go)


def _files(process: str) -> dict[int, str]:
    """Return a process's open pipes and sockets, by descriptor."""
    descriptors = {}
    with suppress(OSError):
        for entry in (PROCESSES / process / "fd").iterdir():
            with suppress(OSError):
                if (name := os.readlink(entry)).startswith(("pipe:", "socket:")):
                    descriptors[int(entry.name)] = name
    return descriptors


def _drivers() -> set[int]:
    """Return the drivers that this process started."""
    drivers = set()
    with suppress(OSError):
        for entry in PROCESSES.iterdir():
            if entry.name.isdigit() and _parent(int(entry.name)) == os.getpid():
                with suppress(OSError):
                    if b"run-driver" in (entry / "cmdline").read_bytes():
                        drivers.add(int(entry.name))
    return drivers


def _parent(pid: int) -> int | None:
    """Return the parent of a live process."""
    with suppress(OSError):
        state, parent = (PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()[:2]
        return None if state in "ZX" else int(parent)
    return None


VARIABLE = "AGENTGYM_CHROMIUM"
# The headless shell has no window management and takes half the time.
SHELL = "chromium-headless-shell"
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DEBIAN = Path("/usr/lib/chromium")
# One process for all sites of a context: fewer processes, and one virtual clock for a page and its frames.
ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-site-isolation-trials",
    "--disable-gpu",
    "--font-render-hinting=none",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--no-pings",
    # Chromium schedules frames by page time, which stands still between actions: where the policy or the machine is
    # slow, real time overtakes it, and a frame that is to be drawn at a point in real time never is. With this flag,
    # frames are drawn as soon as they are complete.
    "--run-all-compositor-stages-before-draw",
)


def find_executable(executable: str | None = None) -> str | None:
    """Return the browser to start: the argument, $AGENTGYM_CHROMIUM, or one on PATH; else `None`."""
    for named, where in ((executable, "executable"), (os.environ.get(VARIABLE), f"${VARIABLE}")):
        if named:
            if (path := shutil.which(named)) is None:
                raise UsageError(f"{where} is {named!r}, which is not an executable program")
            return _program(path)
    return next((_program(path) for path in map(shutil.which, NAMES) if path), None)


def _program(path: str) -> str:
    """Return the program behind a command: Debian's headless shell command is a script that would keep running."""
    return str(DEBIAN / SHELL) if path == f"/usr/bin/{SHELL}" and (DEBIAN / SHELL).exists() else path


def playwright_has_browser() -> bool:
    """Whether `playwright install chromium` has been run here."""
    place = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or os.path.expanduser("~/.cache/ms-playwright")
    return os.path.isdir(place) and any(name.startswith("chromium") for name in os.listdir(place))


def choose_executables(executable: str | None = None) -> list[str | None]:
    """Return the browsers to try, best first; `None` is the one that Playwright installed."""
    requested = executable or os.environ.get(VARIABLE)
    own = [None] if not requested and playwright_has_browser() else []
    path = find_executable(executable)
    if not own and path is None:
        raise UsageError(
            "no Chromium was found; run 'playwright install chromium', or install one (for example "
            f"'apt install {SHELL}') and give its path as BrowserOptions(executable=...) or in ${VARIABLE}"
        )
    return [*own, *([path] if path else [])]


async def launch(driver: Driver, options: BrowserOptions) -> Browser:
    """Start a headless Chromium, with its own sandbox where the machine allows it."""
    from playwright.async_api import Error

    problem = None
    sandboxes = (True, False) if os.geteuid() else (False,)
    for path, sandbox in product(choose_executables(options.executable), sandboxes):
        try:
            return await driver.playwright.chromium.launch(
                executable_path=path,
                args=[*ARGUMENTS, f"--host-resolver-rules={options.host_rules}"],
                chromium_sandbox=sandbox,
                timeout=LAUNCH_S * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            problem = error
    raise InfrastructureError(f"Chromium did not start: {str(problem)[:1500]}") from problem


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
