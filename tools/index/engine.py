"""The interface of index engines: rank and return documents. `LocalIndex` does the rest."""

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
"""A score and the engine's key of a document."""
Encode = Callable[[list[str]], Any]
"""Maps texts to a numpy array with one row per text."""

_TITLE_WEIGHT = 2
_MAX_TITLE_CHARS = 200


@dataclass(frozen=True)
class Query:
    """A query for engines, with at least one term and within the limits."""

    text: str
    terms: tuple[str, ...]


@dataclass(frozen=True)
class Encoder:
    """Encodes texts as vectors.

    Args:
        model: The folder or name of a sentence-transformers model, or a function from texts to vectors.
        query_prefix: Prepended to each query, as some models require.
        passage_prefix: Prepended to each document.
    """

    model: str | Encode
    query_prefix: str = ""
    passage_prefix: str = ""


class IndexEngine(Protocol):
    """An open index, used by several threads at a time."""

    def rank(self, queries: Sequence[Query], limit: int, filters: Filters) -> list[list[Ranked]]:
        """Return for each query the `limit` best documents, best first, with ties in a stable order."""
        ...

    def documents(self, keys: Sequence[Any]) -> list[Document]:
        """Return the documents for keys from `rank`."""
        ...

    def document(self, document_id: str) -> Document | None:
        """Return a document by its id, if there is one."""
        ...

    def close(self) -> None:
        """Release the engine's resources."""
        ...


class IndexBackend(Protocol):
    """A kind of index: builds one in an empty folder, and opens it."""

    def build(self, documents: Iterable[Document], folder: Path, encoder: Encoder | None) -> None:
        """Write an index of documents, which can be iterated once."""
        ...

    def open(self, folder: Path, encoder: Encoder | None) -> IndexEngine:
        """Open an index written by `build`."""
        ...


def as_query(text: str) -> Query:
    """Return a query truncated to the limits."""
    text = text[:MAX_QUERY_CHARS]
    return Query(text, query_terms(text))


def hit_of(document: Document, query: Query, score: float) -> Hit:
    """Return a document as a search hit."""
    return Hit(document.id, document.title[:_MAX_TITLE_CHARS], snippet(document.text, query.terms), score)


def index_terms(document: Document) -> list[str]:
    """Return the words to index a document under, with the words of its title twice."""
    return tokens(document.title) * _TITLE_WEIGHT + tokens(document.text)


def facet(name: str, value: str) -> str:
    """Return the index key for "this field has this value"."""
    raw = f"{len(name)}:{name}{value}".encode("utf-8", "surrogatepass")
    return blake2b(raw, digest_size=16).hexdigest()


def facets(document: Document) -> list[str]:
    """Return a document's keys for filters."""
    return [facet(name, value) for name, value in document.fields.items()]
