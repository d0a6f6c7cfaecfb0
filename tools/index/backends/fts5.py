"""The backend without dependencies: BM25 in SQLite's FTS5."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from agentgym.tools.index.base import Document, Filters
from agentgym.tools.index.engine import DocumentFile, DocumentWriter, Encoder, Query, Ranked, facet, index_terms

# This tokenizer treats every non-ASCII character as part of a word, so words that are already split stay intact.
_TABLE = "CREATE VIRTUAL TABLE terms USING fts5(words, content='', tokenize='ascii')"
_OPTIMIZE = "INSERT INTO terms(terms) VALUES ('optimize')"
_RANK = "SELECT -rank, rowid FROM terms WHERE terms MATCH ? ORDER BY rank LIMIT ?"
_RANK_FILTERED = """
    SELECT -bm25(terms), rowid FROM terms WHERE terms MATCH ? {conditions} ORDER BY bm25(terms), rowid LIMIT ?
"""
_CONDITION = "AND rowid IN (SELECT number FROM facets WHERE facet = ?)"


class Fts5:
    """The backend "fts5"."""

    def build(self, documents: Iterable[Document], folder: Path, encoder: Encoder | None) -> None:
        """Write the words and documents to one file."""
        with DocumentWriter(folder) as writer:
            writer.connection.execute(_TABLE)
            for number, document in writer.stored(documents):
                row = (number, " ".join(index_terms(document)))
                writer.connection.execute("INSERT INTO terms(rowid, words) VALUES (?, ?)", row)
            writer.connection.execute(_OPTIMIZE)

    def open(self, folder: Path, encoder: Encoder | None) -> Fts5Engine:
        """Open the file for reading."""
        return Fts5Engine(folder)


class Fts5Engine(DocumentFile):
    """An open FTS5 index.

    Ranking all documents with any of the words is slow, as FTS5 scores each of them. So documents with all the words
    are used if there are enough of them, and only otherwise those with any.
    """

    def rank(self, queries: Sequence[Query], limit: int, filters: Filters) -> list[list[Ranked]]:
        """Return the best documents, ties in the order of writing."""
        return [self._rank(query, limit, filters) for query in queries]

    def _rank(self, query: Query, limit: int, filters: Filters) -> list[Ranked]:
        # Quotes turn FTS5's keywords into plain words; a word never contains quotes.
        quoted = [f'"{term}"' for term in query.terms]
        ranked = self._matching(" AND ".join(quoted), limit, filters)
        if len(ranked) >= limit or len(quoted) == 1:
            return ranked
        return self._matching(" OR ".join(quoted), limit, filters)

    def _matching(self, expression: str, limit: int, filters: Filters) -> list[Ranked]:
        if not filters:
            return self.query(_RANK, (expression, limit))
        facets = [facet(name, value) for name, value in filters.items()]
        sql = _RANK_FILTERED.format(conditions=" ".join(_CONDITION for _ in facets))
        return self.query(sql, (expression, *facets, limit))
