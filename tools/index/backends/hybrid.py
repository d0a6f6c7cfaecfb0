"""Combines several indexes by reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentgym.base.errors import UsageError
from agentgym.tools.index.base import MAX_K, Filters, Hit, Index, NoSuchDocument, Page, Span

_CONSTANT = 60
"""The constant of the paper (Cormack et al. 2009), which flattens the top ranks."""


class HybridIndex:
    """Combines any indexes of the same documents.

    Args:
        indexes: At least one. Titles and snippets come from the first with the hit, pages from the first with the
            document. Closing the hybrid index closes them.
        weights: The weight of each; equal by default.
        depth: Minimum hits to take from each.
    """

    def __init__(self, indexes: Sequence[Index], weights: Sequence[float] | None = None, depth: int = 50) -> None:
        if not indexes:
            raise UsageError("a hybrid index needs at least one index")
        if weights is not None and len(weights) != len(indexes):
            raise UsageError(f"there are {len(indexes)} indexes, but {len(weights)} weights")
        self.indexes = tuple(indexes)
        self._weights = tuple(weights or [1.0] * len(indexes))
        self._depth = depth

    def __len__(self) -> int:
        return max(len(index) for index in self.indexes)

    @property
    def name(self) -> str:
        """The names of its indexes."""
        return "+".join(index.name for index in self.indexes)

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the best hits; see `Index.search`."""
        return self.search_many([query], k, filters)[0]

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the best hits of each query."""
        k = min(k, MAX_K)
        if k < 1:
            return [[] for _ in queries]
        results = [index.search_many(queries, max(k, self._depth), filters) for index in self.indexes]
        return [self._fused(lists)[:k] for lists in zip(*results, strict=True)]

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return a document's text or a part of it."""
        for index in self.indexes[:-1]:
            try:
                return index.open(document_id, span)
            except NoSuchDocument:
                continue
        return self.indexes[-1].open(document_id, span)

    def close(self) -> None:
        """Close all its indexes."""
        for index in self.indexes:
            index.close()

    def _fused(self, lists: Iterable[Sequence[Hit]]) -> list[Hit]:
        scores: dict[str, float] = {}
        first: dict[str, Hit] = {}
        for weight, hits in zip(self._weights, lists, strict=True):
            for place, hit in enumerate(hits, start=1):
                scores[hit.id] = scores.get(hit.id, 0.0) + weight / (_CONSTANT + place)
                first.setdefault(hit.id, hit)
        order = sorted(scores, key=lambda hit_id: (-scores[hit_id], hit_id))
        return [Hit(hit_id, first[hit_id].title, first[hit_id].snippet, round(scores[hit_id], 8)) for hit_id in order]
