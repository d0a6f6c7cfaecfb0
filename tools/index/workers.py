"""The processes that serve an index: one, or several that share a socket and the memory-mapped files."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, runtime_checkable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.engine.threads import blocking
from agentgym.interop.bodies import while_connected
from agentgym.tools.index.asking import IndexServing, RetrieveRequest, parse_open, parse_retrieve
from agentgym.tools.index.base import Document, Filters, Index, NoSuchDocument, Span
from agentgym.tools.index.client import SERVICE, contents_of
from agentgym.tools.index.store import open_index
from agentgym.tools.serving.answers import HANDLERS, TokenRequired, answer, in_pieces, parse_object, read_body
from agentgym.tools.serving.running import run_server
from agentgym.tools.serving.turns import Turns

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


_END_S = 1.8
"""Seconds for a process to exit after a signal before it is killed."""
_SIGNAL_S = 1.0


def serve_index(folder: Path, serving: IndexServing, listening: socket.socket, workers: int = 1) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress get a moment to finish.

    Raises:
        InfrastructureError: A worker process died; the others are stopped too.
    """
    if workers == 1:
        _serve(folder, serving, listening)
        return
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_work, args=(folder, serving, listening), name=f"agentgym-index-{number}")
        for number in range(workers)
    ]
    with _signalled() as ending:
        try:
            for process in processes:
                process.start()
            wait([ending, *(process.sentinel for process in processes)])
            # Ctrl-C reaches all processes of a terminal, and the others may exit first.
            asked_to_end = bool(wait([ending], _SIGNAL_S))
            dead = [process.exitcode for process in processes if not process.is_alive()]
        finally:
            _end([process for process in processes if process.pid is not None])
    if dead and not asked_to_end:
        raise InfrastructureError(f"{len(dead)} of {workers} processes died, with exit codes {dead!r}")


def _serve(folder: Path, serving: IndexServing, listening: socket.socket) -> None:
    index = open_index(folder)
    try:
        run_server(make_app(index, serving), listening, body_bytes=serving.body_bytes)
    finally:
        index.close()


def _work(folder: Path, serving: IndexServing, listening: socket.socket) -> None:
    """Serve as one of several processes, and exit with the parent."""
    threading.Thread(target=_end_with_parent, name="agentgym-index-parent", daemon=True).start()
    _serve(folder, serving, listening)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _signalled() -> Iterator[socket.socket]:
    """Yield a socket that becomes readable on SIGINT or SIGTERM."""
    reading, writing = socket.socketpair()

    def note(_number: int, _frame: FrameType | None) -> None:
        writing.send(b"!")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        reading.close()
        writing.close()


def _end(processes: list[SpawnProcess]) -> None:
    ends = time.monotonic() + _END_S
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(max(0.0, ends - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
