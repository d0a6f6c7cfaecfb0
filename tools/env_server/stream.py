"""The WebSocket that carries requests and replies: one JSON object in a message, answered in order."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from agentgym.errors import UsageError
from agentgym.interop.remote.wire import decoded, encoded, error_data
from agentgym.tools.env_server.sessions import Sessions


class Stream:
    """The application behind the WebSocket. A client that leaves can go on with its session on another one."""

    def __init__(self, sessions: Sessions):
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection until its client leaves."""
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            data = message.get("text")
            await send(
                {"type": "websocket.send", "text": await self._answered(message["bytes"] if data is None else data)}
            )

    async def _answered(self, data: str | bytes) -> str:
        try:
            content = decoded(data)
        except UsageError as error:
            return encoded({"id": None, "error": error_data(error)})
        return encoded({"id": content.get("id"), **await self._sessions.answer(content)})
