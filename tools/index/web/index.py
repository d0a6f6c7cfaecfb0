"""The live web as an index: finds pages with a search service, opens them as text, and records everything.

Replaying a recording (`Cassette(path, "replay")`) returns the same hits and pages without a network, so that training
on the live web is repeatable.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from agentgym.base.cache import cache_folder
from agentgym.base.errors import InfrastructureError, ToolError, UsageError, require
from agentgym.tools.index.addresses import public_address
from agentgym.tools.index.base import MAX_QUERY_CHARS, Document, Filters, Hit, Page, Span, page_of
from agentgym.tools.index.cassette import Cassette, RecordedAnswer
from agentgym.tools.index.connection import Credential, IndexConnection, TokenBucket, checked_url
from agentgym.tools.index.snippets import query_terms
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


class UnreadablePage(ToolError):
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
            raise UnreadablePage(problem)
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
        raise UnreadablePage(f"{str(url)!r} redirects too many times; try another page")

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
                    raise UnreadablePage(f"{str(url)!r} takes too long; try another page")
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
        raise UnreadablePage(f"{url!r:.200} is not a web page; open a URL that a search has returned")
    return parsed.copy_with(fragment=None)


def _document(url: httpx.URL, answer: _Answer) -> Document:
    if not 200 <= answer.status < 300:
        raise UnreadablePage(
            f"{str(url)!r} cannot be opened: the server returned status {answer.status}; try another page"
        )
    if not _TEXT_TYPES.match(answer.kind):
        raise UnreadablePage(f"{str(url)!r} has the type {answer.kind!r:.100}, which is not text; try another page")
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


@dataclass(frozen=True)
class WebResult:
    """One search result."""

    url: str
    title: str
    snippet: str


@dataclass(frozen=True)
class Provider:
    """A service, with the field names of its requests and answers.

    Args:
        name: Its name, which is also stored in recordings.
        url: The URL for queries.
        method: GET sends parameters in the URL, POST as a JSON object.
        query: The parameter for the query.
        count: The parameter for the number of results, if any.
        fixed: Further parameters.
        results: The path of keys to the list of results in the answer.
        title, link, snippet: The keys of these in a result.
        credential: How to send the key; the user names its environment variable.
    """

    name: str
    url: str
    method: Literal["GET", "POST"] = "GET"
    query: str = "q"
    count: str | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    results: tuple[str, ...] = ("results",)
    title: str = "title"
    link: str = "url"
    snippet: str = "snippet"
    credential: Credential | None = None

    def request(self, query: str, count: int) -> dict[str, Any]:
        """Return the query's request arguments."""
        arguments: dict[str, Any] = {**self.fixed, self.query: query}
        if self.count:
            arguments[self.count] = count
        return {"params": arguments} if self.method == "GET" else {"json": arguments}

    def read(self, answer: Any) -> list[WebResult]:
        """Return the results in an answer; an answer without a list of results has none."""
        for name in self.results:
            answer = answer.get(name) if isinstance(answer, dict) else None
        results: dict[str, WebResult] = {}
        for item in answer if isinstance(answer, list) else []:
            url = item.get(self.link) if isinstance(item, dict) else None
            if isinstance(url, str) and url.startswith(("http://", "https://")):
                results.setdefault(url, WebResult(url, _line(item.get(self.title)), _line(item.get(self.snippet))))
        return list(results.values())


PROVIDERS: Mapping[str, Provider] = {
    "searxng": Provider("searxng", "", fixed={"format": "json"}, snippet="content"),
    "serpapi": Provider(
        "serpapi",
        "https://serpapi.com/search",
        count="num",
        fixed={"engine": "google"},
        results=("organic_results",),
        link="link",
        credential=Credential("SERPAPI_API_KEY", "param", "api_key", prefix=""),
    ),
    "serper": Provider(
        "serper",
        "https://google.serper.dev/search",
        method="POST",
        count="num",
        results=("organic",),
        link="link",
        credential=Credential("SERPER_API_KEY", "header", "X-API-KEY", prefix=""),
    ),
}
"""SearXNG is self-hosted, and its settings must allow the format "json"."""


