"""Opens pages of the live web as text, from public addresses, with size and time limits, and records them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentgym.errors import ToolError, require
from agentgym.tools.index.addresses import public_address
from agentgym.tools.index.base import Document
from agentgym.tools.index.cassette import Cassette, RecordedAnswer
from agentgym.tools.index.rate import TokenBucket
from agentgym.tools.index.web.text import readable

if TYPE_CHECKING:
    import httpx

_TEXT_TYPES = re.compile(r"text/|application/(xhtml\+xml|json|xml|[\w.+-]+\+(json|xml))")
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_MAX_URL_CHARS = 2_000
_CHUNK_BYTES = 1 << 16
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,8}=\s{0,8}[\"']?\s{0,8}([\w:.-]{1,40})", re.IGNORECASE)
# Python supports others, some of them expensive on hostile input.
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|ascii|latin-?1|iso-?8859-?\d+|windows-\d+|cp\d+|koi8-[ru]|gb2312|gbk|gb18030|"
    r"big5|euc-(jp|kr)|shift[_-]jis|iso-2022-jp",
    re.IGNORECASE,
)


class PageProblem(ToolError):
    """The model requested a page that cannot be shown."""


@dataclass(frozen=True)
class PageLimits:
    """Limits of one page.

    Args:
        page_bytes: Bytes to read of a page; the rest is dropped.
        total_s: Total time for one page, including redirects.
        redirects: Maximum number of redirects.
        allow_private: Allow this machine and private networks, for tests and closed networks.
    """

    page_bytes: int = 2 << 20
    total_s: float = 20.0
    redirects: int = 5
    allow_private: bool = False


class WebPages:
    """Opens pages by URL. Thread-safe; picklable.

    Args:
        cassette: The recording of pages, including those that could not be opened.
        limits: Limits of each page.
        rate: Rate limit of requests.
    """

    def __init__(self, cassette: Cassette, limits: PageLimits | None = None, rate: TokenBucket | None = None) -> None:
        require("httpx", "search")
        self.cassette = cassette
        self.limits = limits or PageLimits()
        self.rate = rate or TokenBucket(10.0, burst=10)

    def read(self, url: str) -> Document:
        """Return the page's title and text; the id is the URL.

        Raises:
            ToolError: The page cannot be opened; the message says why.
        """
        checked = _checked(url)
        recorded = self.cassette.ask({"kind": "page", "url": str(checked)}, lambda: self._read_live(checked))
        if problem := recorded.about.get("problem"):
            raise PageProblem(problem)
        return Document(url, recorded.about["title"], recorded.body.decode())

    def _read_live(self, url: httpx.URL) -> RecordedAnswer:
        import httpx

        try:
            page = _Fetch(self.limits, self.rate).get(url)
        except ToolError as error:
            return RecordedAnswer({"problem": str(error)})
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = f"{str(url)!r} could not be opened ({type(error).__name__}); try another page"
            return RecordedAnswer({"problem": problem})
        return RecordedAnswer({"title": page.title}, page.text.encode("utf-8", "replace"))


@dataclass(frozen=True)
class _Answer:
    status: int
    kind: str
    charset: str | None
    location: str
    body: bytes
    cut: bool


class _Fetch:
    """One page being fetched."""

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
        raise PageProblem(f"{str(url)!r} redirects too many times; try another page")

    def _ask(self, url: httpx.URL) -> _Answer:
        """Send the request to the checked address, even if the name resolves differently a moment later."""
        import httpx

        self._rate.take()
        port = url.port or (443 if url.scheme == "https" else 80)
        address = public_address(url.host, port, allow_private=self._limits.allow_private)
        headers = {
            "Host": url.netloc.decode("ascii"),
            "User-Agent": "agentgym",
            "Accept": "text/html,text/plain;q=0.9,*/*;q=0.1",
        }
        # Connections are never reused: another host may have the same address.
        limits = httpx.Limits(max_keepalive_connections=0)
        with (
            httpx.Client(trust_env=False, limits=limits, timeout=self._remaining_s()) as client,
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
                if self._remaining_s() <= 0.001:
                    raise PageProblem(f"{str(url)!r} takes too long; try another page")
        return _Answer(
            answer.status_code,
            kind.strip().lower(),
            charset[1] if charset else None,
            answer.headers.get("location", ""),
            bytes(body[: self._limits.page_bytes]),
            len(body) >= self._limits.page_bytes,
        )

    def _remaining_s(self) -> float:
        return max(0.001, self._ends - time.monotonic())


def _checked(url: str) -> httpx.URL:
    """Return the URL of a page without its fragment."""
    import httpx

    try:
        parsed = httpx.URL(url.strip()) if len(url) <= _MAX_URL_CHARS else None
    except (httpx.InvalidURL, ValueError):
        parsed = None
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise PageProblem(f"{url!r:.200} is not a web page; open a URL that a search has returned")
    return parsed.copy_with(fragment=None)


def _document(url: httpx.URL, answer: _Answer) -> Document:
    if not 200 <= answer.status < 300:
        raise PageProblem(
            f"{str(url)!r} cannot be opened: the server returned status {answer.status}; try another page"
        )
    if not _TEXT_TYPES.match(answer.kind):
        raise PageProblem(f"{str(url)!r} has the type {answer.kind!r:.100}, which is not text; try another page")
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
