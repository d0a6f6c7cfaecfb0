"""Pages that try to hang, flood, crash or escape: every action ends, and the session or the next one works."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress

import pytest

from agentgym.base.errors import InfrastructureError, ToolError
from agentgym.tools.browser import BrowserOptions, BrowserPool, BrowserSession, PageError, SessionOptions
from tests.browsers import PATIENCE_S, World, browser_site, open_page, ref
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.web]

DEADLINE_S = 2.5
"""Short, as these tests wait for it to pass."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with browser_site() as world:
        yield world


def still_works(session: BrowserSession, world: World) -> bool:
    """Whether a good page can be used; a browser busy with a bad page may refuse the first attempts to leave it."""
    world[1].pages["/fine"] = "<title>Fine</title><button onclick='document.title = \"pressed\"'>Go</button>"
    for attempts_left in (2, 1, 0):
        with suppress(PageError) if attempts_left else nullcontext():
            session.goto("/fine")
            break
    session.click(ref(session, "button"))
    return session.view().title == "pressed"


LOOP = "<button onclick='for (;;);'>Go</button>"


@each_row(
    "html",
    [
        LOOP,
        "<button onclick='setTimeout(() => { for (;;); }, 100)'>Go</button>",
        "<button onclick='const f = () => Promise.resolve().then(f); f()'>Go</button>",
        "<button onclick='setInterval(() => { const t = Date.now(); while (Date.now() <= t); })'>Go</button>",
        "<button onclick='const a = []; for (;;) a.length = 0'>Go</button>",
        *(f"<button onclick='for (;;) {dialog}(1)'>Go</button>" for dialog in ("alert", "prompt")),
    ],
)
def test_endless_scripts_and_dialogs_are_stopped(world, html):
    with open_page(world, html, deadline=DEADLINE_S) as session:
        button = ref(session, "button")
        with suppress(PageError):
            session.click(button)
        if "(1)" in html:
            assert any("dialog" in notice for notice in session.view().notices)
        assert still_works(session, world)


def test_a_slow_action_on_a_trusted_page_is_an_infrastructure_error(world):
    with open_page(world, LOOP, deadline=DEADLINE_S, trusted=True) as session:
        with pytest.raises(InfrastructureError, match="too long"):
            session.click(ref(session, "button"))
        with pytest.raises(InfrastructureError):
            session.view()


def test_the_number_of_windows_is_limited(world):
    html = "<button onclick='for (let i = 0; i < 50; i++) window.open(\"/pop\" + i)'>Go</button>"
    with open_page(world, html, max_tabs=3) as session:
        session.click(ref(session, "button"))
        view = session.view()
        assert len(view.tabs) <= 3
        assert any("blocked" in notice for notice in view.notices)
        assert still_works(session, world)


def test_only_the_visible_part_of_a_huge_page_is_shown(world):
    html = """<body></body><script>for (let i = 0; i < 50000; i++) {
      const a = document.createElement('a'); a.href = '/l' + i; a.textContent = 'link ' + i;
      const d = document.createElement('div'); d.append(a); document.body.append(d) }</script>"""
    with open_page(world, html) as session:
        view = session.view()
        assert "only the visible part" in view.note
        assert len(view.nodes) < 500
        session.scroll("down", 3)
        assert session.view().nodes[0].name != view.nodes[0].name
        assert still_works(session, world)


def test_waiting_for_a_silent_server_ends(world):
    world[1].pages["/never"] = lambda _: time.sleep(20) or "late"
    with open_page(world, "<button onclick='fetch(\"/never\")'>Go</button>", deadline=DEADLINE_S) as session:
        session.click(ref(session, "button"))
        assert "waiting for the network" in session.view().notices[0]
        with pytest.raises(PageError):
            session.goto("/never")
        assert still_works(session, world)


@each_row(
    "url",
    [
        "file:///etc/passwd", "http://b.test/", "http://127.0.0.1/", "https://a.test/", "http://a.test:1/",
        "data:text/html,x", "chrome://version", "view-source:http://a.test/", "javascript:alert(1)",
        "blob:http://a.test/x", "about:blank", "//b.test/", "http://a.test@b.test/",
    ],
)  # fmt: skip
def test_only_allowed_origins_can_be_opened(world, url):
    with open_page(world, "<p>ok</p>") as session:
        with pytest.raises(PageError, match="cannot be opened"):
            session.goto(url)
        assert session.view().url == "http://a.test/"


@each_row(
    "attempt",
    [
        "location = 'http://b.test/out'",
        "location = 'file:///etc/passwd'",
        "location = 'http://127.0.0.1:PORT/out'",
        "window.open('http://b.test/out')",
        "fetch('http://b.test/out', {mode: 'no-cors'})",
        "new Image().src = 'http://b.test/out'",
        "navigator.sendBeacon('http://b.test/out', 'x')",
        "new WebSocket('ws://b.test/out')",
        "new EventSource('http://b.test/out')",
        "document.body.innerHTML = '<iframe src=\"http://b.test/out\">'",
        "document.body.innerHTML = '<form action=\"http://b.test/out\">'; document.forms[0].submit()",
        'new Worker(URL.createObjectURL(new Blob([\'fetch("http://b.test/out", {mode: "no-cors"})\'])))',
        'document.head.innerHTML = \'<link rel=prefetch href="http://b.test/out"><link rel=preconnect href="http://b.test">\'',
        'document.body.innerHTML = \'<a ping="http://b.test/out" href="/fine">x</a>\'; document.links[0].click()',
    ],
)
def test_pages_reach_no_other_origin(world, attempt):
    site = world[1]
    site.pages["/out"] = "out"
    script = attempt.replace("PORT", str(site.port)).replace('"', "&quot;")
    with open_page(world, f'<button onclick="{script}">Go</button>') as session:
        site.requests.clear()
        session.click(ref(session, "button"))
        session.wait(1)
        with suppress(ToolError):
            session.view()
        assert still_works(session, world)
        assert [request for request in site.requests if request[1] == "/out"] == []


def test_a_closed_port_is_an_infrastructure_error(world):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"
    with BrowserPool(BrowserOptions(resolve=(("*.test", nowhere),))) as pool:
        session = pool.open(SessionOptions(allowed=("http://a.test",), deadline=PATIENCE_S))
        with pytest.raises(InfrastructureError, match="does not respond"):
            session.goto("http://a.test/")


def test_downloads_are_refused_and_reported(world):
    headers = {"Content-Type": "application/zip", "Content-Disposition": "attachment; filename=a.zip"}
    world[1].pages["/file"] = (200, headers, "x")
    with open_page(world, "<a href='/file'>Get</a>") as session:
        session.click(ref(session, "link"))
        assert "a download of 'a.zip' was blocked" in session.view().notices
        session.goto("/file")
        assert still_works(session, world)


def test_service_workers_and_permissions_are_refused(world):
    world[1].pages["/sw.js"] = (200, {"Content-Type": "text/javascript"}, "")
    html = """<p id=a></p><p id=b></p><script>
      navigator.serviceWorker?.register('/sw.js').then(() => a.textContent = 'yes', () => a.textContent = 'no');
      navigator.geolocation?.getCurrentPosition(() => b.textContent = 'yes', () => b.textContent = 'no')</script>"""
    with open_page(world, html) as session:
        session.wait(2)
        assert "yes" not in session.view().text
