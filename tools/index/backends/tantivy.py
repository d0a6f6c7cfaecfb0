"""The default backend: BM25 in tantivy, with texts, words and filters in memory-mapped files."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tantivy
from tantivy import Occur

from agentgym.base.errors import UsageError
from agentgym.tools.index.base import Document, Filters
from agentgym.tools.index.engine import Encoder, Query, Ranked, facet, facets, index_terms

Parts = Callable[[Iterable[str]], list[str]]

_FOLDER = "tantivy"
_HEAP_BYTES = 256_000_000
"""Memory of a writer before it writes a segment: more memory gives fewer segments, which are faster to search."""


class Tantivy:
    """The backend "tantivy".

    Args:
        parts: Maps words to the terms that are indexed and searched; by default the words themselves.
    """

    def __init__(self, parts: Parts = list) -> None:
        self._parts = parts

    def build(self, documents: Iterable[Document], folder: Path, encoder: Encoder | None) -> None:
        """Write the index in one commit."""
        (folder / _FOLDER).mkdir()
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("id", tokenizer_name="raw", index_option="basic")
        schema.add_text_field("facet", tokenizer_name="raw", index_option="basic")
        # Words are split before tantivy sees them, so that all backends agree on words.
        schema.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
        schema.add_bytes_field("document", stored=True)
        writer = tantivy.Index(schema.build(), path=str(folder / _FOLDER)).writer(_HEAP_BYTES, num_threads=1)
        try:
            for document in documents:
                writer.add_document(_entry(document, self._parts))
            writer.commit()
        finally:
            # Wait for its threads, which write files: the folder could not be removed while they run.
            writer.wait_merging_threads()
        for path in (folder / _FOLDER).iterdir():
            # Tantivy makes some files private to their owner; make them readable like the folder.
            path.chmod(0o644)

    def open(self, folder: Path, encoder: Encoder | None) -> TantivyEngine:
        """Memory-map the files."""
        return TantivyEngine(folder / _FOLDER, self._parts)


class TantivyEngine:
    """An open tantivy index. Queries are built from words; tantivy's query language is never used."""

    def __init__(self, folder: Path, parts: Parts = list) -> None:
        self._parts = parts
        try:
            index = _open(folder)
        except ValueError as error:
            raise UsageError(f"the index in {str(folder.parent)!r} cannot be opened; rebuild it: {error}") from None
        self._schema = index.schema
        self._searcher = index.searcher()

    def rank(self, queries: Sequence[Query], limit: int, filters: Filters) -> list[list[Ranked]]:
        """Return the best documents, ties in the index's order."""
        return [self._searcher.search(self._clause(query, filters), limit, count=False).hits for query in queries]

    def documents(self, keys: Sequence[Any]) -> list[Document]:
        """Read documents by their addresses."""
        return [_document(self._searcher.doc(key)) for key in keys]

    def document(self, document_id: str) -> Document | None:
        """Look a document up by its id."""
        hits = self._searcher.search(self._term("id", document_id, "basic"), 1, count=False).hits
        return self.documents([hits[0][1]])[0] if hits else None

    def close(self) -> None:
        """Do nothing: the last reference unmaps the files."""

    def _clause(self, query: Query, filters: Filters) -> tantivy.Query:
        words = [(Occur.Should, self._term("terms", term, "freq")) for term in self._parts(query.terms)]
        matching = words[0][1] if len(words) == 1 else tantivy.Query.boolean_query(words)
        if not filters:
            return matching
        facets = [self._term("facet", facet(name, value), "basic") for name, value in filters.items()]
        conditions = [(Occur.Must, tantivy.Query.const_score_query(term, 0.0)) for term in facets]
        return tantivy.Query.boolean_query([(Occur.Must, matching), *conditions])

    def _term(self, field: str, value: str, indexed: str) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, value, indexed)


def _open(folder: Path) -> tantivy.Index:
    """Memory-map all files. Tantivy needs to lock a file; in a read-only folder, it gets links in a temporary one."""
    if os.access(folder, os.W_OK):
        return _mapped(folder)
    with tempfile.TemporaryDirectory(prefix="agentgym-index-") as links:
        for path in folder.iterdir():
            if path.suffix != ".lock":
                (Path(links) / path.name).symlink_to(path)
        return _mapped(Path(links))


def _mapped(folder: Path) -> tantivy.Index:
    index = tantivy.Index.open(str(folder))
    index.config_reader("manual")
    return index


def _entry(document: Document, parts: Parts) -> tantivy.Document:
    entry = tantivy.Document()
    entry.add_text("id", document.id)
    for value in facets(document):
        entry.add_text("facet", value)
    entry.add_text("terms", " ".join(parts(index_terms(document))))
    record = [document.id, document.title, document.text, dict(document.fields)]
    entry.add_bytes("document", json.dumps(record, ensure_ascii=False).encode())
    return entry


def _document(entry: tantivy.Document) -> Document:
    # Decoded here, because json would detect the encoding first, ten times per query.
    return Document(*json.loads(entry["document"][0].decode()))
