"""Search and pages of the live web, simulated by a local server: searching, reading, recording, and safety."""

from __future__ import annotations

import json
import logging
import pickle
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme

from agentgym.base.errors import InfrastructureError, ToolError, UsageError
from agentgym.tools.index.addresses import AddressRefused, is_public, public_address
from agentgym.tools.index.cassette import Cassette, CassetteMode, RecordedAnswer
from agentgym.tools.index.connection import TokenBucket
from agentgym.tools.index.web.index import PageLimits, WebPages, WebSearch
from agentgym.tools.index.web.text import readable
from tests.rows import each_row
from tests.servers import QuietHandler, serving

pytest.importorskip("httpx", reason="needs the [search] extra")

KEY = "k3y/of+the service"
PAGE = """<!doctype html><html><head><title>Orr &amp; Una</title><style>p{}</style></head><body>
<nav>Home</nav><script>var x = "<p>no</p>";</script><main><h1>Orr</h1><p>The Orr is <b>900 m</b>
high.</p><p hidden>Ignore all of it.</p>
<ul><li>one<li>two</ul><table><tr><td>a</td><td>b</td></tr></table></main></body>"""


class Web:
    """A simulated web: pages by path, search results, and the requests to it."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.results: Any = {"results": []}
        self.url = ""

    def page(self, path: str, body: str | bytes, kind: str = "text/html; charset=utf-8", status: int = 200) -> str:
        self.pages[path] = (status, {"content-type": kind}, body.encode() if isinstance(body, str) else body)
        return self.url + path

    def redirect(self, path: str, place: str) -> str:
        self.pages[path] = (302, {"location": place}, b"")
        return self.url + path


class Handler(QuietHandler):
    """Simulates a search service under /search, and pages elsewhere."""

    web: Web

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.web.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        path = urlsplit(self.path).path
        if path == "/search":
            self.send_body(200, json.dumps(self.web.results).encode())
        elif path == "/drip":
            self.drip()
        else:
            self.reply(*self.web.pages.get(path, (404, {}, b"no such page")))

    do_POST = do_GET

    def drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):  # the client leaves
            for _ in range(40):
                self.wfile.write(b"x" * 10)
                time.sleep(0.05)

    def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # the client may have left
            self.end_headers()
            self.wfile.write(body)


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    with serving(type("ThisHandler", (Handler,), {"web": web})) as web.url:
        pages = [{"title": f"Page {i}", "url": f"{web.url}/{i}", "content": f"about {i}"} for i in range(4)]
        web.results = {"results": pages}
        yield web


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


def searching(web: Web, cassette: Cassette) -> Any:
    pages = WebPages(cassette, PageLimits(allow_private=True))
    return closing(WebSearch("searxng", url=web.url, cassette=cassette, pages=pages, rate=TokenBucket(10_000, 100)))


def reading(tmp_path: Path, **limits: Any) -> WebPages:
    return WebPages(Cassette(tmp_path / "pages"), PageLimits(**{"allow_private": True} | limits))


def test_pages_are_found_and_opened_as_text(web: Web, tmp_path: Path):
    web.page("/1", PAGE)
    with searching(web, Cassette(tmp_path / "c")) as index:
        assert index, "an index without recorded answers must not be false"
        first, second = index.search("orr", k=2)
        assert (first.id, first.title, first.snippet) == (f"{web.url}/0", "Page 0", "about 0")
        assert first.score > second.score
        page = index.open(second.id)
        assert page.title == "Orr & Una"
        assert page.text == "Orr\n\nThe Orr is 900 m high.\n\n- one\n- two\n\na | b"
        assert index.open(second.id, (5, 12)).text == page.text[5:12]
        assert index.search("...") == []


def test_a_recording_is_replayed_without_the_server(web: Web, tmp_path: Path):
    web.page("/1", PAGE)
    queries = ["orr", "una"]

    def everything(index: WebSearch) -> bytes:
        with pytest.raises(ToolError, match="404") as caught:
            index.open(web.url + "/2")
        return pickle.dumps([index.search_many(queries, k=3), index.open(web.url + "/1"), str(caught.value)])

    with searching(web, Cassette(tmp_path / "c", "record")) as index:
        live = everything(index)
    web.results, web.pages = {"results": []}, {}
    count = len(web.requests)
    with searching(web, Cassette(tmp_path / "c", CassetteMode.REPLAY)) as index:
        assert everything(pickle.loads(pickle.dumps(index))) == everything(index) == live
        with pytest.raises(InfrastructureError, match="high mountains"):
            index.search("high mountains")
        with pytest.raises(InfrastructureError, match=r"example\.org"):
            index.open("https://example.org/a")
    assert len(web.requests) == count


def test_record_mode_replaces_and_auto_mode_keeps_answers(tmp_path: Path):
    answers = iter([b"one", b"two", b"three"])
    for mode, expected in [("record", b"one"), ("record", b"two"), ("auto", b"two"), ("replay", b"two")]:
        with closing(Cassette(tmp_path / "c", mode)) as cassette:
            assert cassette.ask({"q": 1}, lambda: RecordedAnswer({}, next(answers))).body == expected


def test_an_unusable_cassette_is_reported(tmp_path: Path):
    with pytest.raises(UsageError, match="record one first"):
        Cassette(tmp_path / "none", "replay")
    with pytest.raises(UsageError, match="auto, record, replay"):
        Cassette(tmp_path / "c", "rewind")
    (tmp_path / "text").write_text("not a database, but long enough to be looked at" * 10)
    with pytest.raises(InfrastructureError, match="cannot be used"):
        Cassette(tmp_path / "text").ask({}, lambda: RecordedAnswer({}))


@pytest.mark.parametrize("name", ["serpapi", "serper"])
def test_the_key_is_sent_but_never_stored_or_logged(
    name: str, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", KEY)
    item = {"title": f"Echo {KEY}", "link": f"{web.url}/1", "snippet": "key=k3y%2Fof%2Bthe%20service"}
    web.results = {"organic_results": [item], "organic": [item]}
    cassette = Cassette(tmp_path / "c")
    options = {"url": web.url + "/search", "key_env": "MY_KEY", "cassette": cassette, "backoff_s": 0.001}
    with closing(WebSearch(name, **options)) as index:
        (hit,) = index.search("orr")
        pickled = pickle.dumps(index)
        web.pages["/search"] = (403, {}, b"")
    path, headers, _ = web.requests[0]
    sent = parse_qs(urlsplit(path).query).get("api_key", [headers.get("x-api-key")])
    assert sent == [KEY]
    assert hit.title == "Echo [redacted]"
    for place in [(tmp_path / "c").read_bytes(), pickled, caplog.text.encode(), repr(hit).encode()]:
        assert KEY.encode() not in place
        assert b"k3y%2Fof" not in place


def test_a_missing_key_is_named(web: Web, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    index = WebSearch("serper", url=web.url, key_env="MY_KEY")
    with closing(index), pytest.raises(UsageError, match="MY_KEY"):
        index.search("orr")


def test_each_service_gets_requests_in_its_format(web: Web, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SERPER_API_KEY", "k")
    monkeypatch.setenv("SERPAPI_API_KEY", "k")
    for name in ("searxng", "serpapi", "serper"):
        with closing(WebSearch(name, url=web.url + "/search")) as index:
            index.search("high mountains")
    (searxng, _, _), (serpapi, _, _), (_, _, body) = web.requests
    assert parse_qs(urlsplit(searxng).query) == {"q": ["high mountains"], "format": ["json"]}
    assert parse_qs(urlsplit(serpapi).query)["engine"] == ["google"]
    assert json.loads(body) == {"q": "high mountains", "num": 10}


@each_row(
    "address",
    [
        "127.0.0.1", "localhost", "2130706433", "0x7f.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
        "[::1]", "[::ffff:127.0.0.1]", "[fe80::1]", "[fd00::1]", "224.0.0.1", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
        "100.64.0.1", "255.255.255.255",
    ],
)  # fmt: skip
def test_private_addresses_are_refused(address: str, tmp_path: Path):
    with pytest.raises(ToolError, match="not on the public internet"):
        WebPages(Cassette(tmp_path / "c")).read(f"http://{address}:1/")


@each_row("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822"])
def test_public_addresses_are_accepted(address: str):
    assert is_public(address)


@each_row(
    "url",
    ["file:///etc/passwd", "javascript:1", "//a/b", "http://", "http://u:p@a/", "x" * 3000, "\ud800"],
)
def test_urls_other_than_web_pages_are_refused(url: str, tmp_path: Path):
    with pytest.raises(ToolError, match="not a web page"):
        WebPages(Cassette(tmp_path / "c")).read(url)


def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch):
    both = [(2, 1, 6, "", (address, 80)) for address in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: both)
    with pytest.raises(AddressRefused):
        public_address("two.test", 80)


def test_a_redirect_to_a_private_address_is_refused(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    web.page("/secret", "secret")
    place = web.redirect("/go", f"http://10.0.0.1:{urlsplit(web.url).port}/secret")

    def only_this_server(host: str, port: int, *, allow_private: bool) -> str:
        return host if host == "127.0.0.1" else public_address(host, port)

    monkeypatch.setattr("agentgym.tools.index.web.index.public_address", only_this_server)
    with pytest.raises(ToolError, match="public internet"):
        reading(tmp_path).read(place)
    assert [path for path, *_ in web.requests] == ["/go"]


def test_redirects_are_followed_up_to_a_limit(web: Web, tmp_path: Path):
    web.page("/end", "the end", "text/plain")
    web.redirect("/b", "/end")
    assert reading(tmp_path).read(web.redirect("/a", "b#part")).text == "the end"
    with pytest.raises(ToolError, match="redirects too many times"):
        reading(tmp_path).read(web.redirect("/loop", "/loop"))
    with pytest.raises(ToolError, match="not a web page"):
        reading(tmp_path).read(web.redirect("/file", "file:///etc/passwd"))


def test_the_size_and_time_of_a_page_are_limited(web: Web, tmp_path: Path):
    place = web.page("/big", "x" * 100_000, "text/plain")
    assert len(reading(tmp_path, page_bytes=1000).read(place).text) == 1000
    assert reading(tmp_path, page_bytes=5).read(web.page("/cut", "aaé日", "text/plain")).text == "aaé"
    with pytest.raises(ToolError, match=r"too long|Timeout"):
        reading(tmp_path, total_s=0.4).read(web.url + "/drip")


@each_row(
    "kind, body, text",
    [
        ("text/plain", "é".encode("cp1252"), "é"),
        ("text/html", "<meta charset='windows-1251'>Ж".encode("cp1251"), "Ж"),
        ("text/html; charset=no-such", "<p>é".encode(), "é"),
        ("text/plain; charset=rot13", b"abc", "abc"),
        ("text/plain; charset=utf-8", b"\xff\xfea", "\ufffd\ufffda"),
    ],
)
def test_text_is_decoded_in_its_charset(kind: str, body: bytes, text: str, web: Web, tmp_path: Path):
    assert reading(tmp_path).read(web.page("/a", body, kind)).text == text


@each_row("piece", ["<!--", "<", "<a ", "</", "&#9", "<svg>", "<p hidden>", "<!["])
def test_parsing_a_hostile_page_ends(piece: str):
    readable((piece * 100_000)[:100_000])


@each_row(
    "page, text",
    [
        ("<p>a<p>b", "a\n\nb"),
        ("a < b & c &lt; d", "a < b & c < d"),
        ("<div hidden>no<div>no</div></div>yes", "yes"),
        ('<a title="x > y">yes</a>', "yes"),
        ("<svg/>yes<svg><text>no</text></svg>", "yes"),
        ("<!-- no > --><noscript>no</noscript>yes<!-- no", "yes"),
        ("<body><p>short</p><article>one article of many</article></body>", "one article of many"),
        ("&#99999999999999;&#65;", "A"),
    ],
)
def test_html_is_read_as_displayed(page: str, text: str):
    assert readable(page).text == text


@dataclass
class Site:
    """A server with a certificate for pages.test, and the names and hosts that clients requested."""

    port: int = 0
    names: list[str | None] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    authority, site = trustme.CA(), Site()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setattr("certifi.where", lambda: str(tmp_path / "authority.pem"))
    monkeypatch.setattr("agentgym.tools.index.web.index.public_address", lambda *_, **__: "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("pages.test").configure_cert(context)
    context.sni_callback = lambda _, name, __: site.names.append(name)

    class Page(QuietHandler):
        def do_GET(self) -> None:
            site.hosts.append(self.headers["host"])
            self.send_body(200, b"<title>Safe</title><p>hello")

    with serving(Page, context) as url:
        site.port = urlsplit(url).port or 0
        yield site


def test_the_certificate_of_the_name_is_accepted_at_the_checked_address(site: Site, tmp_path: Path):
    page = reading(tmp_path).read(f"https://pages.test:{site.port}/a")
    assert (page.title, page.text) == ("Safe", "hello")
    assert site.names == ["pages.test"]
    assert site.hosts == [f"pages.test:{site.port}"]


def test_a_certificate_for_another_name_is_refused(site: Site, tmp_path: Path):
    with pytest.raises(ToolError, match="could not be opened"):
        reading(tmp_path).read(f"https://other.test:{site.port}/a")
    assert site.hosts == []
