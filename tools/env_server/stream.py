"""The conversation over a WebSocket: one JSON object in a message, answered in order."""

from __future__ import annotations

from functools import partial
from typing import Any

from websockets.frames import CloseCode

from agentgym.errors import InfrastructureError, UsageError
from agentgym.interop.remote.channel import Channel
from agentgym.interop.remote.wire import decoded, encoded_reply, error_data
from agentgym.tools.env_server.running import Reply
from agentgym.tools.env_server.sessions import Sessions


def talk(sessions: Sessions, channel: Channel) -> bool:
    """Answer the next request, and return whether the conversation goes on. Between requests nothing keeps the last.

    It ends when the client leaves, or a request is given up; the session can go on over another WebSocket.

    Raises:
        OSError: The connection is broken.
    """
    text = channel.receive()
    if text is None:
        return False
    try:
        content = decoded(text)
    except UsageError as error:
        channel.send(encoded_reply({"id": None, "error": error_data(error)}))
        return True
    return sessions.answer(content, partial(_send, channel, content.get("id")))


def _send(channel: Channel, number: Any, reply: Reply, is_given_up: bool) -> None:
    number = number if isinstance(number, int | str) else None
    try:
        text = encoded_reply({"id": number, **reply})
    except InfrastructureError as error:
        text = encoded_reply({"id": number, "error": error_data(error)})
    channel.send(text)
    if is_given_up:  # the thread that reads this WebSocket is stuck, so its client needs another one
        channel.close(CloseCode.GOING_AWAY)
