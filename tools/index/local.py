"""A local index: wraps an engine with limits, tie-breaking, snippets, and support for forks and pickles."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.index.base import MAX_K, Document, Filters, Hit, NoSuchDocument, Page, Span, page_of
from agentgym.tools.index.engine import Encoder, IndexEngine, Query, Ranked, as_query, hit_of
from agentgym.tools.index.manifest import Manifest, read_manifest
from agentgym.tools.index.steady import steady

_SPARE = 4
_READ = 64
"""Documents read at a time."""
_MAX_TIES = 2_000
"""Maximum documents with equal scores to sort by id; beyond it, the engine's order decides."""


class LocalIndex:
    """An open index. Pickling and forking reopen the folder."""

    def __init__(
        self, folder: Path, open_engine: Callable[[Path, Encoder | None], IndexEngine], encoder: Encoder | None
    ):
        self.folder = folder
        self.manifest: Manifest
        self._open_engine = open_engine
        self._encoder = encoder
        self._engine: IndexEngine | None = steady(folder, self._read)
        self._process = os.getpid()

    def __len__(self) -> int:
        return self.manifest.count

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalIndex, (self.folder, self._open_engine, self._encoder)

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.manifest.backend

    @property
    def content(self) -> str:
        """The `content_hash` of the documents."""
        return self.manifest.content

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the best hits; see `Index.search`."""
        return self.search_many([query], k, filters)[0]

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the best hits of each query."""
        parsed = [as_query(query) for query in queries]
        return [
            [hit_of(document, query, score) for score, document in matches]
            for query, matches in zip(parsed, self._find(parsed, k, filters), strict=True)
        ]

    def find_many(
        self, queries: Sequence[str], k: int = 5, filters: Filters | None = None
    ) -> list[list[tuple[float, Document]]]:
        """Return scores and whole documents instead of hits."""
        return self._find([as_query(query) for query in queries], k, filters)

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return a document's text or a part of it."""
        document = self._opened().document(document_id) if _can_be_stored(document_id) else None
        if document is None:
            raise NoSuchDocument(document_id)
        return page_of(document, span)

    def close(self) -> None:
        """Close the files."""
        engine, self._engine = self._engine, None
        if engine is not None and self._process == os.getpid():
            engine.close()

    def _find(self, queries: Sequence[Query], k: int, filters: Filters | None) -> list[list[tuple[float, Document]]]:
        k = min(k, MAX_K, len(self))
        results: list[list[tuple[float, Document]]] = [[] for _ in queries]
        places = [place for place, query in enumerate(queries) if query.terms]
        if k < 1 or not places:
            return results
        engine = self._opened()
        ranked = _best(engine, [queries[place] for place in places], k, filters or {})
        for place, candidates in zip(places, ranked, strict=True):
            scored = _with_documents(engine, candidates)
            results[place] = heapq.nsmallest(k, scored, key=lambda pair: (-pair[0], pair[1].id))
        return results

    def _opened(self) -> IndexEngine:
        if self._engine is None:
            raise UsageError(f"the index in {str(self.folder)!r} is closed; open it again with open_index")
        if self._process != os.getpid():
            self._reopen()
        return self._engine

    def _reopen(self) -> None:
        """Reopen the files in a forked process, which must not use its parent's locks and connections."""
        self._engine = steady(self.folder, self._reread)
        self._process = os.getpid()

    def _read(self) -> IndexEngine:
        self.manifest = read_manifest(self.folder)
        return self._open_engine(self.folder, self._encoder)

    def _reread(self) -> IndexEngine:
        if read_manifest(self.folder).content != self.manifest.content:
            raise InfrastructureError(f"{str(self.folder)!r} was replaced by an index of different documents")
        return self._open_engine(self.folder, self._encoder)


def _best(engine: IndexEngine, queries: list[Query], k: int, filters: Filters) -> list[list[Ranked]]:
    """Return the `k` best of each query, and all that tie with the last of them."""
    limit = k + _SPARE
    ranked = [_rounded(row) for row in engine.rank(queries, limit, filters)]
    while limit < k + _MAX_TIES:
        cut = [place for place, row in enumerate(ranked) if len(row) >= limit and row[k - 1][0] == row[-1][0]]
        if not cut:
            break
        limit = min(8 * limit, k + _MAX_TIES)
        for place, row in zip(cut, engine.rank([queries[place] for place in cut], limit, filters), strict=True):
            ranked[place] = _rounded(row)
    return [[pair for pair in row if pair[0] >= row[min(k, len(row)) - 1][0]] for row in ranked]


def _with_documents(engine: IndexEngine, candidates: Sequence[Ranked]) -> Iterator[tuple[float, Document]]:
    """Read documents in batches, so that many ties do not need memory at once."""
    for at in range(0, len(candidates), _READ):
        batch = candidates[at : at + _READ]
        for (score, _), document in zip(batch, engine.documents([key for _, key in batch]), strict=True):
            yield score, document


def _rounded(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Drop the digits that depend on the order of additions, which an engine may change."""
    return [(float(f"{score:.5g}"), key) for score, key in ranked]


def _can_be_stored(document_id: str) -> bool:
    """Whether an id has no lone surrogates, which no index contains."""
    try:
        document_id.encode()
    except UnicodeEncodeError:
        return False
    return True
