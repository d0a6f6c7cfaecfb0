"""What a request to a served index may ask for, and what it does ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from agentgym.errors import UsageError
from agentgym.tools.index.base import MAX_QUERY_CHARS, Span
from agentgym.tools.index.tokens import query_terms

_MAX_FILTERS = 32


@dataclass(frozen=True)
class IndexServing:
    """How much a server gives.

    Args:
        k: Documents for each query of a request that does not say how many.
        token: What every request must carry, if anything.
        max_k: The most documents of one query.
        max_queries: The most queries of one request.
        max_documents: The most documents of one request, over all its queries.
        max_terms: The most different words of one request, over all its queries.
        body_bytes: The largest request.
        answer_bytes: The largest answer.
        request_s: How long the work of one request may take, once it has its turn.
        threads: Searches under way at one time.
        small_documents: Requests for more documents than this count as large ...
        small_answer_bytes: ... and so do those whose answer becomes larger than this.
        small_at_work: Small requests at work at one time.
        small_waiting: Small requests that may wait for that; further ones are refused.
        large_at_work: Large requests at work at one time: each may hold an answer that is being made.
        large_waiting: Large requests that may wait for that; further ones are refused.
        patience_s: How long a request may wait for its turn.
    """

    k: int = 3
    token: str | None = None
    max_k: int = 100
    max_queries: int = 4096
    max_documents: int = 16_384
    max_terms: int = 65_536
    body_bytes: int = 2 << 20
    answer_bytes: int = 16 << 20
    request_s: float = 60.0
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
            raise UsageError("the token of a server must have at least 16 characters")
        if not 1 <= self.k <= self.max_k:
            raise UsageError(f"k must be from 1 to {self.max_k}, not {self.k!r}")


@dataclass(frozen=True)
class Asked:
    """The content of a request to /retrieve, which is within the limits."""

    queries: list[str]
    k: int
    with_scores: bool
    filters: Mapping[str, str] | None
    is_small: bool


def asked_in(body: dict[str, Any], serving: IndexServing) -> Asked:
    """Return what a request to /retrieve asks for.

    Raises:
        HTTPException: 422 for what cannot be understood, 413 for more than the server gives.
    """
    queries, k, with_scores = body.get("queries"), body.get("topk"), body.get("return_scores", False)
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise HTTPException(422, '"queries" must be a list of strings')
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 0 <= k <= serving.max_k):
        raise HTTPException(422, f'"topk" must be null or a whole number up to {serving.max_k}, not {k!r:.100}')
    if not isinstance(with_scores, bool):
        raise HTTPException(422, f'"return_scores" must be true or false, not {with_scores!r:.100}')
    # 0 means the default, as it does upstream.
    k = k or serving.k
    documents = len(queries) * k
    if len(queries) > serving.max_queries or documents > serving.max_documents:
        raise HTTPException(
            413,
            f"one request may have {serving.max_queries} queries and want {serving.max_documents} documents over all, "
            f"not {len(queries)} queries with {k} documents each; send several requests",
        )
    _check_terms(queries, serving)
    return Asked(queries, k, with_scores, _filters(body.get("filters")), documents <= serving.small_documents)


def place_in(body: dict[str, Any]) -> tuple[str, Span | None]:
    """Return the id and the span that a request to /open asks for.

    Raises:
        HTTPException: 422 for what cannot be understood.
    """
    document_id, span = body.get("id"), body.get("span")
    if not isinstance(document_id, str):
        raise HTTPException(422, '"id" must be a string')
    if span is None:
        return document_id, None
    if not isinstance(span, list) or [type(part) for part in span] != [int, int]:
        raise HTTPException(
            422, '"span" must be null or two whole numbers: the first character and the one after the last'
        )
    return document_id, (span[0], span[1])


def _check_terms(queries: list[str], serving: IndexServing) -> None:
    # A word has at least one character and one between it and the next, so most requests need no closer look.
    if sum(min(len(query), MAX_QUERY_CHARS) for query in queries) <= serving.max_terms:
        return
    terms = 0
    for query in queries:
        terms += len(query_terms(query[:MAX_QUERY_CHARS]))
        if terms > serving.max_terms:
            raise HTTPException(
                413, f"the queries of one request may have {serving.max_terms} words over all; send several requests"
            )


def _filters(given: Any) -> Mapping[str, str] | None:
    if given is not None and not (isinstance(given, dict) and all(isinstance(value, str) for value in given.values())):
        raise HTTPException(422, '"filters" must be an object of strings')
    if given and len(given) > _MAX_FILTERS:
        raise HTTPException(413, f"one request may have {_MAX_FILTERS} filters, not {len(given)}")
    return given
