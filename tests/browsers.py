"""A browser for tests and a small site for it, or the reason why a browser is missing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.tools.browser import BrowserOptions, BrowserPool, BrowserSession, SessionOptions, find_executable

PATIENCE_S = 30.0
"""Generous, so that a busy machine does not fail a test."""
Answer = str | tuple[int, dict[str, str], str]


@cache
def why_no_browser() -> str:
    """Why tests marked `web` cannot run here; empty if they can."""
    if find_spec("playwright") is None:
        return "needs the [web] extra"
    try:
        if find_executable() is not None:
            return ""
    except UsageError as problem:
        return str(problem)
    from agentgym.tools.browser.pool import playwright_has_browser

    return "" if playwright_has_browser() else "needs a Chromium (playwright install chromium)"


def need_browser() -> None:
    """Skip the test, or the module, if a browser is missing."""
    if reason := why_no_browser():
        pytest.skip(reason, allow_module_level=True)


class Site:
    """A web site in a thread: `pages` maps a path to HTML, to (status, headers, body), or to a function."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer | Callable[[Any], Answer]] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                host = self.headers.get("host", "").partition(":")[0]
                site.requests.append((host, self.path, dict(self.headers)))
                page = site.pages.get(self.path.partition("?")[0], (404, {}, "<h1>Not found</h1>"))
                answer = page(self) if callable(page) else page
                status, headers, body = (200, {}, answer) if isinstance(answer, str) else answer
                self.send_response(status)
                content = body.encode()
                for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                with suppress(ConnectionError):  # a browser may leave before the whole page is there
                    self.end_headers()
                    self.wfile.write(content)

            def do_POST(self) -> None:
                site.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                self.do_GET()

        return Handler


World = tuple[BrowserPool, Site]


@contextmanager
def browser_site(**options: Any) -> Iterator[World]:
    """A site at http://*.test/ and a pool of browsers that resolve these names."""
    need_browser()
    site = Site()
    pool = BrowserPool(BrowserOptions(resolve=(("*.test", f"127.0.0.1:{site.port}"),), **options))
    try:
        yield pool, site
    finally:
        pool.close()
        site.close()


def open_page(world: World, html: str, **options: Any) -> BrowserSession:
    """A session with `html` open at http://a.test/."""
    pool, site = world
    site.pages["/"] = html
    defaults: dict[str, Any] = {"allowed": ("http://a.test",), "deadline": PATIENCE_S}
    session = pool.open(SessionOptions(**{**defaults, **options}))
    session.goto("http://a.test/")
    return session


def ref(session: BrowserSession, role: str, name: str | None = None) -> str:
    """The ref of an element in a fresh view."""
    return session.view().find(role, name).ref


def look_until_it_fails(session: BrowserSession) -> None:
    """Use a session whose browser is dying."""
    for _ in range(200):
        session.view()
        time.sleep(0.05)
