"""The live web as an index: a search service finds pages, pages are opened as text, and all of it is recorded.

A recording played back (`Cassette(path, "replay")`) gives the same hits and pages without a network, so that training
on the live web can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from agentgym.caches import cache_folder
from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.index.base import MAX_QUERY_CHARS, Filters, Hit, Page, Span, page_of
from agentgym.tools.index.cassette import Cassette, Recorded
from agentgym.tools.index.connection import Connection
from agentgym.tools.index.rate import TokenBucket
from agentgym.tools.index.tokens import query_terms
from agentgym.tools.index.web_pages import WebPages
from agentgym.tools.index.web_search import Provider, WebResult, provider_of

_AT_ONCE = 8
_MAX_RESULTS = 10


class WebSearch:
    """An index of the live web. A document's id is its URL. Safe for threads; can be pickled.

    Args:
        provider: A search service: one of `PROVIDERS` by name, or a `Provider` of one's own.
        url: Where the service is, if not at its usual place. SearXNG has no usual one.
        key_env: The environment variable that holds the service's key, if not the usual one.
        cassette: Where answers and pages are recorded; a file in agentgym's cache folder by default.
        pages: How pages are opened; public addresses only by default.
        rate: What every request to the service waits for; 5 per second by default.
        results: How many results the service is asked for; `k` takes the first of them.
        timeout_s: For one try of one request.
        retries: How often a request is tried again while the service is away or overloaded.
        backoff_s: The pause before the first further try; it doubles with each.
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
        self._connection = Connection(
            credential=self.provider.credential,
            rate=rate or TokenBucket(5.0, burst=5),
            timeout_s=timeout_s,
            retries=retries,
            backoff_s=backoff_s,
        )

    def __len__(self) -> int:
        """Return how many answers and pages are recorded; nobody knows how many there are."""
        return len(self.cassette)

    def __bool__(self) -> bool:
        return True

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the pages that the service ranks first."""
        if filters:
            raise UsageError(
                f"the web cannot be filtered by fields, not by {sorted(filters)!r}; search without filters"
            )
        query = query[:MAX_QUERY_CHARS]
        if not query_terms(query) or k < 1:
            return []
        asked = {"kind": "search", "provider": self.provider.name, "query": query, "results": self.results}
        recorded = self.cassette.ask(asked, lambda: self._search_live(query))
        found = [WebResult(**item) for item in json.loads(recorded.body)]
        return [Hit(each.url, each.title, each.snippet, 1 / rank) for rank, each in enumerate(found[:k], 1)]

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the pages of each query; several are asked at one time."""
        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(queries)))) as threads:
            return list(threads.map(lambda query: self.search(query, k, filters), queries))

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return the text of a page, or a part of it.

        Raises:
            ToolError: The page is none that can be opened; the message says why.
        """
        return page_of(self.pages.read(document_id), span)

    def close(self) -> None:
        """Close the connections and the recording."""
        self._connection.close()
        self.cassette.close()

    def _search_live(self, query: str) -> Recorded:
        provider = self.provider
        answer = self._connection.request(provider.method, provider.url, **provider.request(query, self.results))
        if not answer.is_success:
            raise UsageError(f"{provider.name}: {self._connection.said_by(answer)}")
        try:
            content: Any = answer.json()
        except ValueError:
            raise InfrastructureError(f"{provider.name} did not answer with JSON") from None
        body = json.dumps([asdict(result) for result in provider.read(content)])
        return Recorded({}, (provider.credential.redact(body) if provider.credential else body).encode())
