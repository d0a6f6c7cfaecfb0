"""The web application that serves episodes to MCP clients (streamable HTTP)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # pyright: ignore[reportMissingImports]
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentgym.tools.mcp_server.hosting import Hosting
from agentgym.tools.mcp_server.server import make_server
from agentgym.tools.serving.answers import HANDLERS, TokenRequired, answer
from agentgym.tools.serving.bodies import read_body
from agentgym.tools.serving.running import BODY_BYTES

PATH = "/mcp"


def make_mcp_app(hosting: Hosting, token: str) -> Starlette:
    """Return the application. Every path needs the token."""
    # Answers are plain JSON, and no stream is open while nobody asks: a session without a request is idle.
    manager = StreamableHTTPSessionManager(
        make_server(hosting), json_response=True, session_idle_timeout=hosting.idle_s, max_sessions=hosting.sessions
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield
            hosting.is_stopping = True

    return Starlette(
        routes=[Route(PATH, _Endpoint(manager), methods=["POST", "DELETE"])],
        middleware=[Middleware(TokenRequired, token=token)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )


class _Endpoint:
    """The application behind the path."""

    def __init__(self, manager: StreamableHTTPSessionManager):
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. A body that is no JSON at all is refused here: the manager would fail at some."""
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
    """Return what receives a body that was read already, and then what else comes."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return left.pop() if left else await receive()

    return next_message
