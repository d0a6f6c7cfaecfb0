"""Describes web search services with JSON APIs as data: how to send a query and where to find the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentgym.errors import UsageError
from agentgym.tools.index.connection import checked_url
from agentgym.tools.index.credential import Credential


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
