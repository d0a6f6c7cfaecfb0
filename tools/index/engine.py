"""What a kind of index has to do itself: rank, and hand out documents. `LocalIndex` does the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from agentgym.tools.index.base import MAX_QUERY_CHARS, Document, Filters, Hit
from agentgym.tools.index.snippets import snippet
from agentgym.tools.index.tokens import query_terms, tokens

Ranked = tuple[float, Any]
"""A score and the engine's own key of a document."""
Encode = Callable[[list[str]], Any]
"""From texts to a row of numbers each, as a numpy array."""

_TITLE_WEIGHT = 2
_MAX_TITLE_CHARS = 200


@dataclass(frozen=True)
class Query:
    """A query as engines get it: never without a term, never longer than is allowed."""

    text: str
    terms: tuple[str, ...]


@dataclass(frozen=True)
class Encoder:
    """What makes vectors of texts.

    Args:
        model: A folder or name of a sentence-transformers model, or a function from texts to vectors.
        query_prefix: Written before each query, as some models want it.
        passage_prefix: Written before each document.
    """

    model: str | Encode
    query_prefix: str = ""
    passage_prefix: str = ""


class Engine(Protocol):
    """An open index, used by many threads at the same time."""

    def rank(self, queries: Sequence[Query], limit: int, filters: Filters) -> list[list[Ranked]]:
        """Return for each query the `limit` best documents, best first; equal ones in an order that stays."""
        ...

    def documents(self, keys: Sequence[Any]) -> list[Document]:
        """Return the documents that `rank` named."""
        ...

    def document(self, document_id: str) -> Document | None:
        """Return a document by its id, if there is one."""
        ...

    def close(self) -> None:
        """Give back what the engine holds."""
        ...


class Backend(Protocol):
    """A kind of index: how to write it into an empty folder, and how to open it there."""

    def build(self, documents: Iterable[Document], folder: Path, encoder: Encoder | None) -> None:
        """Write an index of documents, which are given once."""
        ...

    def open(self, folder: Path, encoder: Encoder | None) -> Engine:
        """Open what `build` wrote."""
        ...


def as_query(text: str) -> Query:
    """Return a query without what is beyond the limits."""
    text = text[:MAX_QUERY_CHARS]
    return Query(text, query_terms(text))


def hit_of(document: Document, query: Query, score: float) -> Hit:
    """Return what a search shows of a document."""
    return Hit(document.id, document.title[:_MAX_TITLE_CHARS], snippet(document.text, query.terms), score)


def index_terms(document: Document) -> list[str]:
    """Return the words by which a document is found. Those of its title count twice."""
    return tokens(document.title) * _TITLE_WEIGHT + tokens(document.text)


def facet(name: str, value: str) -> str:
    """Return what stands in an index for "this field has this value", whatever the two are."""
    raw = f"{len(name)}:{name}{value}".encode("utf-8", "surrogatepass")
    return blake2b(raw, digest_size=16).hexdigest()


def facets(document: Document) -> list[str]:
    """Return what a document can be filtered by."""
    return [facet(name, value) for name, value in document.fields.items()]