def provider_of(name: str, url: str | None = None, key_env: str | None = None) -> Provider:
    """Return a known service, optionally with a different URL or key variable."""
    if name not in PROVIDERS:
        raise UsageError(f"unknown search service {name!r}; choose from {', '.join(PROVIDERS)} or give a Provider")
    provider = PROVIDERS[name]
    if name == "searxng" and url:
        url = checked_url(url).removesuffix("/search") + "/search"
    provider = replace(provider, url=checked_url(url or provider.url))
    if key_env:
        provider = replace(provider, credential=replace(provider.credential or Credential(key_env), env=key_env))
    return provider


def _line(text: Any) -> str:
    return " ".join(text.split())[:1000] if isinstance(text, str) else ""


_AT_ONCE = 8
_MAX_RESULTS = 10


class WebSearch:
    """An index of the live web. A document's id is its URL. Thread-safe; picklable.

    Args:
        provider: A search service: the name of one of `PROVIDERS`, or a custom `Provider`.
        url: The service's URL, if not the default. SearXNG has no default.
        key_env: The environment variable with the service's key, if not the default.
        cassette: The recording of answers and pages; by default a file in agentgym's cache folder.
        pages: Opens pages; by default only from public addresses.
        rate: Rate limit of requests to the service; 5 per second by default.
        results: Results to request from the service; `k` selects the first of them.
        timeout_s: Timeout of each attempt.
        retries: Further attempts while the service is unavailable or overloaded.
        backoff_s: Pause before the first retry; it doubles with each.
    """

    name = "web"

    def __init__(
        self,
        provider: Provider | str,
        *,
        url: str | None = None,
        key_env: str | None = None,
        cassette: Cassette | None = None,
        pages: WebPages | None = None,
        rate: TokenBucket | None = None,
        results: int = _MAX_RESULTS,
        timeout_s: float = 20.0,
        retries: int = 4,
        backoff_s: float = 0.5,
    ) -> None:
        self.provider = provider_of(provider, url, key_env) if isinstance(provider, str) else provider
        if cassette is None:
            cassette = Cassette(cache_folder() / "web" / f"{self.provider.name}.sqlite")
        self.cassette = cassette
        self.pages = pages or WebPages(cassette)
        self.results = results
        self._connection = IndexConnection(
            credential=self.provider.credential,
            rate=rate or TokenBucket(5.0, burst=5),
            timeout_s=timeout_s,
            retries=retries,
            backoff_s=backoff_s,
        )

    def __len__(self) -> int:
        """Return the number of recorded answers and pages; the size of the web is unknown."""
        return len(self.cassette)

    def __bool__(self) -> bool:
        return True

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the service's top pages."""
        if filters:
            raise UsageError(f"web search does not support filters such as {sorted(filters)!r}; search without filters")
        query = query[:MAX_QUERY_CHARS]
        if not query_terms(query) or k < 1:
            return []
        request = {"kind": "search", "provider": self.provider.name, "query": query, "results": self.results}
        recorded = self.cassette.ask(request, lambda: self._search_live(query))
        results = [WebResult(**item) for item in json.loads(recorded.body)]
        return [Hit(result.url, result.title, result.snippet, 1 / rank) for rank, result in enumerate(results[:k], 1)]

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the pages of each query; queries run concurrently."""
        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(queries)))) as threads:
            return list(threads.map(lambda query: self.search(query, k, filters), queries))

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return the text of a page, or a part of it.

        Raises:
            ToolError: The page cannot be opened; the message says why.
        """
        return page_of(self.pages.read(document_id), span)

    def close(self) -> None:
        """Close the connections and the recording."""
        self._connection.close()
        self.cassette.close()

    def _search_live(self, query: str) -> RecordedAnswer:
        provider = self.provider
        answer = self._connection.request(provider.method, provider.url, **provider.request(query, self.results))
        if not answer.is_success:
            raise UsageError(f"{provider.name}: {self._connection.error_of(answer)}")
        try:
            content: Any = answer.json()
        except ValueError:
            raise InfrastructureError(f"{provider.name} did not return JSON") from None
        body = json.dumps([asdict(result) for result in provider.read(content)])
        return RecordedAnswer({}, (provider.credential.redact(body) if provider.credential else body).encode())
