"""What every index offers, whether it lies on this disk or behind HTTP: search with plain text, open documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentgym.errors import ToolError

MAX_QUERY_CHARS = 4_000
"""What of a query is looked at; the rest has no effect."""
MAX_K = 1_000
"""The most hits of one query; a larger `k` counts as this."""
MAX_PAGE_CHARS = 100_000
"""The most characters of one `Page`; a longer span ends there, and the page says so."""

Span = tuple[int, int]
"""First character and the one after the last, as in a slice."""
Filters = Mapping[str, str]
"""Names of fields and what they must hold, exactly."""


class NoSuchDocument(ToolError):
    """The model asked for a document that the index does not have."""

    def __init__(self, document_id: str):
        super().__init__(document_id)
        self.document_id = document_id

    def __str__(self) -> str:
        shown = self.document_id if len(self.document_id) <= 100 else self.document_id[:100] + "…"
        return f"there is no document {shown!r}; open ids that a search has returned"


@dataclass(frozen=True)
class Document:
    """A text with a name. `fields` are what searches can filter by; they are not searched."""

    id: str
    title: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    """A document that fits a query; the higher its score, the better. Scores of different queries do not compare."""

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
    """Documents that can be searched and opened. Safe to use from many threads; the same query has the same hits."""

    @property
    def name(self) -> str:
        """Which kind of index this is, such as "tantivy"."""
        ...

    def __len__(self) -> int:
        """Return how many documents there are."""
        ...

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the `k` best hits, best first, equal ones by id.

        The query is plain text: nothing in it is syntax. One without a word has no hits.
        """
        ...

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return what `search` returns for each query."""
        ...

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return a document's text, or the part of it in `span` as far as there is one.

        Raises:
            NoSuchDocument: There is no document with this id.
        """
        ...

    def close(self) -> None:
        """Give back what the index holds. It cannot be used any more; closing again does nothing."""
        ...


def page_of(document: Document, span: Span | None = None) -> Page:
    """Return the part of a document that `span` names, at most `MAX_PAGE_CHARS` characters of it."""
    length = len(document.text)
    start, end = span or (0, length)
    start = min(max(start, 0), length)
    end = min(max(end, start), length, start + MAX_PAGE_CHARS)
    return Page(document.id, document.title, document.text[start:end], start, end, length)
