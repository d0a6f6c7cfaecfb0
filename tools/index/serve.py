"""An index for others over HTTP, by the Search-R1 contract: trainers that speak it need no change to use it.

`POST /retrieve` is the contract. `GET /` tells what is served, and `POST /open` returns pages: both are our own.
"""

from __future__ import annotations

import functools
import hmac
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import anyio.to_thread
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.index.base import Document, Filters, Index, NoSuchDocument, Span
from agentgym.tools.index.client import SERVICE, contents_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexServing:
    """How much a server gives.

    Args:
        k: Documents for each query of a request that does not say how many.
        token: What every request must carry, if anything.
        max_k: The most documents of one query.
        max_queries: The most queries of one request.
        max_documents: The most documents of one request, over all its queries.
        body_bytes: The largest request.
        threads: Searches under way at one time; further requests wait.
    """

    k: int = 3
    token: str | None = None
    max_k: int = 100
    max_queries: int = 4096
    max_documents: int = 65_536
    body_bytes: int = 8 << 20
    threads: int = 8

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < 16:
            raise UsageError("the token of a server must have at least 16 characters")
        if not 1 <= self.k <= self.max_k:
            raise UsageError(f"k must be from 1 to {self.max_k}, not {self.k!r}")


@runtime_checkable
class _FindsDocuments(Protocol):
    """An index that can give whole documents with its hits."""

    def find_many(
        self, queries: Sequence[str], k: int = 5, filters: Filters | None = None
    ) -> list[list[tuple[float, Document]]]: ...


@dataclass(frozen=True)
class _Asked:
    """The body of a request to /retrieve."""

    queries: list[str]
    k: int
    with_scores: bool
    filters: Mapping[str, str] | None


def make_app(index: Index, serving: IndexServing | None = None) -> FastAPI:
    """Return the web application that serves an index."""
    serving = serving or IndexServing()
    limiter = functools.cache(lambda: anyio.CapacityLimiter(serving.threads))

    async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await anyio.to_thread.run_sync(work, *arguments, limiter=limiter())
        except NoSuchDocument as error:
            raise HTTPException(404, str(error)) from None
        except UsageError as error:
            raise HTTPException(422, str(error)) from None
        except InfrastructureError as error:
            raise HTTPException(503, str(error)) from None

    async def about(request: Request) -> Response:
        _check_token(request, serving)
        return _answer(_about(index, serving))

    async def retrieve(request: Request) -> Response:
        _check_token(request, serving)
        asked = _asked(await _object(request, serving.body_bytes), serving)
        return Response(await in_thread(_retrieved, index, asked), media_type="application/json")

    async def open_(request: Request) -> Response:
        _check_token(request, serving)
        wanted = await _object(request, serving.body_bytes)
        page = await in_thread(index.open, *_place(wanted))
        return _answer(asdict(page))

    return FastAPI(
        routes=[
            Route("/", about, methods=["GET"]),
            Route("/retrieve", retrieve, methods=["POST"]),
            Route("/open", open_, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _refusal, Exception: _failure},
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )


def _about(index: Index, serving: IndexServing) -> dict[str, Any]:
    return {
        "service": SERVICE,
        "index": index.name,
        "documents": len(index),
        "k": serving.k,
        "max_k": serving.max_k,
        "max_queries": serving.max_queries,
        "max_documents": serving.max_documents,
    }


def _retrieved(index: Index, asked: _Asked) -> bytes:
    """Search, read the documents, and write the answer: all of it in the request's thread."""
    result = []
    for found in _find(index, asked):
        documents = [
            {"id": document.id, "contents": contents_of(document.title, document.text)} for _, document in found
        ]
        if asked.with_scores:
            scores = [score for score, _ in found]
            result.append([{"document": each, "score": score} for each, score in zip(documents, scores, strict=True)])
        else:
            result.append(documents)
    return json.dumps({"result": result}).encode()


def _find(index: Index, asked: _Asked) -> list[list[tuple[float, Document]]]:
    if isinstance(index, _FindsDocuments):
        return index.find_many(asked.queries, asked.k, asked.filters)
    return [
        [(hit.score, Document(hit.id, hit.title, index.open(hit.id).text)) for hit in hits]
        for hits in index.search_many(asked.queries, asked.k, asked.filters)
    ]


def _asked(body: dict[str, Any], serving: IndexServing) -> _Asked:
    queries, k, with_scores = body.get("queries"), body.get("topk"), body.get("return_scores", False)
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise HTTPException(422, '"queries" must be a list of strings')
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 0 <= k <= serving.max_k):
        raise HTTPException(422, f'"topk" must be null or a whole number up to {serving.max_k}, not {k!r:.100}')
    if not isinstance(with_scores, bool):
        raise HTTPException(422, f'"return_scores" must be true or false, not {with_scores!r:.100}')
    # 0 means the default, as it does upstream.
    k = k or serving.k
    if len(queries) > serving.max_queries or len(queries) * k > serving.max_documents:
        raise HTTPException(
            413,
            f"one request may have {serving.max_queries} queries and want {serving.max_documents} documents over all, "
            f"not {len(queries)} queries with {k} documents each; send several requests",
        )
    return _Asked(queries, k, with_scores, _filters(body.get("filters")))


def _filters(given: Any) -> Mapping[str, str] | None:
    if given is not None and not (isinstance(given, dict) and all(isinstance(value, str) for value in given.values())):
        raise HTTPException(422, '"filters" must be an object of strings')
    return given


def _place(wanted: dict[str, Any]) -> tuple[str, Span | None]:
    document_id, span = wanted.get("id"), wanted.get("span")
    if not isinstance(document_id, str):
        raise HTTPException(422, '"id" must be a string')
    if span is None:
        return document_id, None
    if not isinstance(span, list) or [type(part) for part in span] != [int, int]:
        raise HTTPException(
            422, '"span" must be null or two whole numbers: the first character and the one after the last'
        )
    return document_id, (span[0], span[1])


async def _object(request: Request, at_most: int) -> dict[str, Any]:
    """Return the JSON object that a request carries."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > at_most:
            raise HTTPException(413, f"the request is larger than {at_most} bytes")
    try:
        content = json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is not JSON") from None
    if not isinstance(content, dict):
        raise HTTPException(422, "the request must be a JSON object")
    return content


def _check_token(request: Request, serving: IndexServing) -> None:
    if serving.token is None:
        return
    given = request.headers.get("authorization", "").encode("utf-8", "replace")
    if not hmac.compare_digest(given, f"Bearer {serving.token}".encode()):
        raise HTTPException(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})


def _answer(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(content), status, headers, media_type="application/json")


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer({"detail": error.detail}, error.status_code, error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    _log.error("%s failed", request.url.path, exc_info=error)
    return _answer({"detail": "the server failed; its log says why"}, 500)
