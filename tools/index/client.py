"""A client of any server with the Search-R1 API (`POST /retrieve`), including those of other projects."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.index.base import (
    MAX_K,
    MAX_QUERY_CHARS,
    Document,
    Filters,
    Hit,
    NoSuchDocument,
    Page,
    Span,
    page_of,
)
from agentgym.tools.index.connection import IndexConnection, checked_url
from agentgym.tools.index.snippets import query_terms, snippet

if TYPE_CHECKING:
    import httpx

SERVICE = "agentgym-index"
"""The name that our own server reports; it adds filters and /open to the API."""


class SearchR1Client:
    """An index on a server. Thread-safe; picklable.

    Our own server can open documents; with any other, `open` returns documents from earlier answers.

    Args:
        url: The server's URL, with or without `/retrieve`.
        token: The server's token, if it requires one.
        timeout_s: Timeout of each attempt.
        retries: Further attempts while the server is unavailable.
        backoff_s: Pause before the first retry; it doubles with each.
        remember: Documents of earlier answers to keep.
    """

    name = "search-r1"

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 5,
        backoff_s: float = 0.25,
        remember: int = 10_000,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = IndexConnection(headers=headers, timeout_s=timeout_s, retries=retries, backoff_s=backoff_s)
        self.url = checked_url(url).removesuffix("/retrieve")
        self._remember = remember
        self._at_once = sys.maxsize
        self._documents: OrderedDict[str, Document] = OrderedDict()
        self._about: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of documents that the server reports, or else of those in earlier answers."""
        return int(self.about().get("documents", len(self._documents)))

    def __bool__(self) -> bool:
        # Without this, `bool()` would send a request to the server.
        return True

    def about(self) -> dict[str, Any]:
        """Return our server's description of itself; empty for other servers."""
        about = self._about
        if about is None:
            answer = self._connection.request("GET", self.url + "/")
            if answer.status_code in (401, 403):
                raise UsageError(f"{self.url}: {self._connection.error_of(answer)}")
            content = _json(answer) if answer.is_success else {}
            about = self._about = content if isinstance(content, dict) and content.get("service") == SERVICE else {}
        return about

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the `k` best hits in the server's order."""
        return self.search_many([query], k, filters)[0]

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the hits of each query, in one request, or in several if the server limits them."""
        hits: list[list[Hit]] = [[] for _ in queries]
        places = [place for place, query in enumerate(queries) if query_terms(query[:MAX_QUERY_CHARS])]
        if not places or k < 1:
            return hits
        options: dict[str, Any] = {"topk": min(k, MAX_K), "return_scores": True}
        if filters:
            if not self.about():
                raise UsageError(f"{self.url} does not support filters, only the Search-R1 API; search without filters")
            options["filters"] = {_sendable(name): _sendable(value) for name, value in filters.items()}
        results = self._retrieved([_sendable(queries[place][:MAX_QUERY_CHARS]) for place in places], options)
        for place, items in zip(places, results, strict=True):
            hits[place] = self._hits(queries[place], items[:k])
        return hits

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return a document's text, or a part of it.

        Raises:
            NoSuchDocument: The server does not have the document, or, if it can only search, has not returned it yet.
        """
        if self.about():
            return self._open_there(document_id, span)
        with self._lock:
            document = self._documents.get(document_id)
        if document is None:
            raise NoSuchDocument(document_id)
        return page_of(document, span)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _open_there(self, document_id: str, span: Span | None) -> Page:
        if document_id != _sendable(document_id):
            raise NoSuchDocument(document_id)
        answer = self._connection.request("POST", self.url + "/open", json={"id": document_id, "span": span})
        if answer.status_code == 404:
            raise NoSuchDocument(document_id)
        page = self._checked(answer)
        try:
            return Page(**page)
        except TypeError as error:
            raise InfrastructureError(f"{self.url}/open did not return a page: {error}") from None

    def _retrieved(self, queries: Sequence[str], options: Mapping[str, Any]) -> list[list[Any]]:
        """Return the results of all queries, in as few requests as the server allows."""
        results: list[list[Any]] = []
        while len(results) < len(queries):
            batch = queries[len(results) :][: self._at_once]
            answer = self._connection.request("POST", self.url + "/retrieve", json={"queries": batch, **options})
            if answer.status_code == 413 and len(batch) > 1:
                # Too much for one request. A single query that is too large is the caller's mistake.
                self._at_once = len(batch) // 2
                continue
            results += self._results(self._checked(answer), len(batch))
        return results

    def _results(self, answer: Any, count: int) -> list[list[Any]]:
        result = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(result, list) or len(result) != count or not all(isinstance(items, list) for items in result):
            raise InfrastructureError(f"{self.url}/retrieve did not return one list per query: {answer!r:.200}")
        return result

    def _checked(self, answer: httpx.Response) -> Any:
        if not answer.is_success:
            raise UsageError(f"{answer.url}: {self._connection.error_of(answer)}")
        return _json(answer)

    def _hits(self, query: str, items: Sequence[Any]) -> list[Hit]:
        try:
            results = [_read(item) for item in items]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InfrastructureError(f"{self.url}/retrieve returned invalid documents: {items!r:.200}") from None
        with self._lock:
            for document, _ in results:
                self._documents[document.id] = document
                self._documents.move_to_end(document.id)
            while len(self._documents) > self._remember:
                self._documents.popitem(last=False)
        terms = query_terms(query)
        return [Hit(document.id, document.title, snippet(document.text, terms), score) for document, score in results]

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = self.__dict__ | {"_documents": self._documents.copy()}
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


def contents_of(title: str, text: str) -> str:
    """Return a document in the API's format: the quoted title on the first line, then the text."""
    return f'"{" ".join(title.split())}"\n{text}'


def _sendable(text: str) -> str:
    """Replace lone surrogates, which a model can write but UTF-8 cannot encode, by question marks."""
    return text.encode("utf-8", "replace").decode()


def _read(item: dict[str, Any]) -> tuple[Document, float]:
    """Parse one result: a document with or without a score, or a bare document."""
    document = item.get("document", item)
    return _document(document["contents"], document.get("id")), float(item.get("score") or 0.0)


def _document(contents: str, document_id: Any) -> Document:
    """Reverse `contents_of`. Without an id from the server, the id depends only on the contents."""
    title, _, text = contents.partition("\n")
    title = title.strip()
    if len(title) >= 2 and title[0] == title[-1] == '"':
        title = title[1:-1]
    name = hashlib.sha256(contents.encode("utf-8", "replace")).hexdigest()[:16] if document_id is None else document_id
    return Document(str(name), title, text)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise InfrastructureError(f"{answer.url} did not return JSON: {answer.text[:200]!r}") from None
