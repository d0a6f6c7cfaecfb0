"""Pages of the live web as text: only public addresses, only text, only so large, only so long; recorded."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentgym.errors import ToolError, require
from agentgym.tools.index.addresses import public_address
from agentgym.tools.index.base import Document
from agentgym.tools.index.cassette import Cassette, Recorded
from agentgym.tools.index.rate import TokenBucket
from agentgym.tools.index.web_text import readable

if TYPE_CHECKING:
    import httpx

_TEXT_TYPES = re.compile(r"text/|application/(xhtml\+xml|json|xml|[\w.+-]+\+(json|xml))")
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_MAX_URL_CHARS = 2_000
_CHUNK_BYTES = 1 << 16
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,8}=\s{0,8}[\"']?\s{0,8}([\w:.-]{1,40})", re.IGNORECASE)
# Python has further ones, some of them costly on hostile input.
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|ascii|latin-?1|iso-?8859-?\d+|windows-\d+|cp\d+|koi8-[ru]|gb2312|gbk|gb18030|"
    r"big5|euc-(jp|kr)|shift[_-]jis|iso-2022-jp",
    re.IGNORECASE,
)


class PageProblem(ToolError):
    """The model asked for a page that cannot be shown."""


@dataclass(frozen=True)
class PageLimits:
    """How much of the web one page may be.

    Args:
        page_bytes: What is read of a page; the rest is left out.
        total_s: For one page, with all its redirects.
        redirects: The most of them.
        allow_private: Also pages of this machine and of private networks. For tests and closed networks.
    """

    page_bytes: int = 2 << 20
    total_s: float = 20.0
    redirects: int = 5
    allow_private: bool = False


class WebPages:
    """Opens pages by URL. Safe for threads; can be pickled.

    Args:
        cassette: Where pages are recorded, also those that could not be opened.
        limits: How much of the web one page may be.
        rate: What every request waits for.
    """

    def __init__(self, cassette: Cassette, limits: PageLimits | None = None, rate: TokenBucket | None = None) -> None:
        require("httpx", "search")
        self.cassette = cassette
        self.limits = limits or PageLimits()
        self.rate = rate or TokenBucket(10.0, burst=10)

    def read(self, url: str) -> Document:
        """Return the page's title and text; the id is the URL.

        Raises:
            ToolError: The page is none that can be opened; the message says why.
        """
        checked = _checked(url)
        recorded = self.cassette.ask({"kind": "page", "url": str(checked)}, lambda: self._read_live(checked))
        if problem := recorded.about.get("problem"):
            raise PageProblem(problem)
        return Document(url, recorded.about["title"], recorded.body.decode())

    def _read_live(self, url: httpx.URL) -> Recorded:
        import httpx

        try:
            page = _Fetch(self.limits, self.rate).get(url)
        except ToolError as error:
            return Recorded({"problem": str(error)})
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Recorded({"problem": f"{str(url)!r} could not be opened ({type(error).__name__}); try another page"})
        return Recorded({"title": page.title}, page.text.encode("utf-8", "replace"))


@dataclass(frozen=True)
class _Answer:
    status: int
    kind: str
    charset: str | None
    location: str
    body: bytes
    cut: bool


class _Fetch:
    """One page on its way here."""

    def __init__(self, limits: PageLimits, rate: TokenBucket) -> None:
        self._limits = limits
        self._rate = rate
        self._ends = time.monotonic() + limits.total_s

    def get(self, url: httpx.URL) -> Document:
        place = url
        for _ in range(self._limits.redirects + 1):
            answer = self._ask(place)
            if answer.status not in (301, 302, 303, 307, 308) or not answer.location:
                return _document(url, answer)
            place = _checked(str(place.join(answer.location)))
        raise PageProblem(f"{str(url)!r} leads from page to page without an end; try another page")

    def _ask(self, url: httpx.URL) -> _Answer:
        """Ask the address that was checked, whatever the name may lead to a moment later."""
        import httpx

        self._rate.take()
        port = url.port or (443 if url.scheme == "https" else 80)
        address = public_address(url.host, port, allow_private=self._limits.allow_private)
        headers = {
            "Host": url.netloc.decode("ascii"),
            "User-Agent": "agentgym",
            "Accept": "text/html,text/plain;q=0.9,*/*;q=0.1",
        }
        # A connection is never kept: another host may have the same address.
        limits = httpx.Limits(max_keepalive_connections=0)
        with (
            httpx.Client(trust_env=False, limits=limits, timeout=self._left_s()) as client,
            client.stream(
                "GET", url.copy_with(host=address), headers=headers, extensions={"sni_hostname": url.host}
            ) as answer,
        ):
            return self._received(url, answer)

    def _received(self, url: httpx.URL, answer: httpx.Response) -> _Answer:
        kind, _, parameters = answer.headers.get("content-type", "text/html").partition(";")
        charset = re.search(r"charset\s*=\s*[\"']?([\w:.-]{1,40})", parameters, re.IGNORECASE)
        body = bytearray()
        if answer.is_success and _TEXT_TYPES.match(kind.strip().lower()):
            for chunk in answer.iter_bytes(_CHUNK_BYTES):
                body += chunk
                if len(body) >= self._limits.page_bytes:
                    break
                if self._left_s() <= 0.001:
                    raise PageProblem(f"{str(url)!r} takes too long; try another page")
        return _Answer(
            answer.status_code,
            kind.strip().lower(),
            charset[1] if charset else None,
            answer.headers.get("location", ""),
            bytes(body[: self._limits.page_bytes]),
            len(body) >= self._limits.page_bytes,
        )

    def _left_s(self) -> float:
        return max(0.001, self._ends - time.monotonic())


def _checked(url: str) -> httpx.URL:
    """Return the URL of a page without its fragment."""
    import httpx

    try:
        parsed = httpx.URL(url.strip()) if len(url) <= _MAX_URL_CHARS else None
    except (httpx.InvalidURL, ValueError):
        parsed = None
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise PageProblem(f"{url!r:.200} is no page of the web; open a URL that a search has returned")
    return parsed.copy_with(fragment=None)


def _document(url: httpx.URL, answer: _Answer) -> Document:
    if not 200 <= answer.status < 300:
        raise PageProblem(f"{str(url)!r} cannot be opened: the server answers {answer.status}; try another page")
    if not _TEXT_TYPES.match(answer.kind):
        raise PageProblem(f"{str(url)!r} is of the type {answer.kind!r:.100}, which is no text; try another page")
    text = _decoded(answer)
    if answer.kind not in _HTML_TYPES:
        return Document(str(url), str(url), text)
    page = readable(text)
    return Document(str(url), page.title or str(url), page.text)


def _decoded(answer: _Answer) -> str:
    meta = _META_CHARSET.search(answer.body[:4096]) if answer.kind in _HTML_TYPES else None
    for charset in (answer.charset, meta[1].decode("ascii") if meta else None):
        if charset and _CHARSETS.fullmatch(charset):
            try:
                return answer.body.decode(charset, "replace")
            except LookupError:
                continue
    try:
        return answer.body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if answer.cut and error.start >= len(answer.body) - 3:
            return answer.body[: error.start].decode("utf-8-sig")
        return answer.body.decode("cp1252", "replace")
