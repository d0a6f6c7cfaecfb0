"""The interface of index engines: rank and return documents. `LocalIndex` does the rest."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from agentgym.tools.index.base import MAX_QUERY_CHARS, Document, Filters, Hit
from agentgym.tools.index.snippets import query_terms, snippet, tokens

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


_FILE = "documents.sqlite"
_MAPPED_BYTES = 1 << 40
_SCHEMA = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA page_size = 8192;
    CREATE TABLE documents (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, record TEXT NOT NULL);
    CREATE TABLE facets (facet TEXT, number INTEGER, PRIMARY KEY (facet, number)) WITHOUT ROWID;
"""


class DocumentWriter:
    """Writes documents, numbered from 0. The caller can add more tables through `connection`."""

    def __init__(self, folder: Path) -> None:
        # A build uses one thread at a time, but may end in a different thread than it started in.
        self.connection = sqlite3.connect(folder / _FILE, isolation_level=None, check_same_thread=False)
        self.connection.executescript(_SCHEMA)
        self.connection.execute("BEGIN")

    def stored(self, documents: Iterable[Document]) -> Iterator[tuple[int, Document]]:
        """Store each document, then yield it with its number."""
        for number, document in enumerate(documents):
            record = json.dumps([document.title, document.text, dict(document.fields)], ensure_ascii=False)
            self.connection.execute("INSERT INTO documents VALUES (?, ?, ?)", (number, document.id, record))
            rows = [(value, number) for value in facets(document)]
            self.connection.executemany("INSERT INTO facets VALUES (?, ?)", rows)
            yield number, document

    def __enter__(self) -> DocumentWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.connection.execute("COMMIT")
        self.connection.close()


class DocumentFile:
    """Reads what a `DocumentWriter` wrote. One connection, one thread at a time."""

    def __init__(self, folder: Path) -> None:
        # The file never changes again, so any number of readers can share it without locks.
        uri = f"file:{quote(str(folder / _FILE))}?mode=ro&immutable=1"
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        self._connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        self._lock = threading.Lock()

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a statement."""
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def documents(self, keys: Sequence[Any]) -> list[Document]:
        """Return documents by number."""
        sql = "SELECT id, record FROM documents WHERE number = ?"
        return [_document(*self.query(sql, (number,))[0]) for number in keys]

    def document(self, document_id: str) -> Document | None:
        """Return a document by its id, if there is one."""
        rows = self.query("SELECT id, record FROM documents WHERE id = ?", (document_id,))
        return _document(*rows[0]) if rows else None

    def all(self) -> Iterator[Document]:
        """Yield all documents in the order of writing."""
        for row in self._connection.execute("SELECT id, record FROM documents ORDER BY number"):
            yield _document(*row)

    def numbers(self, filters: Filters) -> list[int]:
        """Return the numbers of the documents that pass all filters."""
        sql = " INTERSECT ".join("SELECT number FROM facets WHERE facet = ?" for _ in filters)
        return [row[0] for row in self.query(sql, [facet(name, value) for name, value in filters.items()])]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def _document(document_id: str, record: str) -> Document:
    return Document(document_id, *json.loads(record))
