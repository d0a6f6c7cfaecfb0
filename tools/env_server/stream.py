"""The protocol over a WebSocket: each message is one JSON object, answered in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from agentgym.errors import InfrastructureError, UsageError
from agentgym.interop.remote.wire import decoded, encoded_reply, error_data
from agentgym.tools.env_server.sessions import EnvSessions

_GOING_AWAY = 1001


async def converse(websocket: WebSocket, sessions: EnvSessions, idle_s: float) -> None:
    """Answer requests until the client leaves or is idle; its session can continue over another WebSocket."""
    await websocket.accept()
    with suppress(WebSocketDisconnect):
        try:
            while True:  # no local variable: while waiting, nothing keeps the last request in memory
                await websocket.send_text(await _answer(await _receive(websocket, idle_s), sessions))
        except TimeoutError:
            await websocket.close(_GOING_AWAY)


async def _receive(websocket: WebSocket, idle_s: float) -> bytes:
    """Return the next message, text or bytes.

    Raises:
        TimeoutError: No message arrived in time.
        WebSocketDisconnect: The client has left.
    """
    async with asyncio.timeout(idle_s):
        message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message["code"])
    text = message.get("text")
    return message["bytes"] if text is None else text.encode()


async def _answer(text: bytes, sessions: EnvSessions) -> str:
    try:
        content = decoded(text)
    except UsageError as error:
        return _encoded(None, {"error": error_data(error)})
    return _encoded(content.get("id"), await sessions.answer(content))


def _encoded(number: Any, reply: dict[str, Any]) -> str:
    number = number if isinstance(number, int | str) else None
    try:
        text = encoded_reply({"id": number, **reply})
    except InfrastructureError as error:
        text = encoded_reply({"id": number, "error": error_data(error)})
    return text.decode()
