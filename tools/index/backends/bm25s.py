"""The backend for many queries: BM25 with scores precomputed by bm25s, compiled by numba.

The first query of a process takes some seconds to compile. Building takes several times the memory of the texts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy

from agentgym.tools.index.base import Document, Filters
from agentgym.tools.index.engine import DocumentFile, DocumentWriter, Encoder, Query, Ranked, index_terms

_FOLDER = "bm25s"


class Bm25s:
    """The backend "bm25s".

    Args:
        compiled: The engine: "numba", "numpy", or "auto" for numba if it is installed.
    """

    def __init__(self, compiled: str = "auto") -> None:
        self._compiled = compiled

    def build(self, documents: Iterable[Document], folder: Path, encoder: Encoder | None) -> None:
        """Write documents, then scores."""
        vocabulary: dict[str, int] = {}
        rows: list[array[int]] = []
        with DocumentWriter(folder) as writer:
            for _, document in writer.stored(documents):
                words = index_terms(document)
                rows.append(array("i", [vocabulary.setdefault(word, len(vocabulary)) for word in words]))
        if not vocabulary:
            return
        # The constants of tantivy and Lucene.
        index = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend=self._compiled)
        index.index((rows, vocabulary), show_progress=False)
        index.save(str(folder / _FOLDER), show_progress=False)

    def open(self, folder: Path, encoder: Encoder | None) -> Bm25sEngine:
        """Memory-map the scores."""
        return Bm25sEngine(folder, self._compiled)


class Bm25sEngine(DocumentFile):
    """An open bm25s index."""

    def __init__(self, folder: Path, compiled: str) -> None:
        super().__init__(folder)
        path = folder / _FOLDER
        # If no document has a word, the index has no scores.
        self._index = bm25s.BM25.load(str(path), mmap=True, backend=compiled) if path.exists() else None
        self._count: int = self.query("SELECT count(*) FROM documents")[0][0]

    def rank(self, queries: Sequence[Query], limit: int, filters: Filters) -> list[list[Ranked]]:
        """Return the best documents for all queries in one batch."""
        ranked: list[list[Ranked]] = [[] for _ in queries]
        if self._index is None:
            return ranked
        vocabulary = self._index.vocab_dict
        words = [[term for term in query.terms if term in vocabulary] for query in queries]
        places = [place for place, terms in enumerate(words) if terms]
        if not places:
            return ranked
        numbers, scores = self._index.retrieve(
            [words[place] for place in places],
            k=min(limit, self._count),
            show_progress=False,
            n_threads=0,
            weight_mask=self._mask(filters),
        )
        for place, rows, values in zip(places, numbers.tolist(), scores.tolist(), strict=True):
            ranked[place] = [(score, number) for score, number in zip(values, rows, strict=True) if score > 0]
        return ranked

    def _mask(self, filters: Filters) -> Any:
        if not filters:
            return None
        mask = numpy.zeros(self._count, dtype="float32")
        mask[self.numbers(filters)] = 1
        return mask
