"""Serves an index over HTTP with the Search-R1 API, so that trainers that use it need no changes.

`POST /retrieve` is that API. Our additions are `GET /`, which describes the index, and `POST /open` for pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym.engine.threads import blocking
from agentgym.errors import InfrastructureError, UsageError
from agentgym.interop.bodies import while_connected
from agentgym.tools.index.asking import IndexServing, RetrieveRequest, parse_open, parse_retrieve
from agentgym.tools.index.base import Index, NoSuchDocument, Span
from agentgym.tools.index.client import SERVICE
from agentgym.tools.index.retrieval import Retrieval
from agentgym.tools.serving.answers import HANDLERS, TokenRequired, answer, in_pieces
from agentgym.tools.serving.bodies import parse_object, read_body
from agentgym.tools.serving.turns import Turns

_SMALL_BODY_BYTES = 64 << 10


def make_app(index: Index, serving: IndexServing | None = None) -> Starlette:
    """Return the web application that serves an index."""
    serving = serving or IndexServing()
    served = _IndexService(index, serving)
    return Starlette(
        routes=[
            Route("/", served.about, methods=["GET"]),
            Route("/retrieve", served.retrieve, methods=["POST"]),
            Route("/open", served.open, methods=["POST"]),
        ],
        middleware=[Middleware(TokenRequired, serving.token)] if serving.token is not None else [],
        exception_handlers=HANDLERS,
    )


class _IndexService:
    """The request handlers: requests take turns, and run in threads, one slice at a time.

    Large requests have separate, few turns. Small ones never wait for a whole large one, but
    only for slices of the running ones.
    """

    def __init__(self, index: Index, serving: IndexServing) -> None:
        self._index = index
        self._serving = serving
        self._small = Turns(serving.small_at_work, serving.small_waiting, serving.patience_s)
        self._large = Turns(serving.large_at_work, serving.large_waiting, serving.patience_s)
        self._threads = asyncio.Semaphore(serving.threads)

    async def about(self, _: Request) -> Response:
        limits = ("k", "max_k", "max_queries", "max_documents", "max_terms", "body_bytes", "answer_bytes")
        bounds = {name: getattr(self._serving, name) for name in limits}
        return answer({"service": SERVICE, "index": self._index.name, "documents": len(self._index), **bounds})

    async def retrieve(self, request: Request) -> Response:
        body = await read_body(request, self._serving.body_bytes)
        return await while_connected(request, self._retrieve(body))

    async def open(self, request: Request) -> Response:
        place = parse_open(parse_object(await read_body(request, self._serving.body_bytes)))
        return await while_connected(request, self._open(place))

    async def _open(self, place: tuple[str, Span | None]) -> Response:
        async with self._small.turn():
            page = await self._in_thread(self._index.open, *place)
        return answer(asdict(page))

    async def _retrieve(self, body: bytes) -> Response:
        if len(body) <= _SMALL_BODY_BYTES:
            request = self._parsed(body)
            if request.is_small:
                return await self._retrieve_small(Retrieval(self._index, request, self._serving))
        # A request that only looks large is parsed in its turn too, so that few such bodies are parsed at a time.
        async with self._large.turn():
            request = await self._in_thread(self._parsed, body)
            del body
            return await self._finished(Retrieval(self._index, request, self._serving))

    async def _retrieve_small(self, retrieval: Retrieval) -> Response:
        """Answer a small request; it becomes a large one if its documents turn out to be long."""
        async with self._small.turn():
            while retrieval.answer_bytes <= self._serving.small_answer_bytes:
                if await self._in_thread(retrieval.advance):
                    return in_pieces(retrieval.answer(), "application/json")
        async with self._large.turn():
            return await self._finished(retrieval)

    async def _finished(self, retrieval: Retrieval) -> Response:
        while not await self._in_thread(retrieval.advance):
            pass
        return in_pieces(retrieval.answer(), "application/json")

    def _parsed(self, body: bytes) -> RetrieveRequest:
        return parse_retrieve(parse_object(body), self._serving)

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            async with self._threads:
                return await blocking.run(partial(work, *arguments))
        except NoSuchDocument as error:
            raise HTTPException(404, str(error)) from None
        except UsageError as error:
            raise HTTPException(422, str(error)) from None
        except InfrastructureError as error:
            raise HTTPException(503, str(error)) from None
