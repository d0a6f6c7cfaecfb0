"""The interface of every index, local or behind HTTP: search with plain text, open documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentgym.base.errors import ToolError

MAX_QUERY_CHARS = 4_000
"""Maximum characters of a query; the rest is ignored."""
MAX_K = 1_000
"""Maximum hits of one query; a larger `k` is reduced to this."""
MAX_PAGE_CHARS = 100_000
"""Maximum characters of one `Page`; a longer span ends there, as the page's `end` shows."""

Span = tuple[int, int]
"""First character and the one after the last, as in a slice."""
Filters = Mapping[str, str]
"""Fields' names and the exact values to match."""


class NoSuchDocument(ToolError):
    """The model requested a document that is not in the index."""

    def __init__(self, document_id: str):
        super().__init__(document_id)
        self.document_id = document_id

    def __str__(self) -> str:
        short_id = self.document_id if len(self.document_id) <= 100 else self.document_id[:100] + "…"
        return f"no document {short_id!r}; open ids that a search has returned"


@dataclass(frozen=True)
class Document:
    """A text with an id. Searches can filter by `fields` but do not search them."""

    id: str
    title: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    """A document that matches a query; higher scores are better, and only comparable within one query."""

    id: str
    title: str
    snippet: str
    score: float


@dataclass(frozen=True)
class Page:
    """The characters `start` to `end` of a document whose text has `length` characters."""

    id: str
    title: str
    text: str
    start: int
    end: int
    length: int


class Index(Protocol):
    """Documents that can be searched and opened. Thread-safe and deterministic."""

    @property
    def name(self) -> str:
        """The kind of index, such as "tantivy"."""
        ...

    def __len__(self) -> int:
        """Return the number of documents."""
        ...

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the `k` best hits, best first, ties by id.

        The query is plain text without any syntax. A query without words has no hits.
        """
        ...

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the result of `search` for each query."""
        ...

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return a document's text, or the part of it within `span`.

        Raises:
            NoSuchDocument: The index does not contain the document.
        """
        ...

    def close(self) -> None:
        """Release the index's resources. It cannot be used afterwards. Safe to call twice."""
        ...


def page_of(document: Document, span: Span | None = None) -> Page:
    """Return the part of a document within `span`, at most `MAX_PAGE_CHARS` characters."""
    length = len(document.text)
    start, end = span or (0, length)
    start = min(max(start, 0), length)
    end = min(max(end, start), length, start + MAX_PAGE_CHARS)
    return Page(document.id, document.title, document.text[start:end], start, end, length)
