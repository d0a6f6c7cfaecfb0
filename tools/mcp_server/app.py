"""The web application that serves episodes to MCP clients (streamable HTTP)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # pyright: ignore[reportMissingImports]
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentgym.tools.mcp_server.hosting import Hosting
from agentgym.tools.mcp_server.server import make_server
from agentgym.tools.serving.answers import HANDLERS, TokenRequired, answer, read_body
from agentgym.tools.serving.running import BODY_BYTES

PATH = "/mcp"


def make_mcp_app(hosting: Hosting, token: str) -> FastAPI:
    """Return the application. Every path needs the token."""
    # Responses are plain JSON, so no stream stays open between requests: a session without a request is idle.
    manager = StreamableHTTPSessionManager(
        make_server(hosting), json_response=True, session_idle_timeout=hosting.idle_s, max_sessions=hosting.sessions
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with manager.run():
            yield
            hosting.is_stopping = True

    return FastAPI(
        openapi_url=None,
        routes=[Route(PATH, _Endpoint(manager), methods=["POST", "DELETE"])],
        middleware=[Middleware(TokenRequired, token=token)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )


class _Endpoint:
    """The ASGI application behind the path."""

    def __init__(self, manager: StreamableHTTPSessionManager):
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Bodies that are not JSON are refused here, since some of them break the manager."""
        body = b""
        if scope["method"] == "POST":
            body = await read_body(Request(scope, receive), BODY_BYTES)
            if (problem := _problem_of(body)) is not None:
                await answer({"detail": problem}, 400)(scope, receive, send)
                return
        await self._manager.handle_request(scope, _with_body(body, receive), send)


def _problem_of(body: bytes) -> str | None:
    try:
        json.loads(body)
    except (ValueError, RecursionError) as error:
        return f"the request is not JSON: {type(error).__name__}"
    return None


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields a body that was already read, then the remaining messages."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return pending.pop() if pending else await receive()

    return next_message
