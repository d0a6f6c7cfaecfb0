"""The live web as an index: finds pages with a search service, opens them as text, and records everything.

Replaying a recording (`Cassette(path, "replay")`) returns the same hits and pages without a network, so that training
on the live web is repeatable.
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
from agentgym.tools.index.cassette import Cassette, RecordedAnswer
from agentgym.tools.index.connection import HttpConnection
from agentgym.tools.index.rate import TokenBucket
from agentgym.tools.index.tokens import query_terms
from agentgym.tools.index.web.pages import WebPages
from agentgym.tools.index.web.search import Provider, WebResult, provider_of

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
        self._connection = HttpConnection(
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
