"""Parses requests to a served index, within the server's limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from agentgym.base.errors import UsageError
from agentgym.tools.index.base import MAX_QUERY_CHARS, Span
from agentgym.tools.index.snippets import query_terms

_MAX_FILTERS = 32


@dataclass(frozen=True)
class IndexServing:
    """Configuration of an index server.

    Args:
        k: Documents per query if the request does not specify a number.
        token: The token that every request must carry, if any.
        max_k: Maximum documents of one query.
        max_queries: Maximum queries of one request.
        max_documents: Maximum documents of one request, over all its queries.
        max_terms: Maximum distinct words of one request, over all its queries.
        body_bytes: Maximum size of a request.
        answer_bytes: Maximum size of an answer.
        request_s: Seconds that the work for one request may take, once it has its turn.
        threads: Concurrent searches.
        small_documents: Requests for more documents than this are large ...
        small_answer_bytes: ... and so are those whose answer grows larger than this.
        small_at_work: Small requests processed at a time.
        small_waiting: Small requests that may wait; further ones are refused.
        large_at_work: Large requests processed at a time; each may hold a partial answer in memory.
        large_waiting: Large requests that may wait; further ones are refused.
        patience_s: Seconds that a request may wait for its turn.
    """

    k: int = 3
    token: str | None = None
    max_k: int = 100
    max_queries: int = 4096
    max_documents: int = 16_384
    max_terms: int = 16_384
    body_bytes: int = 2 << 20
    answer_bytes: int = 16 << 20
    request_s: float = 20.0
    threads: int = 8
    small_documents: int = 256
    small_answer_bytes: int = 1 << 20
    small_at_work: int = 64
    small_waiting: int = 512
    large_at_work: int = 4
    large_waiting: int = 32
    patience_s: float = 30.0

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < 16:
            raise UsageError("a server's token must have at least 16 characters")
        if not 1 <= self.k <= self.max_k:
            raise UsageError(f"k must be from 1 to {self.max_k}, not {self.k!r}")


@dataclass(frozen=True)
class RetrieveRequest:
    """A valid request to /retrieve, within the limits."""

    queries: list[str]
    k: int
    with_scores: bool
    filters: Mapping[str, str] | None
    is_small: bool


def parse_retrieve(body: dict[str, Any], serving: IndexServing) -> RetrieveRequest:
    """Parse a request to /retrieve.

    Raises:
        HTTPException: 422 for an invalid request, 413 for one above the server's limits.
    """
    queries, k, with_scores = body.get("queries"), body.get("topk"), body.get("return_scores", False)
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise HTTPException(422, '"queries" must be a list of strings')
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 0 <= k <= serving.max_k):
        raise HTTPException(422, f'"topk" must be null or an integer up to {serving.max_k}, not {k!r:.100}')
    if not isinstance(with_scores, bool):
        raise HTTPException(422, f'"return_scores" must be true or false, not {with_scores!r:.100}')
    # 0 means the default, as it does upstream.
    k = k or serving.k
    documents = len(queries) * k
    if len(queries) > serving.max_queries or documents > serving.max_documents:
        raise HTTPException(
            413,
            f"a request may have {serving.max_queries} queries and ask for {serving.max_documents} documents in total, "
            f"not {len(queries)} queries with {k} documents each; send several requests",
        )
    _check_terms(queries, serving)
    return RetrieveRequest(queries, k, with_scores, _filters(body.get("filters")), documents <= serving.small_documents)


def parse_open(body: dict[str, Any]) -> tuple[str, Span | None]:
    """Parse the id and the span of a request to /open.

    Raises:
        HTTPException: 422 for an invalid request.
    """
    document_id, span = body.get("id"), body.get("span")
    if not isinstance(document_id, str):
        raise HTTPException(422, '"id" must be a string')
    if span is None:
        return document_id, None
    if not isinstance(span, list) or [type(part) for part in span] != [int, int]:
        raise HTTPException(422, '"span" must be null or two integers: the first character and the one after the last')
    return document_id, (span[0], span[1])


def _check_terms(queries: list[str], serving: IndexServing) -> None:
    # Each word takes at least two characters with its separator, so most requests need no count.
    if sum(min(len(query), MAX_QUERY_CHARS) for query in queries) <= serving.max_terms:
        return
    terms = 0
    for query in queries:
        terms += len(query_terms(query[:MAX_QUERY_CHARS]))
        if terms > serving.max_terms:
            raise HTTPException(
                413,
                f"the queries of a request may have {serving.max_terms} distinct words in total; send several requests",
            )


def _filters(raw: Any) -> Mapping[str, str] | None:
    if raw is not None and not (isinstance(raw, dict) and all(isinstance(value, str) for value in raw.values())):
        raise HTTPException(422, '"filters" must be an object of strings')
    if raw and len(raw) > _MAX_FILTERS:
        raise HTTPException(413, f"a request may have {_MAX_FILTERS} filters, not {len(raw)}")
    return raw
