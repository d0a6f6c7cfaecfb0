"""Messages in the format of chat endpoints, which other programs store and send."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from agentgym.core.messages import Message, shown_pictures, text_of

Wire = dict[str, Any]
"""A message in the format of chat endpoints."""


def sendable(messages: Iterable[Message]) -> list[Wire]:
    """Return observations in the format of chat endpoints.

    Pictures become data URLs. Pictures of tools follow the results in a user message, since tool messages are text.
    """
    sent: list[Wire] = []
    tool_pictures: list[Wire] = []
    for message in messages:
        pictures = [picture_block(picture) for picture in shown_pictures([message])]
        if message.get("role") == "tool":
            text = text_of(message)
            sent.append({"role": "tool", "tool_call_id": message.get("tool_call_id", ""), "content": text})
            tool_pictures += pictures
        else:
            sent.append({**message, "content": _content(text_of(message), pictures)})
    return [*sent, {"role": "user", "content": tool_pictures}] if tool_pictures else sent


def picture_block(picture: bytes) -> Wire:
    """Return a PNG file as a block of a user message."""
    return {"type": "image_url", "image_url": {"url": picture_url(picture)}}


def picture_url(picture: bytes) -> str:
    """Return a PNG file as a data URL."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def _content(text: str, pictures: Sequence[Wire]) -> str | list[Wire]:
    return [{"type": "text", "text": text}, *pictures] if pictures else text
