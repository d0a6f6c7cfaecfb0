"""Processes one request to a served index in slices, between which it can be cancelled."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from starlette.exceptions import HTTPException

from agentgym.tools.index.asking import IndexServing, RetrieveRequest
from agentgym.tools.index.base import Document, Filters, Index
from agentgym.tools.index.client import contents_of

_SLICE_S = 0.02
"""Seconds of work after which other requests get a turn."""
_BATCH = 8
"""Queries searched in one batch, after which the time and the size are checked."""


@runtime_checkable
class _FindsDocuments(Protocol):
    """An index that can return whole documents."""

    def find_many(
        self, queries: Sequence[str], k: int = 5, filters: Filters | None = None
    ) -> list[list[tuple[float, Document]]]: ...


class Retrieval:
    """Searches for one request. Results are serialised immediately, so that documents are not kept."""

    def __init__(self, index: Index, request: RetrieveRequest, serving: IndexServing) -> None:
        self._index = index
        self._request = request
        self._serving = serving
        self._ends = time.monotonic() + serving.request_s
        self._results: list[str] = []
        self.answer_bytes = 0
        """The size of the answer so far."""
        self._at = 0

    def advance(self) -> bool:
        """Process one slice; true once everything is done. Call it from one thread at a time.

        Raises:
            HTTPException: 413 if the answer grows too large, 503 if the work takes too long.
        """
        slice_ends = time.monotonic() + _SLICE_S
        while self._at < len(self._request.queries):
            now = time.monotonic()
            if now > self._ends:
                raise HTTPException(
                    503, f"the search took longer than {self._serving.request_s:g} s; try again later, or request less"
                )
            if now > slice_ends:
                return False
            self._search(self._request.queries[self._at : self._at + _BATCH])
        return True

    def answer(self) -> bytes:
        """Return the body of the answer and drop the results."""
        results, self._results = self._results, []
        return f'{{"result": [{", ".join(results)}]}}'.encode("ascii")

    def _search(self, queries: list[str]) -> None:
        for matches in _find(self._index, queries, self._request.k, self._request.filters):
            result = json.dumps([self._as_json(score, document) for score, document in matches])
            self.answer_bytes += len(result)
            if self.answer_bytes > self._serving.answer_bytes:
                raise HTTPException(
                    413,
                    f"the answer is larger than {self._serving.answer_bytes} bytes; "
                    "request fewer documents, or send several requests",
                )
            self._results.append(result)
        self._at += len(queries)

    def _as_json(self, score: float, document: Document) -> dict[str, Any]:
        content = {"id": document.id, "contents": contents_of(document.title, document.text)}
        return {"document": content, "score": score} if self._request.with_scores else content


def _find(index: Index, queries: list[str], k: int, filters: Filters | None) -> list[list[tuple[float, Document]]]:
    if isinstance(index, _FindsDocuments):
        return index.find_many(queries, k, filters)
    return [
        [(hit.score, Document(hit.id, hit.title, index.open(hit.id).text)) for hit in hits]
        for hits in index.search_many(queries, k, filters)
    ]
