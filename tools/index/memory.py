"""A small in-memory index: exact BM25 in plain Python, for the few documents of one task. Picklable."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from agentgym.tools.index.base import MAX_K, Document, Filters, Hit, NoSuchDocument, Page, Span, page_of
from agentgym.tools.index.engine import as_query, hit_of, index_terms
from agentgym.tools.index.intake import Intake

_K1, _B = 1.2, 0.75


class MemoryIndex:
    """An index that takes about a millisecond to build for ten documents."""

    name = "memory"

    def __init__(self, documents: Iterable[Document]) -> None:
        intake = Intake(documents)
        self._documents = sorted(intake, key=lambda document: document.id)
        self.content = intake.content
        self._numbers = {document.id: number for number, document in enumerate(self._documents)}
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = []
        for number, document in enumerate(self._documents):
            words = index_terms(document)
            lengths.append(len(words))
            for word, count in Counter(words).items():
                self._postings[word].append((number, count))
        average = sum(lengths) / len(lengths) if any(lengths) else 1.0
        self._norms = [_K1 * (1 - _B + _B * length / average) for length in lengths]

    def __len__(self) -> int:
        return len(self._documents)

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the best hits; see `Index.search`."""
        parsed = as_query(query)
        scores: dict[int, float] = defaultdict(float)
        for term in parsed.terms:
            postings = self._postings.get(term, ())
            weight = math.log(1 + (len(self) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, count in postings:
                scores[number] += weight * count / (count + self._norms[number])
        ranked = [(-float(f"{score:.5g}"), number) for number, score in scores.items() if self._passes(number, filters)]
        best = sorted(ranked)[: max(0, min(k, MAX_K))]
        return [hit_of(self._documents[number], parsed, -score) for score, number in best]

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the best hits of each query."""
        return [self.search(query, k, filters) for query in queries]

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return a document's text or a part of it."""
        if document_id not in self._numbers:
            raise NoSuchDocument(document_id)
        return page_of(self._documents[self._numbers[document_id]], span)

    def close(self) -> None:
        """Do nothing: the last reference frees the memory."""

    def _passes(self, number: int, filters: Filters | None) -> bool:
        fields = self._documents[number].fields
        return all(fields.get(name) == value for name, value in (filters or {}).items())
