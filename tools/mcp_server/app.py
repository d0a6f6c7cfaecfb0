"""The web application that serves episodes to MCP clients (streamable HTTP)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # pyright: ignore[reportMissingImports]
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentgym.tools.mcp_server.hosting import Hosting
from agentgym.tools.mcp_server.server import make_server
from agentgym.tools.serving.answers import HANDLERS, TokenRequired

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
        """Answer one request."""
        await self._manager.handle_request(scope, receive, send)
